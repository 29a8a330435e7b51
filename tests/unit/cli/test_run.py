from __future__ import annotations

import csv
import json

import pytest

from simnet.cli import run_command

SCENARIO = """\
name: quick
question: Is one node enough?
topology: {from: hgx-h100, nodes: 1}
workload:
  model: llama-3.1-8b
  sequence_length: 4096
  parallelism: {tp: 2}
  batch: {global_batch_size: 8}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick.yaml").write_text(SCENARIO)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("sequence_length", "sequence_lenght", 'did you mean "sequence_length"?'),
        ("nodes: 1}", "nodes: 1, scale_out: {link_bandwidth: 400}}", "unit missing"),
        ("tp: 2", "tp: 16", "16"),
        ("llama-3.1-8b", "llama-3.1-8", 'did you mean "llama-3.1-8b"?'),
    ],
)
def test_bad_input_is_one_clear_line_exit_2_and_nothing_written(folder, capsys, old, new, told):
    (folder / "quick.yaml").write_text(SCENARIO.replace(old, new))
    before = sorted(folder.rglob("*"))
    assert run_command(["run", "quick.yaml", "-o", "results"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert told in line
    assert sorted(folder.rglob("*")) == before


def test_what_does_not_fit_exits_1_and_writes_nothing(folder, capsys):
    before = sorted(folder.rglob("*"))
    assert run_command(["run", "quick.yaml", "-o", "results", "--set", "workload.model=llama-3.1-405b"]) == 1
    assert "GB" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_run_prints_a_table_and_writes_data_figures_and_a_page(folder, capsys):
    assert run_command(["run", "quick.yaml", "-o", "results"]) == 0
    out, err = capsys.readouterr()
    assert "tokens/s/GPU on 8 H100-SXM" in out.replace("\n", " ")
    assert out.endswith("report: results/report.html\n")
    assert err == ""
    data = json.loads((folder / "results" / "results.json").read_text())
    (case,) = data["cases"]
    assert case["step_time_s"] == pytest.approx(sum(case["breakdown_s"].values()))
    (row,) = csv.DictReader((folder / "results" / "results.csv").read_text().splitlines())
    assert float(row["step_time_s"]) == case["step_time_s"]
    (kept,) = (folder / "results" / "cases").iterdir()
    assert {path.name for path in kept.iterdir()} == {"result.json", "trace.json"}
    assert "<svg" in (folder / "results" / "report.html").read_text()


def test_json_goes_to_stdout_and_the_same_input_gives_the_same_bytes(folder, capsys):
    printed = []
    for _ in range(2):
        assert run_command(["run", "quick.yaml", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["cases"][0]["num_gpus"] == 8
    assert sorted(path.name for path in folder.iterdir()) == ["quick.yaml"]


def test_a_folder_that_cannot_be_made_is_bad_input(folder, capsys):
    (folder / "results").write_text("a file")
    assert run_command(["run", "quick.yaml", "-o", "results"]) == 2
    assert "cannot be made a folder" in capsys.readouterr().err


def test_a_case_that_fails_is_told_and_the_others_go_on(folder, capsys):
    (folder / "quick.yaml").write_text(SCENARIO + "vary: {workload.model: [llama-3.1-8b, llama-3.1-405b]}\n")
    assert run_command(["run", "quick.yaml", "-o", "results", "--jobs", "1"]) == 1
    out, err = capsys.readouterr()
    assert "model=llama-3.1-8b" in out
    lines = err.splitlines()
    assert lines[:2] == ["[1/2] model=llama-3.1-8b", "[2/2] model=llama-3.1-405b"]
    assert any(line.startswith("error: model=llama-3.1-405b: ") for line in lines)
    data = json.loads((folder / "results" / "results.json").read_text())
    assert [case["name"] for case in data["cases"]] == ["model=llama-3.1-8b"]
    assert [failure["name"] for failure in data["failures"]] == ["model=llama-3.1-405b"]


def test_a_second_run_reads_what_the_first_one_left(folder):
    def kept():
        return {path: path.stat().st_mtime_ns for path in (folder / "results" / "cases").rglob("*.json")}

    assert run_command(["run", "quick.yaml", "-o", "results"]) == 0
    first, written = (folder / "results" / "results.json").read_bytes(), kept()
    assert run_command(["run", "quick.yaml", "-o", "results"]) == 0
    assert (folder / "results" / "results.json").read_bytes() == first
    assert kept() == written
