from __future__ import annotations

import json
import subprocess
import sys

import pytest

from simnet.cli import run_command

BAD = """\
name: bad
question: what?
topology: {from: hgx-h100, nodes: 16, scale_out: {link_bandwidth: 400}}
workload:
  model: llama-3.1-8b
  sequence_lenght: 8192
  batch: {global_batch_size: 128}
"""


@pytest.fixture
def bad(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(BAD)
    return tmp_path


def test_check_tells_what_each_good_file_is(capsys):
    assert run_command(["check", "topologies/hgx-h100.yaml", "scenarios/models/llama-3.1-8b.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "ok  topologies/hgx-h100.yaml  topology\nok  scenarios/models/llama-3.1-8b.yaml  model\n"
    assert err == ""


def test_check_prints_one_line_for_each_fault_and_exits_2(bad, capsys):
    assert run_command(["check", "bad.yaml", "none.yaml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(";")[0] for line in err.splitlines()] == [
        "error: bad.yaml:3:67 topology.scale_out.link_bandwidth: unit missing, a bandwidth needs one",
        "error: bad.yaml:6:3 workload.sequence_lenght: unknown key",
        "error: none.yaml: cannot be read: no such file or directory",
    ]


def test_check_refuses_a_job_that_its_machine_cannot_hold_and_names_the_cases(bad, capsys):
    run_command(["new", "quickstart", "-o", "mine.yaml"])
    text = (bad / "mine.yaml").read_text()
    # 128 GPUs of work; the one fabric has as many after the edit, the modular one has its own 64.
    (bad / "mine.yaml").write_text(text.replace("nodes: 8}", "nodes: 16}").replace("dp: 4", "dp: 8"))
    capsys.readouterr()
    for verb in ("check", "run"):
        assert run_command([verb, "mine.yaml"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "128 GPUs of work on 64 GPUs (case modular taper=1 and 2 more)" in err


def test_check_writes_nothing(bad):
    before = sorted(bad.rglob("*"))
    run_command(["check", "bad.yaml"])
    assert sorted(bad.rglob("*")) == before


def test_check_of_good_and_bad_files_tells_both(bad, capsys):
    (bad / "model.yaml").write_text("layers: 1\n")
    assert run_command(["check", "bad.yaml", "model.yaml"]) == 2
    assert "model.yaml:1:1 hidden: key missing" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["x: 1\n", "[1]\n"])
def test_check_of_a_file_of_no_kind_lists_the_kinds(bad, capsys, text):
    (bad / "x.yaml").write_text(text)
    assert run_command(["check", "x.yaml"]) == 2
    assert "the keys are those of no kind of file" in capsys.readouterr().err


def test_list_names_the_shipped_files_with_their_titles(capsys):
    assert run_command(["list"]) == 0
    assert "Llama 3.1 405B" in capsys.readouterr().out
    assert run_command(["list", "--json"]) == 0
    shipped = json.loads(capsys.readouterr().out)
    assert shipped["model"]["llama-3.1-405b"] == "Llama 3.1 405B"
    assert "gb200-nvl72" in shipped["topology"]


def test_new_copies_a_shipped_file_and_never_overwrites(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", "gb200-nvl72"]) == 0
    assert capsys.readouterr().out == "gb200-nvl72.yaml\n"
    assert run_command(["check", "gb200-nvl72.yaml"]) == 0
    assert run_command(["new", "gb200-nvl72"]) == 2
    assert "there already" in capsys.readouterr().err
    assert run_command(["new", "hgx-h100", "-o", "deep/mine.yaml"]) == 0
    assert (tmp_path / "deep" / "mine.yaml").is_file()
    assert run_command(["new", "quickstart"]) == 0
    assert "schema.json" not in (tmp_path / "quickstart.yaml").read_text()  # it would lie beside the shipped file only
    assert run_command(["new", "gb200-nvl27"]) == 2
    assert 'did you mean "gb200-nvl72"?' in capsys.readouterr().err


def test_schema_prints_json_and_refuses_an_unknown_kind(capsys):
    assert run_command(["schema", "topology"]) == 0
    assert "$defs" in json.loads(capsys.readouterr().out)
    assert run_command(["schema", "topolgy"]) == 2
    assert 'did you mean "topology"?' in capsys.readouterr().err


def test_a_mistyped_verb_gets_a_suggestion_and_exit_2(capsys):
    assert run_command(["chekc"]) == 2
    assert "Did you mean 'check'?" in capsys.readouterr().err


def test_a_bug_is_one_line_unless_debug(monkeypatch, capsys):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("simnet.cli.files.list_files", lambda **_: broken())
    assert run_command(["list"]) == 3
    assert capsys.readouterr().err == "error: bug in simnet: ZeroDivisionError: oh; --debug shows where\n"
    with pytest.raises(ZeroDivisionError):
        run_command(["list", "--debug"])


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from simnet.cli import run_command; assert run_command(['--help']) == 0; "
        "heavy = {'numpy', 'networkx', 'matplotlib', 'pydantic', 'simpy', 'ruamel', 'jinja2'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_module_runs_as_the_command_does():
    done = subprocess.run([sys.executable, "-m", "simnet", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0.1.0\n")


def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-m", "simnet", "schema", "scenario"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.read(1)
        writer.stdout.close()
        assert writer.stderr.read() == b""
