"""A table as a file of comma-separated values: its rows with their lines, or what keeps it from being read."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from simnet.errors import Problem, SpecError

Row = dict[str, str]


def read_rows(path: Path, columns: Sequence[str], *, what: str) -> list[tuple[int, Row]]:
    """Return line number and values of every row; cells that a short row lacks are empty.

    Parameters
    ----------
    columns
        Columns that the table must have.
    what
        What the table is, for messages: ``a table of runs``.

    Raises
    ------
    SpecError
        If the file cannot be read, is not text, lacks columns, or has a row with more cells than columns.
    """
    reader = csv.DictReader(io.StringIO(_text(path, what), newline=""), restval="")
    try:
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise SpecError(Problem(where=f"{path}:1:1", message=f"not {what}", found=f"no {', '.join(missing)}"))
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise SpecError(Problem(where=f"{path}:{reader.line_num}:1", message=f"not {what}", found=str(error))) from None
    too_long = [line for line, row in rows if None in row]
    if too_long:
        message = "a row has more cells than there are columns"
        raise SpecError(*(Problem(where=f"{path}:{line}:1", message=message) for line in too_long))
    return rows


def _text(path: Path, what: str) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else "cannot be read"
        raise SpecError(Problem(where=str(path), message=f"cannot be read: {reason}")) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        found = f"byte 0x{raw[error.start]:02x}"
        raise SpecError(
            Problem(where=f"{path}:{line}:{column}", message=f"not {what}: not UTF-8 text", found=found)
        ) from None
