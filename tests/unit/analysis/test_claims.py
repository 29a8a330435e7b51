"""Verdicts on claims and products of causes, by hand."""

from __future__ import annotations

import math

import pytest

from simnet.analysis.claims import ChipLimit, claim_sentence, judge_claims
from simnet.analysis.question import answer_question
from simnet.analysis.split import split_ratio, split_sentence
from tests.unit.analysis.test_question import made_up

LIMIT = ChipLimit(peak_flops_per_s=1e15, sustained_share=0.7, flops_per_token=3.5e11)
"""1,000 tokens/s need 0.35 PFLOP/s of one: 35 % by parameters alone."""
NODES = {"census": {"gpus": 64, "nodes": 8}}


def case(name, rate, mfu=0.4):
    return made_up(name, tokens_per_s_per_gpu=rate, mfu=mfu, num_gpus=64, **NODES)


def test_a_claim_beyond_the_peak_is_impossible_of_a_gpu_and_tried_as_one_of_a_node():
    # 1,000 tokens/s/GPU are 40 % MFU here, so 8,000 would be 3.2 times the peak, and of a node of eight the prediction.
    (verdict,) = judge_claims({"a": 8000}, [case("a", 1000)], {"a": LIMIT})
    assert (verdict.verdict_per_gpu, verdict.verdict_per_node) == ("impossible", "plausible")
    assert (verdict.mfu_per_gpu, verdict.mfu_per_node) == (pytest.approx(3.2), pytest.approx(0.4))
    words = claim_sentence(verdict, [case("a", 1000)])
    assert "need 2.8 PFLOP/s at six FLOPs a parameter, 2.8 times its dense peak: impossible" in words
    assert "of a node of 8 it is 1,000 tokens/s/GPU, 35% of the peak (40% MFU with attention): plausible" in words


@pytest.mark.parametrize(("claimed", "expected"), [(1700, "plausible"), (1800, "more than measured kernels sustain")])
def test_a_claim_beyond_what_kernels_sustain_is_unheard_of(claimed, expected):
    # Kernels sustain 70 % of the peak: 1,750 tokens/s/GPU without any other work.
    (verdict,) = judge_claims({"a": claimed}, [case("a", 1000)], {"a": LIMIT})
    assert verdict.verdict_per_gpu == expected


def test_a_ratio_is_the_product_of_its_changes_and_what_a_claim_has_beyond_it():
    cases = [case("old", 1000), case("new", 1500), case("tuned", 1650)]
    split = split_ratio("old", {"chip": "new", "kernels": "tuned"}, cases, {"old": 8000, "tuned": 15840})
    assert split is not None
    assert [factor.ratio for factor in split.factors] == [pytest.approx(1.5), pytest.approx(1.1)]
    assert (split.predicted, split.claimed, split.remainder) == (
        pytest.approx(1.65), pytest.approx(1.98), pytest.approx(1.2),
    )  # fmt: skip
    assert "predicted 1.65 = 1.50 chip x 1.10 kernels, which leaves 1.20" in split_sentence(split)


def test_a_ratio_without_claims_has_no_remainder():
    split = split_ratio("old", {"chip": "new"}, [case("old", 1000), case("new", 1500)], {})
    assert split is not None
    assert math.isnan(split.claimed)
    assert split_sentence(split) == "new trains 1.50 times as fast per GPU as old: 1.50 chip."


def test_a_case_that_failed_leaves_the_others_their_answer():
    split = ("old", {"chip": "new"}, "throughput")
    answer = answer_question([case("old", 1000)], claims={"new": 9}, limits={"new": LIMIT}, split=split)
    assert (answer.claims, answer.split) == ((), None)


def test_chip_time_to_the_target_is_chip_scaling_samples_and_evaluation():
    # Steps of 4 s and 10^6 tokens: 100 on 1,000 new chips, 120 on 2,000 old ones at 0.4 of the throughput of a chip.
    new = made_up("new", num_gpus=1000, steps_to_target=100.0, minutes_to_target=(400 + 40) / 60)
    middle = made_up("middle", num_gpus=1000, tokens_per_s_per_gpu=125.0)
    old = made_up(
        "old", num_gpus=2000, tokens_per_s_per_gpu=100.0, tokens_per_s=2e5, step_time_s=5.0,
        breakdown_s=made_up("x", compute_s=5.0).breakdown_s, steps_to_target=120.0, minutes_to_target=(600 + 12) / 60,
    )  # fmt: skip
    split = split_ratio("new", {"chip": "middle", "scaling": "old"}, [new, middle, old], {}, "chip_time")
    assert split is not None
    assert {one.name: one.ratio for one in split.factors} == {
        "chip": pytest.approx(2.0),
        "scaling": pytest.approx(1.25),
        "samples to the target": pytest.approx((120 * 5 * 2e5) / (100 * 4 * 2.5e5)),
        "evaluation": pytest.approx(1.02 / 1.1),
    }
    assert split.predicted == pytest.approx((2000 * 612) / (1000 * 440))
    assert (split.chips, split.minutes) == (2.0, pytest.approx(612 / 440))
    told = split_sentence(split)
    assert (
        "old spends 2.78 times the chip time of new to the target (2.00 times the chips for 1.39 of the time)" in told
    )
    assert "2.00 chip x 1.25 scaling x 1.20 samples to the target x 0.93 evaluation" in told


def test_chip_time_without_a_target_has_no_split():
    cases = [case("old", 1000), case("new", 1500)]
    assert split_ratio("old", {"chip": "new"}, cases, {}, "chip_time") is None
