"""Calibration: the regression, which rows it takes, and what it makes of them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from simnet.library import shipped_file
from simnet.spec.compute import load_compute
from simnet.validation.calibrate import calibrate, predictions, usable, without_gpu
from simnet.validation.free_constants import FREE_CONSTANTS, values_of, with_values
from simnet.validation.regression import Regression, fit
from simnet.validation.runs import RunRow, read_runs
from tests.unit.validation.small_runs import SMALL


@cache
def cases():
    return usable(read_runs(shipped_file("scenarios/validation/training_runs.csv")))


def regression(residuals, *, rows, prior, spread, scale=0.03):
    return Regression(
        residuals=residuals, prior=np.array(prior), spread=np.array(spread), weights=np.ones(rows), scale=scale
    )


def test_without_rows_the_prior_stands():
    job = regression(lambda at: np.zeros(1), rows=1, prior=[0.3, -1.0], spread=[0.1, 0.5])
    found = fit(job, np.zeros(2), max_iterations=20)
    assert found.logarithms == pytest.approx([0.3, -1.0], abs=1e-3)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx([0.1, 0.5])


def test_many_rows_overrule_the_prior_and_an_outlier_does_not():
    truth = np.array([0.5, -0.2])
    slopes = np.random.default_rng(1).normal(size=(60, 2))
    offset = slopes @ truth
    offset[0] += 3.0
    job = regression(lambda at: slopes @ at - offset, rows=60, prior=[0.0, 0.0], spread=[1.0, 1.0])
    found = fit(job, np.zeros(2), max_iterations=30)
    assert found.logarithms == pytest.approx(truth, abs=2e-3)


def test_the_shipped_constants_survive_the_way_through_their_logarithms():
    shipped = load_compute()
    again = values_of(with_values(shipped, values_of(shipped)))
    assert again == pytest.approx(values_of(shipped), rel=1e-12)


@pytest.mark.parametrize("constant", FREE_CONSTANTS, ids=lambda one: one.name)
def test_every_free_constant_moves_predictions(constant):
    shipped = load_compute()
    values = values_of(shipped)
    moved = with_values(shipped, {**values, constant.name: values[constant.name] * 1.1})
    assert moved != shipped
    sample = cases()[::4]
    assert np.any(predictions(sample, moved) != predictions(sample, shipped))


def test_rows_in_doubt_or_with_blanks_are_not_fitted():
    good = {**SMALL, "gpus": "16", "tp": "2", "pp": "2", "vp": "1", "dp": "4", "stack": "megatron", "step_s": "1",
            "quality": "a"}  # fmt: skip
    bad = {
        "doubted": {"note": "SUSPECT"},
        "third": {"quality": "c"},
        "blank": {"micro_batch": ""},
        "other": {"stack": "x"},
    }
    rows = [RunRow(run_id="good", values=good), *(RunRow(run_id=name, values={**good, **bad[name]}) for name in bad)]
    assert [case.row.run_id for case in usable(rows)] == ["good"]


def test_a_fit_from_the_shipped_constants_stays_within_their_spread():
    sample = [case for case in cases() if case.gpu.name == "H100-SXM"][::3]
    found = calibrate(sample)
    shipped = values_of(load_compute())
    for index, constant in enumerate(found.constants):
        spread = math.sqrt(found.fit.covariance[index, index])
        assert abs(math.log(found.values[constant.name] / shipped[constant.name])) < 2 * constant.spread
        assert 0 < spread <= constant.spread * 1.000001


def test_rows_of_a_gpu_left_out_have_an_error_each():
    sample = [case for case in cases() if case.gpu.generation == "blackwell"][::6]
    errors = without_gpu(sample, "GB300")
    assert set(errors) == {case.row.run_id for case in sample if case.row.text("gpu") == "GB300"}
    assert all(abs(error) < 0.5 for error in errors.values())
