from __future__ import annotations

import pytest

from simnet.errors import LayoutError
from simnet.spec.load import load_model
from simnet.workload.checks import check_divides, num_micro_batches
from tests.unit.workload.jobs import job

LLAMA = load_model("llama-3-8b")
"""32 heads, 8 key-value heads, feed-forward width 14,336."""


def test_degrees_that_divide_pass() -> None:
    check_divides(job(LLAMA, tp=8, cp=4, sequence=8192))


def test_more_ranks_than_key_value_heads_replicate_them() -> None:
    check_divides(job(LLAMA, tp=16))


def test_all_that_does_not_divide_is_named_at_once() -> None:
    with pytest.raises(LayoutError) as caught:
        check_divides(job(LLAMA, tp=12, cp=3))
    text = str(caught.value)
    assert "32 query heads do not divide over tp 12: 32 = 2 x 12 + 8" in text
    assert "8 key-value heads neither divide over tp 12 nor replicate evenly" in text
    assert "14336 columns of the feed-forward block do not divide over tp 12" in text
    assert "a sequence of 2048 tokens does not divide over 2 x cp 3 x tp 12 = 72: 2048 = 28 x 72 + 32" in text


def test_global_batch_must_divide_over_replicas() -> None:
    assert num_micro_batches(job(LLAMA, batch=1248), 39) == 32
    with pytest.raises(LayoutError, match=r"1250 sequences = 16 x \(dp 39 x micro-batch 2 = 78\) \+ 2") as caught:
        num_micro_batches(job(LLAMA, batch=1250, micro=2), 39)
    assert caught.value.problems[0].hint == "try 1248 or 1326"


def test_batch_smaller_than_the_replicas_is_refused() -> None:
    with pytest.raises(LayoutError, match="4 sequences = 0 x"):
        num_micro_batches(job(LLAMA, batch=4), 8)
