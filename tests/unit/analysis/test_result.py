"""Result: what it refuses, and that it survives the way to a file and back."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import pytest

from simnet.analysis.result import (
    EngineUse,
    HottestLink,
    KnownError,
    LinkClassUse,
    MemoryUse,
    Provenance,
    Result,
    Span,
    to_csv,
)
from simnet.errors import PhysicsError

PARTS = {
    "compute": 0.5,
    "exposed_tp": 0.125,
    "exposed_cp": 0.0,
    "exposed_pp": 0.0625,
    "exposed_dp": 0.0625,
    "bubble": 0.125,
    "optimizer": 0.125,
}


@pytest.fixture
def result() -> Result:
    """Return a made-up result of one second, in binary fractions so that sums are exact."""
    return Result(
        name="made up",
        variant="modular",
        values={"topology.join.oversubscription": 4},
        num_gpus=64,
        gpu="GB200",
        step_time_s=1.0,
        tokens_per_s_per_gpu=128.0,
        tokens_per_s=8192.0,
        mfu=0.5,
        hfu=0.5,
        breakdown_s=PARTS,
        hottest_link=HottestLink(
            name="m0/leaf0 -> spines", link_class="leaf_spine", mean_utilisation=0.25, peak_utilisation=1.0, bytes=1e9
        ),
        link_classes=(
            LinkClassUse(
                link_class="leaf_spine",
                bytes=2e9,
                mean_utilisation=0.25,
                peak_utilisation=1.0,
                busiest="m0/leaf0 -> spines",
                traffic_bytes={"dp": 2e9},
            ),
        ),
        census={"gpus": 64, "switches": {"leaf": 4, "spine": 2, "core": 0}},
        memory=MemoryUse(peak_bytes=8e10, limit_bytes=1.8e11, stage=0, classes_bytes={"weights": 5e10}),
        engine=EngineUse(rung="classes", classes=2, solves=3, events=40),
        bottleneck="Compute takes half of the step.",
        assumptions=("one", "two"),
        known_error=KnownError(median=0.03, p90=0.08, rows=14, source="made up"),
        provenance=Provenance(spec_hash="00", version="0", seed=0),
        timeline=(Span(stage=0, label="F", category="compute", micro_batch=0, chunk=0, start_s=0.0, end_s=0.25),),
    )


def test_json_gives_the_same_result_back_but_for_nan(result: Result) -> None:
    complete = replace(result, steps_to_target=10.0, minutes_to_target=2.0)
    assert Result.from_json(complete.to_json()) == complete


def test_a_missing_target_is_null_in_json_and_nan_in_the_result(result: Result) -> None:
    assert json.loads(result.to_json())["minutes_to_target"] is None
    assert math.isnan(Result.from_json(result.to_json()).minutes_to_target)


def test_json_keys_of_the_command_line_contract_are_there(result: Result) -> None:
    plain = json.loads(result.to_json())
    assert {"name", "step_time_s", "tokens_per_s_per_gpu", "mfu", "breakdown_s", "hottest_link"} <= set(plain)


def test_parts_that_do_not_sum_to_the_step_are_refused(result: Result) -> None:
    with pytest.raises(PhysicsError, match="do not sum"):
        replace(result, breakdown_s=PARTS | {"compute": 0.5 + 2e-6})


def test_parts_that_sum_within_a_millionth_are_accepted(result: Result) -> None:
    replace(result, breakdown_s=PARTS | {"compute": 0.5 + 0.9e-6})


def test_a_negative_part_is_refused(result: Result) -> None:
    with pytest.raises(PhysicsError, match=r"breakdown_s\.bubble"):
        replace(result, breakdown_s=PARTS | {"compute": 0.75, "bubble": -0.125})


def test_a_missing_part_is_refused(result: Result) -> None:
    with pytest.raises(PhysicsError, match="breakdown_s"):
        replace(result, breakdown_s={"compute": 1.0})


@pytest.mark.parametrize("step_time_s", [0.0, -1.0, math.nan, math.inf])
def test_a_step_takes_finite_positive_time(result: Result, step_time_s: float) -> None:
    with pytest.raises(PhysicsError, match="step_time_s"):
        replace(result, step_time_s=step_time_s)


@pytest.mark.parametrize("share", [1 + 2e-9, 1.56, -0.1, math.nan])
@pytest.mark.parametrize("field", ["mfu", "hfu"])
def test_more_than_the_peak_is_refused(result: Result, field: str, share: float) -> None:
    with pytest.raises(PhysicsError, match=field):
        replace(result, **{field: share})


def test_a_link_above_its_rate_is_refused_by_name_of_the_class(result: Result) -> None:
    faulty = replace(result.link_classes[0], peak_utilisation=1.01)
    with pytest.raises(PhysicsError, match=r"link_classes\.leaf_spine\.peak_utilisation"):
        replace(result, link_classes=(faulty,))


def test_all_faults_are_reported_at_once(result: Result) -> None:
    with pytest.raises(PhysicsError) as caught:
        replace(result, mfu=1.56, step_time_s=2.0)
    assert len(caught.value.problems) == 2


def test_a_record_is_flat(result: Result) -> None:
    (record,) = result.to_records()
    assert record["breakdown_s.bubble"] == 0.125
    assert record["values.topology.join.oversubscription"] == 4
    assert record["census.switches.leaf"] == 4
    assert record["link_bytes.leaf_spine"] == 2e9
    assert all(isinstance(value, str | int | float) for value in record.values())


def test_csv_has_a_row_per_result_and_the_union_of_columns(result: Result) -> None:
    other = replace(result, name="other", values={"seed": 7})
    rows = list(csv.DictReader(io.StringIO(to_csv([result, other]))))
    assert [row["name"] for row in rows] == ["made up", "other"]
    assert rows[0]["values.seed"] == ""
    assert rows[1]["values.seed"] == "7"
