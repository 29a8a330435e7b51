"""The approximate rung: exact where nothing contends, and its bracket."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.engine.executor import run_program
from simnet.engine.recursion import run_recursion
from simnet.errors import TopologyError
from simnet.workload.ops import Category, Compute, Start, Wait
from tests.oracle.examples import examples
from tests.oracle.hand_program import program, transfer
from tests.oracle.random_program import Shape, random_program


def start(comm, instance=0):
    return Start(comm=comm, instance=instance)


def wait(comm, instance=0):
    return Wait(comm=comm, instance=instance)


def test_without_contention_the_recursion_is_exact_and_its_bracket_closed():
    # Four replicas, each at its own speed, send over NICs of their own and meet in a ring.
    count = 4
    sends = transfer(*(({r: 1.0}, [r], [count + r]) for r in range(count)), category=Category.PP, size=8)
    members = list(range(count, 2 * count))
    ring = transfer(({count: 1.0}, members, members), size=6, latency=0.5)
    stages = [
        [Compute(duration_s=1.0), start(0)],
        [wait(0), Compute(duration_s=2.0), start(1), wait(1), Compute(duration_s=1.0, category=Category.OPTIMIZER)],
    ]
    slowdown = [1.0, 1.1, 1.2, 1.3, 1.0, 1.3, 1.1, 1.2]
    step = program(stages, [sends, ring], [4, 2, 4, 8, 3], num_replicas=count, slowdown=slowdown)
    # Replica 1 sends until 1.1 + 8/2 = 5.1 and computes 2 * 1.3 s; the ring takes 0.5 + 6/3 s from 7.7 s on. The
    # slowest at the end takes 1.3 s.
    trace, bracket = run_recursion(step)
    assert trace.step_time_s == pytest.approx(7.7 + 2.5 + 1.3)
    np.testing.assert_allclose(trace.finish_s, run_program(step).finish_s)
    assert bracket.low_s == pytest.approx(bracket.high_s)


@pytest.mark.parametrize("seed", range(20))
def test_random_steps_lie_inside_the_bracket(seed):
    shape = Shape(
        seed=seed, num_stages=1 + seed % 4, num_replicas=1 + seed % 5, num_buckets=1 + seed % 2, num_micro_batches=3,
        num_defects=3, num_slow=2, is_round=bool(seed % 3), interleaves=bool(seed % 2), spreads=seed % 7 == 0,
    )  # fmt: skip
    step = random_program(shape)
    exact_s = run_program(step).step_time_s
    trace, bracket = run_recursion(step)
    assert bracket.low_s <= exact_s * (1 + 1e-9)
    assert exact_s <= bracket.high_s * (1 + 1e-9)
    assert bracket.low_s <= trace.step_time_s <= bracket.high_s


def test_messages_that_overlap_only_in_the_fast_schedule_stay_inside_the_bracket():
    # Two messages A of 10 bytes over a link of 1. A transfer B lies between their starts, which takes 1 s, but 11 s
    # at its smallest share (C, of ten times its weight, comes much later). So in the slow schedule the messages do
    # not meet and the first arrives at 10 s; in truth the second starts at 1 s, and the first arrives at 19 s.
    transfers = [
        transfer(({0: 1.0}, [0], [1]), name="A", size=10),
        transfer(({1: 1.0}, [0], [0]), name="B", size=1),
        transfer(({1: 1.0}, [2], [2]), name="C", size=1, weight=10),
    ]
    stages = [
        [start(0), start(1), wait(1), start(0, 1)],
        [wait(0), Compute(duration_s=100.0), wait(0, 1)],
        [Compute(duration_s=50.0), start(2), wait(2)],
    ]
    step = program(stages, transfers, [1, 1])
    assert run_program(step).step_time_s == pytest.approx(119)
    _, bracket = run_recursion(step)
    assert bracket.high_s >= 119


def two_senders(*more):
    """A of 10 bytes from 0 s and B of 4 bytes from 4 s on over one link of 1, and more roles beside them."""
    transfers = [
        transfer(({0: 1.0}, [0], [2]), name="A", size=10),
        transfer(({0: 1.0}, [1], [3]), name="B", size=4),
        transfer(({0: 1.0}, [4], [4]), name="C", size=1),
    ]
    stages = [[start(0)], [Compute(duration_s=4.0), start(1)], [wait(0)], [wait(1)], *more]
    return program(stages, transfers[: 2 + len(more)], [1])


def test_transfers_of_different_stages_share_a_link_in_the_estimate():
    # A is alone until 4 s. Then both move at a half until B is done at 12 s; A's last 2 bytes take until 14 s.
    step = two_senders()
    trace, bracket = run_recursion(step)
    assert trace.finish_s.tolist() == pytest.approx([0, 4, 14, 12])
    assert run_program(step).step_time_s == pytest.approx(14)
    # Alone A takes 10 s; at half the rate throughout 20 s.
    assert (bracket.low_s, bracket.high_s) == pytest.approx((10, 20))


def test_more_traffic_never_lowers_the_high_end():
    _, without = run_recursion(two_senders())
    _, beside = run_recursion(two_senders([Compute(duration_s=5.0), start(2), wait(2)]))
    _, later = run_recursion(two_senders([Compute(duration_s=50.0), start(2), wait(2)]))
    assert beside.high_s > without.high_s
    assert later.high_s == pytest.approx(51)  # out of every window


def test_transfers_that_the_program_keeps_apart_do_not_share():
    # The second starts when the first is known to be over, by the sender's own wait or by an answer.
    there = transfer(({0: 1.0}, [0], [1]), name="there", size=3)
    back = transfer(({1: 1.0}, [1], [0]), name="back", size=1)
    local = transfer(({2: 1.0}, [0], [0]), name="local", size=2)
    stages = [
        [start(0), wait(1), start(0, 1), start(2), wait(2), start(2, 1), wait(2, 1)],
        [wait(0), start(1), wait(0, 1)],
    ]
    _, bracket = run_recursion(program(stages, [there, back, local], [1, 1, 1]))
    assert bracket.low_s == bracket.high_s == pytest.approx(8)


def test_a_start_long_before_the_next_does_not_meet_it():
    # No answer comes back, but ten seconds of computing lie between two messages of three.
    send = transfer(({0: 1.0}, [0], [1]), name="send", size=3)
    stages = [[start(0), Compute(duration_s=10.0), start(0, 1)], [wait(0), wait(0, 1)]]
    _, bracket = run_recursion(program(stages, [send], [1]))
    assert bracket.low_s == bracket.high_s == pytest.approx(13)


@examples(15)
@given(
    shape=st.builds(
        Shape,
        seed=st.integers(0, 2**32 - 1),
        num_stages=st.integers(1, 4),
        num_replicas=st.integers(1, 5),
        num_buckets=st.integers(1, 2),
        num_micro_batches=st.integers(1, 4),
        num_defects=st.integers(0, 3),
        num_slow=st.integers(0, 3),
        spreads=st.booleans(),
        interleaves=st.booleans(),
        has_subgroups=st.booleans(),
        has_embedding=st.booleans(),
        has_all_to_all=st.booleans(),
        gathers=st.booleans(),
        sender_waits=st.booleans(),
        relays=st.booleans(),
        is_round=st.booleans(),
    ),
    prunes=st.booleans(),
)
def test_any_step_lies_inside_the_bracket(shape, prunes):
    step = random_program(shape, prunes=prunes)
    exact_s = run_program(step).step_time_s
    _, bracket = run_recursion(step)
    assert bracket.low_s <= exact_s * (1 + 1e-9)
    assert exact_s <= bracket.high_s * (1 + 1e-9)


def test_a_dead_link_raises():
    send = transfer(({0: 1.0}, [0], [1]), category=Category.PP)
    with pytest.raises(TopologyError, match="wait for ever"):
        run_recursion(program([[start(0)], [wait(0)]], [send], [0.0]))
