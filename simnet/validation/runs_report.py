"""Predicted against measured step time: rows, groups and scaling series of a table of runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from simnet.analysis.screen import estimate_step
from simnet.errors import SimnetError
from simnet.spec.compute import load_preset
from simnet.validation.runs import RunCase, RunRow, Unsupported, to_case
from simnet.validation.simulated import simulated_step

Fidelity = Literal["screen", "simulate"]
"""Whether steps come from the closed form or from the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted step."""

    step_time_s: float
    method: str
    """How it was found, such as ``closed form``."""


Predictor = Callable[[RunCase], Prediction]
PERCENTILE = 0.9
MIN_SERIES_SIZES = 2
"""Sizes that make a series: the anchor and one to judge."""
SHAPE_COLUMNS = ("micro_batch", "vp", "recompute")
"""Blanks that change the shape of the work, not only what overlaps; such rows are reported apart."""
CALIBRATION_QUALITIES = ("a", "b")


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
class GroupError:
    """Errors of rows that have something in common."""

    by: str
    key: str
    rows: int
    mape: float
    median_ape: float
    p90_ape: float
    max_ape: float
    bias: float
    """Median of the signed error."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsReport:
    """Validation of a table of runs."""

    rows: tuple[RunResult, ...]
    groups: tuple[GroupError, ...]
    series: tuple[SeriesError, ...]


def screen_step(case: RunCase) -> Prediction:
    """Return the step of the closed form with the shipped presets."""
    preset = load_preset(case.gpu, case.workload.precision, software_date=case.workload.software_date)
    step = estimate_step(case.workload, case.gpu, preset, case.network, dp=case.dp)
    return Prediction(step_time_s=step.step_time_s, method="closed form")


def engine_step(case: RunCase) -> Prediction:
    """Return the step of the engine with the shipped presets on a healthy machine of the row's size."""
    step = simulated_step(case)
    return Prediction(step_time_s=step.step_time_s, method=step.method)


PREDICTORS: Mapping[Fidelity, Predictor] = {"screen": screen_step, "simulate": engine_step}


def validate_runs(rows: Iterable[RunRow], predict: Predictor = screen_step) -> RunsReport:
    """Return predicted against measured for *rows*, with errors by group and by scaling series.

    Parameters
    ----------
    rows
        Rows of :func:`simnet.validation.runs.read_runs`.
    predict
        What predicts a step: the closed form, or the engine (``PREDICTORS``).

    Notes
    -----
    Groups and series hold rows of quality a and b that their source does not doubt.
    """
    results = tuple(_result(row, predict) for row in rows)
    judged = [row for row in results if _is_judged(row)]
    return RunsReport(rows=results, groups=_groups(judged), series=_series(judged))


def report_records(report: RunsReport) -> dict[str, list[dict[str, object]]]:
    """Return *report* as plain records under ``rows``, ``groups`` and ``series``."""
    return {
        name: [{field: getattr(item, field) for field in item.__dataclass_fields__} for item in getattr(report, name)]
        for name in ("rows", "groups", "series")
    }


def _result(row: RunRow, predict: Predictor) -> RunResult:
    case = to_case(row)
    predicted: Prediction | None = None
    reason = ""
    assumptions: tuple[str, ...] = ()
    if isinstance(case, Unsupported):
        reason = case.reason
    else:
        assumptions = case.assumptions
        try:
            predicted = predict(case)
        except SimnetError as error:
            reason = error.problems[0].message if error.problems else str(error)
    measured = row.measured_s
    seconds = None if predicted is None else predicted.step_time_s
    return RunResult(
        id=row.run_id,
        predicted=seconds,
        measured=measured,
        unit="s",
        error=seconds / measured - 1 if seconds is not None and measured else None,
        reason=reason or ("" if measured else "no measured step time"),
        method="" if predicted is None else predicted.method,
        gpu=row.text("gpu"),
        precision=row.text("precision"),
        stack=row.text("stack"),
        series=row.text("series"),
        gpus=row.count("gpus", 0),
        quality=row.text("quality"),
        is_suspect=row.is_suspect,
        assumptions=assumptions,
    )


def _is_judged(row: RunResult) -> bool:
    return row.error is not None and not row.is_suspect and row.quality in CALIBRATION_QUALITIES


def _groups(rows: Sequence[RunResult]) -> tuple[GroupError, ...]:
    keys: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        error = row.error
        if error is None:
            continue
        blank = "blank" if any(note.startswith(SHAPE_COLUMNS) for note in row.assumptions) else "stated"
        for by, key in (
            ("all", "all"),
            ("stack", row.stack),
            ("gpu, precision, stack", f"{row.gpu}, {row.precision}, {row.stack}"),
            ("micro-batch, stages, recompute", blank),
        ):
            keys.setdefault((by, key), []).append(error)
    return tuple(group_error(by, key, errors) for (by, key), errors in sorted(keys.items()))


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


def _series(rows: Sequence[RunResult]) -> tuple[SeriesError, ...]:
    found: dict[str, list[RunResult]] = {}
    for row in rows:
        if row.series:
            found.setdefault(row.series, []).append(row)
    return tuple(
        _one_series(name, sorted(members, key=lambda row: (row.gpus, row.id)))
        for name, members in sorted(found.items())
        if len({row.gpus for row in members}) >= MIN_SERIES_SIZES
    )


def _one_series(name: str, members: list[RunResult]) -> SeriesError:
    anchor, *rest = members
    scale = 1 + (anchor.error or 0.0)
    errors = [abs((1 + (row.error or 0.0)) / scale - 1) for row in rest]
    return SeriesError(
        series=name, anchor_id=anchor.id, rows=len(members), mape=statistics.fmean(errors), max_ape=max(errors)
    )
