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
