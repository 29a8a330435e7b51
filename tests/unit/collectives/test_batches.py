"""Batches of peers: what a rank cannot make up for in its next batch, by hand and against the whole exchange."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives import batches, names
from simnet.collectives.batches import Batches, batched_rate_bytes_per_s
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.known import Known
from simnet.collectives.lower import lower
from simnet.collectives.tasks import uncontended_rate_bytes_per_s
from simnet.sharing.incidence import Incidence
from simnet.spec.collectives import load_collectives
from simnet.topology import build_cluster

AMPERE = load_collectives("ampere", "A100-80G-SXM")
GIB = 2.0**30


def two_by_two(*links):
    """Two ranks with two batches each: the link of every batch, half a byte on it; rank varies fastest."""
    indptr = np.arange(5, dtype=np.int64)
    incidence = Incidence(indptr=indptr, link=np.array(links, dtype=np.int32), coef=np.full(4, 0.5))
    return Batches(num_ranks=2, num_batches=2, incidence=incidence)


def test_a_link_that_is_idle_in_one_batch_does_not_make_up_for_the_other():
    # Links of 1 byte/s. First both send half a byte over link 0 (1 s), then each over a link of its own (1/2 s).
    assert batched_rate_bytes_per_s(two_by_two(0, 0, 1, 2), np.ones(3)) == pytest.approx(1 / 1.5)


def test_ranks_do_not_wait_for_one_another():
    # Rank 0 has a quick first link (1/4 s), rank 1 a slow one (1/2 s). Then both want link 2 (1 byte/s): rank 0 is
    # alone on it for 1/4 s and moves half of its half byte; they share, rank 0 needs 1/2 s more, rank 1 has then 1/4
    # byte left and is alone: 1/4 s. Together 1/4 + 1/4 + 1/2 + 1/4 s.
    rate = batched_rate_bytes_per_s(two_by_two(0, 1, 2, 2), np.array([2.0, 1.0, 1.0]))
    assert rate == pytest.approx(1 / 1.25)


@pytest.fixture(scope="module")
def hashed():
    cluster = build_cluster("hgx-a100", {"nodes": 6})
    return {routing: cluster.compile(routing) for routing in ("adaptive", "ecmp")}


def exchange(fabric, algorithm):
    ranks = np.arange(48, dtype=np.int32)
    return lower(fabric, "all_to_all", ranks, GIB, constants=AMPERE, algorithm=algorithm)


def test_batches_cost_only_where_a_hash_makes_them_uneven(hashed):
    assert exchange(hashed["adaptive"], names.PAIRWISE_NO_PXN).rate_cap_bytes_per_s == pytest.approx(
        exchange(hashed["adaptive"], names.PAIRWISE).rate_cap_bytes_per_s
    )
    # all six nodes hang on one leaf a rail: with PXN no message passes a spine, so that nothing is hashed
    for routing in ("adaptive", "ecmp"):
        assert exchange(hashed[routing], names.PAIRWISE).rate_cap_bytes_per_s[0] == pytest.approx(
            exchange(hashed["adaptive"], names.PAIRWISE).rate_cap_bytes_per_s[0]
        )
    crossing = exchange(hashed["ecmp"], names.PAIRWISE_NO_PXN).rate_cap_bytes_per_s[0]
    assert crossing < 0.9 * exchange(hashed["adaptive"], names.PAIRWISE_NO_PXN).rate_cap_bytes_per_s[0]


def test_batches_are_never_quicker_than_the_whole_exchange_at_once(hashed, monkeypatch):
    monkeypatch.setattr(batches, "CONNECTIONS", 1)
    fabric = hashed["ecmp"]
    (shape,) = Known().shapes(fabric, np.arange(48, dtype=np.int32)[None])
    in_turn = shape.batched_rate_bytes_per_s(fabric, "all_to_all", names.PAIRWISE_NO_PXN, AMPERE)
    tasks = exchange(fabric, names.PAIRWISE_NO_PXN)
    tasks.rate_cap_bytes_per_s[:] = np.inf
    assert in_turn <= uncontended_rate_bytes_per_s(tasks, usable_capacity(fabric, AMPERE)) * (1 + 1e-9)


def test_taking_near_ends_together_stays_close(monkeypatch):
    fabric = build_cluster("hgx-a100", {"nodes": 14}).compile("ecmp")

    def rate():
        (shape,) = Known().shapes(fabric, np.arange(112, dtype=np.int32)[None])
        return shape.batched_rate_bytes_per_s(fabric, "all_to_all", names.PAIRWISE_NO_PXN, AMPERE)[0]

    monkeypatch.setattr(batches, "MOST_EVENTS", 10**9)
    exact = rate()
    monkeypatch.setattr(batches, "MOST_EVENTS", 500)
    assert exact * 0.97 < rate() <= exact * 1.001
