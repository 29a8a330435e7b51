from __future__ import annotations

import csv
import json

import pytest

from simnet import library
from simnet.cli import run_command


@pytest.fixture
def few_rows(tmp_path):
    """The MLPerf entries of the shipped table, quick to fit."""
    path = tmp_path / "few.csv"
    with library.shipped_file("scenarios/validation/training_runs.csv").open(encoding="utf-8", newline="") as table:
        kept = [line for line in csv.reader(table) if line[0] == "run_id" or line[0].startswith("ml51-8b-b200-8")]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(kept)
    return str(path)


def test_constants_have_a_line_each_and_errors_a_table(few_rows, capsys):
    assert run_command(["calibrate", "--runs", few_rows]) == 0
    out = capsys.readouterr().out
    assert "k_half" in out
    assert "median %" in out


def test_machines_get_constants_and_rows(few_rows, capsys):
    assert run_command(["calibrate", "--runs", few_rows, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"constants", "correlations", "rows", "left_out"}
    assert all(row["cross_validated"] is None for row in found["rows"])
    assert {"name", "shipped", "fitted", "spread", "prior", "prior_spread"} == set(found["constants"][0])


def test_a_table_without_a_row_to_fit_is_bad_input(tmp_path, capsys):
    path = tmp_path / "none.csv"
    path.write_text("run_id,base_model_id,gpu,gpus,global_batch,precision\n", encoding="utf-8")
    assert run_command(["calibrate", "--runs", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no row" in err
