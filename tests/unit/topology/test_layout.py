"""The drawing has every switch and cable of the census, few enough boxes to read."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from simnet.spec.load import load_topology
from simnet.topology import build_cluster
from simnet.topology.layout import MOST_BOXES, layout

MACHINES = [
    ("record-405b-monolithic", {}),
    ("record-405b-modular", {"join.taper": 16}),
    ("hgx-h100", {"nodes": 4}),
    ("hgx-h100", {"nodes": 1024}),
]


@pytest.mark.parametrize(("name", "changes"), MACHINES)
def test_cables_and_switches_add_up_to_the_census(name: str, changes: dict[str, object]) -> None:
    cluster = build_cluster(load_topology(name, changes))
    census, drawing = cluster.census(), layout(cluster.wiring)
    cables: Counter[str] = Counter()
    for link in drawing.links:
        cables[link.link_class.replace("nic_leaf", "node_leaf")] += link.cables
    assert cables == Counter({tier: count for tier, count in census.cables.items() if count})
    switches: Counter[str] = Counter()
    for node in drawing.nodes:
        switches[node.kind] += node.count
    assert switches["leaf"] == census.switches["leaf"]
    assert switches["spine"] == census.switches["spine"]
    assert switches["core"] == census.switches["core"]
    assert switches["join switch"] == census.switches["join"]


@pytest.mark.parametrize(("name", "changes"), MACHINES)
def test_boxes_of_a_tier_stay_few_and_inside_the_drawing(name: str, changes: dict[str, object]) -> None:
    drawing = layout(build_cluster(load_topology(name, changes)).wiring)
    assert max(Counter(node.tier for node in drawing.nodes).values()) <= MOST_BOXES
    assert all(0 < node.x < 1 for node in drawing.nodes)


def test_modules_stand_side_by_side_and_the_join_belongs_to_none() -> None:
    drawing = layout(build_cluster(load_topology("record-405b-modular", {"join.taper": 16})).wiring)
    assert drawing.modules == ("m0", "m1", "m2", "m3")
    ends = [[node.x for node in drawing.nodes if node.module == module] for module in range(4)]
    assert all(max(left) < min(right) for left, right in pairwise(ends))
    assert {node.tier for node in drawing.nodes if node.module == -1} == {4}
