"""Order of forward and backward passes on each pipeline stage."""

from __future__ import annotations

import functools

from simnet.errors import LayoutError, Problem
from simnet.workload.dualpipe import dualpipe
from simnet.workload.pass_list import Pass, passes_of
from simnet.workload.zero_bubble import zb1p, zbv


@functools.lru_cache(maxsize=16)
def schedule(
    name: str, *, num_stages: int, num_micro_batches: int, num_chunks: int = 1, group_size: int | None = None
) -> tuple[tuple[Pass, ...], ...]:
    """Return the passes of every stage in order, for the schedule *name*.

    Parameters
    ----------
    name
        ``gpipe``, ``1f1b``, ``interleaved``, ``zb1p``, ``zbv`` or ``dualpipe``; ``1f1b`` with more than one chunk is
        the interleaved one.
    group_size
        Micro-batches that an interleaved stage runs through one chunk before the next; *num_stages* unless given.

    Raises
    ------
    LayoutError
        If the schedule cannot be made of so many micro-batches.

    Notes
    -----
    Idle time with equal stages and free sends, for passes of times F and B = I + W of a whole stage:
    (p-1)(F+B) for GPipe and 1F1B, that over v for interleaved (Narayanan, arXiv:2104.04473, section 2.2);
    (p-1)(F+B-2W) for ZB-1P and (p/2-1)(F+2B-3W) for DualPipe (DeepSeek-V3, arXiv:2412.19437, table 2).
    ``docs/model/workload.md`` has the conditions, and the figure of ZB-V.
    """
    stages = range(num_stages)
    if name == "gpipe":
        return tuple(_gpipe(num_micro_batches) for _ in stages)
    if name == "zb1p":
        return tuple(zb1p(num_stages, stage, num_micro_batches) for stage in stages)
    if name == "zbv":
        return tuple(zbv(num_stages, stage, num_micro_batches) for stage in stages)
    if name == "dualpipe":
        check_dualpipe(num_stages=num_stages, num_micro_batches=num_micro_batches)
        return tuple(dualpipe(num_stages, stage, num_micro_batches) for stage in stages)
    if num_chunks == 1:
        return tuple(_one_f_one_b(num_stages, stage, num_micro_batches) for stage in stages)
    check_interleaved(num_stages=num_stages, num_micro_batches=num_micro_batches, group_size=group_size)
    group = max(num_stages, min(group_size or num_stages, num_micro_batches))
    return tuple(_interleaved(num_stages, stage, num_micro_batches, num_chunks, group) for stage in stages)


def num_warmup_passes(*, num_stages: int, stage: int, num_chunks: int = 1, group_size: int | None = None) -> int:
    """Return the forward passes that *stage* does before its first pair of one forward and one backward.

    p-r-1, or 2(p-r-1) + (v-1)N when interleaved, on rank r of p with v chunks and groups of N micro-batches, p unless
    given (Megatron-Core, ``pipeline_parallel/schedules.py``).
    """
    behind = num_stages - stage - 1
    return behind if num_chunks == 1 else 2 * behind + (num_chunks - 1) * (group_size or num_stages)


def check_interleaved(*, num_stages: int, num_micro_batches: int, group_size: int | None = None) -> None:
    """Return nothing if the micro-batches form whole groups of *num_stages*, as Megatron demands, or a group is given.

    Raises
    ------
    LayoutError
        If not; the message has the remainder.
    """
    if group_size is not None:
        _check_group(num_stages, group_size)
        return
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
                hint=f"or groups of another length: parallelism.micro_batch_group_size, "
                f"such as {max(num_stages, num_micro_batches)}",
            )
        )


def check_dualpipe(*, num_stages: int, num_micro_batches: int) -> None:
    """Return nothing if the micro-batches are an even number, at least twice the stages.

    Raises
    ------
    LayoutError
        If not.
    """
    least = 2 * num_stages
    if num_micro_batches % 2 or num_micro_batches < least:
        raise LayoutError(
            Problem(
                message="dualpipe sends half of the micro-batches in at each end, and fills the pipeline from both",
                path="workload.batch.global_batch_size",
                found=f"{num_micro_batches} micro-batches per replica on pp {num_stages}",
                allowed=f"an even number, at least 2 x pp = {least}",
                hint=f"such as {max(least, num_micro_batches + 1)} micro-batches, or schedule: 1f1b",
            )
        )


def _check_group(num_stages: int, group_size: int) -> None:
    """Refuse a group that would come back to the first stage before that is through with it."""
    if group_size < num_stages:
        raise LayoutError(
            Problem(
                message="a group of micro-batches fills the pipeline, so it has one for each stage at least",
                path="workload.parallelism.micro_batch_group_size",
                found=str(group_size),
                allowed=f"at least pp = {num_stages}",
            )
        )


def _gpipe(num_micro_batches: int) -> tuple[Pass, ...]:
    """All forward, then all backward, in the same order of micro-batches."""
    order = [(i, 0) for i in range(num_micro_batches)]
    return (*passes_of("F", order), *passes_of("B", order))


def _one_f_one_b(num_stages: int, stage: int, num_micro_batches: int) -> tuple[Pass, ...]:
    order = [(i, 0) for i in range(num_micro_batches)]
    warmup = num_warmup_passes(num_stages=num_stages, stage=stage)
    return _zip_with_warmup(passes_of("F", order), passes_of("B", order), warmup)


def _interleaved(num_stages: int, stage: int, num_micro_batches: int, num_chunks: int, group: int) -> tuple[Pass, ...]:
    """Run *group* micro-batches through one chunk, then the next; backward from the last chunk.

    A last group shorter than the pipeline runs as one that fills it, with the missing passes left out: stages
    that did fewer passes ahead would wait for one another for ever.
    """
    whole, rest = divmod(num_micro_batches, group)
    lengths = [group] * whole + ([max(rest, num_stages)] if rest else [])
    order = [
        (number * group + place, chunk)
        for number, length in enumerate(lengths)
        for chunk in range(num_chunks)
        for place in range(length)
    ]
    forward = passes_of("F", order)
    backward = passes_of("B", [(i, num_chunks - 1 - chunk) for i, chunk in order])
    warmup = num_warmup_passes(num_stages=num_stages, stage=stage, num_chunks=num_chunks, group_size=group)
    order_of_all = _zip_with_warmup(forward, backward, warmup)
    return tuple(item for item in order_of_all if item.micro_batch < num_micro_batches)


def _zip_with_warmup(forward: list[Pass], backward: list[Pass], warmup: int) -> tuple[Pass, ...]:
    """Warm-up forwards, then a forward and a backward in turn, then the remaining backwards."""
    warmup = min(warmup, len(forward))
    steady = [item for pair in zip(forward[warmup:], backward, strict=False) for item in pair]
    return (*forward[:warmup], *steady, *backward[len(forward) - warmup :])
