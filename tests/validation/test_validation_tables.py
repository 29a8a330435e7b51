"""What docs, known errors and the shipped calibration say is what the code gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from simnet.library import find, shipped_file
from simnet.spec.known_error import KnownErrorPart, known_error
from simnet.spec.load import build, read_yaml
from simnet.validation.calibration_report import CALIBRATION_FILE, known_errors, report_json, shipped_calibration
from simnet.validation.markdown import DOCUMENTS, with_tables
from simnet.validation.runs import RunRow, read_runs
from simnet.validation.runs_report import validate_runs
from simnet.validation.twins import twins
from tests.unit.validation.small_runs import SMALL

ROOT = Path(__file__).parents[2]
REDO = "simnet calibrate --cross-validate --json > scenarios/validation/calibration.json"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_tables_of_the_document_are_fresh(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: python -m simnet.validation.markdown"


def test_the_shipped_calibration_is_of_these_constants():
    found = validate_runs(read_runs(shipped_file("scenarios/validation/training_runs.csv")))
    errors = {row.id: row.error for row in found.rows}
    calibrated = shipped_calibration()
    assert len(calibrated.rows) > 200
    assert all(row.shipped == pytest.approx(errors[row.id], abs=1e-6) for row in calibrated.rows), REDO
    text = shipped_file(CALIBRATION_FILE).read_text(encoding="utf-8")
    assert report_json(calibrated).strip() == text.strip()


def test_the_shipped_constants_lie_within_two_deviations_of_a_fit_of_today():
    for one in shipped_calibration().constants:
        assert one.fitted / one.shipped == pytest.approx(1, abs=2 * one.spread), one.name


def test_known_errors_are_the_cross_validated_ones():
    written = build(read_yaml(find("part", "known_error")), KnownErrorPart).records
    assert written == known_errors(shipped_calibration(), source=written[-1].source)


@pytest.mark.parametrize(
    ("gpu", "precision"), [("H100-SXM", "fp8"), ("GB200", "bf16"), ("B300-HGX", "fp8"), ("X", "bf16")]
)
def test_a_run_that_was_not_fitted_is_less_certain_than_the_fitted_rows(gpu, precision):
    record = known_error(gpu, precision)
    assert 0.02 < record.median < record.p90
    assert record.rows >= 5
    if gpu == "X":
        assert (record.gpu, record.precision) == ("", "")


def test_twins_agree_in_every_input_but_the_software():
    base = {**SMALL, "quality": "a", "stack": "megatron"}
    rows = [
        RunRow(run_id=name, values={**base, "step_s": seconds, **changes})
        for name, seconds, changes in (
            ("one", "1.0", {}),
            ("other", "1.1", {"software": "NeMo container 25.02"}),
            ("wider", "1.5", {"tp": "2"}),
            ("doubted", "3.0", {"note": "SUSPECT"}),
        )
    ]
    (pair,) = twins(rows)
    assert (pair.one, pair.other, pair.is_same_software) == ("one", "other", False)
    assert pair.gap == pytest.approx(0.1)
