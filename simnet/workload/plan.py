"""One training step of a job: what each pipeline stage does, in which order, and what it sends to whom."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace

from simnet.spec.compute import KernelPreset
from simnet.spec.parts import GpuPart
from simnet.spec.workload import WorkloadSpec
from simnet.workload.checks import check_divides, check_shard_groups, num_micro_batches, num_sequences
from simnet.workload.comms import ChunkKind
from simnet.workload.kernels import ChunkTimes, chunk_times, optimizer_time
from simnet.workload.layout import Layout, pipeline_layout
from simnet.workload.ops import Category, CollectiveOp, Comm, Compute, Op, Start, StepPlan, Wait
from simnet.workload.passes import CommTable, StageJob, chunk_kind
from simnet.workload.schedule import schedule
from simnet.workload.shards import shard_degree, stage_shard
from simnet.workload.stage_ops import stage_operations
from simnet.workload.transformer import model_flops, recomputed_flops, require_dense
from simnet.workload.units import part_kinds

__all__ = [
    "Category",
    "ChunkTimes",
    "CollectiveOp",
    "Comm",
    "Compute",
    "Op",
    "Start",
    "StepPlan",
    "Wait",
    "assemble",
    "build_plan",
    "chunk_kinds",
]


@functools.lru_cache(maxsize=4)
def build_plan(
    workload: WorkloadSpec,
    gpu: GpuPart,
    preset: KernelPreset,
    *,
    dp: int,
    dp_beside_s: tuple[float, ...] | None = None,
) -> StepPlan:
    """Return the step of *workload* on *gpu* with *dp* replicas.

    Parameters
    ----------
    preset
        Kernel constants of the GPU at the workload's precision.
    dp
        Replicas (:func:`simnet.workload.ranks.resolve_dp`).
    dp_beside_s
        Time that gradients and parameters of each stage move beside its passes, whose kernels they
        slow, shape (pp,) [s]; what is lost there is charged with the optimizer.

    Raises
    ------
    LayoutError
        If layers, heads, sequence or batch do not divide.
    """
    require_dense(workload.model)
    check_divides(workload)
    check_shard_groups(workload, dp=dp)
    layout = pipeline_layout(workload)
    late = 1 + lateness(preset, num_ranks=dp * workload.parallelism.replica_size)
    times = {
        kind: _later(
            late,
            chunk_times(
                workload.model,
                workload,
                gpu,
                preset,
                layers=kind.layers,
                has_embedding=kind.has_embedding,
                has_loss=kind.has_loss,
            ),
        )
        for kind in (*chunk_kinds(layout), *(part_kinds(layout) if workload.shards_parameters else ()))
    }
    held = [stage_shard(workload, layout, stage) for stage in range(layout.num_stages)]
    optimizer_s = tuple(
        optimizer_time(
            workload,
            preset,
            parameters=one.parameters,
            replicas=dp * workload.parallelism.cp,
            matrix_parameters=one.matrices,
            dp_beside_s=0.0 if dp_beside_s is None else dp_beside_s[stage],
        )
        for stage, one in enumerate(held)
    )
    plan = assemble(workload, dp=dp, times=times, optimizer_s=optimizer_s)
    return replace(plan, assumptions=(*plan.assumptions, _late_words(late)))


def lateness(preset: KernelPreset, *, num_ranks: int) -> float:
    """Return how much longer a pass takes for the slowest of *num_ranks* than on average (fraction).

    Notes
    -----
    Ranks wait for one another, so the slowest counts: with independent normal times the largest of
    N lies about sqrt(2 ln N) standard deviations above the mean (Cramer, Mathematical Methods of
    Statistics, 28.6); ``preset.jitter`` is the standard deviation over the mean.
    """
    return preset.jitter * math.sqrt(2 * math.log(max(2, num_ranks)))


def _later(factor: float, times: ChunkTimes) -> ChunkTimes:
    return replace(
        times,
        forward_s=times.forward_s * factor,
        backward_s=times.backward_s * factor,
        weight_s=times.weight_s * factor,
    )


def _late_words(factor: float) -> str:
    return f"Every pass waits for the slowest of all ranks: its kernels take {factor - 1:.1%} longer than on average."


def chunk_kinds(layout: Layout) -> tuple[ChunkKind, ...]:
    """Return the different kinds of chunk of *layout*; few, whatever the number of stages."""
    kinds = {
        chunk_kind(layout, stage, chunk): None
        for stage in range(layout.num_stages)
        for chunk in range(layout.num_chunks)
    }
    return tuple(kinds)


def assemble(
    workload: WorkloadSpec, *, dp: int, times: Mapping[ChunkKind, ChunkTimes], optimizer_s: tuple[float, ...]
) -> StepPlan:
    """Return the step of *workload* with *dp* replicas and given compute times.

    Parameters
    ----------
    times
        Compute times of every kind of chunk (:func:`chunk_kinds`).
    optimizer_s
        Time of the optimizer on each stage, shape (pp,) [s].

    Raises
    ------
    LayoutError
        If layers, heads, sequence or batch do not divide.
    """
    require_dense(workload.model)
    check_divides(workload)
    check_shard_groups(workload, dp=dp)
    layout = pipeline_layout(workload)
    micro_batches = num_micro_batches(workload, dp)
    passes = schedule(
        workload.schedule,
        num_stages=layout.num_stages,
        num_micro_batches=micro_batches,
        num_chunks=layout.num_chunks,
        group_size=workload.parallelism.micro_batch_group_size,
    )
    table = CommTable()
    ops = tuple(
        stage_operations(
            StageJob(
                workload=workload,
                layout=layout,
                stage=stage,
                replicas=dp * workload.parallelism.cp,
                times=times,
                optimizer_s=optimizer_s[stage],
                dp_shard=shard_degree(workload, dp=dp),
            ),
            passes[stage],
            table,
        )
        for stage in range(layout.num_stages)
    )
    useful, executed = step_flops(workload, dp=dp)
    return StepPlan(
        num_stages=layout.num_stages,
        ops=ops,
        comms=tuple(table.comms),
        model_flops=useful,
        hardware_flops=executed,
        tokens_per_step=num_sequences(workload, dp) * workload.sequence_length,
        dp_shard=shard_degree(workload, dp=dp),
        compute_floor_s=_floor_s(layout, layout.chunk_micro_batches(micro_batches), times),
        assumptions=_assumptions(workload),
    )


def step_flops(workload: WorkloadSpec, *, dp: int) -> tuple[float, float]:
    """Return the FLOPs of a step that the model needs, and those with what recomputation repeats [FLOP]."""
    sequences, length = num_sequences(workload, dp), workload.sequence_length
    useful = model_flops(workload.model, sequences=sequences, sequence_length=length)
    again = recomputed_flops(
        workload.model,
        sequences=sequences,
        sequence_length=length,
        layers=workload.model.layers * workload.recompute_share,
        recompute=workload.recompute,
        keeps=workload.recompute_keeps,
    )
    return useful, useful + again


def _floor_s(layout: Layout, micro_batches: int, times: Mapping[ChunkKind, ChunkTimes]) -> tuple[float, ...]:
    """Return the roofline time of all passes of each stage, *micro_batches* through each of its chunks [s]."""
    floor_s = {kind: one.forward_floor_s + one.backward_floor_s for kind, one in times.items()}
    return tuple(
        micro_batches * sum(floor_s[chunk_kind(layout, stage, chunk)] for chunk in range(layout.num_chunks))
        for stage in range(layout.num_stages)
    )


def _assumptions(workload: WorkloadSpec) -> tuple[str, ...]:
    """Return what of the plan is a simplification, as sentences for the report."""
    degrees = workload.parallelism
    found = ["FLOPs count the causal half of attention."]
    if degrees.tp > 1 and workload.overlap.tp:
        found.append(
            f"Of each split tensor-parallel collective one of {degrees.tp} pieces is exposed; "
            "the rest runs beside the compute of its chunk."
        )
    if workload.schedule == "dualpipe":
        found.append("In a block of a forward and a backward pass all communication runs beside the compute of both.")
    if degrees.cp > 1 and workload.context_parallel == "ring":
        found.append("Keys and values go round beside the compute of their chunk.")
    if degrees.tp > 1 or degrees.cp > 1:
        found.append("Equal collectives of a chunk's pass run back to back, their latencies counted one by one.")
    return tuple(found)
