"""Order of forward and backward passes on each pipeline stage."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Literal

from simnet.errors import LayoutError, Problem
from simnet.workload.ops import many


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward or backward pass of a micro-batch through a chunk."""

    kind: Literal["F", "B"]
    micro_batch: int
    chunk: int


@functools.lru_cache(maxsize=16)
def schedule(
    name: str, *, num_stages: int, num_micro_batches: int, num_chunks: int = 1
) -> tuple[tuple[Pass, ...], ...]:
    """Return the passes of every stage in order, for the schedule *name* (``gpipe``, ``1f1b``, ``interleaved``).

    ``1f1b`` with more than one chunk is the interleaved one.

    Raises
    ------
    LayoutError
        If an interleaved schedule has micro-batches that do not divide over the stages.

    Notes
    -----
    Idle time with equal stages and free sends is (p-1)(tf+tb) for GPipe and 1F1B, that over v for
    interleaved (Narayanan, arXiv:2104.04473, section 2.2).
    """
    if name == "gpipe":
        return tuple(_gpipe(num_micro_batches) for _ in range(num_stages))
    if num_chunks == 1:
        return tuple(_one_f_one_b(num_stages, stage, num_micro_batches) for stage in range(num_stages))
    check_interleaved(num_stages=num_stages, num_micro_batches=num_micro_batches)
    return tuple(_interleaved(num_stages, stage, num_micro_batches, num_chunks) for stage in range(num_stages))


def num_warmup_passes(*, num_stages: int, stage: int, num_chunks: int = 1) -> int:
    """Return the forward passes that *stage* does before its first pair of one forward and one backward.

    p-r-1, or 2(p-r-1) + (v-1)p when interleaved, on rank r of p with v chunks (Megatron-Core,
    ``pipeline_parallel/schedules.py``).
    """
    behind = num_stages - stage - 1
    return behind if num_chunks == 1 else 2 * behind + (num_chunks - 1) * num_stages


def check_interleaved(*, num_stages: int, num_micro_batches: int) -> None:
    """Return nothing if the micro-batches form whole groups of *num_stages*, as Megatron demands.

    Raises
    ------
    LayoutError
        If not; the message has the remainder.
    """
    rest = num_micro_batches % num_stages
    if rest:
        near = sorted({max(num_stages, num_micro_batches - rest), num_micro_batches - rest + num_stages})
        raise LayoutError(
            Problem(
                message=f"interleaving needs micro-batches in whole groups of the pipeline's stages: "
                f"{num_micro_batches} = {num_micro_batches // num_stages} x {num_stages} + {rest}",
                path="workload.batch.global_batch_size",
                found=f"{num_micro_batches} micro-batches per replica on pp {num_stages}",
                allowed=" or ".join(str(number) for number in near) + " micro-batches, or virtual_stages 1",
            )
        )


def peak_in_flight(passes: tuple[Pass, ...], weight: tuple[float, ...]) -> float:
    """Return the largest sum, over time, of the weights of passes that went forward and not yet backward.

    Parameters
    ----------
    weight
        Weight of a micro-batch in flight in each chunk, shape (num_chunks,); ones give a count.
    """
    held = peak = 0.0
    for item in passes:
        held += weight[item.chunk] if item.kind == "F" else -weight[item.chunk]
        peak = max(peak, held)
    return peak


def _gpipe(num_micro_batches: int) -> tuple[Pass, ...]:
    """All forward, then all backward, in the same order of micro-batches."""
    order = [(i, 0) for i in range(num_micro_batches)]
    return (*_passes("F", order), *_passes("B", order))


def _one_f_one_b(num_stages: int, stage: int, num_micro_batches: int) -> tuple[Pass, ...]:
    order = [(i, 0) for i in range(num_micro_batches)]
    warmup = num_warmup_passes(num_stages=num_stages, stage=stage)
    return _zip_with_warmup(_passes("F", order), _passes("B", order), warmup)


def _interleaved(num_stages: int, stage: int, num_micro_batches: int, num_chunks: int) -> tuple[Pass, ...]:
    """Run groups of *num_stages* micro-batches through one chunk, then the next; backward from the last chunk."""
    order = [
        (micro_batch, chunk)
        for first in range(0, num_micro_batches, num_stages)
        for chunk in range(num_chunks)
        for micro_batch in range(first, first + num_stages)
    ]
    forward = _passes("F", order)
    backward = _passes("B", [(i, num_chunks - 1 - chunk) for i, chunk in order])
    warmup = num_warmup_passes(num_stages=num_stages, stage=stage, num_chunks=num_chunks)
    return _zip_with_warmup(forward, backward, warmup)


def _passes(kind: Literal["F", "B"], order: list[tuple[int, int]]) -> list[Pass]:
    """Return the passes of one kind, given micro-batch and chunk of each."""
    micro_batch, chunk = zip(*order, strict=True) if order else ((), ())
    return many(Pass, len(order), kind=itertools.repeat(kind), micro_batch=micro_batch, chunk=chunk)


def _zip_with_warmup(forward: list[Pass], backward: list[Pass], warmup: int) -> tuple[Pass, ...]:
    """Warm-up forwards, then a forward and a backward in turn, then the remaining backwards."""
    warmup = min(warmup, len(forward))
    steady = [item for pair in zip(forward[warmup:], backward, strict=False) for item in pair]
    return (*forward[:warmup], *steady, *backward[len(forward) - warmup :])
