"""Predicted against measured step time: rows, groups and scaling series of a table of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from simnet.analysis.screen import estimate_step
from simnet.errors import SimnetError
from simnet.validation.group_error import GroupError, group_error
from simnet.validation.run_errors import (
    RunResult,
    SeriesError,
    is_judged,
    is_stated,
    scaling_series,
)
from simnet.validation.runs import RunCase, RunRow, Unsupported, to_case
from simnet.validation.simulated import simulated_step
from simnet.validation.stacks import MEGATRON, OTHER_STACKS, stack_label
from simnet.workload.kernels import job_preset

Fidelity = Literal["screen", "simulate"]
"""Whether steps come from the closed form or from the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted step."""

    step_time_s: float
    method: str
    """How it was found, such as ``closed form``."""


Predictor = Callable[[RunCase], Prediction]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsReport:
    """Validation of a table of runs."""

    rows: tuple[RunResult, ...]
    groups: tuple[GroupError, ...]
    series: tuple[SeriesError, ...]


def screen_step(case: RunCase) -> Prediction:
    """Return the step of the closed form with the shipped presets."""
    preset = job_preset(case.workload, case.gpu)
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
    judged = [row for row in results if is_judged(row)]
    return RunsReport(rows=results, groups=_groups(judged), series=scaling_series(judged))


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
        stack=stack_label(row),
        series=row.text("series"),
        gpus=row.count("gpus", 0),
        quality=row.text("quality"),
        is_suspect=row.is_suspect,
        assumptions=assumptions,
    )


def _groups(rows: Sequence[RunResult]) -> tuple[GroupError, ...]:
    keys: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        error = row.error
        if error is None:
            continue
        blank = "stated" if is_stated(row.assumptions) else "blank"
        kind = MEGATRON if row.stack == MEGATRON else OTHER_STACKS
        for by, key in (
            ("all", "all"),
            ("stack", row.stack),
            ("kind of stack", kind),
            ("gpu, precision, stack", f"{row.gpu}, {row.precision}, {row.stack}"),
            ("micro-batch, stages, recompute", f"{kind}, {blank}"),
        ):
            keys.setdefault((by, key), []).append(error)
    return tuple(group_error(by, key, errors) for (by, key), errors in sorted(keys.items()))
