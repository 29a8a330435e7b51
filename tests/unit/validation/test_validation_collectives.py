"""The shipped table of measured collectives against the shipped constants."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from simnet.errors import SpecError
from simnet.validation.collective_rows import read_measured
from simnet.validation.collectives import group_errors, size_class, validate_collectives


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


def test_nearly_all_healthy_rows_have_a_prediction():
    missing = [row for row in compared() if row.measured.health == "yes" and row.reason]
    assert len(missing) < 50
    assert all(row.error is None for row in missing)


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
