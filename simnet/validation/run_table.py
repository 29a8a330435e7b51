"""The table of published runs as it is read: rows, and the date in a software's name."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simnet.errors import Problem, SpecError

MLPERF_ROUND_DATE: Mapping[str, float] = {
    "MLPerf v3.1": 2023.75,
    "MLPerf v4.1": 2024.75,
    "MLPerf v5.0": 2025.33,
    "MLPerf v5.1": 2025.75,
    "MLPerf v6.0": 2026.33,
}
"""Submission dates; the release that a log prints is often that of an older base image."""
MONTHS = 12
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
        If the file has no header of the expected columns.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        needed = {"run_id", "base_model_id", "gpu", "gpus", "global_batch", "precision"}
        missing = sorted(needed - set(reader.fieldnames or ()))
        if missing:
            raise SpecError(Problem(message="not a table of runs", where=str(path), found=f"no {', '.join(missing)}"))
        return tuple(RunRow(run_id=line["run_id"], values=line) for line in reader)


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
