"""Who can hold whom back, on networks of two or three links."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.engine.blocks import split
from simnet.engine.executor import run_program
from simnet.workload.ops import Category, Compute, Start, Wait
from tests.oracle.hand_program import program, transfer


def blocks_of(step):
    return split(step.geometries, step.capacity, step.can_bind)


def ring_beside_tensor_traffic(nvlink, nic=4.0):
    """A ring over NVLink port 0 and NIC 1, and a tensor-parallel collective on the port."""
    ring = transfer(({0: 1.0, 1: 1.0}, [0], [0]), name="ring", size=12)
    tensor = transfer(({0: 1.0}, [0], [0]), name="tensor", category=Category.TP, size=24)
    ops = [Start(comm=0, instance=0), Start(comm=1, instance=0), Wait(comm=1, instance=0), Wait(comm=0, instance=0)]
    return program([ops], [ring, tensor], [nvlink, nic])


def test_a_ring_held_back_by_its_nic_is_solved_before_the_traffic_on_a_wide_port():
    # Port 20, NIC 4: if the port is full, the collective has at least 16 on it, far more than the ring's 4.
    step = ring_beside_tensor_traffic(nvlink=20.0)
    blocks = blocks_of(step)
    assert blocks.level == (0, 1)
    assert [flags.tolist() for flags in blocks.passes] == [[True, False], [False]]
    # The collective gets 16 until 1.5 s; the ring 4 all the way: 3 s.
    trace = run_program(step)
    assert [(span.transfer, span.end_s) for span in trace.flows] == [(1, pytest.approx(1.5)), (0, pytest.approx(3))]
    assert trace.peak_share == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(("nvlink", "level", "seconds"), [(6.0, (0, 0), 6.0), (7.0, (0, 1), 36 / 7)])
def test_a_port_that_may_hold_the_ring_back_couples_it(nvlink, level, seconds):
    # Half the port is less than the NIC's 4, so the port binds. Of 7 the split expects the collective to leave
    # enough, since it seldom runs together with the ring; the solve finds that it does, and all is solved together.
    # The port is full to the end: 12 + 24 bytes.
    step = ring_beside_tensor_traffic(nvlink)
    assert blocks_of(step).level == level
    trace = run_program(step)
    assert trace.step_time_s == pytest.approx(seconds)
    (ring,) = [span for span in trace.flows if span.transfer == 0]
    assert ring.end_s == pytest.approx(12 / (nvlink / 2))


def test_links_of_equal_capacity_on_one_path_both_stay_in_the_solve():
    # Thirds leave rounding in sums; two uses of the message must still share the path.
    message = transfer(({0: 1.0, 1: 1.0}, [0], [1]), category=Category.PP, size=4)
    others = [transfer(({2 + i: 1.0}, [0], [0]), size=1) for i in range(5)]
    sender = [Start(comm=0, instance=0), Start(comm=0, instance=1)]
    receiver = [Wait(comm=0, instance=0), Wait(comm=0, instance=1)]
    step = program([sender, receiver], [message, *others], [4 / 3, 4 / 3, *[0.1 * i + 1 / 7 for i in range(5)]])
    assert not any(flags.any() for flags in blocks_of(step).passes)
    assert run_program(step).step_time_s == pytest.approx(6)


def test_a_crowd_that_the_split_does_not_allow_for_is_solved_together():
    # Four uses of the collective leave the ring only 20/5 = 4 of the port; eight leave it 20/9. The ring then ends
    # after the eight of 24 bytes: 12 / (20/9) = 5.4 s.
    step = ring_beside_tensor_traffic(nvlink=20.0)
    ops = [Start(comm=1, instance=i) for i in range(8)]
    waits = [Wait(comm=1, instance=i) for i in range(8)]
    role = [Start(comm=0, instance=0), *ops, Wait(comm=0, instance=0), Compute(duration_s=0.5), *waits]
    crowded = program([role], [ring_of(step, 0), ring_of(step, 1)], step.capacity)
    trace = run_program(crowded)
    (ring,) = [span for span in trace.flows if span.transfer == 0]
    assert ring.end_s == pytest.approx(5.4)
    # All bytes over the port: 12 + 8 * 24 = 204 at 20.
    assert trace.step_time_s == pytest.approx(10.2)


def test_a_crowd_in_the_middle_of_a_step_leaves_what_was_moved_before_as_it_is():
    # Port 10, NIC 4.8. Beside one collective the ring has its 4.8 and the collective 5.2; from 1 s on a second one
    # makes thirds of the port. The first has 10 - 5.2 = 4.8 left and ends at 1 + 4.8 / (10 / 3) = 2.44 s; the ring
    # then has 5.2 - 4.8 = 0.4 left at 4.8: 2.44 + 0.4 / 4.8 = 2.5233 s. The port is full to the end: 30 bytes at 10.
    ring = transfer(({0: 1.0, 1: 1.0}, [0], [0]), name="ring", size=10)
    one = transfer(({0: 1.0}, [0], [0]), name="one", size=10)
    two = transfer(({0: 1.0}, [1], [1]), name="two", size=10)
    first = [Start(comm=0, instance=0), Start(comm=1, instance=0), Wait(comm=1, instance=0), Wait(comm=0, instance=0)]
    second = [Compute(duration_s=1.0), Start(comm=2, instance=0), Wait(comm=2, instance=0)]
    step = program([first, second], [ring, one, two], [10.0, 4.8])
    assert blocks_of(step).level == (0, 1, 1)
    trace = run_program(step)
    ends = {span.transfer: span.end_s for span in trace.flows}
    assert ends == {0: pytest.approx(2.44 + 0.4 / 4.8), 1: pytest.approx(2.44), 2: pytest.approx(3)}


def ring_of(step, index):
    """A transfer of a step as a record to build another with."""
    record = step.transfers[index]
    names = ("name", "category", "size_bytes", "latency_s", "starters", "waiters")
    return {name: getattr(record, name) for name in names} | {"geometry": step.geometries[record.geometry]}


def test_without_links_there_is_nothing_to_split():
    step = program([[Compute(duration_s=1.0)]], [transfer(({}, [0], [0]))], np.zeros(0))
    assert blocks_of(step).level == (0,)
