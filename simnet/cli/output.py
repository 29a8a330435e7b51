"""What a command says: results on stdout, all else on stderr, whatever becomes of the reader."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

import typer

from simnet.errors import Problem, SpecError


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text; once its reader has gone away (``simnet list | head``), it and all that follows is dropped.

    Raises
    ------
    SpecError
        If stdout takes nothing for another reason, say a full disk. A stderr that takes nothing is no fault.
    """
    try:
        typer.echo(text, err=err, nl=nl)
    except OSError as error:
        _drop(sys.stderr if err else sys.stdout)
        if not err and not isinstance(error, BrokenPipeError):
            raise SpecError(Problem(where="stdout", message="cannot be written", found=str(error.strerror))) from None


def make_folder(out: Path) -> None:
    """Make the folder that results go to.

    Raises
    ------
    SpecError
        If it cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(Problem(where=str(out), message="cannot be made a folder", found=str(error.strerror))) from None


def mend_streams() -> None:
    """Give this process the standard streams that it was started without, and let them take every character."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            _fill(number, name)
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fill(number: int, name: str) -> None:
    """Open nothing under the number of a closed stream, or the next file opened would take its place."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
    os.set_inheritable(number, True)
    setattr(sys, name, open(number, "w" if number else "r", closefd=False, encoding="utf-8"))  # noqa: SIM115 (for good)


def _drop(stream: TextIO) -> None:
    """Lead a stream to nowhere, with what it still holds."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
