"""The text that nccl-tests prints, read tolerantly: launchers' prefixes, banners and old columns are understood."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from simnet.errors import Problem, SpecError

_US = 1e-6
_PREFIX = re.compile(r"^\s*(?:\[[^\]]*\](?:<std\w+>:?)?|\S+: (?=#|\s*\d))?\s*")
_PROGRAM = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|sendrecv)_perf\b")
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device", re.IGNORECASE)
_ROW = re.compile(r"^\d+\s+\d+\s+[a-z]\w*\s")
_GROUP = 4
"""Columns of one way of calling: time, algorithm bandwidth, bus bandwidth, errors."""
_LEAD = 3
"""Columns before those that differ between versions: size, count, type."""
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLog:
    """What one run of nccl-tests says."""

    op: str
    """Operation; empty if the text does not name the program."""
    ranks_of_hosts: tuple[int, ...]
    """Ranks on each host, in the order of ranks; empty if they are not listed."""
    rows: tuple[tuple[float, float], ...]
    """Size [bytes] and the smaller of out-of-place and in-place time [s] of each row."""


def read_log(path: Path) -> NcclLog:
    """Return what a log of nccl-tests holds.

    Raises
    ------
    SpecError
        If the file cannot be read or has no rows, or with every row that does not parse.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise SpecError(Problem(where=str(path), message="cannot be read", found=str(error.strerror))) from None
    op, ranks = "", dict[int, str]()
    rows: list[tuple[float, float]] = []
    problems: list[Problem] = []
    for number, raw in enumerate(lines, 1):
        line = _PREFIX.sub("", raw, count=1)
        if found := _PROGRAM.search(line):
            op = found[1]
        if rank := _RANK.match(line):
            ranks[int(rank[1])] = rank[2]
        elif _ROW.match(line):
            try:
                rows.append(_row(line.split()))
            except ValueError as error:
                problems.append(
                    Problem(where=f"{path}:{number}:1", message=f"not a row of nccl-tests: {error}",
                            found=" ".join(line.split())[:_SHOWN])
                )  # fmt: skip
    if problems:
        raise SpecError(*problems)
    if not rows:
        raise SpecError(
            Problem(where=str(path), message="no row of nccl-tests in this file",
                    allowed="lines that start with size, count and type, or a CSV table with the column size_bytes")
        )  # fmt: skip
    hosts = Counter(ranks[rank] for rank in sorted(ranks))
    return NcclLog(op=op, ranks_of_hosts=tuple(hosts.values()), rows=tuple(rows))


def _row(words: list[str]) -> tuple[float, float]:
    """Return size and time of a row; its last columns are one or two groups of time, two bandwidths and errors."""
    groups = 2 if len(words) >= _LEAD + 2 * _GROUP else 1
    if len(words) < _LEAD + _GROUP:
        raise ValueError(f"{len(words)} columns")
    times = [float(words[len(words) - _GROUP * (groups - index)]) for index in range(groups)]
    positive = [time * _US for time in times if time > 0]
    if not positive or float(words[0]) <= 0:
        raise ValueError("size and time are more than 0")
    return float(words[0]), min(positive)
