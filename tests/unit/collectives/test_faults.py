"""Single faults as physical models: what each does to a collective, against hand computation."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.collectives import names
from simnet.collectives.faults import HEALTHY, catalogue
from simnet.collectives.table import collective_table
from simnet.collectives.under_fault import SEND, Query, predicted_times_s, site_of
from simnet.errors import LayoutError, TopologyError
from simnet.spec.collectives import load_collectives
from simnet.spec.faults import load_faults
from simnet.spec.load import load_topology
from simnet.topology import build_cluster

GIB = 2.0**30
HOPPER = load_collectives("hopper")
TWO = load_topology("hgx-h100", {"nodes": 2})
ALL = {fault.name: fault for fault in catalogue(build_cluster(TWO), HOPPER, load_faults())}
RANKS = tuple(range(16))


def query(op="all_reduce", sizes=(16 * GIB,), **more):
    return Query(op=op, ranks=RANKS, sizes_bytes=sizes, **more)


def bus(fault="healthy", value=0.0, spec=TWO, **more):
    asked = query(**more)
    time_s = predicted_times_s(site_of(spec, [asked], HOPPER), ALL[fault], value)
    factor = 1.0 if asked.op == SEND else names.bus_factor(asked.op, len(asked.ranks))
    return np.array(asked.sizes_bytes) * factor / time_s


def test_no_fault_gives_the_table_of_the_healthy_fabric():
    sizes = (2.0**10, 2.0**20, GIB)
    rows = collective_table(build_cluster(TWO).compile(), "all_reduce", RANKS, sizes, constants=HOPPER)
    predicted = predicted_times_s(site_of(TWO, [query(sizes=sizes)], HOPPER), HEALTHY)
    assert predicted == pytest.approx([row.time_s for row in rows], rel=1e-12)


def test_a_slow_rail_sets_the_ring_of_all():
    assert bus("slow_rail", 0.25, algorithm="ring")[0] == pytest.approx(8 * 50e9 * 0.96 * 0.25, rel=0.01)
    assert bus("slow_rails", 0.25, algorithm="ring")[0] == pytest.approx(8 * 50e9 * 0.96 * 0.25, rel=0.01)


@pytest.mark.parametrize(
    ("fault", "value", "per_nic"),
    [
        ("no_gpudirect", 6.5, 6.5e9),  # the rate itself
        ("acs_iommu", 88, 2**20 / 88e-6),  # eight steps of 128 KiB in 88 us: 11.9 GB/s
        ("outstanding_reads", 16, 16 * 512 / 0.967e-6),  # 8.5 GB/s
        ("shared_port", 4, 63e9 * 0.85 / 4),  # a Gen5 x16 port over four NICs
        ("bonded_port", 0, 50e9 * 0.96 / 2),
    ],
)
def test_a_limit_of_every_nic_is_the_rate_of_a_message(fault, value, per_nic):
    assert bus(fault, value, op=SEND)[0] == pytest.approx(per_nic, rel=0.01)


def test_a_double_tree_on_two_nodes_gains_fifteen_eighths_under_a_hidden_limit_too():
    ring, tree = bus("acs_iommu", 88, algorithm="ring")[0], bus("acs_iommu", 88)[0]
    assert tree / ring == pytest.approx(15 / 8, rel=0.02)


def test_one_nic_of_eight_missing_leaves_seven_eighths_of_a_ring():
    assert bus("nic_missing", 1, algorithm="ring")[0] == pytest.approx(bus(algorithm="ring")[0] * 7 / 8, rel=0.01)


def test_two_channels_on_one_nic_halve_a_ring():
    assert bus("shared_nic", algorithm="ring")[0] == pytest.approx(bus(algorithm="ring")[0] / 2, rel=0.01)


def test_faults_of_the_choice_take_what_they_name():
    assert bus("ring_forced")[0] == pytest.approx(bus(algorithm="ring")[0], rel=1e-12)
    assert bus("nvls_off")[0] < bus()[0]
    assert bus("ll_forced")[0] < 40e9  # NCCL's LL limit of two nodes is 39 GB/s
    assert bus("ll_forced", op="all_to_all")[0] == bus(op="all_to_all")[0]


def test_what_the_run_sets_goes_before_the_fault():
    assert bus("ring_forced", algorithm="tree")[0] == bus(algorithm="tree")[0]


def test_sockets_slow_small_messages_by_their_latency():
    small = (8.0,)
    assert 1.5 < bus(sizes=small)[0] / bus("socket", 0.05, sizes=small)[0] < 5


def test_a_run_on_fewer_nics_gets_their_rate():
    assert bus(algorithm="ring", num_nics=2)[0] == pytest.approx(2 * 50e9 * 0.96, rel=0.01)
    with pytest.raises(LayoutError, match="share"):
        bus(num_nics=3)


def test_oversubscribed_uplinks_show_across_leaves_only():
    spec = load_topology("hgx-h100", {"nodes": 64})
    far = Query(op="all_to_all", ranks=(*range(32), *range(256, 288)), sizes_bytes=(GIB,))  # four nodes on each side
    for asked, slows in ((far, True), (query(op="all_to_all", sizes=(GIB,)), False)):
        site = site_of(spec, [asked], HOPPER)
        healthy, sick = predicted_times_s(site)[0], predicted_times_s(site, ALL["oversubscribed"], 32.0)[0]
        assert (sick > 1.5 * healthy) == slows


def test_links_are_limited_by_class_rail_and_domain():
    cluster = build_cluster(TWO)
    fabric = cluster.compile()
    cluster.limit_links("nic_leaf", factor=0.5, rails=(3,), domains=(1,))
    share = cluster.compile().capacity_bytes_per_s / fabric.capacity_bytes_per_s
    changed = {fabric.resource_name(index) for index in np.flatnonzero(share != 1)}
    assert changed == {"d1/nic3 -> leaf3", "leaf3 -> d1/nic3"}
    with pytest.raises(TopologyError, match="nic_leaf"):
        cluster.limit_links("nics")
    with pytest.raises(TopologyError, match="finite"):
        cluster.limit_links("nic_leaf", factor=-1.0)


def test_links_of_an_edited_graph_are_limited_alike():
    plain, edited = build_cluster(TWO), build_cluster(TWO)
    assert edited.graph
    for cluster in (plain, edited):
        cluster.limit_links("nvlink", most_bytes_per_s=1e9, domains=(0,))
    assert edited.compile().capacity_bytes_per_s == pytest.approx(plain.compile().capacity_bytes_per_s)


def test_runs_of_other_ranks_have_reduction_trees_of_their_own():
    """Two tables of one machine are two runs, one after the other, and not communicators that share its NICs."""
    spec = load_topology("hgx-h100", {"nodes": 4, "scale_out.in_network_reduction": True})
    runs = [Query(op="all_reduce", ranks=tuple(range(n)), sizes_bytes=(GIB,), algorithm="nvls") for n in (32, 24)]
    both = predicted_times_s(site_of(spec, runs, HOPPER))
    alone = [predicted_times_s(site_of(spec, [run], HOPPER))[0] for run in runs]
    assert both == pytest.approx(alone)
