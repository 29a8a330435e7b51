"""Which links a flow crosses, how many switches, and at what rate."""

from __future__ import annotations

import numpy as np
import pytest

from simnet.errors import NoPathError
from simnet.topology import LINK_CLASSES
from tests.unit.topology.builders import GB, NDR, alone_rates, cluster, gpu, loads

# Case A01 (docs.nvidia.com DGX B200 SuperPOD; NVIDIA/nccl#918): 8-GPU nodes with 8 x 400G, 64-port switches


@pytest.mark.parametrize(
    ("nodes", "leaf", "spine", "links"), [(64, 16, 8, 512), (128, 32, 16, 1024), (256, 64, 32, 2048)]
)
def test_two_tier_counts_of_64_port_switches(nodes: int, leaf: int, spine: int, links: int) -> None:
    census = cluster("hgx-h100", nodes=nodes).census()
    assert (census.switches["leaf"], census.switches["spine"], census.switches["core"]) == (leaf, spine, 0)
    assert census.cables["node_leaf"] == census.cables["leaf_spine"] == links


def test_64_nodes_have_four_links_per_leaf_spine_pair() -> None:
    graph = cluster("hgx-h100", nodes=64).graph
    assert {
        graph.edges[f"leaf{leaf}", f"spine{spine}"]["multiplicity"] for leaf in range(16) for spine in range(8)
    } == {4}


@pytest.mark.parametrize(
    ("target", "switches"),
    [((1, 3), 1), ((40, 3), 3), ((1, 4), 3)],
    ids=["same rail, same unit", "same rail, other unit", "other rail"],
)
def test_switches_on_the_way(target: tuple[int, int], switches: int) -> None:
    fabric = cluster("hgx-h100", nodes=64).compile()
    routes = fabric.routes([gpu(fabric, 0, 3)], [gpu(fabric, *target)], relay="never")
    assert routes.num_switch_hops.tolist() == [switches]
    assert routes.num_nvlink_hops.tolist() == [0]


def test_other_pods_are_five_switches_away() -> None:
    fabric = cluster("hgx-h100", nodes=512).compile()
    assert fabric.routes([0], [gpu(fabric, 511, 0)]).num_switch_hops.tolist() == [5]


def test_relay_over_nvlink_keeps_traffic_on_the_rail_of_the_target() -> None:
    # NVIDIA/nccl#918: GPU0 of node 0 to GPU1 of node 1 moves to the local GPU1, then crosses one leaf
    fabric = cluster("hgx-h100", nodes=64).compile()
    routes = fabric.routes([gpu(fabric, 0, 0)], [gpu(fabric, 1, 1)], relay="always")
    names = [fabric.resource_name(resource) for resource in routes.resource]
    assert routes.num_switch_hops.tolist() == [1]
    assert routes.num_nvlink_hops.tolist() == [1]
    assert "d0/nic1 -> leaf1" in names
    assert not any("spine" in name for name in names)


def test_a_send_to_another_rack_and_slot_pays_the_nic() -> None:
    # a peer charges only the NVLink hop: 2.5 ms where a 50 GiB/s NIC needs 20 ms for 1 GiB
    fabric = cluster("gb200-nvl72", racks=16, scale_out__link_bandwidth="50 GiB/s").compile()
    routes = fabric.routes([gpu(fabric, 0, 0)], [gpu(fabric, 9, 37)])
    assert LINK_CLASSES[routes.crosses[0]] != "nvlink"
    assert 2**30 / alone_rates(fabric, routes)[0] == pytest.approx(20e-3)


def test_tray_nic_r_is_on_rail_r() -> None:
    fabric = cluster("gb200-nvl72", racks=2).compile()
    assert (fabric.gpu_rail == fabric.gpu_slot % 4).all()
    routes = fabric.routes([gpu(fabric, 0, 6)], [gpu(fabric, 1, 10)])
    assert routes.num_switch_hops.tolist() == [3]
    assert routes.num_nvlink_hops.tolist() == [0]


def test_rails_of_one_gb200_unit_meet_over_nvlink_only() -> None:
    fabric = cluster("gb200-nvl72", racks=8).compile()
    source, target = gpu(fabric, 0, 4), gpu(fabric, 1, 7)
    routes = fabric.routes([source], [target])
    assert routes.num_nvlink_hops.tolist() == [1]
    assert "d0/nic7 -> leaf24" in [fabric.resource_name(resource) for resource in routes.resource]
    with pytest.raises(NoPathError, match=r"d0/gpu4 to d1/gpu7"):
        fabric.routes([source], [target], relay="never")


def test_inside_a_domain_all_nvlink_planes_add_up() -> None:
    # aliyun/SimAI#60: four planes of 5, 4, 4 and 5 links must equal one switch of 450 GB/s
    fabric = cluster("hgx-h100", nodes=2).compile()
    routes = fabric.routes([0], [7])
    assert alone_rates(fabric, routes).tolist() == [450 * GB]
    assert LINK_CLASSES[routes.crosses[0]] == "nvlink"


def test_planes_of_the_network_add_up_and_losing_one_halves() -> None:
    machine = cluster("dgx-b300-superpod-spectrumx", scalable_units=1)
    fabric = machine.compile()
    far = gpu(fabric, 9, 0)
    assert alone_rates(fabric, fabric.routes([0], [far])).tolist() == [100 * GB]
    machine.cut_link("d0/nic0", "leaf0")
    fabric = machine.compile()
    routes = fabric.routes([0], [far])
    assert alone_rates(fabric, routes).tolist() == [50 * GB]
    assert set(routes.weight) == {1.0}


def test_latency_is_the_sum_of_parts() -> None:
    # two ConnectX-7 of 0.7 us, three QM9700 of 0.2 us, 2 x 10 m and 2 x 30 m of fibre at 5 ns/m
    fabric = cluster("hgx-h100", nodes=64).compile()
    routes = fabric.routes([0, 0], [gpu(fabric, 40, 0), 1])
    assert routes.latency_s == pytest.approx([2 * 0.7e-6 + 3 * 0.2e-6 + 80 * 5e-9, 1e-6])


def test_ports_are_nic_or_nvlink() -> None:
    fabric = cluster("hgx-h100", nodes=2).compile()
    routes = fabric.routes([3, 3, 3], [4, 11, 3])
    assert [fabric.resource_name(port) for port in routes.src_port[:2]] == ["d0/gpu3 -> NVSwitches", "d0/nic3 -> leaf3"]
    assert [fabric.resource_name(port) for port in routes.dst_port[:2]] == ["NVSwitches -> d0/gpu4", "leaf3 -> d1/nic3"]
    assert (routes.src_port[2], routes.dst_port[2], routes.crosses[2]) == (-1, -1, -1)


def test_two_gpus_of_a_node_share_a_nic_where_there_are_four() -> None:
    fabric = cluster("hgx-h100", nodes=2, node__nics=4).compile()
    routes = fabric.routes([0, 1, 2], [8, 9, 10])
    assert routes.src_port[0] == routes.src_port[1] != routes.src_port[2]
    assert loads(fabric, routes)[routes.src_port[0]] == 2


def test_every_shift_by_nodes_is_free_of_collisions_in_a_static_tree() -> None:
    # destination-based routing of a 1:1 tree: a shift is non-blocking (Zahavi 2010)
    for name, sizes in (("hgx-h100", {"nodes": 64}), ("hgx-h100", {"nodes": 512}), ("gb200-nvl72", {"racks": 128})):
        fabric = cluster(name, **sizes).compile("static")
        source = np.arange(fabric.num_gpus)
        per_domain = int(fabric.gpu_slot.max()) + 1
        for shift in (1, 32, 33):
            routes = fabric.routes(source, np.roll(source, -shift * per_domain))
            load = loads(fabric, routes) * NDR / fabric.capacity_bytes_per_s
            assert load[fabric.link_class == LINK_CLASSES.index("spine_core")].max(initial=0) <= 1
            assert load[fabric.link_class == LINK_CLASSES.index("leaf_spine")].max() <= 1


def test_without_an_offset_four_leaves_of_a_group_share_core_cables() -> None:
    fabric = cluster("hgx-h100", nodes=512).compile("static-no-offset")
    source = np.arange(fabric.num_gpus)
    routes = fabric.routes(source, np.roll(source, -128 * 8))
    load = loads(fabric, routes)
    hottest = int(np.argmax(load * (fabric.link_class == LINK_CLASSES.index("spine_core"))))
    assert load[hottest] == 4
    assert "core" in fabric.resource_name(hottest)
    with_offset = cluster("hgx-h100", nodes=512).compile("static")
    assert loads(with_offset, with_offset.routes(source, np.roll(source, -128 * 8))).max() == 1


def test_ecmp_collides_as_balls_in_bins_do() -> None:
    # 32 flows of a leaf over 32 up-links, 16 leaves: expected maximum of 512 bins with Poisson(1) load is 5 to 7
    fabric = cluster("hgx-h100", nodes=64).compile("ecmp", seed=3)
    source = np.arange(512)
    load = loads(fabric, fabric.routes(source, np.roll(source, -32 * 8)))
    up = load[(fabric.link_class == LINK_CLASSES.index("leaf_spine")) & (fabric.direction == 0)]
    assert len(up) == up.sum() == 512
    assert np.mean(up == 0) == pytest.approx(np.exp(-1), abs=0.05)
    assert 4 <= up.max() <= 7


def test_ecmp_takes_its_way_from_the_flow_number_and_the_seed() -> None:
    machine = cluster("hgx-h100", nodes=64)
    source, target = np.zeros(64, dtype=int), np.full(64, 320)
    one = machine.compile("ecmp", seed=1).routes(source, target, flow_id=np.arange(64))
    again = machine.compile("ecmp", seed=1).routes(source, target, flow_id=np.arange(64))
    other = machine.compile("ecmp", seed=2).routes(source, target, flow_id=np.arange(64))
    assert (one.resource == again.resource).all()
    assert (one.resource != other.resource).any()
    assert len(np.unique(one.resource)) > 20


@pytest.mark.parametrize("routing", ["adaptive", "static", "static-no-offset", "ecmp"])
def test_a_flow_loads_every_tier_once_each_way(routing: str) -> None:
    fabric = cluster("hgx-h100", nodes=300).compile(routing)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, fabric.num_gpus, 500), rng.integers(0, fabric.num_gpus, 500)
    routes = fabric.routes(source, target)
    flow = np.repeat(np.arange(500), np.diff(routes.indptr))
    for tier in range(len(LINK_CLASSES)):
        for direction in (0, 1):
            mask = (fabric.link_class[routes.resource] == tier) & (fabric.direction[routes.resource] == direction)
            total = np.bincount(flow[mask], weights=routes.weight[mask], minlength=500)
            assert np.isin(total.round(12), [0, 1]).all()
