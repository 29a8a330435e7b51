"""The closed form of a step against the engine, on machines and jobs where all ranks of a stage are alike."""

from __future__ import annotations

import pytest

from simnet.runner.case import prepare, simulate
from simnet.runner.screened import screen
from simnet.spec.load import load_model, load_topology
from simnet.spec.scenario import CaseSpec
from simnet.spec.workload import WorkloadSpec

OFF = {"dp_grad": False, "dp_param": False, "pp": False}
COUNTED = {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}
CASES: dict[str, dict[str, object]] = {
    "data parallel": {"model": "llama-3.1-8b", "recompute": "full"},
    "data parallel, nothing beside": {"model": "llama-3.1-8b", "recompute": "full", "overlap": OFF},
    "data parallel, whole optimizer": {"model": "llama-2-7b", "sharding": "none", "tp": 8},
    "tensor parallel": {"tp": 8},
    "tensor parallel over user buffers": {"tp": 8, "overlap": {"tp": True}},
    "tensor parallel without sequence parallelism": {"tp": 8, "sequence_parallel": False, "recompute": "full"},
    "context parallel, keys go round": {"tp": 4, "cp": 2, "recompute": "full", "pp": 2},
    "context parallel, keys are gathered": {
        "tp": 4, "cp": 2, "recompute": "full", "pp": 2, "context_parallel": "all_gather",
    },
    "context parallel over nodes": {"tp": 8, "cp": 4, "sequence_length": 32768},
    "pipeline": {"tp": 8, "pp": 4, "batches": 16},
    "pipeline, sends not beside": {"tp": 8, "pp": 4, "batches": 16, "overlap": {"pp": False}},
    "gpipe": {"tp": 8, "pp": 4, "batches": 8, "schedule": "gpipe", "recompute": "full"},
    "interleaved": {"tp": 8, "pp": 4, "virtual_stages": 5, "batches": 16},
    "interleaved, one round": {"tp": 8, "pp": 4, "virtual_stages": 5, "batches": 4},
    "fp8": {"tp": 8, "pp": 2, "precision": "fp8"},
    "all of them": {"tp": 4, "cp": 2, "pp": 4, "virtual_stages": 5, "batches": 16},
    "all of them, pipeline innermost": {
        "tp": 4, "cp": 2, "pp": 4, "virtual_stages": 5, "batches": 16, "rank_order": "tp-cp-pp-dp",
    },
    "tensor parallel on B200": {"tp": 8, "topology": "hgx-b200", "batches": 16},
    "fsdp": {"model": "llama-3.1-8b", "sharding": "fsdp", "recompute": "full"},
    "fsdp and tensor parallel": {"tp": 8, "sharding": "fsdp"},
}  # fmt: skip


def case(settings: dict[str, object]) -> CaseSpec:
    """A job on 64 GPUs in nodes of eight, Llama 3.1 70B unless told."""
    left = {"sequence_length": 8192, **settings}
    topology = load_topology(str(left.pop("topology", "hgx-h100")), {"nodes": 8})
    degrees = {axis: left.pop(axis) for axis in ("tp", "cp", "pp", "virtual_stages") if axis in left}
    workload = WorkloadSpec.model_validate(
        {
            "model": load_model(str(left.pop("model", "llama-3.1-70b"))),
            "parallelism": degrees,
            "batch": {"num_micro_batches": left.pop("batches", 4)},
            "gradient_dtype": "bf16",
            **left,
        }
    )
    return CaseSpec(name="x", variant="", values={}, topology=topology, workload=workload, routing=topology.routing)


@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_agrees_with_the_engine_within_2_percent(name: str) -> None:
    one = case(CASES[name])
    closed, engine = screen(one), simulate(prepare(one), with_timeline=False).result
    assert (closed.fidelity, engine.fidelity) == ("screen", "simulate")
    assert closed.step_time_s == pytest.approx(engine.step_time_s, rel=0.02)
    assert closed.tokens_per_s == pytest.approx(engine.tokens_per_s, rel=0.02)
    assert closed.mfu == pytest.approx(engine.mfu, rel=0.02)
