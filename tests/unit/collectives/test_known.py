"""What is found out about communicators once serves all their collectives, and changes none."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from simnet.collectives.known import Known
from simnet.collectives.lower import lower
from simnet.spec.collectives import load_collectives

HOPPER = load_collectives("hopper")
OPS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size_bytes", [1e5, 1e9])
def test_what_is_known_changes_no_task(make_fabric, op, size_bytes):
    fabric, groups, known = make_fabric(domains=4), np.arange(32).reshape(2, 16), Known()
    for earlier in OPS:
        lower(fabric, earlier, groups, 1e7, constants=HOPPER, known=known)
    told = lower(fabric, op, groups, size_bytes, constants=HOPPER, known=known)
    alone = lower(fabric, op, groups, size_bytes, constants=HOPPER)
    for field in fields(alone):
        np.testing.assert_array_equal(getattr(told, field.name), getattr(alone, field.name))


def test_collectives_with_the_same_edges_share_their_arrays(make_fabric):
    fabric, groups, known = make_fabric(domains=2), np.arange(16)[None, :], Known()
    gather, scatter = (
        lower(fabric, op, groups, 1e9, constants=HOPPER, algorithm="ring", known=known)
        for op in ("all_gather", "reduce_scatter")
    )
    assert gather.resource is scatter.resource
    assert gather.coef is scatter.coef


def test_a_broadcast_shares_no_edges_with_a_ring(make_fabric):
    fabric, groups, known = make_fabric(), np.arange(8)[None, :], Known()
    gather, broadcast = (
        lower(fabric, op, groups, 1e9, constants=HOPPER, algorithm="ring", known=known)
        for op in ("all_gather", "broadcast")
    )
    assert len(broadcast.resource) < len(gather.resource)
