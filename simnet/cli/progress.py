"""How far a sweep has come, on stderr: a bar on a terminal, a line a case elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simnet.cli.output import say

Report = Callable[[int, int, str], None]


@contextmanager
def progress(num_cases: int) -> Iterator[Report]:
    """Yield what to call with the number of cases done, of all, and the name of the last."""
    if num_cases == 1:
        yield lambda _done, _total, _name: None
        return
    if not sys.stderr.isatty():
        yield lambda done, total, name: say(f"[{done}/{total}] {name}", err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=num_cases)
        yield lambda done, _total, name: bar.update(task, completed=done, description=name)
