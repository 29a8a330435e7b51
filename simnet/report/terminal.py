"""The case table as plain text cells, narrow enough for a terminal of 80 to 100 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simnet.analysis.result import Result

PERCENT = 100
COLUMNS = ("case", "GPUs", "step\ns", "tok/s\n/GPU", "MFU\n%", "exposed\ns", "minutes", "hottest\nlink")
"""Heads of two lines, unit below; "exposed" is communication that compute does not hide, with the bubble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalTable:
    """Heads and cells of a table; ``is_number`` says which columns stand flush right."""

    columns: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


def terminal_table(results: Sequence[Result]) -> TerminalTable:
    """Return the case table; the column of minutes is left out where no case has a target."""
    rows = [_cells(result) for result in results]
    kept = [
        place
        for place, column in enumerate(COLUMNS)
        if column != "minutes" or any(not math.isnan(result.minutes_to_target) for result in results)
    ]
    return TerminalTable(
        columns=tuple(COLUMNS[place] for place in kept),
        is_number=tuple(COLUMNS[place] not in {COLUMNS[0], COLUMNS[-1]} for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in rows),
    )


def _cells(result: Result) -> tuple[str, ...]:
    minutes = result.minutes_to_target
    exposed_s = sum(
        seconds for part, seconds in result.breakdown_s.items() if part.startswith("exposed") or part == "bubble"
    )
    return (
        result.name,
        f"{result.num_gpus:,}",
        f"{result.step_time_s:.3f}",
        f"{result.tokens_per_s_per_gpu:,.0f}",
        f"{PERCENT * result.mfu:.1f}",
        f"{exposed_s:.3f}",
        "" if math.isnan(minutes) else f"{minutes:.1f}",
        f"{result.hottest_link.link_class.replace('_', '-')} {PERCENT * result.hottest_link.mean_utilisation:.0f} %",
    )
