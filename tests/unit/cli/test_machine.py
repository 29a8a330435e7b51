from __future__ import annotations

import json

import pytest

from simnet.cli import run_command


def test_show_prints_counts_as_json_and_for_people(capsys):
    assert run_command(["show", "dgx-h100-superpod", "--set", "scalable_units=4", "--json"]) == 0
    census = json.loads(capsys.readouterr().out)
    # DGX SuperPOD H100 reference architecture, four scalable units: 127 nodes, 32 leaves, 16 spines
    assert (census["nodes"], census["gpus"]) == (127, 1016)
    assert (census["switches"]["leaf"], census["switches"]["spine"], census["switches"]["core"]) == (32, 16, 0)
    assert run_command(["show", "dgx-h100-superpod", "--set", "scalable_units=4"]) == 0
    assert "1,016 H100-SXM" in capsys.readouterr().out


def test_show_says_what_a_taper_came_to(capsys):
    assert run_command(["show", "record-405b-modular", "--set", "join.taper=180"]) == 0
    out = capsys.readouterr().out
    assert "2,496 GB200 of 2,808 installed" in out
    assert "180:1" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show", "hgx-h10"], 'did you mean "hgx-h100"?'),
        (["show", "hgx-h100", "--set", "nods=4"], 'did you mean "nodes"?'),
        (["show", "hgx-h100", "--set", "scale_out.link_bandwidth=400"], "unit missing"),
        (["show", "hgx-h100", "--set", "nodes"], "not an assignment"),
        (["show", "hgx-h100", "--set", "racks=4"], "counted in nodes, not in racks"),
    ],
)
def test_show_refuses_bad_input_with_one_line_and_exit_2(capsys, words, told):
    assert run_command(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert told in err


def test_show_says_where_the_drawing_went_beside_the_counts(tmp_path, capsys):
    picture = tmp_path / "machine.svg"
    assert run_command(["show", "hgx-h100", "--set", "nodes=2", "--json", "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["nodes"] == 2
    assert err == f"figure: {picture}\n"


def test_show_draws_into_a_file_and_refuses_an_unknown_ending(tmp_path, capsys):
    picture = tmp_path / "machine.svg"
    assert run_command(["show", "record-405b-modular", "--plot", str(picture)]) == 0
    assert picture.read_text(encoding="utf-8").rstrip().endswith("</svg>")
    assert run_command(["show", "hgx-h100", "--plot", str(tmp_path / "machine.xyz")]) == 2
    assert "no kind of picture" in capsys.readouterr().err
