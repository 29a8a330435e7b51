"""``simnet run`` on a question about collectives."""

from __future__ import annotations

import csv
import json

import pytest

from simnet.cli import run_command
from simnet.library import is_about_collectives

QUESTION = """
name: small
question: How quick is it?
topology: {from: hgx-h100, nodes: 2}
collective: {op: all_reduce, sizes: "1GiB"}
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(text, *words):
        (tmp_path / "small.yaml").write_text(text, encoding="utf-8")
        return run_command(["run", "small.yaml", *words])

    return run


def test_every_combination_is_a_case_and_the_answer_names_the_quickest(ask, capsys, tmp_path):
    text = QUESTION + "vary: {topology.nodes: [2, 4], collective.algorithm: [ring, nvls_tree]}\n"
    assert ask(text, "-o", "out", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [case["name"] for case in found["cases"]] == [
        f"nodes={nodes} algorithm={algorithm}" for nodes in (2, 4) for algorithm in ("ring", "nvls_tree")
    ]
    assert [case["num_ranks"] for case in found["cases"]] == [16, 16, 32, 32]
    times = {case["name"]: case["rows"][0]["time_s"] for case in found["cases"]}
    best = min(("ring", "nvls_tree"), key=lambda name: times[f"nodes=4 algorithm={name}"])
    assert found["answer"][0].startswith(f"all_reduce of 1 GiB on 32 ranks: {best}")
    with (tmp_path / "out" / "results.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["time_s"]) for row in rows] == pytest.approx(list(times.values()))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "How quick is it?" in page
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_variants_are_compared_with_one_another_and_only_the_most_ranks_are_called_unvalidated(ask, capsys):
    text = QUESTION.replace("nodes: 2", "nodes: 4") + (
        "variants:\n"
        "  plain: {vary: {topology.nodes: [17, 20], collective.algorithm: [ring, tree]}}\n"
        "  slow: {topology: {scale_out: {link_bandwidth: 200 Gb/s}}, vary: {topology.nodes: [17, 20]}}\n"
    )
    assert ask(text, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    times = {case["name"]: case["rows"][0]["time_s"] for case in found["cases"]}
    best = min(("ring", "tree"), key=lambda name: times[f"plain nodes=20 algorithm={name}"])
    ratio = times["slow nodes=20"] / times[f"plain nodes=20 algorithm={best}"]
    (answer,) = found["answer"]
    assert answer.startswith(f"all_reduce of 1 GiB on 160 ranks: {best} (plain) with ")
    assert f", {ratio:.2f} times as fast as " in answer
    assert " (slow); on 136 ranks" in answer
    assert ask(text) == 0
    out = capsys.readouterr().out
    assert ("136 ranks lie outside" in out, "160 ranks lie outside" in out) == (False, True)


def test_the_table_names_an_algorithm_once(ask, capsys):
    assert ask(QUESTION + "vary: {topology.nodes: [2, 4], collective.algorithm: [ring, tree]}\n") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:6]]
    assert [row[0] for row in rows] == ["nodes=2", "nodes=2", "nodes=4", "nodes=4"]
    assert [row[-2] for row in rows] == ["ring/simple", "tree/simple"] * 2


def test_a_case_that_cannot_run_leaves_the_others_alone(ask, capsys):
    text = QUESTION + "vary: {collective.algorithm: [ring, nvls]}\n"
    assert ask(text) == 2
    out, err = capsys.readouterr()
    assert "algorithm=ring" in out
    assert err.count("error: algorithm=nvls: nvls cannot run all_reduce here") == 1


def test_where_no_case_can_run_nothing_is_written(ask, capsys, tmp_path):
    assert ask(QUESTION.replace("all_reduce", "all_sum"), "-o", "out") == 2
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out").exists()


def test_an_override_ends_the_varying_of_its_path(ask, capsys):
    text = QUESTION + "vary: {topology.nodes: [2, 4]}\n"
    assert ask(text, "--json", "--set", "topology.nodes=3") == 0
    assert [case["num_ranks"] for case in json.loads(capsys.readouterr().out)["cases"]] == [24]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (QUESTION.replace("sizes", "size"), 'did you mean "sizes"?'),
        (QUESTION.replace("2}", "2, racks: 3}"), "small.yaml:4:"),
        (QUESTION + "measured: none.csv\n", "no such file"),
        (QUESTION + "measured: none.csv\nvary: {topology.nodes: [2, 4]}\n", "explained on one machine"),
        (QUESTION + "vary: {collective.algorithmus: [ring]}\n", "collective.algorithm"),
    ],
)
def test_faults_of_the_file_are_told_with_their_place(ask, capsys, text, message):
    assert ask(text) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("sick-acs-iommu", "acs_iommu"),
        ("sick-gpudirect-lost", "no_gpudirect"),
        ("sick-gpudirect-never-loaded", "no_gpudirect"),
        ("sick-rails-halved", "acs_redirect"),
    ],
)
def test_a_sick_machine_s_true_cause_comes_first(name, cause, capsys):
    # Confirmed in the threads that the measured tables come from.
    assert run_command(["run", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["candidates"][0]["name"] == cause


def test_a_scenario_is_no_question_about_collectives(ask, tmp_path):
    ask(QUESTION)
    assert is_about_collectives("small.yaml")
    assert is_about_collectives("collective-scaling")
    assert not is_about_collectives("quickstart")
    assert not is_about_collectives("no-such-file")
