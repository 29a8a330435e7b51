from __future__ import annotations

import json
from pathlib import Path

import pytest

from simnet.cli import run_command

ACS = str(Path(__file__).parents[3] / "scenarios" / "measured" / "acs-iommu.csv")
LOG = "# all_reduce_perf\n" + "".join(
    f"#  Rank {rank:2} Group 0 Pid 1 on node-{rank // 8} device {rank % 8} [0x1b] NVIDIA H100\n" for rank in range(16)
)
ROWS = ((8388608, 407.5), (134217728, 2519.5), (1073741824, 22920.0), (8589934592, 179148.0))
"""NVIDIA/nccl-tests#290, two nodes of 8 H100, default algorithm replaced by rings."""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.log"
    rows = "".join(f"{size} {size // 4} float sum -1 {time} 1 1 0 {time} 1 1 0\n" for size, time in ROWS)
    path.write_text(LOG + rows, encoding="utf-8")
    return str(path)


def test_explain_says_the_cause_first_and_how_to_tell_it_from_others(tmp_path, capsys):
    picture = tmp_path / "table.svg"
    words = ["explain", "hgx-h100", "--set", "nodes=2", "--measured", ACS, "--plot", str(picture)]
    assert run_command(words) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("explained: ACS redirect with IOMMU")
    assert "cannot tell it from: every rail at 0.293 of its rate, one rail at 0.285" in " ".join(out[:2])
    assert any(line.startswith("is it one rail at 0.285 of its rate (slow_rail)?") for line in out)
    assert "ACS redirect with IOMMU" in picture.read_text(encoding="utf-8")


def test_explain_reads_a_log_and_prints_json(log, capsys):
    assert run_command(["explain", "hgx-h100", "--set", "nodes=2", "--measured", log, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"verdict", "reason", "causes", "limit", "candidates", "unseen", "rows"}
    assert [row["size_bytes"] for row in found["rows"]] == [size for size, _ in ROWS]
    assert set(found["rows"][0]) == {"op", "run", "size_bytes", "measured_s"}
    names = [one["name"] for one in found["candidates"]]
    assert "healthy" in names
    assert len(found["candidates"][0]["predicted_s"]) == len(ROWS)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--set", "nodes=1"], "more GPUs than the topology has"),
        (["--ranks", "0-99"], "different GPUs of the topology"),
        (["--ranks", "many"], "no list of GPUs"),
        (["--op", "all_reduction"], "no such operation"),
    ],
)
def test_explain_refuses_what_does_not_belong_together(log, capsys, more, told):
    assert run_command(["explain", "hgx-h100", "--set", "nodes=2", "--measured", log, *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert told in err


@pytest.mark.parametrize(
    ("topology", "told"), [("hgx-a100", "other GPUs"), ("hgx-b200", "other GPUs"), ("hgx-h100", "other NICs")]
)
def test_explain_refuses_the_table_of_another_machine(capsys, topology, told):
    slow = ["--set", "scale_out.link_bandwidth=200 Gb/s"]
    assert run_command(["explain", topology, "--measured", ACS, *slow]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("cut", "told"), [(len("# all_reduce_perf\n"), "--op"), (len(LOG), "--op")])
def test_explain_asks_for_what_a_log_does_not_say(tmp_path, log, capsys, cut, told):
    path = tmp_path / "short.log"
    path.write_text(Path(log).read_text(encoding="utf-8")[cut:], encoding="utf-8")
    assert run_command(["explain", "hgx-h100", "--measured", str(path)]) == 2
    assert told in capsys.readouterr().err
    if cut == len(LOG):
        assert run_command(["explain", "hgx-h100", "--measured", str(path), "--op", "all_reduce"]) == 2
        assert "--ranks" in capsys.readouterr().err


def test_one_point_that_several_faults_fit_is_not_called_unexplained(capsys):
    one = str(Path(ACS).with_name("gpudirect-lost-h100.csv"))
    assert run_command(["explain", "hgx-h100", "--set", "nodes=2", "--measured", one]) == 0
    out = capsys.readouterr().out
    assert out.startswith("not decided: too few points to tell faults apart\none point cannot tell")
    assert run_command(["explain", "hgx-h100", "--set", "nodes=2", "--measured", one, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "not explained by topology"


def test_explain_names_the_line_of_a_row_that_does_not_parse(tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text(Path(ACS).read_text(encoding="utf-8").replace(",9299,", ",slow,"), encoding="utf-8")
    assert run_command(["explain", "hgx-h100", "--measured", str(path)]) == 2
    assert f"{path}:2:1" in capsys.readouterr().err
