"""The shipped table of measured collectives against the shipped constants."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from simnet.errors import SpecError
from simnet.validation.collective_rows import read_measured
from simnet.validation.collectives import FROM_1_MIB, group_errors, size_class, validate_collectives
from simnet.validation.collectives_markdown import DOCUMENT, with_tables

ROOT = Path(__file__).parents[3]


@functools.cache
def compared():
    return validate_collectives()


def healthy(least_bytes=0.0):
    return [
        abs(row.error)
        for row in compared()
        if row.measured.health == "yes" and not row.reason and row.measured.size_bytes >= least_bytes
    ]


def test_healthy_rows_are_within_ten_per_cent_and_large_ones_within_five():
    assert np.median(healthy()) <= 0.10
    assert np.median(healthy(2.0**28)) <= 0.05


def test_series_of_five_rows_are_within_twenty_per_cent_from_a_mebibyte_up():
    groups = {(group.by, group.key): group for group in group_errors(compared())}
    series = [key for (by, key), group in groups.items() if by == "id" and group.rows >= 5]
    assert len(series) > 35
    large = [groups[FROM_1_MIB, key] for key in series if (FROM_1_MIB, key) in groups]
    assert len(large) > 35
    assert max(group.median_ape for group in large) <= 0.20


def test_healthy_rows_have_a_prediction_unless_their_system_is_not_stated():
    missing = [row for row in compared() if row.measured.health == "yes" and row.reason]
    assert all(row.error is None for row in missing)
    assert {row.reason for row in missing} == {
        "no GPU part for a GPU that is not named",
        "several nodes, but the way from GPU to NIC is not stated",
        "size or time is not stated",
    }


def test_a_table_with_reduction_in_the_network_is_predicted_with_nccls_choice_by_size():
    """coreweave/nccl-tests, 32 A100 on four HDR NICs a node: trees below, reduction trees from 128 KiB on."""
    rows = [row for row in compared() if row.measured.id == "cw_a100_32_ar_sharp"]
    assert {row.algorithm for row in rows} == {"tree/ll", "collnet_chain/simple"}
    errors = np.abs([row.error for row in rows])
    assert np.median(errors) < 0.03
    assert errors.max() < 0.22


def test_the_tables_of_the_document_are_fresh():
    text = (ROOT / DOCUMENT).read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: python -m simnet.validation.collectives_markdown"


def test_a_transport_that_keeps_no_order_runs_no_protocol_that_needs_it():
    # aws-ofi-nccl, issue 715: on p4d the plugin rules LL128 out; plain TCP keeps no order at all, its offload does.
    ran = {row.measured.id: set() for row in compared()}
    for row in compared():
        ran[row.measured.id].add(row.algorithm.partition("/")[2])
    assert ran["aws_p4de_16_ar"] == {"ll", "simple"}
    assert ran["gke_a3high_16_ag"] == {"simple"}
    assert "ll128" in ran["gke_a3mega_16_ag"]


def test_groups_count_each_healthy_row_once_for_each_key():
    groups = group_errors(compared())
    total = next(group.rows for group in groups if (group.by, group.key) == ("health", "yes"))
    for by in ("size", "op", "gpu_model", "id"):
        assert sum(group.rows for group in groups if group.by == by) == total


def test_size_classes():
    assert [size_class(size) for size in (8, 2.0**16, 2.0**20, 2.0**28)] == [
        "below 64 KiB",
        "64 KiB to 1 MiB",
        "1 to 256 MiB",
        "from 256 MiB",
    ]


def test_a_table_without_its_columns_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,op,size_bytes\nx,all_reduce,8\n", encoding="utf-8")
    with pytest.raises(SpecError, match="gpu_model"):
        read_measured(path)


def test_a_row_that_does_not_parse_is_named(tmp_path):
    path = tmp_path / "table.csv"
    header = "id,op,gpu_model,gpus,gpus_per_node,nvlink_domain,fabric,size_bytes,harness\n"
    path.write_text(header + "x,all_reduce,H100,many,8,8,none,8,torch\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"table\.csv:2"):
        read_measured(path)
