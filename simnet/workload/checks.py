"""Whether a job divides over its degrees; every refusal shows the arithmetic."""

from __future__ import annotations

import math
from functools import lru_cache

from simnet.errors import LayoutError, Problem
from simnet.spec.bounds import MAX_PASSES, MAX_PASSES_PER_STAGE
from simnet.spec.model import ModelSpec
from simnet.spec.workload import WorkloadSpec
from simnet.workload.transformer import parameters

SPLITS_PER_CP_RANK = 2
"""Causal balance gives each context-parallel rank one early and one late piece of every sequence."""

SIZE_TOLERANCE = 0.1
"""By how much (fraction) a published size may be rounded: "8B" of a model card is up to 7 % off its count."""


def check_divides(workload: WorkloadSpec) -> None:
    """Return nothing if heads, feed-forward width and sequence divide over tensor and context parallelism.

    The model is looked at too, since a slip in its shape shows in the number of its parameters.

    Raises
    ------
    LayoutError
        With all that does not divide, or if the model is not of its published size.
    """
    model, degrees = workload.model, workload.parallelism
    problems = [
        *_size(model),
        *_remainder("query heads", model.heads, "tp", degrees.tp),
        *_kv_heads(model.kv_heads, degrees.tp),
        *_remainder("columns of the feed-forward block", model.ffn, "tp", degrees.tp),
        *_sequence(workload),
    ]
    if problems:
        raise LayoutError(*problems)


def num_micro_batches(workload: WorkloadSpec, dp: int) -> int:
    """Return the micro-batches that each replica runs in a step.

    Raises
    ------
    LayoutError
        If the global batch does not divide over replicas and micro-batch size, or makes more passes than a step has.
    """
    batch = workload.batch
    if batch.num_micro_batches is not None:
        return _few_enough(batch.num_micro_batches, workload, "num_micro_batches")
    assert batch.global_batch_size is not None
    share = dp * batch.micro_batch_size
    count, rest = divmod(batch.global_batch_size, share)
    if rest or not count:
        near = [size for size in (count * share, (count + 1) * share) if size]
        raise LayoutError(
            Problem(
                message=f"the global batch does not divide: {batch.global_batch_size} sequences = {count} x "
                f"(dp {dp} x micro-batch {batch.micro_batch_size} = {share}) + {rest}",
                path="workload.batch.global_batch_size",
                found=str(batch.global_batch_size),
                hint="try " + " or ".join(str(size) for size in near),
            )
        )
    return _few_enough(count, workload, "global_batch_size")


def check_shard_groups(workload: WorkloadSpec, *, dp: int) -> None:
    """Return nothing if the replicas make whole shard groups of ``fsdp_group`` GPUs.

    Raises
    ------
    LayoutError
        If not; the message has the arithmetic.
    """
    if workload.fsdp_group is None:
        return
    cp = workload.parallelism.cp
    each = workload.fsdp_group // cp
    count, rest = divmod(dp, each)
    if rest or not count:
        per_replica = f" of cp {cp}" if cp > 1 else ""
        raise LayoutError(
            Problem(
                message=f"the replicas do not make whole shard groups: dp {dp} = {count} x {each} replicas"
                f"{per_replica} of fsdp_group {workload.fsdp_group} + {rest}",
                path="workload.fsdp_group",
                found=str(workload.fsdp_group),
                hint=f"the next smaller group that divides is {cp * largest_divisor(dp, min(each, dp))}",
            )
        )


def num_sequences(workload: WorkloadSpec, dp: int) -> int:
    """Return the sequences of a step, all replicas together.

    Raises
    ------
    LayoutError
        If the global batch does not divide over replicas and micro-batch size.
    """
    return num_micro_batches(workload, dp) * dp * workload.batch.micro_batch_size


@lru_cache(maxsize=256)
def _size(model: ModelSpec) -> tuple[Problem, ...]:
    published = model.published_parameters
    if published is None:
        return ()
    counted = parameters(model)
    if abs(counted / published - 1) <= SIZE_TOLERANCE:
        return ()
    return (
        Problem(
            message=f"{model.name} comes to {counted:.4g} parameters, not to its published {published:.4g}",
            path="workload.model.published_parameters",
            found=f"{published:.4g}",
            allowed=f"within {SIZE_TOLERANCE:.0%} of {counted:.4g}, or null",
            hint="a changed shape needs published_parameters: null; else one figure of the shape is mistyped",
        ),
    )


def largest_divisor(count: int, most: int) -> int:
    """Return the largest divisor of *count* that is no larger than *most*."""
    low = [number for number in range(1, math.isqrt(count) + 1) if count % number == 0]
    return max(divisor for number in low for divisor in (number, count // number) if divisor <= most)


def _few_enough(count: int, workload: WorkloadSpec, key: str) -> int:
    """Return *count*, if a step of so many micro-batches can be simulated."""
    chunks, stages = workload.parallelism.virtual_stages, workload.parallelism.pp
    passes = count * chunks
    most = min(MAX_PASSES_PER_STAGE, MAX_PASSES // stages)
    if passes <= most:
        return count
    found: int = getattr(workload.batch, key)
    sequences = found // workload.sequence_length
    hint = "more replicas, a larger micro_batch_size, or a smaller batch"
    if key == "global_batch_size" and sequences:
        hint = f"it counts sequences; {found:,} tokens are {sequences:,} sequences of {workload.sequence_length:,}"
    raise LayoutError(
        Problem(
            message=f"a step of too many passes: {count:,} micro-batches x {chunks} chunks = {passes:,} on each of "
            f"pp {stages} stages",
            path=f"workload.batch.{key}",
            found=str(found),
            allowed=f"{most:,} passes of a stage at most",
            hint=hint,
        )
    )


def _remainder(what: str, count: int, axis: str, degree: int) -> list[Problem]:
    if count % degree == 0:
        return []
    return [
        Problem(
            message=f"{count} {what} do not divide over {axis} {degree}: "
            f"{count} = {count // degree} x {degree} + {count % degree}",
            path=f"workload.parallelism.{axis}",
            found=str(degree),
            hint=f"the next lower degree that divides is {largest_divisor(count, degree)}",
        )
    ]


def _kv_heads(kv_heads: int, tp: int) -> list[Problem]:
    """Fewer key-value heads than ranks are replicated, so the larger must be a multiple of the smaller."""
    if max(kv_heads, tp) % min(kv_heads, tp) == 0:
        return []
    return [
        Problem(
            message=f"{kv_heads} key-value heads neither divide over tp {tp} nor replicate evenly",
            path="workload.parallelism.tp",
            found=str(tp),
            allowed=f"a divisor or a multiple of {kv_heads}",
        )
    ]


def _sequence(workload: WorkloadSpec) -> list[Problem]:
    degrees, tokens = workload.parallelism, workload.sequence_length
    pieces = SPLITS_PER_CP_RANK * degrees.cp if degrees.cp > 1 else 1
    name = f"{SPLITS_PER_CP_RANK} x cp {degrees.cp}" if degrees.cp > 1 else ""
    if workload.sequence_parallel and degrees.tp > 1:
        pieces *= degrees.tp
        name = " x ".join(part for part in (name, f"tp {degrees.tp}") if part)
    if tokens % pieces == 0:
        return []
    return [
        Problem(
            message=f"a sequence of {tokens} tokens does not divide over {name} = {pieces}: "
            f"{tokens} = {tokens // pieces} x {pieces} + {tokens % pieces}",
            path="workload.sequence_length",
            found=str(tokens),
            hint=f"such as {(tokens // pieces + 1) * pieces}",
        )
    ]
