"""What a faster attention kernel wins of a 70B step, and that a kernel beyond the roofline is refused before a run."""

from __future__ import annotations

from functools import cache

import pytest

from simnet.errors import SpecError
from simnet.runner.case import prepare, simulate
from simnet.runner.cases import check_cases
from simnet.spec.load import expand, load_scenario


@cache
def case(*changes):
    kernels = {kind: {"speedup": speedup} for kind, speedup in changes}
    return expand(load_scenario("quickstart", {"workload.kernels": kernels} if kernels else {}))[0]


@cache
def step(*changes):
    """Return the engine's result of 70B on 64 H100."""
    return simulate(prepare(case(*changes)), with_timeline=False).result


@pytest.mark.parametrize("speedup", [1 / 1.8, 1.2])
def test_faster_attention_moves_the_step_by_its_share(speedup):
    """Amdahl: what is won is the share of the attention core times 1 - 1 / speedup, bubbles apart."""
    base, tuned = step(), step(("attention", speedup))
    # A bubble waits for the same passes, so it shrinks as the compute does.
    share = base.attention_s / base.breakdown_s["compute"] * (base.breakdown_s["compute"] + base.breakdown_s["bubble"])
    won_s = base.step_time_s - tuned.step_time_s
    assert won_s == pytest.approx(share * (1 - 1 / speedup), rel=0.02)
    assert tuned.attention_s == pytest.approx(base.attention_s / speedup, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("gemm", 2.0), "qkv on H100-SXM would beat its roofline"),
        (("attention", 1.8), "attention on H100-SXM would beat its roofline"),
        (("memory", 1.5), "norm on H100-SXM would beat its roofline"),
    ],
)
def test_no_kernel_beats_the_roofline_and_the_fault_is_told_before_anything_runs(change, told):
    with pytest.raises(SpecError, match=told) as caught:
        check_cases([case(change)])
    assert "at most 1." in str(caught.value)
