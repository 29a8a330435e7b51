"""Tables of docs/model/collectives.md: ``python -m simnet.validation.collectives_markdown`` writes them anew.

Each stands between ``<!-- table NAME -->`` and ``<!-- end -->``; a test compares them with the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from simnet.validation.collectives import FROM_1_MIB, ComparedCollective, GroupError, group_errors, validate_collectives

DOCUMENT = "docs/model/collectives.md"
LEAST_ROWS = 5
"""Rows from which a series is listed."""
_PERCENT = 100
_BLOCK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "rows | number | median % | 90th percentile % | max % | bias %"


def with_tables(text: str) -> str:
    """Return *text* with every marked table as the code gives it."""
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def _groups() -> str:
    kept = [one for one in _errors() if one.by in ("size", "op", "gpu_model") or (one.by, one.key) == ("health", "yes")]
    lines = [
        f"| {'all healthy' if one.by == 'health' else one.key} | {one.rows} | {_share(one.median_ape)} "
        f"| {_share(one.p90_ape)} | {_share(one.max_ape)} | {_PERCENT * one.bias:+.1f} |"
        for one in kept
    ]
    return _table(_HEAD, lines)


def _series() -> str:
    large = {one.key: one for one in _errors() if one.by == FROM_1_MIB}
    lines = [
        f"| {one.key} | {one.rows} | {_share(one.median_ape)} | {_share(one.p90_ape)} | {_PERCENT * one.bias:+.1f} "
        f"| {_large(large.get(one.key))} |"
        for one in _errors()
        if one.by == "id" and one.rows >= LEAST_ROWS
    ]
    return _table("series | rows | median % | 90th percentile % | bias % | median % from 1 MiB", lines)


def _not_predicted() -> str:
    reasons: dict[str, list[str]] = {}
    for row in _compared():
        if row.reason and row.measured.health == "yes":
            reasons.setdefault(row.reason, []).append(row.measured.id)
    lines = [f"| {reason} | {len(ids)} | {', '.join(dict.fromkeys(ids))} |" for reason, ids in sorted(reasons.items())]
    return _table("reason | rows | series", lines)


TABLES: Mapping[str, Callable[[], str]] = {"groups": _groups, "series": _series, "not_predicted": _not_predicted}


@cache
def _compared() -> tuple[ComparedCollective, ...]:
    return validate_collectives()


@cache
def _errors() -> tuple[GroupError, ...]:
    return group_errors(_compared())


def _large(one: GroupError | None) -> str:
    return _share(one.median_ape) if one else ""


def _table(head: str, lines: Iterable[str]) -> str:
    return "\n".join([f"| {head} |", "|" + "---|" * len(head.split(" | ")), *lines]) + "\n"


def _share(value: float) -> str:
    return f"{_PERCENT * value:.1f}"


if __name__ == "__main__":
    path = Path(DOCUMENT)
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
