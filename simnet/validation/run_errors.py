"""Errors of predicted runs: of one row, of groups of rows, and of scaling series after one scalar."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MIN_SERIES_SIZES = 2
"""Sizes that make a series: the anchor and one to judge."""
CALIBRATION_QUALITIES = ("a", "b")
"""Logged, or a vendor's or a paper's table; what is digitised or derived is not judged."""
SHAPE_COLUMNS = ("micro_batch", "vp", "recompute")
"""Blanks that change the shape of the work, not only what overlaps; such rows are reported apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One row of the table, predicted or not."""

    id: str
    predicted: float | None
    """Step time [s]."""
    measured: float | None
    """Step time [s]."""
    unit: str
    error: float | None
    """Predicted over measured, less 1."""
    reason: str
    """Why there is no prediction, or empty."""
    method: str
    """How the prediction was found, or empty."""
    gpu: str
    precision: str
    stack: str
    series: str
    gpus: int
    quality: str
    is_suspect: bool
    assumptions: tuple[str, ...]
    """Blanks of the row that took a default, and what the preset assumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesError:
    """Errors of a scaling series after one scalar was fitted on its smallest run."""

    series: str
    anchor_id: str
    rows: int
    """Runs of the series, the anchor among them."""
    mape: float
    """Over the runs beyond the anchor."""
    max_ape: float


def is_judged(row: RunResult) -> bool:
    """Return whether a row counts: predicted, of quality a or b, not doubted by its source."""
    return row.error is not None and not row.is_suspect and row.quality in CALIBRATION_QUALITIES


def is_stated(assumptions: Iterable[str]) -> bool:
    """Return whether a row states all that shapes its work, given the notes on its blanks."""
    return not any(note.startswith(SHAPE_COLUMNS) for note in assumptions)


def scaling_series(rows: Sequence[RunResult]) -> tuple[SeriesError, ...]:
    """Return the errors of every scaling series among judged *rows*, by name."""
    return tuple(
        SeriesError(
            series=name,
            anchor_id=members[0].id,
            rows=len(members),
            mape=statistics.fmean(map(abs, beyond_anchor(members))),
            max_ape=max(map(abs, beyond_anchor(members))),
        )
        for name, members in series_members(rows, min_sizes=MIN_SERIES_SIZES).items()
    )


def series_members(rows: Sequence[RunResult], *, min_sizes: int) -> dict[str, list[RunResult]]:
    """Return the rows of every series of at least *min_sizes* numbers of GPUs, smallest run first."""
    found: dict[str, list[RunResult]] = {}
    for row in rows:
        if row.series:
            found.setdefault(row.series, []).append(row)
    return {
        name: sorted(members, key=lambda row: (row.gpus, row.id))
        for name, members in sorted(found.items())
        if len({row.gpus for row in members}) >= min_sizes
    }


def beyond_anchor(members: Sequence[RunResult]) -> list[float]:
    """Return the signed errors of a series beyond its smallest run, on which one scalar is fitted."""
    anchor, *rest = members
    scale = 1 + (anchor.error or 0.0)
    return [(1 + (row.error or 0.0)) / scale - 1 for row in rest]
