"""The networkx graph: what it holds, that edits count, and that search and arithmetic agree."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from simnet.errors import NoPathError, TopologyError
from simnet.spec.load import build, located
from simnet.spec.topology import TopologySpec
from simnet.topology import Cluster, build_cluster
from simnet.topology.search import searched_fabric
from tests.unit.topology.builders import GB, NDR, alone_rates, cluster, two_sites


def joined(**kinds: object) -> Cluster:
    return build_cluster(build(located(two_sites(**kinds), "test"), TopologySpec))  # type: ignore[arg-type]


CLUSTERS = {
    "two tiers": lambda: cluster("hgx-h100", nodes=40),
    "one unit": lambda: cluster("hgx-h100", nodes=3),
    "one leaf a rail": lambda: cluster("gb200-nvl72", racks=1),
    "rails joined by NVLink": lambda: cluster("gb200-nvl72", racks=3),
    "three tiers": lambda: cluster("gb200-nvl72", racks=9),
    "three tiers in one pod": lambda: cluster("hgx-a100", nodes=130),
    "two planes": lambda: cluster("dgx-b300-superpod-spectrumx", scalable_units=1),
    "tapered core": lambda: cluster("record-405b-modular", racks=8, join__taper=64),
    "unequal modules": lambda: joined(taper=2.0),
    "wide area": lambda: joined(links=[{"between": ["a", "b"], "bandwidth": "3.2 Tb/s", "distance": "1000 km"}]),
    "shared NICs": lambda: cluster("hgx-h100", nodes=3, node__nics=4),
    "rails not optimised": lambda: cluster("hgx-h100", nodes=33, scale_out__rail_optimised=False),
}


@pytest.mark.parametrize("make", CLUSTERS.values(), ids=CLUSTERS.keys())
def test_search_on_the_graph_equals_arithmetic(make: object) -> None:
    machine: Cluster = make()  # type: ignore[operator]
    built = machine.compile("adaptive")
    searched = searched_fabric(machine.graph, routing="adaptive", seed=0)
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, machine.num_gpus, (2, 200))
    source, target = source[source != target], target[source != target]
    one, two = built.routes(source, target), searched.routes(source, target)
    assert alone_rates(searched, two) == pytest.approx(alone_rates(built, one), rel=1e-12)
    assert two.latency_s == pytest.approx(one.latency_s, rel=1e-12)
    for field in ("num_switch_hops", "num_nvlink_hops", "crosses"):
        assert (getattr(one, field) == getattr(two, field)).all()
    for field in ("gpu_domain", "gpu_slot", "gpu_rail", "gpu_module"):
        assert (getattr(built, field) == getattr(searched, field)).all()


@pytest.mark.parametrize("make", CLUSTERS.values(), ids=CLUSTERS.keys())
def test_the_graph_has_two_edges_a_bundle_and_keeps_port_budgets(make: object) -> None:
    machine: Cluster = make()  # type: ignore[operator]
    graph = machine.graph
    ports = {"leaf": 0, "spine": 0, "core": 0}
    for node, data in graph.nodes(data=True):
        if data["kind"] in ports:
            used = sum(graph.edges[node, peer]["multiplicity"] for peer in graph.successors(node))
            ports[data["kind"]] = max(ports[data["kind"]], used)
    switches = {plan.scale_out.switch.ports for plan in machine.wiring.plans if plan.scale_out}
    assert max(ports.values()) <= max(switches)
    for one, two, data in graph.edges(data=True):
        back = graph.edges[two, one]
        assert (data["bandwidth"], data["multiplicity"]) == (back["bandwidth"], back["multiplicity"])


@pytest.mark.parametrize("make", CLUSTERS.values(), ids=CLUSTERS.keys())
def test_an_unedited_graph_reads_back_as_built(make: object) -> None:
    machine: Cluster = make()  # type: ignore[operator]
    before = machine.compile("adaptive").capacity_bytes_per_s
    assert machine.graph.number_of_nodes() > 0
    assert (machine.compile("adaptive").capacity_bytes_per_s == before).all()


def test_bisection_of_a_non_blocking_tree_is_half_its_injection() -> None:
    for machine in (cluster("hgx-h100", nodes=64), cluster("gb200-nvl72", racks=16)):
        census = machine.census()
        assert census.bisection_bytes_per_s == census.injection_bytes_per_s / 2


def test_bisection_is_the_maximum_flow_between_two_halves() -> None:
    machine = cluster("hgx-h100", nodes=64)
    graph = nx.DiGraph(machine.graph)
    fabric = machine.compile()
    for gpu in range(machine.num_gpus):
        name = machine.node_name(gpu)
        if fabric.gpu_domain[gpu] < 32:
            graph.add_edge("source", name, bandwidth=1e15)
        else:
            graph.add_edge(name, "sink", bandwidth=1e15)
    # NVLink does not leave a domain, so the cut is the network's
    flow = nx.maximum_flow_value(graph, "source", "sink", capacity="bandwidth")
    assert flow == pytest.approx(machine.census().bisection_bytes_per_s)


def test_halving_an_edge_counts_for_its_direction_alone() -> None:
    machine = cluster("hgx-h100", nodes=2)
    machine.graph.edges["d0/nic3", "leaf3"]["bandwidth"] /= 2
    fabric = machine.compile()
    out, back = fabric.routes([3], [11]), fabric.routes([11], [3])
    assert alone_rates(fabric, out).tolist() == [25 * GB]
    assert alone_rates(fabric, back).tolist() == [50 * GB]


@pytest.mark.parametrize("is_graph_built", [False, True])
def test_scaling_a_link_counts_in_both_directions(is_graph_built: bool) -> None:
    machine = cluster("hgx-h100", nodes=2)
    if is_graph_built:
        assert machine.graph.number_of_edges() > 0
    machine.scale_link("leaf3", "d0/nic3", 0.5)
    fabric = machine.compile()
    assert alone_rates(fabric, fabric.routes([3, 11], [11, 3])).tolist() == [25 * GB] * 2


def test_an_adaptive_bundle_loses_what_one_of_its_cables_loses() -> None:
    machine = cluster("hgx-h100", nodes=64)
    machine.cut_link("leaf0", "spine0")
    fabric = machine.compile()
    routes = fabric.routes([0], [40 * 8])
    up = [resource for resource in routes.resource if fabric.resource_name(resource).startswith("leaf0 ->")]
    assert fabric.capacity_bytes_per_s[up].tolist() == [28 * NDR]


def test_static_routes_move_off_a_dead_cable() -> None:
    machine = cluster("hgx-h100", nodes=64)
    target = 40 * 8
    before = machine.compile("static")
    names = [before.resource_name(resource) for resource in before.routes([0], [target]).resource]
    spine = next(name for name in names if name.startswith("leaf0 ->")).split()[2]
    machine.cut_link("leaf0", spine)
    after = machine.compile("static")
    assert alone_rates(after, after.routes([0], [target])).tolist() == [NDR]


def test_no_shared_live_spine_is_no_path() -> None:
    machine = cluster("hgx-h100", nodes=64)
    for spine in range(8):
        machine.cut_link("leaf0" if spine < 4 else "leaf8", f"spine{spine}")
    for routing in ("adaptive", "static", "ecmp"):
        fabric = machine.compile(routing)  # type: ignore[arg-type]
        with pytest.raises(NoPathError, match=r"d0/gpu0 to d32/gpu0"):
            fabric.routes([0], [32 * 8], relay="never")
        fabric.routes([0], [1])


def test_cutting_the_last_path_names_both_ends() -> None:
    machine = cluster("hgx-h100", nodes=2)
    machine.cut_link("d0/nic3", "leaf3")
    with pytest.raises(NoPathError, match=r"no path from d0/gpu3 to d1/gpu3"):
        machine.compile().routes([3], [11])


def test_removing_an_edge_searches_the_graph() -> None:
    machine = cluster("hgx-h100", nodes=64)
    machine.graph.remove_edge("leaf0", "spine0")
    fabric = machine.compile()
    assert fabric.is_searched
    routes = fabric.routes([0], [40 * 8])
    assert routes.num_switch_hops.tolist() == [3]
    assert "leaf0 -> spine0" not in [fabric.resource_name(resource) for resource in routes.resource]
    assert alone_rates(fabric, routes).tolist() == [NDR]


def test_a_switch_that_a_user_adds_carries_traffic() -> None:
    machine = joined()
    machine.graph.add_node("my-router", kind="wan")
    for switch in ("m0/spine0", "m1/spine0"):
        machine.graph.add_edge(switch, "my-router", bandwidth=10 * GB, latency=1e-3)
        machine.graph.add_edge("my-router", switch, bandwidth=10 * GB, latency=1e-3)
    fabric = machine.compile()
    routes = fabric.routes([0], [32])
    assert alone_rates(fabric, routes).tolist() == [10 * GB]
    assert routes.latency_s[0] == pytest.approx(2e-3, rel=1e-2)
    assert "m0/spine0 -> my-router" in [fabric.resource_name(resource) for resource in routes.resource]


def test_a_removed_gpu_is_no_rank() -> None:
    machine = cluster("hgx-h100", nodes=2)
    machine.graph.remove_node("d0/gpu7")
    assert machine.compile().num_gpus == 15


def test_faults_of_an_edited_graph_are_named() -> None:
    machine = cluster("hgx-h100", nodes=2)
    machine.graph.edges["leaf0", "spine0"]["bandwidth"] = -1.0
    with pytest.raises(TopologyError, match="leaf0 to spine0 has no usable bandwidth"):
        machine.compile()
    machine = cluster("hgx-h100", nodes=2)
    machine.graph.add_node("mine", kind="gpu")
    with pytest.raises(TopologyError, match="mine has no domain and slot"):
        machine.compile()
    machine = cluster("hgx-h100", nodes=2)
    machine.graph.remove_edge("leaf0", "spine0")
    with pytest.raises(TopologyError, match="adaptive, ecmp"):
        machine.compile("static")


def test_unknown_names_are_refused_with_examples() -> None:
    machine = cluster("hgx-h100", nodes=2)
    with pytest.raises(TopologyError, match='"leaf99"; allowed: names such as "d0/gpu0"'):
        machine.cut_link("leaf99", "spine0")
    with pytest.raises(TopologyError, match="no cable joins leaf0 and d0/nic1"):
        machine.cut_link("leaf0", "d0/nic1")
    with pytest.raises(TopologyError, match="not negative"):
        machine.scale_link("leaf0", "spine0", -1.0)
    with pytest.raises(TopologyError, match="allowed: adaptive, static"):
        machine.compile("adaptiv")  # type: ignore[arg-type]


def test_every_node_has_a_name_of_its_own_that_leads_back() -> None:
    machine = cluster("record-405b-modular", racks=8)
    nodes = machine._nodes
    names = [nodes.name(node) for node in range(nodes.first["end"])]
    assert len(set(names)) == len(names) == machine.graph.number_of_nodes()
    assert [nodes.number(name) for name in names] == list(range(len(names)))
    assert set(names) == set(machine.graph.nodes)


@pytest.mark.parametrize("routing", ["adaptive", "static"])
@pytest.mark.parametrize("make", CLUSTERS.values(), ids=CLUSTERS.keys())
def test_every_resource_of_a_healthy_fabric_carries_something_and_has_a_name_of_its_own(
    make: object, routing: str
) -> None:
    machine: Cluster = make()  # type: ignore[operator]
    fabric = machine.compile(routing)  # type: ignore[arg-type]
    assert fabric.capacity_bytes_per_s.min() > 0
    sample = range(0, fabric.num_resources, 7)
    assert len({fabric.resource_name(resource) for resource in sample}) == len(sample)
