"""How far predictions lie from measurements, over rows that have something in common."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

PERCENTILE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupError:
    """Errors of a group of rows, as fractions."""

    by: str
    """What the group shares."""
    key: str
    """Its value."""
    rows: int
    """Rows with a prediction."""
    mape: float
    """Mean absolute error."""
    median_ape: float
    """Median absolute error."""
    p90_ape: float
    """90th percentile of the absolute error."""
    max_ape: float
    """Largest absolute error."""
    bias: float
    """Median signed error."""


def group_error(by: str, key: str, errors: Sequence[float]) -> GroupError:
    """Return the order statistics of signed *errors*."""
    sizes = sorted(abs(error) for error in errors)
    return GroupError(
        by=by,
        key=key,
        rows=len(sizes),
        mape=statistics.fmean(sizes),
        median_ape=statistics.median(sizes),
        p90_ape=_percentile(sizes, PERCENTILE),
        max_ape=sizes[-1],
        bias=statistics.median(errors),
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which *share* of *ordered* lies, interpolated."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])
