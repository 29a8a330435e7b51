"""What holds for every fabric, whatever its size, taper, rails and routing."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simnet.errors import TopologyError
from simnet.spec.load import build, load_topology, located
from simnet.spec.topology import TopologySpec
from simnet.topology import LINK_CLASSES, Cluster, build_cluster
from simnet.topology.dealing import deal_round_robin, deal_whole
from simnet.topology.search import searched_fabric


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Draw small clusters of few-port switches, so that all tiers appear."""
    unit, rails = draw(st.sampled_from([2, 3, 4])), draw(st.sampled_from([2, 4, 8]))
    overrides: dict[str, object] = {
        "nodes": draw(st.integers(2, 14)),
        "node.nics": rails,
        "scale_out.unit": unit,
        "scale_out.pod_units": draw(st.integers(1, 3)),
        "scale_out.switch.ports": draw(st.sampled_from([8, 12, 16])),
        "scale_out.taper.leaf": draw(st.sampled_from([1, 2, 3])),
        "scale_out.taper.spine": draw(st.sampled_from([1, 1.5, 4])),
        "scale_out.rail_optimised": draw(st.booleans()),
        "scale_out.has_single_pod_core": draw(st.booleans()),
        "scale_out.planes": draw(st.sampled_from([1, 2])),
        "scale_out.tiers": draw(st.sampled_from(["auto", 3])),
    }
    try:
        return build_cluster(load_topology("hgx-h100", overrides))
    except TopologyError:
        assume(False)
        raise


@st.composite
def modular(draw: st.DrawFn) -> Cluster:
    overrides: dict[str, object] = {
        "racks": draw(st.integers(4, 9)),
        "join.taper": draw(st.sampled_from([1, 2, 5, 16, 200])),
        "module.used_hosts": draw(st.sampled_from([1, 2])),
    }
    return build_cluster(load_topology("record-405b-modular", overrides))


def flows(machine: Cluster, seed: int) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.random.default_rng(seed).integers(0, machine.num_gpus, (2, 40))
    return source[source != target], target[source != target]


@given(clusters(), st.integers(0, 1000), st.sampled_from(["adaptive", "static", "static-no-offset", "ecmp"]))
def test_every_flow_enters_and_leaves_each_tier_with_all_its_traffic(machine: Cluster, seed: int, routing: str) -> None:
    fabric = machine.compile(routing, seed)  # type: ignore[arg-type]
    source, target = flows(machine, seed)
    routes = fabric.routes(source, target)
    flow = np.repeat(np.arange(len(source)), np.diff(routes.indptr))
    assert (routes.weight > 0).all()
    for link_class in range(len(LINK_CLASSES)):
        sums = []
        for direction in (0, 1):
            is_here = (fabric.link_class[routes.resource] == link_class) & (
                fabric.direction[routes.resource] == direction
            )
            sums.append(np.bincount(flow[is_here], weights=routes.weight[is_here], minlength=len(source)))
            assert sums[-1].max(initial=0) <= 1 + 1e-12
        if link_class in {1, 2}:
            assert sums[0] == pytest.approx(sums[1])


@st.composite
def uneven_modules(draw: st.DrawFn) -> Cluster:
    """Draw joined modules of three tiers whose last pods are not full."""
    module = {
        "from": "hgx-h100",
        "scale_out": {
            "unit": 2,
            "tiers": 3,
            "switch": {"from": "QM9700", "ports": 32},
            "pod_units": draw(st.integers(1, 2)),
        },
    }
    spec = {
        "kind": "modular",
        "module": module,
        "num_modules": draw(st.integers(2, 3)),
        "nodes": draw(st.integers(12, 29)),
        "join": {"kind": "core", "taper": draw(st.sampled_from([1, 3, 20]))},
    }
    return build_cluster(build(located(spec, "test"), TopologySpec))


@given(st.one_of(clusters(), modular(), uneven_modules()), st.integers(0, 1000), st.sampled_from(["static", "ecmp"]))
def test_the_single_cables_of_a_flow_follow_on_one_another(machine: Cluster, seed: int, routing: str) -> None:
    fabric = machine.compile(routing, seed)  # type: ignore[arg-type]
    routes = fabric.routes(*flows(machine, seed))
    for start, end in itertools.pairwise(routes.indptr.tolist()):
        ends = [
            re.sub(r" \(cable \d+\)", "", fabric.resource_name(resource)).split(" -> ")
            for resource in routes.resource[start:end]
        ]
        hops = [(one[1], two[0]) for one, two in itertools.pairwise(ends) if "NVSwitches" not in (one[1], two[0])]
        if machine.wiring.num_planes == 1:
            assert all(arrived == left for arrived, left in hops)


@given(clusters())
def test_no_switch_has_more_cables_than_ports(machine: Cluster) -> None:
    graph = machine.graph
    plan = machine.wiring.plans[0]
    assert plan.scale_out is not None
    for node, data in graph.nodes(data=True):
        if data["kind"] in {"leaf", "spine", "core"}:
            used = sum(graph.edges[node, peer]["multiplicity"] for peer in graph.successors(node))
            assert used <= plan.scale_out.switch.ports


@given(clusters())
def test_the_graph_holds_the_cables_of_the_census(machine: Cluster) -> None:
    counted = dict.fromkeys(LINK_CLASSES, 0)
    for _, _, data in machine.graph.edges(data=True):
        counted[data["link_class"]] += data["multiplicity"]
    cables = machine.census().cables
    assert counted["nic_leaf"] == 2 * cables["node_leaf"]
    assert counted["leaf_spine"] == 2 * cables["leaf_spine"]
    assert counted["spine_core"] == 2 * cables["spine_core"]


@given(st.one_of(clusters(), modular()), st.integers(0, 1000))
def test_search_finds_the_paths_of_arithmetic(machine: Cluster, seed: int) -> None:
    source, target = flows(machine, seed)
    built, searched = machine.compile("adaptive"), searched_fabric(machine.graph, routing="adaptive", seed=0)
    one, two = built.routes(source, target), searched.routes(source, target)
    assert two.latency_s == pytest.approx(one.latency_s, rel=1e-12)
    assert (two.num_switch_hops == one.num_switch_hops).all()
    assert (two.crosses == one.crosses).all()


@given(clusters(), st.integers(0, 1000))
def test_a_wider_link_never_lowers_a_capacity_and_a_cut_never_raises_one(machine: Cluster, seed: int) -> None:
    before = machine.compile("adaptive").capacity_bytes_per_s
    edges = list(machine.graph.edges)
    one, two = edges[seed % len(edges)]
    machine.scale_link(one, two, 2.0)
    wider = machine.compile("adaptive").capacity_bytes_per_s
    machine.cut_link(one, two)
    cut = machine.compile("adaptive").capacity_bytes_per_s
    assert (wider >= before).all()
    assert (cut <= before).all()
    assert (wider > before).any()
    assert (cut < before).any()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(2, 64), st.integers(0, 300))
def test_a_whole_deal_has_the_ports_that_it_needs(num_lower: int, up_links: int, ports: int, upward: int) -> None:
    deal = deal_whole(
        num_lower=num_lower, up_links=up_links, up_links_max=up_links + 5, ports=ports, upward=upward
    )  # fmt: skip
    if deal is not None:
        assert up_links <= deal.up_links <= up_links + 5
        assert deal.per_pair * num_lower + -(-upward // deal.num_upper) <= ports


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.integers(2, 64), st.integers(0, 100))
def test_a_round_robin_deal_is_feasible_and_least(groups: list[int], ports: int, upward: int) -> None:
    count = deal_round_robin(groups, ports=ports, upward=upward)

    def needed(number: int) -> int:
        return sum(-(-cables // number) for cables in groups) + -(-upward // number)

    if count is None:
        assert needed(max(groups)) > ports
    else:
        assert needed(count) <= ports
        assert all(needed(fewer) > ports for fewer in range(1, count))
