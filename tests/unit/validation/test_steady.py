"""The step from its period against the whole step."""

from __future__ import annotations

import pytest

from simnet.runner.case import prepare, simulate
from simnet.validation.simulated import case_spec
from simnet.validation.steady import steady_step
from tests.unit.validation.small_runs import small_run


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"vp": "1"},
        {"vp": "1", "global_batch": "150"},  # 75 micro-batches: no whole groups of two
        {"pp": "1", "vp": "1", "dp": "4"},
        {"overlap_dp_grad": "no", "overlap_dp_param": "no", "overlap_pp": "no"},
    ],
    ids=["interleaved", "1f1b", "a group in part", "no pipeline", "no overlap"],
)
def test_a_step_from_its_period_is_the_whole_step(change):
    run = small_run(**{"gpus": "16", "tp": "2", "pp": "2", "vp": "2", "dp": "2", "cp": "2", **change})
    case = case_spec(run)
    whole = simulate(prepare(case)).result.step_time_s
    found = steady_step(case, run.num_gpus)
    assert found.is_extrapolated
    assert "of" in found.method
    assert found.step_time_s == pytest.approx(whole, rel=1e-9)


def test_a_short_step_is_simulated_whole():
    run = small_run(gpus="8", tp="2", pp="2", vp="1", dp="2", cp="1", global_batch="8")
    found = steady_step(case_spec(run), run.num_gpus)
    assert not found.is_extrapolated
    assert found.method == "engine"
    assert found.step_time_s == found.result.step_time_s
