"""A ratio of throughputs as the product of its causes, one change after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from simnet.analysis.answer import Factor, Split
from simnet.analysis.result import Result


def split_ratio(
    start: str, steps: Mapping[str, str], results: Sequence[Result], claims: Mapping[str, float]
) -> Split | None:
    """Return the split from variant *start* through the variants of *steps*, by name of the change.

    None if one of the variants has no result.
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
        factors.append(Factor(name=name, case=after.name, ratio=ratio))
        before = after
    predicted = math.prod(factor.ratio for factor in factors)
    last = next((claims[name] for name in reversed((start, *steps.values())[1:]) if name in claims), math.nan)
    claimed = last / claims.get(start, math.nan)
    return Split(
        start=first[start].name,
        factors=tuple(factors),
        predicted=predicted,
        claimed=claimed,
        remainder=claimed / predicted,
    )


def split_sentence(split: Split) -> str:
    """Tell a split as a product."""
    product = " x ".join(f"{factor.ratio:.2f} {factor.name}" for factor in split.factors)
    last = split.factors[-1].case
    if math.isnan(split.claimed):
        return f"{last} trains {split.predicted:.2f} times as fast per GPU as {split.start}: {product}."
    return (
        f"Claimed is {split.claimed:.2f} times the throughput per GPU from {split.start} to {last}; "
        f"predicted {split.predicted:.2f} = {product}, which leaves {split.remainder:.2f} to the network and all else."
    )
