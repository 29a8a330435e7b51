"""Tables of docs/model/collectives.md: ``python -m simnet.validation.collectives_markdown`` writes them anew.

Each stands between ``<!-- table NAME -->`` and ``<!-- end -->``; a test compares them with the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from simnet.validation.collectives import FROM_1_MIB, ComparedCollective, group_errors, validate_collectives
from simnet.validation.group_error import GroupError
from simnet.validation.marked_tables import error_table, fill, percent, table

DOCUMENT = "docs/model/collectives.md"
LEAST_ROWS = 5
"""Rows from which a series is listed."""
_PERCENT = 100


def with_tables(text: str) -> str:
    """Return *text* with every marked table as the code gives it."""
    return fill(text, TABLES)


def _groups() -> str:
    kept = [one for one in _errors() if one.by in ("size", "op", "gpu_model") or (one.by, one.key) == ("health", "yes")]
    return error_table(("all healthy" if one.by == "health" else one.key, one) for one in kept)


def _series() -> str:
    large = {one.key: one for one in _errors() if one.by == FROM_1_MIB}
    lines = [
        f"| {one.key} | {one.rows} | {percent(one.median_ape)} | {percent(one.p90_ape)} | {_PERCENT * one.bias:+.1f} "
        f"| {_large(large.get(one.key))} |"
        for one in _errors()
        if one.by == "id" and one.rows >= LEAST_ROWS
    ]
    return table("series | rows | median % | 90th percentile % | bias % | median % from 1 MiB", lines)


def _not_predicted() -> str:
    reasons: dict[str, list[str]] = {}
    for row in _compared():
        if row.reason and row.measured.health == "yes":
            reasons.setdefault(row.reason, []).append(row.measured.id)
    lines = [f"| {reason} | {len(ids)} | {', '.join(dict.fromkeys(ids))} |" for reason, ids in sorted(reasons.items())]
    return table("reason | rows | series", lines)


TABLES: Mapping[str, Callable[[], str]] = {"groups": _groups, "series": _series, "not_predicted": _not_predicted}


@cache
def _compared() -> tuple[ComparedCollective, ...]:
    return validate_collectives()


@cache
def _errors() -> tuple[GroupError, ...]:
    return group_errors(_compared())


def _large(one: GroupError | None) -> str:
    return percent(one.median_ape) if one else ""


if __name__ == "__main__":
    path = Path(DOCUMENT)
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
