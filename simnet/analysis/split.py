"""A ratio of throughputs, or of chip time to a target, as the product of its causes, one change after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from simnet.analysis.answer import Factor, Split
from simnet.analysis.result import Result
from simnet.units import MINUTE_S

CHIP_TIME = "chip_time"


def split_ratio(
    start: str,
    steps: Mapping[str, str],
    results: Sequence[Result],
    claims: Mapping[str, float],
    of: str = "throughput",
) -> Split | None:
    """Return the split from variant *start* through the variants of *steps*, by name of the change.

    None if one of the variants has no result, or for chip time no target.

    Notes
    -----
    Chip time to the target is tokens to the target / tokens/s/GPU, and more by evaluation; so its ratio is the inverse
    ratio of throughputs, change by change, times that of the samples, times that of what evaluation adds.
    """
    first: dict[str, Result] = {}
    for result in results:
        first.setdefault(result.variant, result)
    if any(variant not in first for variant in (start, *steps.values())):
        return None
    factors = []
    before = first[start]
    for name, variant in steps.items():
        after = first[variant]
        ratio = after.tokens_per_s_per_gpu / before.tokens_per_s_per_gpu
        ratio = 1 / ratio if of == CHIP_TIME else ratio
        factors.append(Factor(name=name, case=after.name, ratio=ratio))
        before = after
    first_case = first[start]
    if of == CHIP_TIME:
        if math.isnan(first_case.minutes_to_target) or math.isnan(before.minutes_to_target):
            return None
        for name, figure in (("samples to the target", _samples), ("evaluation", _evaluation)):
            factors.append(Factor(name=name, case=before.name, ratio=figure(before) / figure(first_case)))
    predicted = math.prod(factor.ratio for factor in factors)
    last = next((claims[name] for name in reversed((start, *steps.values())[1:]) if name in claims), math.nan)
    claimed = math.nan if of == CHIP_TIME else last / claims.get(start, math.nan)
    return Split(
        start=first[start].name,
        factors=tuple(factors),
        predicted=predicted,
        claimed=claimed,
        remainder=claimed / predicted,
        of=of,
        chips=before.num_gpus / first_case.num_gpus,
        minutes=before.minutes_to_target / first_case.minutes_to_target,
    )


def _samples(result: Result) -> float:
    """Return the tokens to the target: samples of the sequence length [tokens]."""
    return result.steps_to_target * result.step_time_s * result.tokens_per_s


def _evaluation(result: Result) -> float:
    """Return the time to the target over that of its steps."""
    return result.minutes_to_target * MINUTE_S / (result.steps_to_target * result.step_time_s)


def split_sentence(split: Split) -> str:
    """Tell a split as a product."""
    product = " x ".join(f"{factor.ratio:.2f} {factor.name}" for factor in split.factors)
    last = split.factors[-1].case
    if split.of == CHIP_TIME:
        return (
            f"{last} spends {split.predicted:.2f} times the chip time of {split.start} to the target "
            f"({split.chips:.2f} times the chips for {split.minutes:.2f} of the time): {product}."
        )
    if math.isnan(split.claimed):
        return f"{last} trains {split.predicted:.2f} times as fast per GPU as {split.start}: {product}."
    return (
        f"Claimed is {split.claimed:.2f} times the throughput per GPU from {split.start} to {last}; "
        f"predicted {split.predicted:.2f} = {product}, which leaves {split.remainder:.2f} to the network and all else."
    )
