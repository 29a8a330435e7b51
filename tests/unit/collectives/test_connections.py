"""Links shared by connections: a collective gets a share for each of its channels, a message for its two."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives.capacity import usable_capacity
from simnet.collectives.connections import message_weight
from simnet.collectives.exchange import exchange
from simnet.collectives.groups import by_shape
from simnet.collectives.known import machine_of
from simnet.collectives.loads import loads
from simnet.collectives.lower import lower
from simnet.collectives.tasks import concatenate, send
from simnet.collectives.together import shared_times_s
from simnet.spec.collectives import load_collectives

GIB = 2.0**30
HOPPER = load_collectives("hopper")
SHARES = (message_weight(HOPPER, is_near=False), message_weight(HOPPER, is_near=True))


def connections(make_fabric, op, algorithm, *, domains, per_node=8, nics=8):
    """Weight times load on the busiest NIC, over NVLink in one node."""
    fabric = make_fabric(domains=domains, nics=nics)
    ranks = (np.arange(domains)[:, None] * 8 + np.arange(per_node)).ravel()
    tasks = lower(fabric, op, ranks, GIB, constants=HOPPER, algorithm=algorithm, by_connections=True)
    (groups,) = by_shape(fabric, ranks)
    traffic = loads(op, algorithm, machine_of(fabric, groups))
    return tasks.weight[0] * (traffic.nic if domains > 1 else traffic.nvlink)


@pytest.mark.parametrize(
    ("op", "algorithm", "more", "expected"),
    [
        ("all_reduce", "ring", {"domains": 2}, 2),  # 8 channels of the search, doubled, over 8 NICs
        ("all_reduce", "ring", {"domains": 2, "nics": 4}, 2),
        ("all_gather", "ring", {"domains": 4, "per_node": 1}, 4),  # at least two channels, doubled, over one NIC
        ("all_reduce", "ring", {"domains": 1}, 24),  # channels of a ring in one node
        ("all_reduce", "tree", {"domains": 2}, 2),  # two tree edges of a node, each with half of the channels
        ("all_reduce", "tree", {"domains": 8}, 4),  # four
        ("all_reduce", "nvls_tree", {"domains": 2}, 16),  # all 16 channels at every NIC
        ("all_to_all", "pairwise", {"domains": 4}, 16),  # two to each of the eight peers of a batch
        ("all_to_all", "pairwise", {"domains": 2, "per_node": 4, "nics": 8}, 8),  # four peers elsewhere
        ("all_to_all", "pairwise", {"domains": 4, "nics": 4}, 32),  # two GPUs at each NIC
    ],
)
def test_connections_on_the_busiest_port(make_fabric, op, algorithm, more, expected):
    assert connections(make_fabric, op, algorithm, **more) == pytest.approx(expected)


def test_a_ring_and_a_message_share_a_nic_by_halves(make_fabric):
    # One of a ring's eight NICs (2 connections) also sends a message (2 connections): 24 of its 48 GB/s each, and the
    # ring moves at eight times 24 GB/s. Shared by tasks, a ring that loads the NIC with an eighth gets a ninth of it.
    fabric = make_fabric(domains=2)
    capacity = usable_capacity(fabric, HOPPER)

    def rates(*, by_connections):
        weights = SHARES if by_connections else (1.0, 1.0)
        ring = lower(
            fabric, "all_reduce", np.arange(16), 100 * GIB, constants=HOPPER, algorithm="ring",
            by_connections=by_connections,
        )  # fmt: skip
        message = send(fabric, [0], [8], GIB, HOPPER, weights=weights)
        both = concatenate((ring, message))
        done = shared_times_s(both, capacity)[1] - both.latency_s[1]
        return GIB / done

    assert rates(by_connections=True) == pytest.approx(24e9, rel=1e-2)  # the message starts first, by some 0.1 ms
    assert rates(by_connections=False) == pytest.approx(48e9 * 8 / 9, rel=1e-2)


def test_messages_of_an_exchange_and_alone_weigh_alike(make_fabric):
    fabric = make_fabric(domains=2)
    sent = np.zeros((2, 2))
    sent[0, 1] = GIB
    one = exchange(fabric, [0, 8], sent, constants=HOPPER, op="sendrecv", by_connections=True)
    alone = send(fabric, [0, 0], [8, 1], GIB, HOPPER, weights=SHARES)
    assert alone.weight.tolist() == [2.0, 24.0]
    assert one.weight[0] == alone.weight[0]


def test_tasks_weigh_alike_unless_asked(make_fabric):
    fabric = make_fabric(domains=2)
    assert lower(fabric, "all_reduce", np.arange(16), GIB, constants=HOPPER).weight.tolist() == [1.0]
    assert send(fabric, [0], [8], GIB, HOPPER).weight.tolist() == [1.0]


def test_connections_change_no_time_of_a_task_alone(make_fabric):
    fabric = make_fabric(domains=2)
    capacity = usable_capacity(fabric, HOPPER)
    one, other = (
        lower(fabric, "all_reduce", np.arange(16), GIB, constants=HOPPER, algorithm="ring", by_connections=flag)
        for flag in (True, False)
    )
    assert shared_times_s(one, capacity) == pytest.approx(shared_times_s(other, capacity), rel=1e-12)
