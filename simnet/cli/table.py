"""Tables and text on stdout, as wide as the terminal, without blanks at the ends of lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import typer

WIDTH_ELSEWHERE = 100
"""Columns where the output is no terminal."""


def print_text(text: str) -> None:
    """Print text folded to the width."""
    _print(text)


def print_table(heads: Sequence[str], is_number: Sequence[bool], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns of numbers stand flush right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head, is_flush_right in zip(heads, is_number, strict=True):
        table.add_column(head, justify="right" if is_flush_right else "left")
    for row in rows:
        table.add_row(*row)
    _print(table)


def _print(content: object) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH_ELSEWHERE
    console = Console(width=width, highlight=False, markup=False, color_system=None)
    with console.capture() as captured:
        console.print(content)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())
