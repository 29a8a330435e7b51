"""Tables and text on stdout, as wide as the terminal, without blanks at the ends of lines."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from simnet.cli.output import say

WIDTH_ELSEWHERE = 100
"""Columns where the output is no terminal."""
LEAD_WIDTH = 16
"""To how little the first column may fold."""
GAP = 2
"""Blanks between columns."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[kMGTP]?i?B\b|[munp]?s\b|min\b|[kM]W\b|MUSD\b)")
"""The blank between a number and its unit, at which no line ends."""


def print_text(text: str) -> None:
    """Print text folded to the width; a number stays beside its unit."""
    for line in text.split("\n"):
        for part in _folded(line, _screen_width()):
            say(part)


def print_pairs(rows: Sequence[tuple[str, str]], *, indent: str = "") -> None:
    """Print labels with their texts beside them, folded in a terminal and whole for other programs."""
    lead = max((len(label) for label, _ in rows), default=0) + GAP
    width = _screen_width() - len(indent) - lead if sys.stdout.isatty() else 0
    for label, text in rows:
        first, *rest = _folded(text, width) if width > LEAD_WIDTH else [text]
        say(f"{indent}{label:<{lead}}{first}".rstrip())
        for part in rest:
            say(f"{indent}{'':<{lead}}{part}")


def print_table(heads: Sequence[str], is_number: Sequence[bool], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns of numbers stand flush right.

    A table too wide is printed in parts one below the other, each led by the first column: text may
    fold, a number is never cut.
    """
    lines = [heads, *rows]
    columns = list(zip(*lines, strict=True))
    widths = [_width(cells) for cells in columns]
    least = [
        width if flag else _longest_word(cells) for cells, width, flag in zip(columns, widths, is_number, strict=True)
    ]
    least[0] = min(LEAD_WIDTH, widths[0])
    for place, part in enumerate(_parts(least, _screen_width())):
        if place:
            print_text("")
        chosen = _chosen_widths([widths[column] for column in part], [least[column] for column in part])
        _print_part(
            [[line[column] for column in part] for line in lines], [is_number[column] for column in part], chosen
        )


def _print_part(lines: Sequence[Sequence[str]], is_number: Sequence[bool], widths: Sequence[int]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head, is_flush_right, width in zip(lines[0], is_number, widths, strict=True):
        table.add_column(head, justify="right" if is_flush_right else "left", width=width, overflow="fold")
    for line in lines[1:]:
        table.add_row(*line)
    _print(table, max(_screen_width(), sum(widths) + GAP * len(widths)))


def _chosen_widths(widths: Sequence[int], least: Sequence[int]) -> list[int]:
    """Return the width of each column: the first folds before another one does, then all fold about alike."""
    room = _screen_width() - GAP * (len(widths) - 1)
    lead = min(widths[0], room - sum(widths[1:]))
    if lead >= least[0]:
        return [lead, *widths[1:]]
    chosen = list(least)
    for _ in range(room - sum(least)):
        lacking = [full - now for full, now in zip(widths, chosen, strict=True)]
        chosen[lacking.index(max(lacking))] += 1
    return chosen


def _parts(least: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield columns that fit beside the first, and the first before them; at least one at a time."""
    part, taken = [0], least[0]
    for column, width in enumerate(least[1:], start=1):
        if len(part) > 1 and taken + GAP + width > room:
            yield part
            part, taken = [0], least[0]
        part.append(column)
        taken += GAP + width
    yield part


def _folded(line: str, width: int) -> list[str]:
    """Return the lines that a line folds into; textwrap breaks at ASCII blanks only."""
    bound = _BEFORE_UNIT.sub(_NO_BREAK, line)
    parts = textwrap.wrap(bound, width, break_long_words=False, break_on_hyphens=False)
    return [part.replace(_NO_BREAK, " ") for part in parts] or [""]


def _width(cells: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def _longest_word(cells: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for cell in cells for word in cell.split()), default=0)


def _screen_width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH_ELSEWHERE


def _print(content: object, width: int) -> None:
    from rich.console import Console

    console = Console(width=width, highlight=False, markup=False, color_system=None)
    with console.capture() as captured:
        console.print(content)
    for line in captured.get().splitlines():
        say(line.rstrip())
