"""Reduction trees on the real cables: where they root, what they load, and where room for them ends."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simnet.errors import SpecError
from simnet.spec.load import load_topology
from simnet.topology import build_cluster
from simnet.topology.reduction import NoTree
from simnet.topology.wiring import LINK_CLASSES
from tests.unit.topology.builders import cluster


def on(name: str, **changes: object):
    return cluster(name, **({"scale_out.in_network_reduction": True} | changes))


def rails(nodes: int, per_node: int = 8) -> list[list[int]]:
    return np.arange(per_node * nodes).reshape(nodes, per_node).T.tolist()


def by_class(fabric, tree) -> Counter[tuple[str, int]]:
    """Count the cables of a tree by class and direction."""
    return Counter((LINK_CLASSES[fabric.link_class[i]], int(fabric.direction[i])) for i in tree.resource)


def test_a_rail_inside_one_leaf_roots_there_and_loads_each_nic_once_each_way() -> None:
    fabric = on("hgx-h100", nodes=4).compile()
    trees = fabric.reduction.book().plant(rails(4))
    assert [tree.root for tree in trees] == [f"leaf{rail}" for rail in range(8)]
    for tree in trees:
        assert (tree.num_switches, tree.num_tiers) == (1, 1)
        assert by_class(fabric, tree) == {(name, way): 4 for name in ("gpu_nic", "nic_leaf") for way in (0, 1)}


def test_a_tree_over_two_leaves_loads_one_cable_of_each_however_many_nics_are_below() -> None:
    fabric = on("hgx-h100", nodes=64).compile()
    trees = fabric.reduction.book().plant(rails(64))
    for tree in trees:
        assert (tree.num_switches, tree.num_tiers) == (3, 2)
        assert by_class(fabric, tree)["leaf_spine", 0] == by_class(fabric, tree)["leaf_spine", 1] == 2
    assert len({tree.root for tree in trees}) == 8  # the least used spine is next


def test_a_tree_over_pods_roots_at_a_core_and_takes_one_spine_of_each_pod() -> None:
    fabric = on("hgx-h100", nodes=512).compile()
    (tree, *_) = fabric.reduction.book().plant(rails(512))
    assert tree.root.startswith("core")
    assert (tree.num_tiers, tree.num_switches) == (3, 16 + 4 + 1)  # 16 leaves of a rail, 4 pods, 1 core
    assert by_class(fabric, tree)["leaf_spine", 0] == by_class(fabric, tree)["leaf_spine", 1] == 16
    assert by_class(fabric, tree)["spine_core", 0] == by_class(fabric, tree)["spine_core", 1] == 4


def test_latency_goes_up_to_the_root_and_down_again() -> None:
    fabric = on("hgx-h100", nodes=64).compile()
    (tree, *_) = fabric.reduction.book().plant(rails(64))
    route = fabric.routes([0], [8 * 32])  # over the same three switches
    assert tree.latency_s == pytest.approx(float(route.latency_s[0]))
    # Two NICs of 0.7 us, three switches of 0.2 us, 2 x 10 m and 2 x 30 m of fibre at 5 ns/m.
    assert tree.latency_s == pytest.approx(2 * 0.7e-6 + 3 * 0.2e-6 + 80 * 5e-9)


@pytest.mark.parametrize("routing", ["adaptive", "static", "ecmp"])
def test_a_tree_leaves_a_cut_cable_for_another_root(routing: str) -> None:
    machine = on("hgx-h100", nodes=64)
    (first, *_) = machine.compile(routing).reduction.book().plant(rails(64))
    machine.cut_link("leaf8", first.root)
    (other, *_) = machine.compile(routing).reduction.book().plant(rails(64))
    assert first.root == "spine0"
    assert other.root != first.root
    assert other.num_tiers == 2


def test_a_tree_avoids_a_slow_cable() -> None:
    machine = on("hgx-h100", nodes=64)
    machine.scale_link("leaf0", "spine0", 0.5)
    (tree, *_) = machine.compile().reduction.book().plant(rails(64))
    assert tree.root == "spine1"
    assert tree.bytes_per_s == 50e9


def test_leaves_that_no_live_cable_joins_have_no_tree() -> None:
    machine = on("hgx-h100", nodes=64)
    for spine in range(machine.census().switches["spine"]):
        machine.cut_link("leaf0" if spine % 2 else "leaf8", f"spine{spine}")
    found = machine.compile().reduction.book().plant(rails(64))
    assert isinstance(found, NoTree)
    assert "leaf0, leaf8" in found.reason


def test_a_port_of_quantum_2_holds_one_tree_so_two_communicators_of_a_nic_do_not_both_get_one() -> None:
    book = on("hgx-h100", nodes=4).compile().reduction.book()
    assert isinstance(book.plant(rails(4)), tuple)
    refused = book.plant([[0, 8]])
    assert isinstance(refused, NoTree)
    assert "already" in refused.reason


def test_a_switch_of_quantum_2_holds_as_many_trees_as_ports_and_one_of_quantum_a_single_one() -> None:
    """Without rails of their own, the eight NICs of a node share a leaf."""
    shared = {"nodes": 4, "scale_out.rail_optimised": False}
    assert isinstance(on("hgx-h100", **shared).compile().reduction.book().plant(rails(4)), tuple)
    refused = on("hgx-a100", **shared).compile().reduction.book().plant(rails(4))
    assert isinstance(refused, NoTree)
    assert "QM8790 holds 1 in a switch" in refused.reason


def test_a_refused_communicator_holds_no_tree() -> None:
    book = on("hgx-a100", nodes=4, **{"scale_out.rail_optimised": False}).compile().reduction.book()
    assert isinstance(book.plant(rails(4)), NoTree)
    assert isinstance(book.plant([[0, 8, 16, 24]]), tuple)


def test_a_network_holds_as_many_trees_as_its_switches_number() -> None:
    changes = {"scale_out.switch.reduction.trees_per_subnet": 7}
    book = on("hgx-h100", nodes=4, **changes).compile().reduction.book()
    refused = book.plant(rails(4))
    assert isinstance(refused, NoTree)
    assert "7 reduction trees" in refused.reason
    assert len(book.plant(rails(4)[:7])) == 7


def test_a_switch_with_more_children_than_its_radix_has_no_tree() -> None:
    changes = {"scale_out.switch.reduction.radix": 3}
    assert isinstance(on("hgx-h100", nodes=4, **changes).compile().reduction.book().plant(rails(4)), NoTree)
    assert isinstance(on("hgx-h100", nodes=3, **changes).compile().reduction.book().plant(rails(3)), tuple)


def test_reduction_is_off_unless_it_is_switched_on_and_the_switch_can() -> None:
    assert build_cluster("hgx-h100").compile().reduction is None
    with pytest.raises(SpecError, match="SN5600-128x400 does not reduce"):
        load_topology("hgx-h100", {"scale_out.switch": "SN5600-128x400", "scale_out.in_network_reduction": True})


def test_switching_it_on_changes_no_count_of_a_printed_machine() -> None:
    for name in ("dgx-h100-superpod", "dgx-a100-superpod"):
        plain, reduces = cluster(name).census().to_json(), on(name).census().to_json()
        assert {key for key in plain if plain[key] != reduces[key]} == {"reduction"}


def test_a_census_says_what_switches_hold_and_which_limits_are_estimates() -> None:
    assert cluster("hgx-h100").census().reduction.startswith("off")
    assert "1 on a port, 511 in the network" in on("hgx-h100").census().reduction
    assert "1 in a switch, 63 in the network" in on("hgx-a100").census().reduction
    assert cluster("dgx-b300-superpod-spectrumx").census().reduction == ""
    told = [any("limits of reduction are estimates" in line for line in made.census().assumptions)
            for made in (on("dgx-b300-superpod-xdr"), cluster("dgx-b300-superpod-xdr"), on("hgx-h100"))]  # fmt: skip
    assert told == [True, False, False]


@pytest.mark.parametrize("nodes", [4, 64])
def test_trees_of_a_searched_graph_are_those_of_the_built_fabric(nodes: int) -> None:
    machine = on("hgx-h100", nodes=nodes)
    built = machine.compile().reduction.book().plant(rails(nodes))
    machine.graph.add_node("spare", kind="leaf")
    fabric = machine.compile()
    assert fabric.is_searched
    searched = fabric.reduction.book().plant(rails(nodes))
    for one, other in zip(built, searched, strict=True):
        assert (one.num_switches, one.num_tiers, len(one.resource)) == (
            other.num_switches, other.num_tiers, len(other.resource),
        )  # fmt: skip
        assert one.latency_s == pytest.approx(other.latency_s)
        assert one.bytes_per_s == pytest.approx(other.bytes_per_s)


def test_a_tree_roots_at_a_switch_that_a_user_adds() -> None:
    machine = on("hgx-h100", nodes=64)
    graph = machine.graph
    for spine in range(machine.census().switches["spine"]):
        graph.remove_edge("leaf0", f"spine{spine}")
    assert isinstance(machine.compile().reduction.book().plant(rails(64)), NoTree)
    graph.add_node("bridge", kind="spine")
    for leaf in ("leaf0", "leaf8"):
        for ends in ((leaf, "bridge"), ("bridge", leaf)):
            graph.add_edge(*ends, bandwidth=50e9, latency=0.35e-6, link_class="leaf_spine", multiplicity=1)
    (tree,) = machine.compile().reduction.book().plant(rails(64)[:1])
    assert tree.root == "bridge"
