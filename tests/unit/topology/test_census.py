"""Counts, tapers, bisection, power and price."""

from __future__ import annotations

import json

import pytest

from simnet.topology.dealing import deal_round_robin, deal_whole
from tests.unit.topology.builders import NDR, cluster


@pytest.mark.parametrize(
    ("num_lower", "up_links", "ports", "upward", "expected"),
    [
        (8, 32, 64, 0, 4),
        (24, 32, 64, 0, 16),
        (16, 20, 40, 0, 10),
        (32, 72, 144, 0, 18),
        (8, 18, 64, 144, 6),
        (7, 20, 40, 140, 10),
    ],
    ids=["H100 1 unit", "H100 3 units", "A100 2 units", "B300 4 units", "GB200 rail group", "A100 7-unit pod"],
)
def test_whole_cables_for_every_pair_explain_the_printed_spines(
    num_lower: int, up_links: int, ports: int, upward: int, expected: int
) -> None:
    deal = deal_whole(num_lower=num_lower, up_links=up_links, up_links_max=up_links, ports=ports, upward=upward)
    assert deal is not None
    assert (deal.num_upper, deal.up_links) == (expected, up_links)


@pytest.mark.parametrize(
    ("groups", "ports", "expected"),
    [([128] * 32, 64, 64), ([144] * 8, 64, 18), ([144] * 64, 64, 144), ([140] * 8, 40, 28)],
    ids=["H100 16 units", "GB200 2 units", "GB200 16 units", "A100 7 units"],
)
def test_dealing_in_turn_explains_the_printed_cores(groups: list[int], ports: int, expected: int) -> None:
    assert deal_round_robin(groups, ports=ports) == expected


def test_more_groups_than_ports_cannot_meet() -> None:
    assert deal_round_robin([10] * 65, ports=64) is None
    assert deal_whole(num_lower=65, up_links=32, up_links_max=32, ports=64, upward=0) is None


@pytest.mark.parametrize(("taper", "cables", "effective"), [(1, 32, 1.0), (2, 16, 2.0), (3, 12, 32 / 12), (4, 8, 4.0)])
def test_a_leaf_taper_rounds_up_to_whole_cables_per_spine(taper: int, cables: int, effective: float) -> None:
    census = cluster("hgx-h100", nodes=128, scale_out__taper__leaf=taper).census()
    assert census.cables["leaf_spine"] == 32 * cables
    assert census.oversubscription["leaf"] == pytest.approx(effective)


def test_a_spine_taper_thins_the_core_alone() -> None:
    # Meta's 24k cluster tapers its aggregation layer 7:1 (arXiv 2407.21783)
    flat = cluster("hgx-h100", nodes=512).census()
    thin = cluster("hgx-h100", nodes=512, scale_out__taper__spine=7).census()
    assert thin.cables["leaf_spine"] == flat.cables["leaf_spine"] == 4096
    assert thin.cables["spine_core"] == 32 * 19  # ceil(128 / 7) for each of 32 rail groups
    assert thin.oversubscription["spine"] == pytest.approx(128 / 19)
    assert thin.bisection_bytes_per_s == 32 * 19 * NDR / 2


def test_36000_gpus_make_each_rail_a_tree_of_its_own() -> None:
    # 500 racks: 62.5 units; 63 groups of a rail reach 64-port cores, 252 groups of four rails do not
    census = cluster("gb200-nvl72", racks=500).census()
    assert census.gpus == 36000
    assert census.switches["leaf"] == 2000
    assert census.switches["spine"] == 63 * 4 * 6
    assert census.switches["core"] == 4 * 144
    assert census.status == "derived"


def test_32768_gpus_in_nodes_take_larger_pods() -> None:
    census = cluster("hgx-b200", nodes=4096).census()
    assert census.switches["core"] * 2 == census.switches["spine"] == census.switches["leaf"] == 1024
    assert census.cables["spine_core"] == census.cables["leaf_spine"] == census.cables["node_leaf"] == 32768


def test_131072_gpus_fit_three_tiers_of_144_ports() -> None:
    census = cluster("hgx-b300", nodes=16384).census()
    assert (census.gpus, census.tiers) == (131072, 3)
    assert census.oversubscription["leaf"] == 1.0
    assert census.oversubscription["spine"] == 1.0


def test_power_and_price_add_up() -> None:
    # 32 nodes of 10.2 kW and 310 kUSD; 12 QM9700 of 1.72 kW and 36 kUSD; 256 + 256 links of 1,320 and 1,240 USD
    census = cluster("hgx-h100", nodes=32).census()
    assert census.power_w == pytest.approx(32 * 10200 + 12 * 1720)
    assert census.price_usd["use"] == pytest.approx(32 * 310e3 + 12 * 36e3 + 256 * 1320 + 256 * 1240)
    assert census.price_usd["low"] < census.price_usd["use"] < census.price_usd["high"]
    assert any("QM9700: latency" in line for line in census.assumptions)


def test_the_network_share_of_an_h100_system_is_as_reported() -> None:
    # course notes and the H100 cost spreadsheet of 2024: 10 to 20 %
    census = cluster("hgx-h100", nodes=512).census()
    share = 1 - 512 * 310e3 / census.price_usd["use"]
    assert 0.05 < share < 0.20


def test_the_census_is_plain_json() -> None:
    data = cluster("record-405b-modular", join__taper=8).census().to_json()
    assert json.loads(json.dumps(data)) == data
    assert {"nodes", "gpus", "switches", "cables", "power_w", "price_usd", "join"} <= data.keys()


def test_two_planes_are_counted_in_twin_port_cables() -> None:
    census = cluster("dgx-b300-superpod-spectrumx", scalable_units=1).census()
    assert census.cables["node_leaf"] == census.gpus  # two ports a GPU, two links a cable
    assert census.injection_bytes_per_s == 512 * 2 * NDR


def test_a_single_leaf_needs_no_spine() -> None:
    census = cluster("hgx-h100", nodes=4, scale_out__rail_optimised=False, scale_out__unit=4,
                     scale_out__leaves_per_rail=1).census()  # fmt: skip
    assert census.switches["leaf"] == 8
    star = cluster("hgx-h100", nodes=8, node__nics=1, scale_out__unit=8).census()
    assert star.switches["total"] == 1
    assert star.bisection_bytes_per_s == 8 * NDR / 2


@pytest.mark.parametrize(
    ("name", "sizes", "status"),
    [
        ("dgx-h100-superpod", {"scalable_units": 4}, "verified"),
        ("dgx-h100-superpod", {"scalable_units": 4, "nodes": 128}, "verified"),
        ("dgx-h100-superpod", {"scalable_units": 4, "nodes": 100}, "derived"),
        ("dgx-h100-superpod", {"scalable_units": 32}, "derived"),
        ("dgx-h100-superpod", {"scale_out__taper__leaf": 2}, "derived"),
        ("dgx-h100-superpod", {"routing": "static"}, "verified"),
        ("dgx-gb200-superpod", {"scalable_units": 16}, "secondary"),
        ("dgx-gb200-superpod", {"scalable_units": 2}, "derived"),
        ("dgx-gb200-superpod", {"scalable_units": 63}, "derived"),
    ],
)
def test_only_sizes_and_wirings_that_a_document_prints_are_called_so(
    name: str, sizes: dict[str, object], status: str
) -> None:
    assert cluster(name, **sizes).census().status == status
