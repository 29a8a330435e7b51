"""The cluster as a networkx graph, and back: what a user edited on it is read when the cluster is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.topology.links import Links, Nodes, medium_of
from simnet.topology.wiring import LINK_CLASSES, NIC_LEAF, Floats, Wiring

if TYPE_CHECKING:
    from networkx import DiGraph


def build_graph(wiring: Wiring, nodes: Nodes, links: Links, up: Floats, down: Floats) -> DiGraph[str]:
    """Return the graph: two edges for each pair of nodes that cables join.

    Edges carry ``bandwidth`` [bytes/s, of all parallel cables in that direction], ``latency`` [s],
    ``medium``, ``multiplicity`` and ``link_class``; nodes carry ``kind`` and their coordinates.
    """
    import networkx as nx

    graph: DiGraph[str] = nx.DiGraph()
    names = node_names(wiring, nodes)
    with _no_collection():
        graph.add_nodes_from(zip(names, _attributes(wiring, nodes), strict=True))
        graph.add_edges_from(_edges(wiring, names, links, up, down))
    return graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the cycle collector from walking millions of live dictionaries again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _edges(
    wiring: Wiring, names: list[str], links: Links, up: Floats, down: Floats
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Yield both edges of every row that has a cable."""
    exists = _existing(wiring, links)
    media = [medium_of(wiring, link_class) for link_class in range(len(LINK_CLASSES))]
    columns = (links.low, links.high, links.link_class, links.multiplicity, up, down, links.up_latency,
               links.down_latency)  # fmt: skip
    for low, high, number, multiplicity, up_rate, down_rate, up_s, down_s in zip(
        *(column[exists].tolist() for column in columns), strict=True
    ):
        one, two, medium, link_class = names[low], names[high], media[number], LINK_CLASSES[number]
        yield (one, two, {"bandwidth": up_rate, "latency": up_s, "medium": medium, "multiplicity": multiplicity,
                          "link_class": link_class})  # fmt: skip
        yield (two, one, {"bandwidth": down_rate, "latency": down_s, "medium": medium, "multiplicity": multiplicity,
                          "link_class": link_class})  # fmt: skip


def node_names(wiring: Wiring, nodes: Nodes) -> list[str]:
    """Return the names of all nodes in their order."""
    prefix = [f"m{module}/" if wiring.is_modular else "" for module in range(len(wiring.plans))]
    domains = [
        f"{prefix[module]}d{index}/"
        for module, index in zip(wiring.domain_module.tolist(), wiring.domain_index.tolist(), strict=True)
    ]
    names = [
        f"{domains[domain]}gpu{slot}"
        for domain, slot in zip(wiring.gpu_domain.tolist(), wiring.gpu_slot.tolist(), strict=True)
    ]
    for domain, count in zip(domains, wiring.num_nvswitches.tolist(), strict=True):
        names += [f"{domain}nvswitch{index}" for index in range(count)]
    names += [
        f"{domains[domain]}nic{index}"
        for domain, index in zip(wiring.nic_domain.tolist(), wiring.nic_index.tolist(), strict=True)
    ]
    for kind in ("leaf", "spine", "core"):
        counts = np.diff(wiring.switch_first[kind])
        names += [f"{prefix[m]}{kind}{index}" for m, count in enumerate(counts) for index in range(count)]
    return names + [f"join{index}" for index in range(int(np.diff(wiring.switch_first["join"])[0]))]


def _attributes(wiring: Wiring, nodes: Nodes) -> list[dict[str, object]]:
    """Return kind and coordinates of all nodes in their order."""
    rows: list[dict[str, object]] = [
        {"kind": "gpu", "domain": domain, "slot": slot, "rail": rail, "module": module, "host": host}
        for domain, slot, rail, module, host in zip(
            wiring.gpu_domain.tolist(), wiring.gpu_slot.tolist(), wiring.gpu_rail.tolist(),
            wiring.gpu_module.tolist(), wiring.gpu_host_first.tolist(), strict=True,
        )
    ]  # fmt: skip
    modules = wiring.domain_module.tolist()
    for domain, count in enumerate(wiring.num_nvswitches.tolist()):
        rows += [{"kind": "nvswitch", "domain": domain, "plane": plane, "module": modules[domain]}
                 for plane in range(count)]  # fmt: skip
    rows += [
        {"kind": "nic", "domain": domain, "slot": index, "rail": rail, "module": modules[domain]}
        for domain, index, rail in zip(
            wiring.nic_domain.tolist(), wiring.nic_index.tolist(), wiring.nic_rail.tolist(), strict=True
        )
    ]
    rails = wiring.leaf_rail.tolist()
    for kind in ("leaf", "spine", "core"):
        for module, count in enumerate(np.diff(wiring.switch_first[kind]).tolist()):
            rows += [{"kind": kind, "module": module, "index": index} for index in range(count)]
    first = nodes.first["leaf"]
    for leaf, rail in enumerate(rails):
        rows[first + leaf]["rail"] = rail
    joins = int(np.diff(wiring.switch_first["join"])[0])
    return rows + [{"kind": "core", "module": -1, "index": index} for index in range(joins)]


def _existing(wiring: Wiring, links: Links) -> np.ndarray:
    """Return the rows with a cable; a NIC of a cluster without a network has none."""
    exists = np.ones(len(links.low), dtype=bool)
    exists[links.link_class == NIC_LEAF] = (wiring.nic_leaf >= 0).ravel()
    return exists


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """Bandwidths of all rows as the graph has them, if it still has the nodes and edges that it was built with."""

    is_same_structure: bool
    up: Floats
    down: Floats


def read_back(graph: DiGraph[str], wiring: Wiring, nodes: Nodes, links: Links) -> ReadBack:
    """Return the bandwidths that edges of the graph have now.

    Raises
    ------
    TopologyError
        If an edge has no bandwidth, or one that is no number of zero or more.
    """
    names = node_names(wiring, nodes)
    exists = _existing(wiring, links)
    up, down = np.zeros(len(exists)), np.zeros(len(exists))
    adjacency = graph.adj
    rows = np.flatnonzero(exists).tolist()
    is_same = graph.number_of_edges() == 2 * len(rows) and graph.number_of_nodes() == len(names)
    if is_same:
        try:
            for row, low, high in zip(rows, links.low[exists].tolist(), links.high[exists].tolist(), strict=True):
                one, two = names[low], names[high]
                up[row] = adjacency[one][two]["bandwidth"]
                down[row] = adjacency[two][one]["bandwidth"]
        except (KeyError, TypeError, ValueError):
            is_same = False
    if not is_same or not (np.isfinite(up).all() and np.isfinite(down).all() and min(up.min(), down.min()) >= 0):
        check_edges(graph)
    return ReadBack(is_same_structure=is_same, up=up, down=down)


def check_edges(graph: DiGraph[str]) -> None:
    """Raise a :class:`TopologyError` that names every edge whose bandwidth is missing or no number from 0 up."""
    problems = []
    for one, two, data in graph.edges(data=True):
        bandwidth = data.get("bandwidth")
        is_number = isinstance(bandwidth, int | float | np.integer | np.floating) and not isinstance(bandwidth, bool)
        rate = float(bandwidth) if is_number and bandwidth is not None else -1.0
        if not np.isfinite(rate) or rate < 0:
            problems.append(
                Problem(
                    message=f"the edge from {one} to {two} has no usable bandwidth",
                    found=repr(bandwidth),
                    allowed="bytes/s and direction, 0 or more",
                )
            )
    if problems:
        raise TopologyError(*problems)
