"""Steps of a few operations, whose times are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.engine.executor import run_program
from simnet.errors import TopologyError
from simnet.workload.ops import Category, Compute, Start, Wait
from tests.oracle.hand_program import program, transfer


def both(ops):
    """Run as it stands, and with every actor a class of its own."""
    return run_program(ops), run_program(ops, is_split=True)


def flow(trace, number):
    """(start, end) of the one use of a transfer by the first replica."""
    (span,) = [span for span in trace.flows if span.transfer == number]
    return pytest.approx((span.start_s, span.end_s))


@pytest.mark.parametrize(
    ("crossings", "ring_end_s", "send_end_s"),
    [
        # Link 0 carries 10, the ring's NIC 8. The ring (40 bytes an edge) runs alone at 8 for 2 s: 24 are left. Then
        # the send (30 bytes) comes. The ring crosses the link with one edge: r + s = 10, both get 5. The ring ends
        # at 2 + 24/5 = 6.8 s, when the send has 30 - 24 = 6 left, which take 0.6 s at 10.
        (1, 6.8, 7.4),
        # The ring crosses the link with two of its edges: alone min(8, 10/2) = 5, so 30 are left at 2 s. Then
        # 2r + s = 10 with r = s gives 10/3 each: both have 30 left and end at 2 + 9 = 11 s.
        (2, 11.0, 11.0),
        # With half an edge (the route is spread over two links) r/2 + s = 10: level 20/3 for both while the ring's
        # NIC allows 8. The ring's 24 left end at 2 + 3.6 = 5.6 s; the send has 6 left and then 10.
        (0.5, 5.6, 6.2),
    ],
)
def test_a_pipeline_send_and_a_gradient_ring_share_a_link_max_min_fairly(crossings, ring_end_s, send_end_s):
    ring = transfer(({0: crossings, 1: 1.0}, [0, 1], [0, 1]), size=40)
    sends = transfer(
        ({0: 1.0}, [0], [2]), ({2: 1.0}, [1], [3]), category=Category.PP, size=30
    )  # the second replica's message meets nobody: 3 s at 10
    sender = [Start(comm=0, instance=0), Compute(duration_s=2.0), Start(comm=1, instance=0), Wait(comm=0, instance=0)]
    step = program([sender, [Wait(comm=1, instance=0)]], [ring, sends], [10, 8, 10], num_replicas=2)
    for trace in both(step):
        assert trace.finish_s == pytest.approx([ring_end_s, ring_end_s, send_end_s, 5.0])
        assert trace.resource_bytes == pytest.approx([40 * crossings + 30, 40, 30])
        assert trace.bound_by.tolist() == [True, crossings < 2, True]


def test_gradient_rings_overlap_the_backward_pass_in_completion_order():
    # Chunks 2, 1, 0 run backward for 3 s each; each then launches the ring of its gradients, 8 bytes over a NIC of 2.
    #   3 s  chunk 2's ring alone at 2
    #   6 s  2 left; chunk 1's joins, 1 each: chunk 2's ends at 8 s
    #   8 s  chunk 1's has 6 left, alone at 2
    #   9 s  4 left; chunk 0's joins, 1 each: chunk 1's ends at 13 s
    #  13 s  chunk 0's has 4 left, alone at 2: ends at 15 s
    # The NIC never idles from 3 s on: 24 bytes / 2 = 12 s. Without overlap the rings would end at 9 + 12 = 21 s.
    rings = [transfer(({0: 1.0}, [0, 1], [0, 1]), name=f"chunk {chunk}", size=8) for chunk in range(3)]
    ops = []
    for chunk in (2, 1, 0):
        ops += [Compute(duration_s=3.0, chunk=chunk, label="B"), Start(comm=chunk, instance=0)]
    ops += [Wait(comm=chunk, instance=0) for chunk in (2, 1, 0)]
    ops.append(Compute(duration_s=1.0, category=Category.OPTIMIZER, label="optimizer"))
    for trace in both(program([ops], rings, [2.0], num_replicas=2)):
        assert [flow(trace, chunk) for chunk in (2, 1, 0)] == [(3, 8), (6, 13), (9, 15)]
        backward_end_s = max(span.end_s for span in trace.spans if span.op == 4)
        assert backward_end_s == pytest.approx(9)
        assert all(span.start_s < backward_end_s for span in trace.flows if span.transfer > 0)
        assert trace.step_time_s == pytest.approx(16)
        (spent,) = trace.time_by_category_s
        assert spent == pytest.approx({"compute": 9, "dp": 6, "optimizer": 1, "bubble": 0})


@pytest.mark.parametrize("num_replicas", [4, 64])
def test_a_slow_gpu_splits_its_class_and_the_next_ring_merges_it_again(num_replicas):
    # Replica 2 takes 3 s instead of 2; the ring of 4 bytes at 4 starts with it and takes 1 s. Twice: 2 * (3 + 1) = 8.
    everyone = list(range(num_replicas))
    ring = transfer(({0: 1.0}, everyone, everyone), size=4)
    ops = []
    for number in range(2):
        ops += [Compute(duration_s=2.0), Start(comm=0, instance=number), Wait(comm=0, instance=number)]
    slowdown = np.ones(num_replicas)
    slowdown[2] = 1.5
    trace = run_program(program([ops], [ring], [4.0], num_replicas=num_replicas, slowdown=slowdown))
    assert trace.finish_s == pytest.approx([8] * num_replicas)
    assert trace.num_classes == 2
    # Per round: both classes end their work, and the ring, which meets no other, ends; and one event at the start.
    assert trace.num_events == 1 + 2 * 3
    (spent,) = trace.time_by_category_s
    assert spent["compute"] == pytest.approx((4 * (num_replicas - 1) + 6) / num_replicas)
    assert spent["bubble"] == pytest.approx(2 * (num_replicas - 1) / num_replicas)
    assert spent["dp"] == pytest.approx(2)


def test_a_degraded_nic_splits_off_only_the_replica_behind_it():
    # Sends of 8 bytes over NICs of 4; that of replica 1 has 2. The receivers compute 1 s.
    count = 32
    sends = transfer(*(({r: 1.0}, [r], [count + r]) for r in range(count)), category=Category.PP, size=8)
    capacity = np.full(count, 4.0)
    capacity[1] = 2
    stages = [[Start(comm=0, instance=0)], [Wait(comm=0, instance=0), Compute(duration_s=1.0)]]
    trace = run_program(program(stages, [sends], capacity, num_replicas=count))
    assert trace.finish_s[count:] == pytest.approx([5.0 if replica == 1 else 3.0 for replica in range(count)])
    assert trace.num_classes == 2


def test_a_group_contends_with_itself():
    # Four messages of one transfer over one trunk of 6, one of them behind a NIC of 1: 1 + 3 * 5/3 = 6. The three end
    # at 6 s (10 bytes at 5/3), the slow one at 10 s.
    sends = transfer(
        ({0: 1.0, 1: 1.0}, [0], [4]), *(({0: 1.0}, [r], [4 + r]) for r in (1, 2, 3)), category=Category.PP, size=10
    )
    step = program([[Start(comm=0, instance=0)], [Wait(comm=0, instance=0)]], [sends], [6, 1], num_replicas=4)
    for trace in both(step):
        assert trace.finish_s == pytest.approx([0] * 4 + [10, 6, 6, 6])


def test_two_uses_of_one_transfer_share_its_links():
    # Messages of 10 bytes at 0 and 1 s over a link of 2: 2 until 1 s, then 1 each. The first has 8 left and ends at
    # 9 s; the second has 2 left and ends at 10 s.
    send = transfer(({0: 1.0}, [0], [1]), category=Category.PP, size=10)
    sender = [Start(comm=0, instance=0), Compute(duration_s=1.0), Start(comm=0, instance=1)]
    receiver = [Wait(comm=0, instance=0), Compute(duration_s=0.25), Wait(comm=0, instance=1)]
    for trace in both(program([sender, receiver], [send], [2.0])):
        assert [(span.start_s, span.end_s) for span in trace.flows] == [pytest.approx((0, 9)), pytest.approx((1, 10))]
        assert trace.finish_s == pytest.approx([1, 10])


def test_latency_comes_before_the_bytes_and_an_empty_task_takes_only_latency():
    sends = transfer(({0: 1.0}, [0], [2]), ({0: 1.0}, [1], [3]), category=Category.PP, size=[6, 0], latency=[0.5, 0.25])
    step = program([[Start(comm=0, instance=0)], [Wait(comm=0, instance=0)]], [sends], [3.0], num_replicas=2)
    for trace in both(step):
        assert trace.finish_s == pytest.approx([0, 0, 2.5, 0.25])


def test_a_task_without_links_and_cap_takes_no_time():
    # A group of one member; its brother has two and 4 bytes over a link of 2.
    rings = transfer(({}, [0], [0]), ({0: 1.0}, [1, 2], [1, 2]), size=4)
    ops = [Compute(duration_s=1.0), Start(comm=0, instance=0), Wait(comm=0, instance=0)]
    for trace in both(program([ops], [rings], [2.0], num_replicas=3)):
        assert trace.finish_s == pytest.approx([1, 3, 3])


def test_a_sender_that_waits_is_held_until_its_message_has_gone():
    send = transfer(({0: 1.0}, [0], [0, 1]), category=Category.PP, size=4)
    sender = [Start(comm=0, instance=0), Wait(comm=0, instance=0), Compute(duration_s=1.0)]
    for trace in both(program([sender, [Wait(comm=0, instance=0)]], [send], [2.0])):
        assert trace.finish_s == pytest.approx([3, 2])


def test_a_collective_over_stages_starts_with_its_last_member():
    # First and last stage share an all-reduce per replica; the last stage comes to it at 3 s.
    ring = transfer(({0: 1.0}, [0, 2], [0, 2]), ({1: 1.0}, [1, 3], [1, 3]), size=2)
    meet = [Start(comm=0, instance=0), Wait(comm=0, instance=0)]
    stages = [[Compute(duration_s=1.0), *meet], [Compute(duration_s=3.0), *meet]]
    for trace in both(program(stages, [ring], [2.0, 1.0], num_replicas=2)):
        assert trace.finish_s == pytest.approx([4, 5, 4, 5])
        assert trace.time_by_category_s[0] == pytest.approx({"compute": 1, "bubble": 2 + 0.5, "dp": 1.5})


def test_ranks_that_wait_for_a_dead_link_are_named_with_what_they_wait_for():
    sends = transfer(({0: 1.0}, [0], [2]), ({1: 1.0}, [1], [3]), name="activations", category=Category.PP, size=1)
    stages = [[Start(comm=0, instance=7)], [Wait(comm=0, instance=7)]]
    with pytest.raises(TopologyError, match="stage 1 replica 1 waits for activations #7") as caught:
        run_program(program(stages, [sends], [1.0, 0.0], num_replicas=2))
    assert "replica 0" not in str(caught.value)


def test_ranks_that_wait_for_a_message_that_nobody_sends_are_named():
    send = transfer(({0: 1.0}, [0], [1]), name="activations", category=Category.PP)
    with pytest.raises(TopologyError, match="stage 1 replica 0 waits for activations #1"):
        run_program(program([[Start(comm=0, instance=0)], [Wait(comm=0, instance=1)]], [send], [1.0]))


def test_many_waiting_ranks_are_named_in_part_and_counted():
    count = 12
    sends = transfer(*(({0: 1.0}, [r], [count + r]) for r in range(count)), category=Category.PP)
    stages = [[Start(comm=0, instance=0)], [Wait(comm=0, instance=0)]]
    with pytest.raises(TopologyError, match="and 4 more"):
        run_program(program(stages, [sends], [0.0], num_replicas=count), is_split=True)


def test_a_message_that_never_arrives_is_no_success_even_if_nobody_waits_for_it():
    send = transfer(({0: 1.0}, [0], [1]), name="gradients", category=Category.PP)
    step = program([[Start(comm=0, instance=3)], [Compute(duration_s=1.0)]], [send], [0.0])
    with pytest.raises(TopologyError, match="gradients #3, which nobody waits for, never ends"):
        run_program(step)
