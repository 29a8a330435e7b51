"""Closed form of what a stage of a pipeline waits in a step, by schedule (``docs/model/workload.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simnet.spec.workload import WorkloadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Times of a micro-batch on a stage, all its chunks together; of one copy where there are two [s]."""

    forward_s: float
    backward_s: float
    weight_s: float
    """Part of *backward_s* that forms gradients of weights."""

    @property
    def total_s(self) -> float:
        """Forward and backward."""
        return self.forward_s + self.backward_s

    @property
    def input_s(self) -> float:
        """Part of *backward_s* that the stage before waits for."""
        return self.backward_s - self.weight_s


def bubble_s(workload: WorkloadSpec, stages: Sequence[tuple[StageTimes, int]], *, micro_batches: int) -> float:
    """Return the bubble of the slowest of *stages*, each with how many there are of it, with free sends [s].

    Exact with equal stages and the conditions of ``docs/model/workload.md``; of unequal ones each of the others counts
    for itself. A short last group of an interleaved schedule counts as Calculon does, which is never too little.
    """
    slowest = max((one for one, _ in stages), key=lambda one: one.total_s)
    found = sum(count * _wait_s(workload, one) for one, count in stages) - _wait_s(workload, slowest)
    return found + _short_group_s(workload, slowest, micro_batches=micro_batches)


def _wait_s(workload: WorkloadSpec, stage: StageTimes) -> float:
    """Return what one stage adds to the bubble of another."""
    ahead_s = stage.input_s - stage.weight_s
    if workload.schedule == "zb1p":
        return stage.forward_s + max(0.0, ahead_s)
    if workload.schedule == "zbv":
        return max(stage.input_s, 2 * ahead_s) / 2
    if workload.schedule == "dualpipe":
        # (p/2 - 1) blocks of the whole pipeline, shared by the p - 1 other stages.
        num_stages = workload.parallelism.pp
        share = (num_stages / 2 - 1) / (num_stages - 1)
        return share * (stage.total_s + max(0.0, stage.backward_s - 3 * stage.weight_s))
    return stage.total_s / workload.parallelism.virtual_stages


def _short_group_s(workload: WorkloadSpec, slowest: StageTimes, *, micro_batches: int) -> float:
    """Return what a last group shorter than the pipeline adds: (v-1)(p - rest) passes of a chunk.

    Isaev, "Calculon", SC 2023.
    """
    degrees = workload.parallelism
    group = min(degrees.micro_batch_group_size or degrees.pp, micro_batches)
    rest = (micro_batches % group) or group
    missing = max(0, degrees.pp - rest)
    is_interleaved = degrees.virtual_stages > 1 and workload.schedule != "zbv"
    return (degrees.virtual_stages - 1) * missing * slowest.total_s / degrees.virtual_stages if is_interleaved else 0.0
