from __future__ import annotations

import time

import pytest

from simnet.errors import LayoutError
from simnet.spec.load import load_model
from simnet.spec.workload import BatchSpec
from simnet.workload.checks import check_divides, largest_divisor, num_micro_batches
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


def test_degrees_far_beyond_the_heads_are_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(LayoutError, match="32 query heads do not divide over tp 4000000") as caught:
        check_divides(job(LLAMA, tp=4_000_000))
    assert caught.value.problems[0].hint == "the next lower degree that divides is 32"
    assert time.process_time() - start < 1


@pytest.mark.parametrize(("count", "most", "found"), [(32, 12, 8), (32, 100, 32), (7, 3, 1), (36, 6, 6), (1, 1, 1)])
def test_largest_divisor(count: int, most: int, found: int) -> None:
    assert largest_divisor(count, most) == found


def test_a_batch_in_tokens_is_refused_with_its_sequences() -> None:
    with pytest.raises(LayoutError, match=r"too many passes: 4,000,000 micro-batches x 1 chunks") as caught:
        num_micro_batches(job(LLAMA, batch=4_000_000, sequence=4096), 1)
    assert caught.value.problems[0].path == "workload.batch.global_batch_size"
    assert caught.value.problems[0].hint == "it counts sequences; 4,000,000 tokens are 976 sequences of 4,096"


def test_micro_batches_of_a_replica_are_bounded_with_their_chunks() -> None:
    whole = job(LLAMA, pp=2, virtual_stages=4)
    many = {count: BatchSpec(num_micro_batches=count) for count in (5_000, 5_001)}
    assert num_micro_batches(whole.model_copy(update={"batch": many[5_000]}), 1) == 5_000
    with pytest.raises(LayoutError, match="5,001 micro-batches x 4 chunks = 20,004 on each of pp 2 stages; found 5001"):
        num_micro_batches(whole.model_copy(update={"batch": many[5_001]}), 1)


def test_a_model_that_is_not_of_its_published_size_is_refused() -> None:
    narrow = LLAMA.model_copy(update={"ffn": 1433})
    with pytest.raises(LayoutError, match=r"comes to \S+ parameters, not to its published 8.03e\+09"):
        check_divides(job(narrow))
    check_divides(job(narrow.model_copy(update={"published_parameters": None})))


def test_passes_of_all_stages_are_bounded_together() -> None:
    deep = job(LLAMA, pp=32).model_copy(update={"batch": BatchSpec(num_micro_batches=6_251)})
    with pytest.raises(LayoutError, match="allowed: 6,250 passes of a stage at most"):
        num_micro_batches(deep, 1)
