"""Verbs about files: check, list, new, schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from simnet import library
from simnet.cli.output import say
from simnet.cli.table import print_pairs
from simnet.errors import Problem, SimnetError, SpecError, did_you_mean

_SHIPPED = ("scenario", "collective", "topology", "model")


def check_files(files: Sequence[Path]) -> None:
    """Print one line for each good file.

    Raises
    ------
    SpecError
        With all problems of all files.
    """
    from simnet.spec.check import check_file

    problems: list[Problem] = []
    for path in files:
        try:
            words = check_file(path)
            _check_jobs(path)
            say(f"ok  {path}  {words}")
        except SimnetError as error:
            problems += error.problems
    if problems:
        raise SpecError(*problems)


def _check_jobs(path: Path) -> None:
    """Raise if *path* is a scenario whose jobs do not divide over their machines or fit into no memory."""
    from simnet.runner import check_cases
    from simnet.spec.check import is_scenario
    from simnet.spec.load import expand, load_scenario

    if is_scenario(path):
        check_cases(expand(load_scenario(path.absolute())))


def list_files(*, as_json: bool) -> None:
    """Print the names of the shipped files by kind, with the question or title of each."""
    shipped = {kind: {path.stem: _title(path) for path in library.list_shipped(kind)} for kind in _SHIPPED}
    if as_json:
        say(json.dumps(shipped, indent=1))
        return
    for kind, titles in shipped.items():
        say(f"{library.FOLDERS[kind]}/")
        print_pairs(list(titles.items()), indent="  ")


def copy_shipped(name: str, out: Path | None) -> None:
    """Copy the shipped file *name* to *out*, which must not exist yet; print where it went.

    Raises
    ------
    SpecError
        If there is no such file, or *out* exists.
    """
    source = _shipped(name)
    target = out if out is not None else Path(source.name)
    if target.is_dir():
        target /= source.name
    if target.exists():
        raise SpecError(
            Problem(where=str(target), message="the file is there already", hint="give another one with -o")
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_without_pointer(source.read_text(encoding="utf-8")), encoding="utf-8")
    except OSError as error:
        raise SpecError(Problem(where=str(target), message="cannot be written", found=str(error.strerror))) from None
    say(str(target))


def _without_pointer(text: str) -> str:
    """Return a file without the line that leads editors to the schema beside it, which is not copied."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# yaml-language-server"))


def print_schema(kind: str) -> None:
    """Print the JSON schema of *kind*.

    Raises
    ------
    SpecError
        If there is no such kind.
    """
    from simnet.spec.schema import KINDS, json_schema

    if kind not in KINDS:
        problem = Problem(
            message="no such kind", found=f'"{kind}"', allowed=", ".join(KINDS), hint=did_you_mean(kind, KINDS)
        )
        raise SpecError(problem)
    say(json_schema(kind), nl=False)


def _shipped(name: str) -> Path:
    stem = name.removesuffix(".yaml")
    known = {path.stem: path for kind in reversed(_SHIPPED) for path in library.list_shipped(kind)}
    if stem not in known:
        hint = did_you_mean(stem, known)
        raise SpecError(
            Problem(message="no shipped file of that name", found=f'"{name}"', hint=hint or "see simnet list")
        )
    return known[stem]


def _title(path: Path) -> str:
    """Return what the file says that it is: its question, title or first comment, read without parsing the rest."""
    title = ""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key in {"question", "title", "name"} and value.strip() not in {"", path.stem, ">", "|", ">-"}:
                return value.strip().strip("\"'")
            if not title and line.startswith("# ") and "yaml-language-server" not in line:
                title = line.removeprefix("# ").strip()
    return title
