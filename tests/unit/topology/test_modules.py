"""Modular clusters: unequal modules, tapered cores, pairwise links, and none at all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simnet.errors import NoPathError, SpecError, TopologyError
from simnet.spec.load import build, located
from simnet.spec.topology import TopologySpec
from simnet.topology import LINK_CLASSES, Cluster, build_cluster
from tests.unit.topology.builders import GB, NDR, alone_rates, cluster, gpu, loads, two_sites


def made(spec: dict[str, object]) -> Cluster:
    return build_cluster(build(located(spec, "test"), TopologySpec))


def test_unequal_modules_are_legal_and_meet_at_the_slower_link() -> None:
    # astra-sim/astra-sim#371: two unequal groups, 4 and 6 nodes, with different networks
    fabric = made(two_sites(taper=1.0)).compile()
    assert np.bincount(fabric.gpu_module).tolist() == [32, 48]
    inside_a, inside_b, across = (fabric.routes([source], [target]) for source, target in ((0, 8), (32, 40), (0, 32)))
    assert alone_rates(fabric, inside_a).tolist() == [50 * GB]
    assert alone_rates(fabric, inside_b).tolist() == [25 * GB]
    assert alone_rates(fabric, across).tolist() == [25 * GB]
    assert LINK_CLASSES[across.crosses[0]] == "join"


def test_modules_without_a_join_are_disconnected_and_the_error_names_both_ends() -> None:
    # nebius/soperator#2585: separate fabrics stay so unless a link is declared
    fabric = made(two_sites()).compile()
    fabric.routes([0], [8])
    with pytest.raises(NoPathError, match=r"no path from m0/d0/gpu0 to m1/d0/gpu3"):
        fabric.routes([0], [35])


@pytest.mark.parametrize(
    ("taper", "rails_of_ten", "rails_of_nine"),
    [(1, 180, 162), (2, 90, 81), (4, 45, 41), (8, 23, 21), (16, 12, 11), (180, 1, 1)],
)
def test_a_taper_rounds_up_to_whole_cables_per_rail(taper: int, rails_of_ten: int, rails_of_nine: int) -> None:
    # 10 and 9 racks inject 180 and 162 cables a rail; four rails
    machine = cluster("record-405b-modular", join__taper=taper)
    join = machine.census().join
    assert join.cables == 4 * (3 * rails_of_ten + rails_of_nine)
    assert join.cables_per_rail == rails_of_nine
    assert join.effective_taper == pytest.approx(max(180 / rails_of_ten, 162 / rails_of_nine))
    assert join.is_at_one_cable_per_rail == (rails_of_ten == 1)
    fabric = machine.compile()
    up = (fabric.link_class == LINK_CLASSES.index("join")) & (fabric.direction == 0)
    assert fabric.capacity_bytes_per_s[up].tolist() == [rails_of_ten * NDR] * 12 + [rails_of_nine * NDR] * 4


def test_taper_one_is_as_wide_as_the_injection_of_the_modules() -> None:
    machine = cluster("record-405b-modular")
    census = machine.census()
    assert census.cables["join"] == census.cables["node_leaf"] == 39 * 72
    assert census.oversubscription["join"] == 1.0
    fabric = machine.compile()
    source = np.arange(640)  # the first module, all ranks, to the second
    routes = fabric.routes(source, source + 640)
    assert (loads(fabric, routes) * NDR <= fabric.capacity_bytes_per_s).all()


def test_more_taper_never_adds_a_cable_or_a_switch() -> None:
    counts = [
        (census.cables["join"], census.switches["total"])
        for census in (cluster("record-405b-modular", join__taper=taper).census() for taper in range(1, 60, 3))
    ]
    assert counts == sorted(counts, reverse=True)


def test_racks_are_dealt_as_evenly_as_they_go() -> None:
    machine = cluster("record-405b-modular", racks=11)
    assert np.bincount(machine.wiring.domain_module).tolist() == [3, 3, 3, 2]


def test_one_cable_per_rail_is_shared_by_all_racks_of_the_rail() -> None:
    machine = cluster("record-405b-modular", join__taper=1000)
    fabric = machine.compile()
    source = np.array([gpu(fabric, domain, 0) for domain in range(10)])
    routes = fabric.routes(source, source + 10 * 64)
    hot = int(np.argmax(loads(fabric, routes) / fabric.capacity_bytes_per_s))
    assert LINK_CLASSES[fabric.link_class[hot]] == "join"
    assert loads(fabric, routes)[hot] == 10
    assert fabric.capacity_bytes_per_s[hot] == NDR


def test_a_pairwise_link_has_the_latency_of_its_distance_and_whole_cables() -> None:
    # 1,000 km of glass at 5 us/km; 3.3 Tb/s is 8.25 links of 400 Gb/s, so nine are laid
    links = [{"between": ["a", "b"], "bandwidth": "3.3 Tb/s", "distance": "1000 km"}]
    machine = made(two_sites(links=links))
    assert machine.census().cables["join"] == math.ceil(3300 / 400)
    assert machine.compile().routes([0], [32]).latency_s[0] == pytest.approx(5e-3, rel=1e-3)


def test_sites_in_a_line_pass_traffic_on() -> None:
    spec: dict[str, object] = {
        "kind": "modular",
        "modules": [{"name": name, "topology": {"from": "hgx-h100", "nodes": 2}} for name in "abc"],
        "links": [{"between": ["a", "b"], "cables": 4}, {"between": ["c", "b"], "cables": 2}],
    }
    fabric = made(spec).compile()
    routes = fabric.routes([0], [32])
    rates = fabric.capacity_bytes_per_s[routes.resource][fabric.link_class[routes.resource] == 5]
    assert rates.tolist() == [4 * NDR, 2 * NDR]
    back = fabric.routes([32], [0])
    assert not set(back.resource[1:-1]) & set(routes.resource[1:-1])


def test_a_link_to_an_unknown_module_is_an_error() -> None:
    with pytest.raises(TopologyError, match='unknown module; found "c"; allowed: a, b'):
        made(two_sites(links=[{"between": ["a", "c"], "cables": 1}]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"module": {"from": "hgx-h100"}}, "give modules"),
        ({"racks": 4}, "go with module"),
        ({"links": [{"between": ["a", "b"], "cables": 1, "bandwidth": "1 Tb/s"}]}, "one of the two"),
        ({"links": [{"between": ["a", "a"], "cables": 1}]}, "not linked to itself"),
        ({"links": [{"between": ["a", "b"], "cables": 1}, {"between": ["b", "a"], "cables": 1}]}, "two links between"),
        ({"join": {"taper": 0.5}}, "join.taper"),
        ({"scale_out": {"from": "x"}}, "scale_out"),
    ],
)
def test_contradictions_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        made(two_sites() | change)


@pytest.mark.parametrize("routing", ["static", "ecmp"])
def test_single_cables_between_modules_carry_single_flows(routing: str) -> None:
    fabric = cluster("record-405b-modular", join__taper=4, racks=8).compile(routing)  # type: ignore[arg-type]
    source = np.arange(128)
    routes = fabric.routes(source, source + 128)
    joins = fabric.link_class[routes.resource] == LINK_CLASSES.index("join")
    assert joins.sum() == 256
    assert set(fabric.capacity_bytes_per_s[routes.resource[joins]]) == {NDR}


def test_eight_modules_of_16384_are_131072_gpus() -> None:
    spec: dict[str, object] = {
        "kind": "modular",
        "module": {"from": "hgx-h100"},
        "num_modules": 8,
        "nodes": 16384,
        "join": {"kind": "core", "taper": 8},
    }
    machine = made(spec)
    fabric = machine.compile()
    assert fabric.num_gpus == 131072
    assert machine.census().tiers == 4
    assert fabric.routes([0], [131071]).num_switch_hops.tolist() == [7]


def test_a_single_module_has_no_join_to_pay_for() -> None:
    alone = cluster("hgx-h100-modular", num_modules=1, nodes=8).census()
    plain = cluster("hgx-h100", nodes=8).census()
    assert (alone.switches, alone.cables) == (plain.switches, plain.cables)
    assert alone.join.cables == 0
