"""NCCL's closed forms against the engine on built fabrics: latency and bandwidth apart, what is measured switched off.

Source: NCCL 2.30.7, src/graph/tuning.cc (latencies, payload fractions), and nccl-tests doc/PERFORMANCE.md (bytes). The
expected values are written out here, from none of simnet's own forms.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from simnet.collectives.lower import lower
from simnet.engine.executor import run_program
from simnet.spec.load import load_topology
from simnet.topology import build_cluster
from tests.oracle.ideal_constants import ideal_constants
from tests.oracle.one_use import one_use

HOPPER = ideal_constants("hopper")
G, NIC, NVLINK = 8, 50e9, 450e9
TINY, LARGE = 1.0, 2.0**40
ALL = ("ll", "ll128", "simple")
WITHIN = 0.01

RING_BASE = {"ll": 6.6, "ll128": 14.0, "simple": 8.4}
TREE_BASE = {"ll": 6.8, "ll128": 14.0, "simple": 8.4}
RING_NVLINK = {"ll": 0.6, "ll128": 1.9, "simple": 3.4}
TREE_NVLINK = {"ll": 0.6, "ll128": 1.25, "simple": 4.0}
RING_NET = {"ll": 2.7, "ll128": 4.0, "simple": 14.0}
TREE_NET = {"ll": 5.0, "ll128": 8.5, "simple": 14.0}
POST = {"ll": 1.0, "ll128": 1.0, "simple": 3.0}
NVLS, NVLS_TREE_NET = 25.0, 20.9
PAYLOAD = {"ll": 0.5, "ll128": 120 / 128, "simple": 1.0}


@functools.cache
def fabric_of(nodes):
    return build_cluster(load_topology("hgx-h100", {"nodes": nodes})).compile()


def run_s(op, algorithm, protocol, nodes, size):
    """Time on the engine's clock."""
    fabric = fabric_of(nodes)
    tasks = lower(
        fabric,
        op,
        np.arange(G * nodes)[None, :],
        size,
        constants=HOPPER,
        algorithm=algorithm,
        excluded=tuple(other for other in ALL if other != protocol),
    )
    assert (tasks.algorithm, tasks.protocol) == (algorithm, protocol)
    return run_program(one_use(tasks, fabric, HOPPER)).step_time_s


def ring_latency_us(passes, protocol, nodes):
    num_ranks, between = G * nodes, passes * (nodes - 1)
    hop = max(RING_NVLINK[protocol], POST[protocol] if nodes > 1 else 0.0)
    return RING_BASE[protocol] + (passes * (num_ranks - 1) - between) * hop + between * RING_NET[protocol]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_latency_of_rings(op, passes, protocol, nodes):
    expected = ring_latency_us(passes, protocol, nodes)
    assert run_s(op, "ring", protocol, nodes, TINY) * 1e6 == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 8, 32])
@pytest.mark.parametrize("protocol", ALL)
def test_latency_of_trees(protocol, nodes):
    levels = math.floor(math.log2(nodes))
    expected = TREE_BASE[protocol] + 2 * ((G - 1) * TREE_NVLINK[protocol] + levels * TREE_NET[protocol])
    assert run_s("all_reduce", "tree", protocol, nodes, TINY) * 1e6 == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize(("algorithm", "nodes"), [("nvls", 1), ("nvls_tree", 2), ("nvls_tree", 4), ("nvls_tree", 16)])
def test_latency_of_in_switch_reduction(algorithm, nodes):
    expected = NVLS + 2 * math.floor(math.log2(nodes)) * NVLS_TREE_NET
    assert run_s("all_reduce", algorithm, "simple", nodes, TINY) * 1e6 == pytest.approx(expected, rel=WITHIN)


def bandwidth_s(op, algorithm, protocol, nodes):
    """Time of the bytes alone."""
    return run_s(op, algorithm, protocol, nodes, 2 * LARGE) - run_s(op, algorithm, protocol, nodes, LARGE)


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_bandwidth_of_rings(op, passes, protocol, nodes):
    # Each GPU sends passes (n - 1) / n of the buffer: over NVLink in one node, else over the eight NICs of a node.
    num_ranks = G * nodes
    bus = PAYLOAD[protocol] * (NVLINK if nodes == 1 else G * NIC)
    expected = passes * (num_ranks - 1) / num_ranks * LARGE / bus
    assert bandwidth_s(op, "ring", protocol, nodes) == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize(("nodes", "edges"), [(2, 2), (3, 3), (4, 4), (8, 4), (16, 4)])
def test_bandwidth_of_double_trees(nodes, edges):
    # The busiest node has so many edges of the two trees, half of the buffer on each, over its NICs; inside, NVLink
    # carries twice (g - 1) / g of it.
    expected = LARGE * max(edges / 2 / (G * NIC), 2 * (G - 1) / G / NVLINK)
    assert bandwidth_s("all_reduce", "tree", "simple", nodes) == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize("protocol", ["ll", "ll128"])
def test_bandwidth_of_trees_by_protocol(protocol):
    share = {"ll": 1 / 3.8, "ll128": 120 / 128}[protocol]
    simple, other = (bandwidth_s("all_reduce", "tree", name, 4) for name in ("simple", protocol))
    assert other == pytest.approx(simple / share, rel=WITHIN)


def test_bandwidth_of_in_switch_reduction():
    # Each GPU gives all bytes once and multicasts its share: S (1 + 1/n) over NVLink.
    assert bandwidth_s("all_reduce", "nvls", "simple", 1) == pytest.approx(LARGE * (1 + 1 / G) / NVLINK, rel=WITHIN)


@pytest.mark.parametrize(("nodes", "edges"), [(2, 2), (4, 4), (8, 4)])
def test_bandwidth_of_trees_of_in_switch_reduction(nodes, edges):
    expected = LARGE * max(edges / 2 / (G * NIC), (1 + 1 / G) / NVLINK)
    assert bandwidth_s("all_reduce", "nvls_tree", "simple", nodes) == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize("nodes", [2, 4, 8])
@pytest.mark.parametrize("algorithm", ["pairwise", "pairwise_no_pxn"])
def test_bandwidth_of_all_to_all(nodes, algorithm):
    # (n - g) / n of each GPU's buffer leaves its node over its own NIC: bus bandwidth B (n - 1) / (n - g).
    num_ranks = G * nodes
    fabric = fabric_of(nodes)
    times = [
        run_program(
            one_use(
                lower(fabric, "all_to_all", np.arange(num_ranks)[None, :], size, constants=HOPPER, algorithm=algorithm),
                fabric,
                HOPPER,
            )
        ).step_time_s
        for size in (LARGE, 2 * LARGE)
    ]
    assert times[1] - times[0] == pytest.approx(LARGE * (num_ranks - G) / num_ranks / NIC, rel=WITHIN)
