"""The command line is frozen: verbs and options change with a changelog line, and this list."""

from __future__ import annotations

import pytest
from typer.main import get_command

from simnet.cli import app, run_command

VERBS = {
    "calibrate": {"--runs", "--cross-validate", "--json"},
    "check": {"files"},
    "collective": {
        "topology",
        "--op",
        "--ranks",
        "--split",
        "--sizes",
        "--algorithm",
        "--launch",
        "--parts",
        "--buffers",
        "--routing",
        "--set",
        "--json",
        "--plot",
        "--measured",
    },
    "explain": {"topology", "--measured", "--op", "--ranks", "--set", "--json", "--plot"},
    "list": {"--json"},
    "new": {"name", "-o", "--out"},
    "run": {"scenario", "-o", "--out", "--set", "--fidelity", "--jobs", "--json"},
    "schema": {"kind"},
    "show": {"topology", "--set", "--json", "--plot"},
    "validate": {"--runs", "--collectives", "--flows", "--fidelity", "--json"},
}


def words(command):
    return {word for parameter in command.params for word in (parameter.opts or [parameter.name])} - {"--help"}


def test_the_verbs_and_their_options_are_these():
    root = get_command(app)
    assert {name: words(command) for name, command in root.commands.items()} == VERBS
    assert words(root) == {"--debug", "--version"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_says_what_it_does(verb, capsys):
    command = get_command(app).commands[verb]
    assert command.help
    assert all(parameter.help for parameter in command.params if parameter.name != "help")
    assert run_command([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: simnet {verb}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["check"],
        ["run"],
        ["show", "hgx-h100", "--nonsense"],
        ["run", "x", "--jobs", "many"],
        ["run", "x", "--jobs", "-1"],
    ],
)
def test_bad_use_exits_2_with_nothing_on_stdout(arguments, capsys):
    assert run_command(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err


def test_no_verb_s_line_is_cut_in_eighty_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command(["--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:")[2].splitlines()
    assert sum(line.split()[:1] == [verb] for line in lines for verb in VERBS) == len(VERBS)
    assert not any(line.endswith("...") for line in lines)
