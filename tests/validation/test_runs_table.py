"""The table of published runs: how rows become cases, and how far off the shipped presets are."""

from __future__ import annotations

import math
from functools import cache

import pytest

from simnet.errors import SpecError
from simnet.library import find
from simnet.validation.group_error import group_error
from simnet.validation.run_errors import beyond_anchor, is_judged, is_stated, series_members
from simnet.validation.runs import RunCase, RunRow, Unsupported, read_runs, software_date, to_case
from simnet.validation.runs_report import Prediction, report_records, screen_step, validate_runs

TABLE = find("scenario", "monolithic-vs-modular").parent / "validation" / "training_runs.csv"


@cache
def rows():
    return read_runs(TABLE)


@cache
def report():
    return validate_runs(rows())


def seconds(step_time_s):
    return Prediction(step_time_s=step_time_s, method="given")


def row(run_id):
    return next(item for item in rows() if item.run_id == run_id)


def group(by, key):
    return next(item for item in report().groups if (item.by, item.key) == (by, key))


def test_every_row_is_predicted_or_has_a_reason():
    assert len(report().rows) == 509
    assert all((item.predicted is None) == bool(item.reason) or item.measured is None for item in report().rows)
    assert all(item.predicted > 0 for item in report().rows if item.predicted is not None)


@pytest.mark.parametrize(
    "run_id",
    [
        "ml50-405b-gb200-256-nvidia",
        "ml50-405b-gb200-512-ibmcorew",
        "ml50-405b-gb200-512-nvidia",
        "ml50-405b-gb200-2496-ibmcorew",
        "ml50-405b-h100-512-nvidia",
        "ml50-405b-h100-2560-nvidia",
        "ml50-405b-h100-8192-nvidia",
        "ml50-405b-h200-512-nebius",
        "ml51-405b-gb200-512-nvidia",
    ],
)
def test_mlperf_405b_steps_are_within_8_percent(run_id):
    case = to_case(row(run_id))
    assert screen_step(case).step_time_s == pytest.approx(case.row.measured_s, rel=0.08)


def test_blackwell_is_2_2_times_hopper_per_chip_at_equal_scale():
    rates = []
    for run_id in ("ml50-405b-gb200-2496-ibmcorew", "ml50-405b-h100-2560-nvidia"):
        case = to_case(row(run_id))
        rates.append(case.workload.batch.global_batch_size / case.num_gpus / screen_step(case).step_time_s)
    assert rates[0] / rates[1] == pytest.approx(2.2, rel=0.05)


def test_megatron_runs_with_stated_inputs_meet_the_target():
    stated = group("micro-batch, stages, recompute", "megatron, stated")
    assert stated.rows > 150
    assert stated.median_ape <= 0.03
    assert stated.p90_ape <= 0.08


def test_runs_of_other_stacks_meet_the_target():
    """llm-foundry, fms, MaxText and Megatron-FSDP: sharded parameters on A100, H100, B200, GB200 and GB300."""
    others = group("kind of stack", "other stacks")
    assert others.rows > 60
    assert others.median_ape <= 0.08


def test_no_group_of_five_rows_is_off_by_more_than_8_percent():
    groups = [item for item in report().groups if item.by == "gpu, precision, stack" and item.rows >= 5]
    assert len(groups) >= 8
    assert all(item.median_ape <= 0.08 for item in groups)


def test_the_claims_job_becomes_the_layout_of_the_claim():
    case = to_case(row("ml50-405b-gb200-2496-ibmcorew"))
    assert isinstance(case, RunCase)
    degrees = case.workload.parallelism
    assert (degrees.tp, degrees.cp, degrees.pp, degrees.virtual_stages, degrees.dp) == (4, 2, 8, 8, 39)
    assert case.workload.layout.embedding_counts_as_layer
    assert case.workload.rank_order == "tp-cp-pp-dp"
    assert case.network.scale_up_domain == 64  # 16 of 18 trays
    assert case.network.nic_bytes_per_s == 50e9


def test_blanks_take_named_defaults():
    case = to_case(row("megascale-mlm-175b-a100-256-tp8-pp8-gb768"))
    assert any(note.startswith("micro_batch not stated: 1") for note in case.assumptions)


def test_rows_of_other_stacks_become_what_they_state():
    keeps = to_case(row("llmf-1b-h100-128-2048-bf16")).workload
    assert (keeps.sharding, keeps.stack, keeps.attention_kernel) == ("fsdp", "pytorch", "flash1")
    assert not keeps.fsdp.reshard_after_forward  # SHARD_GRAD_OP
    assert keeps.gradient_dtype == "fp32"
    assert to_case(row("llmf-70b-a100-80gb-32-2048-bf16")).workload.gradient_dtype == "bf16"
    long = to_case(row("llmf-3b-h100-8-32768-fp8"))
    assert long.workload.model.learned_positions == 32768
    assert any("table of 32768 positions" in note for note in long.assumptions)
    saved = to_case(row("dgxc250202-llama370bmaxtext-h100-512-bf16")).workload
    assert (saved.sharding, saved.fsdp_group, saved.recompute) == ("hsdp", 128, "full")
    assert saved.recompute_keeps == ("qkv", "fc2")  # save_qkv_proj; the last product is never repeated
    some = to_case(row("fms-13b-h100-96"))
    assert some.workload.recompute_share == 0.5
    assert any(note.startswith("recompute share not stated") for note in some.assumptions)
    assert to_case(row("fms-7b-a100-80gb-128")).workload.rank_order == "dp-tp-cp-pp"


def test_the_70b_series_on_sharded_parameters_scales_as_measured():
    """MaxText on 128 to 2,048 H100: one scalar on the smallest run."""
    name = row("dgxc250202-llama370bmaxtext-h100-128-bf16").text("series")
    (series,) = [one for one in report().series if one.series == name]
    assert series.rows == 5
    assert series.mape <= 0.015
    assert series.max_ape <= 0.04


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gpu": "H100-96GB-500W"}, "cut-down"),
        ({"gpu": "TPU"}, "no part"),
        ({"stack": "TensorFlow"}, "stack"),
        ({"global_batch": ""}, "not stated"),
        ({"base_model_id": "deepseek-v3-671b"}, "model"),
    ],
)
def test_a_row_out_of_reach_says_why(change, reason):
    base = row("ml50-405b-h100-512-nvidia")
    case = to_case(RunRow(run_id="x", values={**base.values, **change}))
    assert isinstance(case, Unsupported)
    assert reason in case.reason


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("NeMo container 26.02", 2026 + 1 / 12),
        ("MLPerf v5.1 PyTorch NVIDIA Release 23.09", 2025.75),
        ("dgxc v25.04.02", 2025.25),
        ("Megatron-LM 2020", 2020.5),
        ("unknown", None),
    ],
)
def test_software_names_give_a_date(text, year):
    date = software_date(text)
    assert date == (None if year is None else pytest.approx(year))


def test_series_of_three_sizes_and_more_meet_the_target():
    """One scalar on the smallest run of each; series whose rows leave micro-batch or stages blank are apart."""
    series = series_members([item for item in report().rows if is_judged(item)], min_sizes=3)
    errors = [
        error
        for members in series.values()
        if all(is_stated(item.assumptions) for item in members)
        for error in beyond_anchor(members)
    ]
    found = group_error("", "", errors)
    assert found.rows >= 20
    assert found.mape <= 0.015
    assert found.p90_ape <= 0.04


def test_the_baseline_of_256_to_12288_gpus_loses_at_scale_as_measured_in_sign_and_order():
    members = [item for item in report().rows if item.id.startswith("megascale-mlm-175b-a100")]
    for batch in (768, 6144):
        own = [(item, to_case(row(item.id)).workload) for item in members]
        chosen = [(item.gpus * item.measured, item.gpus * item.predicted) for item, job in own
                  if job.batch.global_batch_size == batch]  # fmt: skip
        measured, predicted = zip(*sorted(chosen), strict=True)
        assert list(predicted) == sorted(predicted), f"GPU time of a batch of {batch} grows with the GPUs"
        assert len(measured) == 4


def test_a_series_is_judged_after_one_scalar_on_its_smallest_run():
    base = row("ml50-405b-h100-512-nvidia")
    values = {**base.values, "series": "s", "quality": "a"}
    small = RunRow(run_id="small", values={**values, "gpus": "512", "step_s": "10"})
    large = RunRow(run_id="large", values={**values, "gpus": "1024", "step_s": "10"})
    predictions = {"small": 20.0, "large": 22.0}
    (series,) = validate_runs([large, small], lambda case: seconds(predictions[case.row.run_id])).series
    assert (series.anchor_id, series.rows) == ("small", 2)
    assert series.mape == series.max_ape == pytest.approx(0.1)


def test_group_errors_are_order_statistics():
    base = row("ml50-405b-h100-512-nvidia")
    errors = {"a": -0.1, "b": 0.0, "c": 0.2}
    table = [RunRow(run_id=name, values={**base.values, "step_s": "1"}) for name in errors]
    found = validate_runs(table, lambda case: seconds(1 + errors[case.row.run_id]))
    everything = next(item for item in found.groups if item.by == "all")
    assert everything.rows == 3
    assert everything.median_ape == pytest.approx(0.1)
    assert everything.mape == pytest.approx(0.1)
    assert everything.p90_ape == pytest.approx(0.18)
    assert everything.bias == pytest.approx(0.0)


def test_records_have_the_documented_keys():
    records = report_records(report())
    assert {"id", "predicted", "measured", "unit", "error", "reason"} <= set(records["rows"][0])
    assert {"by", "key", "rows", "mape", "median_ape", "p90_ape", "max_ape", "bias"} == set(records["groups"][0])
    assert {"series", "anchor_id", "rows", "mape", "max_ape"} == set(records["series"][0])
    assert all(item["error"] is None or math.isfinite(item["error"]) for item in records["rows"])


def test_a_table_without_the_columns_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(SpecError, match="not a table of runs"):
        read_runs(path)


def test_no_step_beats_its_roofline():
    from simnet.analysis.screen import estimate_step
    from simnet.workload.kernels import job_preset

    cases = [case for case in map(to_case, rows()) if isinstance(case, RunCase)]
    for case in cases:
        preset = job_preset(case.workload, case.gpu)
        estimate = estimate_step(case.workload, case.gpu, preset, case.network, dp=case.dp)
        assert estimate.step_time_s > estimate.floor_s
        assert min(estimate.exposed_tp_s, estimate.exposed_dp_s, estimate.bubble_s, estimate.optimizer_s) >= 0
