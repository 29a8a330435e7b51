"""The table of published runs as it is read: rows, and the date in a software's name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from simnet.errors import Problem, SpecError
from simnet.spec.bounds import MAX_COUNT
from simnet.validation.csv_rows import Row, read_rows

MLPERF_ROUND_DATE: Mapping[str, float] = {
    "MLPerf v3.1": 2023.75,
    "MLPerf v4.1": 2024.75,
    "MLPerf v5.0": 2025.33,
    "MLPerf v5.1": 2025.75,
    "MLPerf v6.0": 2026.33,
}
"""Submission dates; the release that a log prints is often that of an older base image."""
MONTHS = 12
_COLUMNS = ("run_id", "base_model_id", "gpu", "gpus", "global_batch", "precision")
_COUNTS = ("layers_override", "seq", "gpus", "tp", "pp", "vp", "cp", "dp", "micro_batch", "global_batch")
_BLANKS = ("", "unknown")
_DATE_PATTERNS = (r"\b(2\d)\.(\d\d)", r"\bv(2\d)\.(\d\d)", r"\b20(\d\d)-(\d\d)", r"\b20(\d\d)\b()")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One row of the table, as read."""

    run_id: str
    values: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return the value of a column, empty if it is blank or missing."""
        return (self.values.get(column) or "").strip()

    def count(self, column: str, default: int) -> int:
        """Return a whole number, *default* if blank."""
        return int(self.text(column) or default)

    @property
    def measured_s(self) -> float | None:
        """Step time [s], or None where the source gives none."""
        return float(self.text("step_s")) if self.text("step_s") else None

    @property
    def is_suspect(self) -> bool:
        """Whether the table itself doubts the row."""
        return "SUSPECT" in self.text("note")


def read_runs(path: Path) -> tuple[RunRow, ...]:
    """Return the rows of a table of runs.

    Raises
    ------
    SpecError
        If the file cannot be read or has no header of the expected columns, or with every cell that is no number.
    """
    rows = read_rows(path, _COLUMNS, what="a table of runs")
    problems = [problem for line, row in rows for problem in _no_numbers(f"{path}:{line}:1", row)]
    if problems:
        raise SpecError(*problems)
    return tuple(RunRow(run_id=row["run_id"], values=row) for _, row in rows)


def _no_numbers(where: str, row: Row) -> Iterator[Problem]:
    """Yield a problem for each cell that should hold a number and does not."""
    for column in _COUNTS:
        text = row.get(column, "").strip()
        if text not in _BLANKS and not (text.isdecimal() and 1 <= float(text) <= MAX_COUNT):
            allowed = f"a whole number from 1 to {MAX_COUNT:,}, or nothing"
            yield Problem(where=where, path=column, message="no count", found=f'"{text[:20]}"', allowed=allowed)
    step = row.get("step_s", "").strip()
    if step and not 0 < _number(step) < math.inf:
        allowed = "seconds above 0, or nothing"
        yield Problem(where=where, path="step_s", message="no step time", found=f'"{step[:20]}"', allowed=allowed)


def _number(text: str) -> float:
    """Return a number, or none (NaN) where the text is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def software_date(text: str) -> float | None:
    """Return the year of a software version such as ``NeMo container 26.02``, None if there is none in it."""
    for name, date in MLPERF_ROUND_DATE.items():
        if name in text:
            return date
    for pattern in _DATE_PATTERNS:
        found = re.search(pattern, text)
        if found:
            month = int(found[2]) if found[2] else 1 + MONTHS // 2
            return 2000 + int(found[1]) + (month - 1) / MONTHS
    return None
