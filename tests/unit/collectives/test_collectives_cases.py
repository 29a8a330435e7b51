"""Published cases A02 to A05 and A11 on the shipped machines, with the shipped constants."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from simnet.collectives.lower import lower
from simnet.collectives.table import collective_table, launch_overhead_s, parse_sizes
from simnet.collectives.tasks import payload_bytes, send
from simnet.errors import NoPathError, SpecError
from simnet.spec.collectives import load_collectives
from simnet.spec.load import load_topology
from simnet.topology import build_cluster

GIB = 2.0**30
MIB = 2.0**20
HOPPER = load_collectives("hopper")
GRACE = load_collectives("blackwell", "GB200")


@functools.cache
def fabric_of(name, count, unit="nodes"):
    return build_cluster(load_topology(name, {unit: count})).compile()


def bus(fabric, ranks, size, constants=HOPPER, op="all_reduce", algorithm="auto"):
    (row,) = collective_table(fabric, op, np.arange(ranks), [size], constants=constants, algorithm=algorithm)
    return row.busbw_bytes_per_s


@pytest.mark.parametrize(("algorithm", "measured"), [("ring", 367e9), ("nvls", 480e9)])
def test_a02_h100_node_at_16_gib(algorithm, measured):
    assert bus(fabric_of("hgx-h100", 1), 8, 16 * GIB, algorithm=algorithm) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    ("size", "algorithm", "low", "high"),
    [(8 * GIB, "auto", 835e9, 847e9), (512 * MIB, "auto", 577e9, 586e9), (8 * GIB, "ring", 680e9, 680e9)],
)
def test_a03_one_nvl72_rack(size, algorithm, low, high):
    rate = bus(fabric_of("gb200-nvl72", 2, "racks"), 72, size, GRACE, algorithm=algorithm)
    assert 0.9 * low <= rate <= 1.1 * high
    assert rate <= 2 * 900e9 * 71 / 73


@pytest.mark.parametrize(("nodes", "measured"), [(1, 480e9), (2, 470e9), (4, 366e9)])
def test_a04_nodes_of_h100_over_ndr(nodes, measured):
    assert bus(fabric_of("hgx-h100", 4), 8 * nodes, 16 * GIB) == pytest.approx(measured, rel=0.12)


def test_a04_two_nodes_exceed_the_nic_sum_and_four_do_not():
    fabric = fabric_of("hgx-h100", 4)
    assert bus(fabric, 16, 16 * GIB) > 400e9 > bus(fabric, 32, 16 * GIB)


def test_a05_small_messages_are_flat_and_never_below_the_hop_latencies():
    sizes = parse_sizes("4B:1KiB:x2")
    rows = collective_table(fabric_of("hgx-h100", 4), "all_reduce", np.arange(16), sizes, constants=HOPPER)
    times = np.array([row.time_s for row in rows])
    assert times.max() / times.min() < 1.1
    assert (times > 20e-6).all()
    assert (times < 100e-6).all()
    assert (np.diff(times) >= 0).all()


def test_a05_ring_latency_grows_with_the_ranks_and_tree_latency_with_their_logarithm():
    # 16 KiB on 2, 8 and 32 nodes of eight: 16, 64, 256 ranks.
    fabric = fabric_of("hgx-h100", 32)
    times = {
        name: [collective_table(fabric, "all_reduce", np.arange(8 * nodes), [16 * 2**10], constants=HOPPER,
                                algorithm=name)[0].time_s for nodes in (2, 8, 32)]
        for name in ("ring", "tree")
    }  # fmt: skip
    ring, tree = np.diff(times["ring"]), np.diff(times["tree"])
    assert ring[1] / ring[0] == pytest.approx((256 - 64) / (64 - 16), rel=0.15)
    assert tree[1] / tree[0] == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "nvls_tree", "hierarchical"])
@pytest.mark.parametrize("nic", [0, 3, 7])
def test_a11_a_lost_nic_costs_between_an_eighth_and_a_half(algorithm, nic):
    cluster = build_cluster(load_topology("hgx-h100", {"nodes": 8}))
    healthy = bus(cluster.compile(), 64, 8 * GIB, algorithm=algorithm)
    cluster.cut_link(f"d0/nic{nic}", f"leaf{nic}")
    share = bus(cluster.compile(), 64, 8 * GIB, algorithm=algorithm) / healthy
    assert 0.50 <= share <= 0.88


def test_only_the_group_of_the_lost_nic_and_its_relay_touch_the_relays_nic():
    cluster = build_cluster(load_topology("hgx-h100", {"nodes": 4}))
    cluster.cut_link("d1/nic3", "leaf3")
    fabric = cluster.compile()
    rails = np.arange(32).reshape(4, 8).T
    tasks = lower(fabric, "all_gather", rails, GIB, constants=HOPPER, algorithm="ring")
    relay = next(i for i in range(fabric.num_resources) if fabric.resource_name(i) == "d1/nic2 -> leaf2")
    assert set(tasks.group[tasks.entry_task[tasks.resource == relay]]) == {2, 3}
    moved = payload_bytes(tasks, fabric.num_resources)
    assert moved[relay] == pytest.approx(2 * 0.75 * GIB)


def test_a_send_from_a_lost_nic_goes_over_its_neighbour():
    cluster = build_cluster(load_topology("hgx-h100", {"nodes": 2}))
    cluster.cut_link("d0/nic5", "leaf5")
    fabric = cluster.compile()
    tasks = send(fabric, [5, 6], [13, 14], 2**20, HOPPER)
    names = [{fabric.resource_name(i) for i in tasks.resource[slice(*tasks.indptr[k : k + 2])]} for k in (0, 1)]
    assert {"d0/gpu5 -> NVSwitches", "d0/nic4 -> leaf4"} <= names[0]
    assert "d0/nic6 -> leaf6" in names[1]
    assert not any("NVSwitch" in name for name in names[1])


def test_node_without_any_live_nic_has_no_path():
    cluster = build_cluster(load_topology("hgx-h100", {"nodes": 2}))
    for nic in range(8):
        cluster.cut_link(f"d0/nic{nic}", f"leaf{nic}")
    with pytest.raises(NoPathError, match="d0/gpu0"):
        lower(cluster.compile(), "all_reduce", np.arange(16), GIB, constants=HOPPER)


def test_halving_one_rail_halves_the_whole_ring():
    cluster = build_cluster(load_topology("hgx-h100", {"nodes": 4}))
    healthy = bus(cluster.compile(), 32, 16 * GIB, algorithm="ring")
    cluster.scale_link("d2/nic6", "leaf6", 0.5)
    assert bus(cluster.compile(), 32, 16 * GIB, algorithm="ring") == pytest.approx(healthy / 2, rel=0.01)


def test_table_names_the_hottest_link_and_its_load():
    (row,) = collective_table(
        fabric_of("hgx-h100", 4), "all_reduce", np.arange(32), [16 * GIB], constants=HOPPER, algorithm="ring"
    )
    assert "nic" in row.hottest_link
    assert row.wire_bytes == pytest.approx(
        16 * GIB * 2 * 31 / 32 * 7 / 8
    )  # NVLink: seven of eight GPUs in each channel
    assert 0.9 < row.hottest_utilisation <= 1
    assert row.why


def test_send_over_rails_takes_the_nic_rate():
    """A send between GPUs that differ in node and slot is not charged for its NVLink hop alone."""
    fabric = fabric_of("hgx-h100", 4)
    tasks = send(fabric, [0], [12], GIB, HOPPER)
    tightest = fabric.capacity_bytes_per_s[tasks.resource].min()
    assert tightest == 50e9


def test_sizes_as_nccl_tests_writes_them():
    assert parse_sizes("8:64:x2") == (8, 16, 32, 64)
    assert parse_sizes("1KiB,3MB") == (1024, 3e6)
    assert parse_sizes("1K:16M:x128") == (2**10, 2**17, 2**24)  # letters of nccl-tests are binary
    assert parse_sizes("1KiB:3KiB:1KiB") == (1024, 2048, 3072)


@pytest.mark.parametrize("text", ["8:4:x2", "8:64:x1", "8:64:0", "1:2:3:4", "0:8:x2", "eight", "8:64:xx", "1:1GiB:1B"])
def test_sizes_that_make_no_sense_are_refused(text):
    with pytest.raises(SpecError):
        parse_sizes(text)


def test_launch_overheads_by_name():
    assert launch_overhead_s("single-process", HOPPER) > launch_overhead_s("multi-process", HOPPER)
    with pytest.raises(SpecError, match="multi_process"):
        launch_overhead_s("by hand", HOPPER)


def test_constants_of_a_grace_machine_and_of_none():
    assert GRACE.generation == "grace"
    with pytest.raises(SpecError, match="hopper"):
        load_collectives("fermi")
