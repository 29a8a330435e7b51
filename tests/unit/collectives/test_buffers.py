"""What registered and symmetric buffers change: the kernels that run, and why they do not."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives.choice import choose
from simnet.collectives.machine import Machine
from simnet.errors import SpecError
from simnet.runner.collective import simulate_collective
from simnet.spec.collectives import load_collectives

MIB, GIB = 2.0**20, 2.0**30


def node(num_ranks=8, nodes=1):
    return Machine(
        num_ranks=num_ranks * nodes,
        num_nodes=nodes,
        num_heads=0 if nodes == 1 else num_ranks,
        max_local=num_ranks,
        min_local=num_ranks,
        nvlink_bytes_per_s=450e9,
        nic_bytes_per_s=np.inf if nodes == 1 else 50e9,
    )


def choice(op="all_reduce", size=8192.0, machine=None, generation="hopper", **more):
    return choose(op, machine or node(), size, load_collectives(generation), **more)


def test_symmetric_buffers_go_to_symmetric_kernels_where_nccl_has_them():
    # NCCL 2.30 takes them for both buffers symmetric, whatever the tuner says; LL up to 2 GiB (src/sym_kernels.cc).
    # On Hopper LL is quicker by 3.3 us and moves half: an all-reduce changes where S x 1.75 (1/240 - 1/480 GB/s) =
    # 3.3 us, at 905 kB.
    for op in ("all_reduce", "all_gather", "reduce_scatter"):
        found = choice(op, buffers="symmetric")
        assert (found.algorithm, found.protocol) == ("symmetric", "ll")
    assert choice(size=0.90e6, buffers="symmetric").protocol == "ll"
    assert choice(size=0.91e6, buffers="symmetric").protocol == "simple"
    assert choice(size=3 * GIB, buffers="symmetric", excluded=("simple",)).protocol == "simple"


@pytest.mark.parametrize(
    ("op", "machine", "generation", "excluded", "why"),
    [
        ("all_reduce", node(nodes=2), "hopper", (), "the ranks lie in several NVLink domains"),
        ("all_reduce", node(), "ampere", (), "NCCL has no symmetric-memory kernels for the ampere generation"),
        ("broadcast", node(), "hopper", (), "NCCL has none for broadcast"),
        ("all_gather", node(), "hopper", ("symmetric",), "they are switched off"),
    ],
)
def test_where_they_do_not_run_the_row_says_why(op, machine, generation, excluded, why):
    found = choice(op, machine=machine, generation=generation, excluded=excluded, buffers="symmetric")
    assert found.algorithm != "symmetric"
    assert f"no symmetric-memory kernels: {why}" in found.why
    assert "symmetric" not in choice(op, machine=machine, generation=generation).why


def test_plain_buffers_cannot_be_sent_through_them():
    with pytest.raises(SpecError, match="not registered as symmetric memory"):
        choice(algorithm="symmetric")
    assert choice(algorithm="symmetric", buffers="symmetric").algorithm == "symmetric"
    assert choice(algorithm="ring", buffers="symmetric").algorithm == "ring"


def test_a_small_all_reduce_takes_the_kernels_latency_and_its_bytes():
    # 4.5 us and 8 KiB at 240 GB/s of bus bandwidth; the wire, 450 GB/s x 0.815 / (9/8), is wider.
    (row,) = simulate_collective("hgx-h100", ranks=8, sizes="8KiB", buffers="symmetric").rows
    assert row.time_s == pytest.approx(4.5e-6 + 8192 * 1.75 / 240e9, rel=1e-9)
    assert row.wire_bytes == pytest.approx(8192 * 9 / 8)


def test_registered_buffers_spare_the_copies_of_in_switch_reduction():
    # Two stages of 16 MiB (16 channels x 8 heads x 128 KiB) at the rate of the switch, 450 GB/s x 0.733 x 8/9.
    plain, registered = (
        simulate_collective("hgx-h100", ranks=8, sizes="1GiB", algorithm="nvls", buffers=buffers).rows[0].time_s
        for buffers in ("plain", "registered")
    )
    assert plain - registered == pytest.approx(2 * 16 * MIB / (450e9 * 0.733 * 8 / 9), rel=1e-9)


def test_payload_of_each_tier_of_a_modular_machine():
    # Two subclusters of four nodes of eight H100. All-reduce of S over shards: 2 x 7/8 S over NVLink, 2 x 7/8 S/8 on
    # each NIC. Across: one ring edge of 2 x 7/8 S/8 for each rail with two levels; with three, a ring over the two
    # subclusters for each of the four nodes, 2 x 1/2 S/32 each, S/8 together. Each rail has a leaf; all share the join.
    tiers = {
        algorithm: simulate_collective("hgx-h100-modular", sizes="1GiB", algorithm=algorithm).rows[0].tier_bytes
        for algorithm in ("hierarchical", "hierarchical_3")
    }
    for found in tiers.values():
        assert found["nvlink"] == pytest.approx(1.75 * GIB)
        assert found["nic_leaf"] == pytest.approx(1.75 * GIB / 8)
    for algorithm, across in (("hierarchical", 1.75 * GIB), ("hierarchical_3", GIB)):
        assert tiers[algorithm]["leaf_spine"] == pytest.approx(across / 8)
        assert tiers[algorithm]["join"] == pytest.approx(across)
