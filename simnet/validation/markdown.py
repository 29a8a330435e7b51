"""Tables of the documents on errors and constants: ``python -m simnet.validation.markdown`` writes them in a checkout.

Each stands between ``<!-- table NAME -->`` and ``<!-- end -->``; the tests compare them with the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from simnet.library import shipped_file
from simnet.validation.calibration_report import CalibrationReport, shipped_calibration
from simnet.validation.group_error import GroupError, group_error
from simnet.validation.marked_tables import error_table, fill, percent, table
from simnet.validation.mlperf import RUNS_FILE, markdown_table, mlperf_rows
from simnet.validation.run_errors import beyond_anchor, is_judged, is_stated, series_members
from simnet.validation.runs import read_runs
from simnet.validation.runs_report import RunsReport, validate_runs
from simnet.validation.twins import twins

DOCUMENTS = ("docs/validation.md", "docs/model/compute.md")
LONG_SERIES = 3
"""Sizes from which a series tells how a job scales."""
MISS = 0.1
"""Error from which a row is listed as a miss."""
_PERCENT = 100


def with_tables(text: str) -> str:
    """Return *text* with every marked table as the code gives it."""
    return fill(text, TABLES)


def _groups() -> str:
    kept = ("all", "kind of stack", "gpu, precision, stack", "micro-batch, stages, recompute")
    return error_table((_named(group), group) for group in _screened().groups if group.by in kept)


def _series() -> str:
    lines = [
        f"| {one.series} | {one.rows} | {percent(one.mape)} | {percent(one.max_ape)} |" for one in _screened().series
    ]
    return table("series | sizes | mean % | max %", lines)


def _series_pooled() -> str:
    series = series_members([row for row in _screened().rows if is_judged(row)], min_sizes=LONG_SERIES)
    kinds: dict[str, list[float]] = {}
    for members in series.values():
        kind = "inputs stated" if all(is_stated(row.assumptions) for row in members) else "inputs blank"
        kinds.setdefault(kind, []).extend(beyond_anchor(members))
    lines = [
        f"| {kind} | {one.rows} | {percent(one.mape)} | {percent(one.p90_ape)} | {percent(one.max_ape)} |"
        for kind, one in ((kind, group_error("", "", errors)) for kind, errors in sorted(kinds.items()))
    ]
    return table(
        "series of three sizes and more | runs beyond the smallest | mean % | 90th percentile % | max %", lines
    )


def _cross_validated() -> str:
    return error_table((group.key, group) for group in _calibration().groups() if group.by == "cross-validated")


def _left_out() -> str:
    return error_table((group.key, group) for group in _calibration().groups() if group.by == "GPU left out")


def _constants() -> str:
    lines = [
        f"| {one.name} | {one.shipped:.3g} | {_PERCENT * one.spread:.0f} | {one.prior:.3g} "
        f"| {_PERCENT * one.prior_spread:.0f} |"
        for one in _calibration().constants
    ]
    return table("constant | value | sd % | prior | its sd %", lines)


def _correlations() -> str:
    lines = [f"| {pair.one} | {pair.other} | {pair.value:+.2f} |" for pair in _calibration().correlations]
    return table("constant | with | correlation", lines)


def _twins() -> str:
    rows = read_runs(shipped_file(RUNS_FILE))
    known = {row.id for row in _screened().rows if row.predicted is not None}
    pairs = [pair for pair in twins(rows) if pair.one in known]
    kinds = (("same software", True), ("other software", False))
    return error_table(
        (name, group_error("", "", [pair.gap for pair in pairs if pair.is_same_software is is_same]))
        for name, is_same in kinds
    )


def _misses() -> str:
    rows = [row for row in _screened().rows if is_judged(row)]
    far = sorted((row for row in rows if abs(row.error or 0) > MISS), key=lambda row: -abs(row.error or 0))
    lines = [
        f"| {row.id} | {row.gpus:,} {row.gpu} | {row.precision} | {row.measured:.3f} | {row.predicted:.3f} "
        f"| {_PERCENT * (row.error or 0):+.1f} |"
        for row in far
    ]
    return table("run | GPUs | precision | measured s | predicted s | error %", lines)


def _not_predicted() -> str:
    reasons: dict[str, int] = {}
    for row in _screened().rows:
        if row.predicted is None:
            reason = row.reason.split(": ")[0]
            reasons[reason] = reasons.get(reason, 0) + 1
    lines = [
        f"| {reason} | {count} |" for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return table("reason | rows", lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "mlperf": lambda: markdown_table(mlperf_rows()),
    "groups": _groups,
    "series": _series,
    "series_pooled": _series_pooled,
    "cross_validated": _cross_validated,
    "left_out": _left_out,
    "constants": _constants,
    "correlations": _correlations,
    "twins": _twins,
    "misses": _misses,
    "not_predicted": _not_predicted,
}


@cache
def _screened() -> RunsReport:
    return validate_runs(read_runs(shipped_file(RUNS_FILE)))


@cache
def _calibration() -> CalibrationReport:
    return shipped_calibration()


def _named(group: GroupError) -> str:
    return group.key if group.by != "micro-batch, stages, recompute" else f"micro-batch, stages, recompute {group.key}"


if __name__ == "__main__":
    for name in DOCUMENTS:
        path = Path(name)
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
