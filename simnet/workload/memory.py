"""The verdict on memory before anything is timed, and the smallest degrees that fit."""

from __future__ import annotations

import math

from simnet import units
from simnet.errors import DoesNotFitError, Problem
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.footprint import GROUPS_TO_STEADY, MemoryEstimate, StageMemory, estimate, state_bytes
from simnet.workload.layout import pipeline_layout
from simnet.workload.shards import stage_shard

__all__ = ["MemoryEstimate", "StageMemory", "estimate", "require_fit", "smallest_that_fits"]

MAX_TENSOR_TRIED = 8
"""GPUs of a common node; the degree asked for is tried too."""
MAX_STAGES_TRIED = 128
"""The deepest published pipeline has 35; far deeper ones need more passes to fill than a step may have."""
MAX_REPLICAS_TRIED = 1024
"""The search for what fits goes no further, since the split state is nearly nothing by then."""


def require_fit(workload: WorkloadSpec, gpu: GpuPart, *, dp: int) -> MemoryEstimate:
    """Return the estimate of a job that fits.

    Raises
    ------
    DoesNotFitError
        If it does not; the message has the stage, its classes, the limit and the smallest degree that fits.
    """
    found = estimate(workload, gpu, dp=dp)
    if found.fits:
        return found
    peak = found.peak
    classes = ", ".join(f"{name} {units.format_size(size)}" for name, size in peak.classes.items())
    raise DoesNotFitError(
        Problem(
            message=f"{workload.model.name} does not fit: stage {peak.stage} needs"
            f" {units.format_size(found.needed_bytes)}, a {gpu.name} has {units.format_size(found.limit_bytes)}"
            f" ({classes}, runtime {units.format_size(found.runtime_bytes)})",
            path="workload.parallelism",
            found=f"tp {workload.parallelism.tp}, cp {workload.parallelism.cp}, pp {workload.parallelism.pp}, dp {dp}",
            hint=_advice(workload, gpu, dp=dp),
        )
    )


def _advice(workload: WorkloadSpec, gpu: GpuPart, *, dp: int) -> str:
    """Return the smallest change that fits, as one sentence."""
    model = workload.model
    layout = pipeline_layout(workload)
    alone = workload.model_copy(update={"parallelism": workload.parallelism.model_copy(update={"cp": 1})})
    states = workload.parallelism.tp * sum(
        sum(state_bytes(alone, gpu, stage_shard(workload, layout, stage), replicas=1))
        for stage in range(layout.num_stages)
    )
    least = f"the states of {model.name} alone are {units.format_size(states)}, {math.ceil(states / gpu.hbm_size)} GPUs"
    fitting = ((words, smallest_that_fits(one, gpu)) for words, one in _changed(workload))
    change, found = next(((words, one) for words, one in fitting if one is not None), ("", None))
    if found is None:
        return f"{least}; no tensor and pipeline degree makes it fit"
    degrees = found.parallelism
    total = degrees.tp * degrees.cp * degrees.pp * int(degrees.dp)
    conditions = [change] if change else []
    conditions += ["virtual_stages 1"] if workload.parallelism.virtual_stages > 1 else []
    conditions += ["schedule 1f1b"] if workload.splits_backward else []
    conditions += [f"fsdp_group {found.fsdp_group}"] if found.fsdp_group else []
    given = f"with {' and '.join(conditions)} " if conditions else ""
    return (
        f"{least}; {given}the smallest that fits is "
        f"tp {degrees.tp} x cp {degrees.cp} x pp {degrees.pp} x dp {degrees.dp} = {total} GPUs"
    )


def _changed(workload: WorkloadSpec) -> list[tuple[str, WorkloadSpec]]:
    """Return the workload, and what to change of it where no degree fits, least first, with its name."""
    small = workload.batch.model_copy(update={"micro_batch_size": 1})
    return [
        ("", workload),
        ("micro_batch_size 1", workload.model_copy(update={"batch": small})),
        ("micro_batch_size 1 and recompute full", workload.model_copy(update={"batch": small, "recompute": "full"})),
    ]


def smallest_that_fits(workload: WorkloadSpec, gpu: GpuPart) -> WorkloadSpec | None:
    """Return *workload* on the fewest GPUs that hold it, or None; ties go to the fewest pipeline stages.

    Tensor degrees up to those of a node, pipeline degrees that divide the layers, and where replicas
    split states, replicas in powers of two are tried, with hsdp one group of them; context parallelism, recomputation
    and micro-batch stay.
    """
    for tp, pp, dp in _degrees(workload):
        candidate = _with_degrees(workload, tp=tp, pp=pp, dp=dp)
        if estimate(candidate, gpu, dp=dp).fits:
            return candidate
    return None


def _degrees(workload: WorkloadSpec) -> list[tuple[int, int, int]]:
    """Return the (tp, pp, dp) to try, fewest GPUs first."""
    model, asked = workload.model, workload.parallelism.tp
    tensor = {2**power for power in range(MAX_TENSOR_TRIED.bit_length())} | {asked}
    pipeline = [pp for pp in range(1, min(model.layers, MAX_STAGES_TRIED) + 1) if model.layers % pp == 0]
    replicas = [1]
    while workload.sharding != "none" and replicas[-1] < MAX_REPLICAS_TRIED:
        replicas.append(2 * replicas[-1])
    divisors = [tp for tp in sorted(tensor) if model.heads % tp == 0 and model.ffn % tp == 0]
    tried = [(tp, pp, dp) for tp in divisors for pp in pipeline for dp in replicas]
    return sorted(tried, key=lambda degrees: (math.prod(degrees), degrees[1], degrees[2]))


def _with_degrees(workload: WorkloadSpec, *, tp: int, pp: int, dp: int) -> WorkloadSpec:
    """Return the workload on other degrees, with enough micro-batches to fill its pipeline."""
    batch = workload.batch
    sequences = GROUPS_TO_STEADY * pp * dp * batch.micro_batch_size
    degrees = {"tp": tp, "pp": pp, "dp": dp, "virtual_stages": 1, "micro_batch_group_size": None}
    return workload.model_copy(
        update={
            "layout": "balanced",
            "schedule": "1f1b",
            "parallelism": workload.parallelism.model_copy(update=degrees),
            "fsdp_group": workload.fsdp_group and dp * workload.parallelism.cp,
            "batch": batch.model_copy(update={"global_batch_size": sequences, "num_micro_batches": None}),
        }
    )
