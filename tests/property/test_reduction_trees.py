"""What must hold for every reduction tree on every machine, healthy or with cut and slow cables."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simnet.collectives.known import Known
from simnet.collectives.lower import lower
from simnet.collectives.tasks import payload_bytes
from simnet.errors import NoPathError, SpecError
from simnet.spec.collectives import load_collectives
from simnet.spec.load import load_topology
from simnet.topology import Cluster, build_cluster
from simnet.topology.reduction import NoTree
from simnet.topology.wiring import LINK_CLASSES

CONSTANTS = {"hgx-h100": load_collectives("hopper"), "hgx-a100": load_collectives("ampere")}


@st.composite
def machines(draw: st.DrawFn) -> Cluster:
    name = draw(st.sampled_from(sorted(CONSTANTS)))
    changes: dict[str, object] = {
        "nodes": draw(st.integers(2, 24)),
        "scale_out.in_network_reduction": True,
        "scale_out.unit": draw(st.sampled_from([2, 4, 8])),
        "scale_out.pod_units": draw(st.sampled_from([1, 2])),
        "scale_out.tiers": draw(st.sampled_from(["auto", 3])),
        "scale_out.rail_optimised": draw(st.booleans()),
        "node.nics": draw(st.sampled_from([4, 8])),
    }
    cluster = build_cluster(load_topology(name, changes))
    switches = cluster.wiring.leaf_spine.ends(), cluster.wiring.spine_core.ends()
    names = cluster._nodes
    pairs = [(int(low), int(high)) for ends in switches for low, high in zip(*ends, strict=True)]
    for low, high in draw(st.lists(st.sampled_from(pairs), max_size=6)) if pairs else []:
        first = names.first["leaf"]
        cluster.scale_link(names.name(first + low), names.name(first + high), draw(st.sampled_from([0.0, 0.5])))
    return cluster


def ends_of(name: str) -> tuple[str, str]:
    one, _, two = name.partition(" -> ")
    return one, two


@settings(max_examples=60)
@given(machines(), st.sampled_from(["static", "adaptive"]), st.integers(0, 2**16))
def test_trees_reach_every_nic_over_live_cables_of_their_own(cluster: Cluster, routing: str, seed: int) -> None:
    fabric = cluster.compile(routing)
    book = fabric.reduction.book()
    rng = np.random.default_rng(seed)
    nodes = int(fabric.gpu_domain.max()) + 1
    used: Counter[int] = Counter()
    for _ in range(4):
        chosen = np.sort(rng.choice(nodes, size=int(rng.integers(2, nodes + 1)), replace=False))
        slot = int(rng.integers(8))
        tree = book.plant([(chosen * 8 + slot).tolist()])
        if isinstance(tree, NoTree):
            assert tree.reason
            continue
        (tree,) = tree
        assert min(fabric.capacity_bytes_per_s[list(tree.resource)]) >= tree.bytes_per_s > 0
        kinds = Counter((int(fabric.link_class[i]), int(fabric.direction[i])) for i in tree.resource)
        assert kinds[LINK_CLASSES.index("nic_leaf"), 0] == kinds[LINK_CLASSES.index("nic_leaf"), 1] == len(chosen)
        between = sum(count for (kind, way), count in kinds.items() if kind > 2 and way == 0)
        assert between == tree.num_switches - 1  # a tree: every switch but the root has one cable up
        if routing == "static":  # a resource is a cable there
            used.update(i for i in set(tree.resource) if fabric.link_class[i] > 1)
    assert max(used.values(), default=0) <= 1


@settings(max_examples=40)
@given(machines(), st.sampled_from(["collnet", "collnet_chain"]))
def test_every_nic_in_use_moves_its_share_once_each_way_and_bytes_are_kept(cluster: Cluster, algorithm: str) -> None:
    fabric = cluster.compile("static")
    constants = CONSTANTS[cluster.spec.name]
    ranks, known = np.arange(fabric.num_gpus), Known()
    try:
        (shape,) = known.shapes(fabric, ranks[None, :])
        tasks = lower(fabric, "all_reduce", ranks, 2.0**30, constants=constants, algorithm=algorithm, known=known)
        refusal = ""
    except (SpecError, NoPathError) as error:
        refusal = str(error)
    if refusal:
        assert any(reason in refusal for reason in ("no room", "no switch joins", "no path"))
        return
    moved = payload_bytes(tasks, fabric.num_resources)
    heads, nodes = shape.machine.num_heads, shape.machine.num_nodes
    for way in (0, 1):  # NICs that lead nowhere are left out, in every node as many
        nics = (fabric.link_class == LINK_CLASSES.index("nic_leaf")) & (fabric.direction == way) & (moved > 0)
        assert nics.sum() == nodes * heads
        np.testing.assert_allclose(moved[nics], 2.0**30 / heads)
    for way in (0, 1):  # what goes up between switches comes down again
        own = (fabric.link_class > LINK_CLASSES.index("nic_leaf")) & (fabric.direction == way)
        other = (fabric.link_class > LINK_CLASSES.index("nic_leaf")) & (fabric.direction == 1 - way)
        np.testing.assert_allclose(moved[own].sum(), moved[other].sum())
    assert moved[fabric.link_class > 1].max() <= 2.0**30 / heads * (1 + 1e-12)
