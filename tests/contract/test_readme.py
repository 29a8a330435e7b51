"""The README shows what its commands print."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from simnet.cli import run_command

README = Path(__file__).parents[2] / "README.md"


def blocks() -> list[tuple[str, list[str]]]:
    """Each command of the README that is shown with its output, and that output."""
    found: list[tuple[str, list[str]]] = []
    is_inside = False
    for line in README.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ simnet "):
            found.append((line.removeprefix("    $ simnet "), []))
            is_inside = True
        elif line and not line.startswith("    "):
            is_inside = False
        elif is_inside:
            found[-1][1].append(line[4:])
    return found


@pytest.mark.parametrize(("command", "shown"), blocks(), ids=[command for command, _ in blocks()])
def test_the_readme_shows_what_the_command_prints(command, shown, tmp_path, capsys):
    words = [str(tmp_path) if word == "results/" else word for word in shlex.split(command)]
    assert run_command(words) == 0
    printed = capsys.readouterr().out.replace(str(tmp_path), "results").rstrip().splitlines()
    assert printed == "\n".join(shown).rstrip().splitlines()


def test_the_readme_shows_both_main_commands():
    assert [command.split()[0] for command, _ in blocks()] == ["run", "collective"]
