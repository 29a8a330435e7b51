"""What chunks add to a collective's time, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives.machine import Machine
from simnet.collectives.pipeline import fill_s
from simnet.spec.collectives import load_collectives

KIB, MIB = 2.0**10, 2.0**20
TWO_NODES = Machine(
    num_ranks=16,
    num_nodes=2,
    num_heads=8,
    max_local=8,
    min_local=8,
    nvlink_bytes_per_s=300e9,
    nic_bytes_per_s=25e9,
)


def fill_of(algorithm, protocol, size, machine=TWO_NODES, generation="ampere", **options):
    constants = load_collectives(generation)
    found = fill_s(algorithm, protocol, machine, np.array([size]), np.array([100e9]), constants, **options)
    return float(found[0])


def test_a_chunk_of_half_a_mebibyte_passes_every_hop_of_a_simple_tree():
    # Eight channels: 14 hops in nodes at an eighth of 300 GB/s x 0.785, 2 between at an eighth of 8 x 25 GB/s x 0.96.
    inside = 14 * 512 * KIB / (300e9 * 0.785 / 8)
    between = 2 * 512 * KIB / (8 * 25e9 * 0.96 / 8)
    assert fill_of("tree", "simple", 64 * MIB) == pytest.approx(inside + between)
    assert fill_of("tree", "simple", 8 * MIB) == pytest.approx(inside + between)


def test_a_smaller_message_goes_in_two_chunks_a_channel():
    # 4 MiB over eight channels: 512 KiB each, so chunks of 256 KiB, half of the full fill.
    assert fill_of("tree", "simple", 4 * MIB) == pytest.approx(fill_of("tree", "simple", 64 * MIB) / 2)


def test_registered_buffers_leave_the_rounds_of_in_switch_reduction_and_nothing_else():
    node = Machine(
        num_ranks=8,
        num_nodes=1,
        num_heads=0,
        max_local=8,
        min_local=8,
        nvlink_bytes_per_s=900e9,
        nic_bytes_per_s=np.inf,
    )
    size, constants = 64 * MIB, load_collectives("blackwell")
    copied, registered = (
        fill_of("nvls", "simple", size, node, "blackwell", registered=registered) for registered in (False, True)
    )
    # Two stages of a round of 24 channels x 8 heads x 32 KiB, at 100 GB/s: 64 KiB pay from 96 MiB on.
    staged = (copied - registered) * 100e9 / constants.protocols.nvls_stages.si
    assert staged == pytest.approx(24 * 8 * 32 * KIB)
    assert registered > 0
