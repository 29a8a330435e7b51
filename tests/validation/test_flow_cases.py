"""Finish times of SimGrid's fluid model, reproduced flow by flow (the files name version and settings)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simnet import library
from simnet.engine.fluid import run_flows
from simnet.validation.flows import read_flow_cases, validate_flows

FILES = sorted(library.shipped_file("scenarios/validation/flows").glob("*.json"))
NUM_CASES = 45
TOLERANCE = 1e-9


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_finish_time_is_that_of_the_reference(path: Path):
    for case in read_flow_cases(path):
        found = run_flows(case.flows, case.capacity)
        np.testing.assert_allclose(found.finish_s, case.finish_s, rtol=TOLERANCE, err_msg=case.name)
        rows = case.flows.routes
        moved = np.zeros(len(case.capacity))
        np.add.at(moved, rows.link, rows.coef * np.repeat(case.flows.size_bytes, np.diff(rows.indptr)))
        np.testing.assert_allclose(found.link_bytes, moved, rtol=TOLERANCE)
        assert (found.peak_share <= 1 + TOLERANCE).all()


def test_no_case_is_missing_and_the_rows_tell_the_worst_error():
    rows = validate_flows([path for path in FILES if path.stem.startswith(("ft64", "star"))])
    assert max(row.error for row in rows) < TOLERANCE
    assert sum(len(read_flow_cases(path)) for path in FILES) == NUM_CASES


def test_uncontended_flows_need_one_solve():
    # A ring over a full tree: no two flows share a link, so the first rates are the last.
    (row,) = validate_flows([path for path in FILES if path.stem == "ft1024_full_ring"])
    assert (row.num_flows, row.num_solves, row.num_events) == (1024, 1, 2048)
