"""Step times and a scaling curve that their authors publish, on H100 in HGX nodes, by the engine."""

from __future__ import annotations

from itertools import pairwise

import pytest

from simnet.analysis.result import Result
from simnet.runner.case import prepare, simulate
from simnet.spec.load import load_model, load_topology
from simnet.spec.scenario import CaseSpec
from simnet.spec.workload import WorkloadSpec


def result(gpus: int, **job: object) -> Result:
    """Return the engine's result of a job on as many H100."""
    topology = load_topology("hgx-h100", {"nodes": gpus // 8})
    workload = WorkloadSpec.model_validate(job)
    case = CaseSpec(name="x", variant="", values={}, topology=topology, workload=workload, routing=topology.routing)
    return simulate(prepare(case), with_timeline=False).result


LLAMA = {"sequence_length": 8192, "precision": "fp8", "gradient_dtype": "bf16", "overlap": {"tp": True}}


@pytest.mark.parametrize(
    ("model", "gpus", "batch", "parallelism", "layout", "measured_s"),
    [
        # 292 and 1,602 tokens/s/GPU: NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, container 25.11
        (
            "llama-3.1-405b", 1024, 512, {"tp": 8, "pp": 8, "cp": 2, "virtual_stages": 8},
            {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}, 14.0,
        ),
        ("llama-3-70b", 64, 128, {"tp": 4, "pp": 8, "virtual_stages": 5}, "balanced", 10.2),
    ],
    ids=["405B on 1,024", "70B on 64"],
)  # fmt: skip
def test_case_a07_dense_llama_steps_are_within_20_percent(model, gpus, batch, parallelism, layout, measured_s):
    job = {"model": load_model(model), "batch": {"global_batch_size": batch}, "parallelism": parallelism}
    found = result(gpus, layout=layout, **job, **LLAMA)
    assert found.step_time_s == pytest.approx(measured_s, rel=0.20)


def gpt_3(gpus: int, *, is_overlapped: bool = True) -> Result:
    # 1,152 sequences of 4,096 tokens: README of NVIDIA/Megatron-LM; the layout is ours.
    return result(
        gpus,
        model=load_model("gpt-3-175b").model_copy(update={"learned_positions": 4096}),
        sequence_length=4096,
        batch={"global_batch_size": 1152},
        parallelism={"tp": 8, "pp": 6, "virtual_stages": 8},
        overlap={"dp_grad": is_overlapped, "dp_param": is_overlapped},
    )


def test_case_a08_strong_scaling_of_gpt_3_loses_2_to_10_points_of_mfu_up_to_4608_h100():
    curve = [gpt_3(gpus) for gpus in (96, 384, 1152, 2304, 4608)]
    for small, large in pairwise(curve):
        assert large.tokens_per_s > small.tokens_per_s
        assert large.mfu < small.mfu
    assert 0.02 < curve[0].mfu - curve[-1].mfu < 0.10
    # what nothing overlaps costs more the shorter the step
    bare = [gpt_3(gpus, is_overlapped=False) for gpus in (1152, 4608)]
    lost = [one.step_time_s / beside.step_time_s for one, beside in zip(bare, (curve[2], curve[-1]), strict=True)]
    assert 1 < lost[0] < lost[1]
