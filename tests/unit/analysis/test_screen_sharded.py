"""The closed form of sharded data parallelism against the engine, on machines where all ranks are alike."""

from __future__ import annotations

import pytest

from simnet.analysis.screen import estimate_step
from simnet.runner.case import prepare, screen_network, simulate
from simnet.spec.compute import load_preset
from simnet.spec.load import load_model
from simnet.spec.scenario import CaseSpec
from simnet.spec.sharding import FsdpSpec
from simnet.spec.workload import BatchSpec, ParallelismSpec, WorkloadSpec
from simnet.units import parse_bandwidth
from simnet.validation.machines import machine

NODES = {"A100-80G-SXM": "50 Gb/s", "H100-SXM": "400 Gb/s"}
HSDP = {"sharding": "hsdp", "fsdp_group": 8}
CASES: dict[str, dict[str, object]] = {
    "compute hides all": {"sharding": "fsdp"},
    "the wire is slower": {"sharding": "fsdp", "gpu": "A100-80G-SXM", "model": "llama-2-34b", "micro": 1},
    "the wire is slower, three ahead": {
        "sharding": "fsdp", "gpu": "A100-80G-SXM", "model": "llama-2-34b", "micro": 1, "fsdp": FsdpSpec(prefetch=3),
    },
    "groups of a node": HSDP,
    "groups of a node, slow wire": {**HSDP, "gpu": "A100-80G-SXM"},
    "groups over nodes": {"sharding": "hsdp", "fsdp_group": 32},
    "no resharding": {"sharding": "fsdp", "micro": 1, "fsdp": FsdpSpec(reshard_after_forward=False)},
    "nothing ahead": {"sharding": "zero3", "micro": 1, "fsdp": FsdpSpec(prefetch=0)},
    "reduced once": {"sharding": "fsdp", "micro": 1, "fsdp": FsdpSpec(reduce="last_micro_batch")},
    "no overlap": {"sharding": "fsdp", "micro": 1, "overlap": {"dp_grad": False, "dp_param": False}},
    "tensor parallel": {"sharding": "fsdp", "tp": 8, "model": "llama-3.1-70b"},
    "context parallel": {"sharding": "fsdp", "cp": 2},
    "pipeline": {"sharding": "fsdp", "pp": 4, "batches": 8, "fsdp": FsdpSpec(reshard_after_forward=False)},
}  # fmt: skip


def case(settings: dict[str, object]) -> CaseSpec:
    """A job on 64 GPUs."""
    left = dict(settings)
    gpu, model = str(left.pop("gpu", "H100-SXM")), str(left.pop("model", "llama-2-7b"))
    batch = BatchSpec(num_micro_batches=left.pop("batches", 2), micro_batch_size=left.pop("micro", 2))
    degrees = {axis: left.pop(axis) for axis in ("tp", "cp", "pp") if axis in left}
    topology = machine(gpu, 64, nic_bytes_per_s=parse_bandwidth(NODES[gpu]))
    workload = WorkloadSpec(
        model=load_model(model),
        sequence_length=4096,
        recompute="full",
        parallelism=ParallelismSpec(**degrees),
        batch=batch,
        **left,
    )
    return CaseSpec(name="x", variant="", values={}, topology=topology, workload=workload, routing=topology.routing)


@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_agrees_with_the_engine(name: str) -> None:
    one = case(CASES[name])
    prepared = prepare(one)
    preset = load_preset(prepared.gpu, one.workload.precision)
    network = screen_network(one, prepared.cluster)
    closed = estimate_step(one.workload, prepared.gpu, preset, network, dp=prepared.grid.dp)
    assert closed.step_time_s == pytest.approx(simulate(prepared).result.step_time_s, rel=0.02)
