"""A run by closed forms says so everywhere, and claims nothing about cables."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from simnet import run
from simnet.analysis.question import SCREENED, answer_question
from simnet.analysis.result import Result
from simnet.cli.app import app
from simnet.errors import DoesNotFitError, SpecError
from simnet.report.tables import machine_table, provenance_table
from simnet.report.terminal import terminal_table
from simnet.runner.cases import sweep
from simnet.spec.load import load_scenario


@pytest.fixture(scope="module")
def screened():
    return run("quickstart", fidelity="screen")


def test_the_result_is_whole_and_names_what_answered(screened):
    assert {one.fidelity for one in screened} == {"screen"}
    for one in screened:
        assert one.link_classes == ()
        assert any("neither cables nor tapers" in line for line in one.assumptions)
        assert Result.from_json(one.to_json()).to_json() == one.to_json()


def test_no_link_is_told_where_none_was_loaded(screened):
    assert "hottest\nlink" not in terminal_table(screened).columns
    assert "screen" in [cell.text for cell in provenance_table(screened).rows[0]]
    assert "–" in [cell.text for cell in machine_table(screened).rows[0]]


def test_no_knee_is_told_by_what_sees_no_cables(screened):
    answer = answer_question(screened, knee_path="topology.join.taper", losses=(0.01,))
    assert answer.tapers == ()
    assert SCREENED in answer.details


def test_the_scenario_and_the_command_line_choose(tmp_path):
    scenario = load_scenario("quickstart").model_copy(update={"fidelity": "screen"})
    assert {one.fidelity for one in sweep(scenario)} == {"screen"}
    told = CliRunner().invoke(app, ["run", "quickstart", "--fidelity", "screen", "--json", "-o", str(tmp_path)])
    data = json.loads(told.stdout)
    assert (data["fidelity"], data["cases"][0]["fidelity"]) == ("screen", "screen")
    assert json.loads((tmp_path / "results.json").read_text())["fidelity"] == "screen"
    shown = CliRunner().invoke(app, ["run", "quickstart", "--fidelity", "screen", "--jobs", "1"])
    assert "fidelity: screen (closed forms" in shown.stdout


def test_another_word_is_refused(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nquestion: Why?\nfidelity: guess\ntopology: hgx-h100\nworkload: {}\n")
    with pytest.raises(SpecError, match=r"fidelity: .*guess"):
        load_scenario(path)


def test_what_does_not_fit_is_no_step_by_closed_forms_either():
    changes = {"workload.parallelism.pp": 1, "workload.parallelism.virtual_stages": 1, "workload.sharding": "none"}
    with pytest.raises(DoesNotFitError):
        run("quickstart", overrides=changes, fidelity="screen")
