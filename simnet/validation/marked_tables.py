"""Tables in documents that the code writes: each between ``<!-- table NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from simnet.validation.group_error import GroupError

_PERCENT = 100
_BLOCK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return *text* with every marked table as its function gives it."""
    return _BLOCK.sub(lambda found: f"{found[1]}{tables[found[2]]()}{found[3]}", text)


def table(head: str, lines: Iterable[str]) -> str:
    """Return a table whose head names its columns, set apart by ``|``."""
    return "\n".join([f"| {head} |", "|" + "---|" * len(head.split(" | ")), *lines]) + "\n"


def error_table(groups: Iterable[tuple[str, GroupError]]) -> str:
    """Return a line for each group of rows, under the name beside it."""
    lines = [
        f"| {name} | {one.rows} | {percent(one.median_ape)} | {percent(one.p90_ape)} | {percent(one.max_ape)} "
        f"| {_PERCENT * one.bias:+.1f} |"
        for name, one in groups
    ]
    return table("rows | number | median % | 90th percentile % | max % | bias %", lines)


def percent(value: float) -> str:
    """Return a fraction in per cent, to a tenth."""
    return f"{_PERCENT * value:.1f}"
