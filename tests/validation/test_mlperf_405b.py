"""MLPerf v5.x entries of Llama 3.1 405B: the engine against what was logged."""

from __future__ import annotations

import json
from functools import cache

import pytest

from simnet.library import shipped_file
from simnet.plot.parity import MeasuredRow
from simnet.validation import mlperf
from simnet.validation.mlperf import entries, inputs_hash, markdown_table, mlperf_rows, predict
from simnet.version import __version__

IDS = {
    "ml50-405b-gb200-256-nvidia",
    "ml50-405b-gb200-512-ibmcorew",
    "ml50-405b-gb200-512-nvidia",
    "ml50-405b-gb200-2496-ibmcorew",
    "ml50-405b-h100-512-nvidia",
    "ml50-405b-h100-2560-nvidia",
    "ml50-405b-h100-8192-nvidia",
    "ml50-405b-h200-512-nebius",
    "ml51-405b-gb200-512-nvidia",
}
REDO = "computed anew by: python -m simnet.validation.mlperf"


@cache
def shipped():
    return json.loads(shipped_file(mlperf.PREDICTED_FILE).read_text(encoding="utf-8"))


def by_id():
    return {row.id: row for row in mlperf_rows()}


def test_all_entries_are_there():
    assert {row.run_id for row in entries()} == set(by_id()) == IDS


@pytest.mark.parametrize("run_id", sorted(IDS))
def test_each_step_is_within_8_percent_of_the_log(run_id):
    row = by_id()[run_id]
    assert row.predicted_s == pytest.approx(row.measured_s, rel=0.08)
    assert not row.is_miss


def test_a_gb200_does_2_2_times_an_h100_at_equal_scale():
    blackwell = by_id()["ml50-405b-gb200-2496-ibmcorew"].samples_per_s_per_gpu
    hopper = by_id()["ml50-405b-h100-2560-nvidia"].samples_per_s_per_gpu
    assert blackwell / hopper == pytest.approx(2.2, rel=0.05)


def test_the_shipped_predictions_are_of_these_constants():
    assert (shipped()["version"], shipped()["inputs_sha256"]) == (__version__, inputs_hash()), REDO


@pytest.mark.slow
@pytest.mark.parametrize(
    "run_id", ["ml50-405b-gb200-2496-ibmcorew", "ml50-405b-gb200-256-nvidia"], ids=["whole step", "by its period"]
)
def test_the_engine_gives_the_shipped_predictions(run_id):
    (found,) = predict(row for row in entries() if row.run_id == run_id)
    known = next(row for row in shipped()["rows"] if row["id"] == run_id)
    assert found["predicted_s"] == pytest.approx(known["predicted_s"], rel=1e-9), REDO
    assert found["method"] == known["method"]


def test_predictions_of_other_constants_say_so(monkeypatch):
    assert all("other constants" not in row.source for row in mlperf_rows())
    monkeypatch.setattr(mlperf, "inputs_hash", lambda: "changed")
    assert all("other constants" in row.source for row in mlperf_rows())


def test_the_report_takes_the_rows():
    rows = mlperf_rows()
    shown = [MeasuredRow(**row.record()) for row in rows]
    assert [one.error for one in shown] == [row.error for row in rows]


def test_the_table_for_people_marks_misses():
    row = by_id()["ml50-405b-h100-512-nvidia"]
    table = markdown_table([row])
    assert "| 512 H100-SXM | fp8 | 55.133 |" in table
    assert "miss" not in table
    far = type(row)(**{name: getattr(row, name) for name in row.__dataclass_fields__} | {"measured_s": 40.0})
    assert "**miss**" in markdown_table([far])
