"""The tables of a run as plain text cells, narrow enough for a terminal of 80 to 100 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simnet.analysis.result import Result
from simnet.report.tables import census_numbers

PERCENT = 100
COLUMNS = ("case", "GPUs", "step\ns", "tok/s\n/GPU", "MFU\n%", "exposed\ns", "minutes", "hottest\nlink")
"""Heads of two lines, unit below; "exposed" is communication that compute does not hide, with the bubble."""

PARTS = {
    "compute": "compute",
    "exposed_tp": "TP",
    "exposed_cp": "CP",
    "exposed_pp": "PP",
    "exposed_dp": "DP",
    "bubble": "bubble",
    "optimizer": "optim.",
}
"""Heads of the parts of a step [s]; communication counts where compute does not hide it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalTable:
    """Heads and cells of a table; ``is_number`` says which columns stand flush right."""

    columns: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


def terminal_table(results: Sequence[Result]) -> TerminalTable:
    """Return the case table; the column of minutes is left out where no case has a target."""
    rows = [_cells(result) for result in results]
    kept = [place for place, column in enumerate(COLUMNS) if _is_told(column, results)]
    return TerminalTable(
        columns=tuple(COLUMNS[place] for place in kept),
        is_number=tuple(COLUMNS[place] not in {COLUMNS[0], COLUMNS[-1]} for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in rows),
    )


def _is_told(column: str, results: Sequence[Result]) -> bool:
    """Return whether a case has something in the column; closed forms load no link."""
    if column == "minutes":
        return any(not math.isnan(result.minutes_to_target) for result in results)
    return column != COLUMNS[-1] or any(result.hottest_link.name for result in results)


def breakdown_table(results: Sequence[Result]) -> TerminalTable:
    """Return seconds of each part of the step, switches by tier, and cables between nodes and switches in all."""
    columns = ("case", *(f"{head}\ns" for head in PARTS.values()), "switches: leaf/\nspine/core+join", "cables")
    rows = tuple(
        (
            result.name,
            *(f"{result.breakdown_s[part]:.2f}" for part in PARTS),
            _switches(result),
            f"{sum(census_numbers(result, 'cables').values()):,.0f}",
        )
        for result in results
    )
    return TerminalTable(columns=columns, is_number=(False, *[True] * (len(columns) - 1)), rows=rows)


def legend(results: Sequence[Result]) -> str:
    """Return what the heads of both tables mean, in one sentence."""
    have_target = any(not math.isnan(result.minutes_to_target) for result in results)
    return (
        "exposed: communication that compute does not hide, and the pipeline's bubble; TP to DP: its parts by cause; "
        + ("minutes: to the target; " if have_target else "")
        + "hottest link: busiest class and its use, mean over the step"
    )


def _switches(result: Result) -> str:
    counts = census_numbers(result, "switches")
    tiers = "/".join(f"{counts.get(tier, 0):.0f}" for tier in ("leaf", "spine", "core"))
    return f"{tiers}+{counts['join']:.0f}" if counts.get("join") else tiers


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
