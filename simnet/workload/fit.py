"""The verdict on memory before anything is timed, and the smallest degrees that fit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simnet import units
from simnet.errors import DoesNotFitError, Problem
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.layout import pipeline_layout
from simnet.workload.memory import GROUPS_TO_STEADY, MemoryEstimate, estimate, state_bytes
from simnet.workload.shards import stage_shard

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
    states = workload.parallelism.tp * sum(
        sum(state_bytes(workload, gpu, stage_shard(workload, layout, stage), replicas=1))
        for stage in range(layout.num_stages)
    )
    least = f"the states of {model.name} alone are {units.format_size(states)}, {math.ceil(states / gpu.hbm_size)} GPUs"
    found = smallest_that_fits(workload, gpu)
    if found is None:
        return f"{least}; no tensor and pipeline degree makes it fit"
    degrees = found.parallelism
    total = degrees.tp * degrees.cp * degrees.pp * int(degrees.dp)
    return (
        f"{least}; the smallest that fits is tp {degrees.tp} x cp {degrees.cp} x pp {degrees.pp} x dp {degrees.dp} = "
        f"{total} GPUs"
    )


def smallest_that_fits(workload: WorkloadSpec, gpu: GpuPart) -> WorkloadSpec | None:
    """Return *workload* on the fewest GPUs that hold it, or None; ties go to the fewest pipeline stages.

    Tensor degrees up to the one asked for, pipeline degrees that divide the layers, and with zero1
    replicas in powers of two are tried; context parallelism, recomputation and micro-batch stay.
    """
    fitting = []
    for candidate in _candidates(workload):
        degrees = candidate.parallelism
        dp = int(degrees.dp)
        if estimate(candidate, gpu, dp=dp).fits:
            fitting.append((degrees.tp * degrees.pp * dp, degrees.pp, candidate))
    return min(fitting, key=lambda item: item[:2])[2] if fitting else None


def _candidates(workload: WorkloadSpec) -> Iterator[WorkloadSpec]:
    """Yield the workload on every degree that may be tried."""
    model, degrees = workload.model, workload.parallelism
    tensor = [tp for tp in range(1, degrees.tp + 1) if degrees.tp % tp == 0]
    pipeline = [pp for pp in range(1, model.layers + 1) if model.layers % pp == 0]
    replicas = [1]
    while workload.sharding == "zero1" and replicas[-1] < MAX_REPLICAS_TRIED:
        replicas.append(2 * replicas[-1])
    for tp in tensor:
        for pp in pipeline:
            for dp in replicas:
                yield workload.model_copy(
                    update={
                        "layout": "balanced",
                        "schedule": "1f1b",
                        "parallelism": degrees.model_copy(update={"tp": tp, "pp": pp, "dp": dp, "virtual_stages": 1}),
                        "batch": workload.batch.model_copy(
                            update={"global_batch_size": GROUPS_TO_STEADY * pp * dp * workload.batch.micro_batch_size}
                        ),
                    }
                )
