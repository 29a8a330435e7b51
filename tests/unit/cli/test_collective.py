"""``simnet collective``: the table of nccl-tests."""

from __future__ import annotations

import json

import pytest

from simnet.cli import run_command
from simnet.library import shipped_file

GIB = 2**30


def table(capsys, *words):
    assert run_command(["collective", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_bandwidths_are_those_of_nccl_tests(capsys):
    # algbw is size over time, busbw 2 (n - 1) / n times it for an all-reduce: 1.75 on eight GPUs.
    found = table(capsys, "hgx-h100", "--set", "nodes=1", "--sizes", "1GiB", "--algorithm", "ring")
    (row,) = found["rows"]
    assert row["size_bytes"] == GIB
    assert row["algbw_bytes_per_s"] == pytest.approx(GIB / row["time_s"])
    assert row["busbw_bytes_per_s"] == pytest.approx(1.75 * GIB / row["time_s"])
    assert (found["num_ranks"], found["num_nodes"], found["nics_per_node"]) == (8, 1, 0)


def test_a_ring_puts_twice_all_but_one_rank_s_share_on_each_link(capsys):
    (row,) = table(capsys, "hgx-h100", "--set", "nodes=1", "--sizes", "1GiB", "--algorithm", "ring")["rows"]
    assert row["wire_bytes"] == pytest.approx(2 * 7 / 8 * GIB)
    assert row["hottest_utilisation"] == pytest.approx(2 * 7 / 8 * GIB / 450e9 / row["time_s"])


def test_two_nodes_beat_the_sum_of_their_nics_and_four_do_not(capsys):
    # NVIDIA/nccl-tests#309: about 470 and 366 GB/s of 400; case A04 allows 12 %.
    for nodes, busbw, beats in ((2, 470e9, True), (4, 366e9, False)):
        (row,) = table(capsys, "hgx-h100", "--set", f"nodes={nodes}", "--sizes", "8GiB")["rows"]
        assert row["busbw_bytes_per_s"] == pytest.approx(busbw, rel=0.12)
        assert (row["busbw_bytes_per_s"] > 8 * 50e9) is beats


def test_one_rank_a_node_speaks_through_its_own_nic(capsys):
    found = table(capsys, "hgx-h100", "--set", "nodes=4", "--ranks", "one-per-node", "--sizes", "1GiB")
    assert (found["num_ranks"], found["num_nodes"], found["nics_per_node"]) == (4, 4, 1)
    assert found["rows"][0]["busbw_bytes_per_s"] < 50e9


def test_ranks_beyond_the_measured_tables_are_told(capsys):
    inside = table(capsys, "hgx-h100", "--set", "nodes=16", "--sizes", "1GiB")["notes"]
    outside = table(capsys, "hgx-h100", "--set", "nodes=17", "--sizes", "1GiB")["notes"]
    assert not any("outside what has been validated" in note for note in inside)
    assert any("136 ranks lie outside" in note and "128 GPUs" in note for note in outside)


def test_a_harness_that_starts_slowly_costs_its_overhead_at_every_size(capsys):
    words = ("hgx-h100", "--set", "nodes=1", "--sizes", "8,1GiB")
    plain, torch = (table(capsys, *words, "--launch", launch)["rows"] for launch in ("multi_process", "torch"))
    assert [t["time_s"] - p["time_s"] for p, t in zip(plain, torch, strict=True)] == pytest.approx([22e-6, 22e-6])


def test_the_table_fits_eighty_columns_and_says_why(capsys, monkeypatch):
    monkeypatch.setattr("simnet.cli.table.WIDTH_ELSEWHERE", 80)
    assert run_command(["collective", "hgx-h100", "--set", "nodes=4", "--sizes", "8:16GiB:x8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "all_reduce, 32 ranks in 4 nodes of 8 NICs in use, hgx-h100"
    assert sum(line.startswith("size B") or line.lstrip().startswith("size B") for line in lines) == 1
    assert any("the tuner's quickest" in line for line in lines)


def test_an_uneven_all_to_all_says_how_uneven(capsys):
    # Zipf with exponent 1 over eight ranks: the first gets 1 / H(8) = 0.368 of everything, 2.94 times the mean.
    words = ("hgx-h100", "--set", "nodes=1", "--sizes", "1GiB", "--op", "all_to_all_v")
    even, uneven = (table(capsys, *words, "--parts", parts) for parts in ("equal", "zipf:1"))
    assert uneven["notes"][0].startswith("the busiest rank receives 2.94 times and sends 1.00 times the mean")
    assert uneven["rows"][0]["time_s"] / even["rows"][0]["time_s"] == pytest.approx(2.94, rel=0.03)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ranks", "5000"), "ranks are two or more different GPUs"),
        (("--ranks", "0-3,2"), "ranks are two or more different GPUs"),
        (("--ranks", "many"), "no list of GPUs"),
        (("--ranks", "9" * 30), "no list of GPUs"),
        (("--op", "allsum"), "no such operation"),
        (("--algorithm", "nvls"), "nvls cannot run all_reduce here"),
        (("--sizes", "1GiB:1MiB"), "no range of sizes"),
        (("--launch", "mpi"), "no such way of launching"),
        (("--routing", "hot-potato"), "no routing of that name"),
        (("--parts", "zipf:1"), "all_reduce has equal parts"),
        (("--buffers", "pinned"), "no such buffers"),
        (("--ranks", "8", "--algorithm", "symmetric"), "say --buffers symmetric"),
        (("--algorithm", "symmetric", "--buffers", "symmetric"), "the ranks lie in several NVLink domains"),
        (("--algorithm", "hierarchical_3"), "its outer level are subclusters"),
        (("--algorithm", "pat", "--op", "all_gather"), "one rank in each node"),
        (("--algorithm", "pat"), "all_reduce has no such algorithm"),
        (("--op", "alltoallv", "--parts", "1,2,3"), "parts are one for each rank"),
        (("--op", "alltoallv", "--algorithm", "ring"), "all_to_all_v has no such algorithm"),
    ],
)
def test_what_there_is_not_is_one_error(capsys, words, message):
    assert run_command(["collective", "hgx-h100", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error:") == 1
    assert message in err


def test_measured_points_lie_over_the_lines(capsys, tmp_path):
    table = tmp_path / "measured.csv"
    shipped = find_measured("nt309_h100_16_ar,")
    table.write_text("\n".join(shipped), encoding="utf-8")
    picture = tmp_path / "curves.svg"
    words = ["collective", "hgx-h100", "--set", "nodes=2", "--sizes", "8,1GiB", "--plot", str(picture)]
    assert run_command([*words, "--measured", str(table)]) == 0
    text = picture.read_text(encoding="utf-8")
    assert all(name in text for name in ("ring", "tree", "nvls_tree", "what runs", "measured"))
    assert run_command(["collective", "hgx-h100", "--measured", str(table)]) == 2
    assert "say where with --plot" in capsys.readouterr().err


def find_measured(start):
    lines = shipped_file("scenarios/validation/collectives_measured.csv").read_text(encoding="utf-8").splitlines()
    return [lines[0], *(line for line in lines if line.startswith(start))]


def test_reduction_in_the_network_runs_prints_its_trees_and_is_drawn(capsys, tmp_path):
    words = ("hgx-h100", "--set", "nodes=4", "--set", "scale_out.in_network_reduction=true", "--sizes", "1MiB,1GiB")
    found = table(capsys, *words, "--algorithm", "sharp")
    assert {row["algorithm"] for row in found["rows"]} == {"collnet"}
    assert any(note.startswith("8 reduction trees: 8 switches in 1 tier, rooted at leaf0") for note in found["notes"])
    picture = tmp_path / "sharp.svg"
    assert run_command(["collective", *words, "--plot", str(picture)]) == 0
    assert "collnet" in picture.read_text(encoding="utf-8")


def test_reduction_in_the_network_that_is_off_is_refused_with_the_key_that_switches_it_on(capsys):
    assert run_command(["collective", "hgx-h100", "--set", "nodes=4", "--algorithm", "collnet"]) == 2
    assert "scale_out.in_network_reduction" in capsys.readouterr().err


def test_communicators_run_together_as_nccl_tests_split_them(capsys):
    found = table(capsys, "hgx-h100", "--set", "nodes=4", "--sizes", "1GiB", "--split", "MOD 8")
    assert (found["num_communicators"], found["num_ranks"], found["nics_per_node"]) == (8, 4, 1)
    # NVIDIA/nccl-tests#290: 46 to 48 GB/s for each NIC of 400 Gb/s.
    assert 46e9 < found["rows"][0]["busbw_bytes_per_s"] < 48.1e9
    assert run_command(["collective", "hgx-h100", "--set", "nodes=4", "--sizes", "1GiB", "--split", "MOD 8"]) == 0
    assert "8 communicators of 4 ranks in 4 nodes of 1 NICs in use" in capsys.readouterr().out


def test_a_split_that_gives_unequal_communicators_is_refused(capsys):
    assert run_command(["collective", "hgx-h100", "--set", "nodes=4", "--split", "DIV 12"]) == 2
    assert "equally many ranks" in capsys.readouterr().err
