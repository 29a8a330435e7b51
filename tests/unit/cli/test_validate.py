from __future__ import annotations

import csv
import json

import pytest

from simnet import library
from simnet.cli import run_command

STAR = "scenarios/validation/flows/star8_ring_allreduce_1GB.json"


def report(capsys, *words):
    assert run_command(["validate", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def head(path, tmp_path, num_rows):
    lines = library.shipped_file(path).read_text(encoding="utf-8").splitlines(keepends=True)
    short = tmp_path / "short.csv"
    short.write_text("".join(lines[: num_rows + 1]), encoding="utf-8")
    return str(short)


def test_flow_cases_come_out_as_one_row_each_within_the_reference(capsys):
    found = report(capsys, "--flows", str(library.shipped_file(STAR)))
    assert [row["table"] for row in found["rows"]] == ["flows"] * len(found["rows"])
    assert all(row["error"] <= 1e-9 for row in found["rows"])
    assert found["groups"] == found["series"] == []


def test_runs_have_a_row_each_with_error_or_reason(capsys, tmp_path):
    found = report(capsys, "--runs", head("scenarios/validation/training_runs.csv", tmp_path, 12))
    assert len(found["rows"]) == 12
    for row in found["rows"]:
        assert row["unit"] == "s"
        assert (row["error"] is None) == bool(row["reason"])
        if row["error"] is not None:
            assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)


def test_runs_may_go_through_the_engine(capsys, tmp_path):
    path = tmp_path / "one.csv"
    with library.shipped_file("scenarios/validation/training_runs.csv").open(encoding="utf-8", newline="") as table:
        lines = csv.reader(table)
        kept = [line for line in lines if line[0] in ("run_id", "ml51-8b-b200-8-dell")]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(kept)
    rows = [report(capsys, "--runs", str(path), "--fidelity", how)["rows"][0] for how in ("screen", "simulate")]
    assert [row["method"] for row in rows] == ["closed form", "engine"]
    assert rows[1]["predicted"] == pytest.approx(rows[0]["predicted"], rel=0.02)


def test_collectives_carry_id_and_size(capsys, tmp_path):
    found = report(capsys, "--collectives", head("scenarios/validation/collectives_measured.csv", tmp_path, 8))
    assert len({(row["id"], row["size_bytes"]) for row in found["rows"]}) == 8
    assert {"by", "key", "rows", "mape", "median_ape", "p90_ape", "max_ape", "bias"} <= found["groups"][0].keys()


def test_people_get_tables(capsys, tmp_path):
    assert run_command(["validate", "--runs", head("scenarios/validation/training_runs.csv", tmp_path, 12)]) == 0
    out = capsys.readouterr().out
    assert "median %" in out
    assert out.splitlines()[-1].startswith("12 rows")


@pytest.mark.parametrize("words", [["--runs", "none.csv"], ["--flows", "."], ["--collectives", "README.md"]])
def test_what_is_no_table_is_bad_input(capsys, words):
    assert run_command(["validate", *words]) == 2
    assert capsys.readouterr().out == ""
