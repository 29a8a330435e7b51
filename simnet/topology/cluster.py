"""A built cluster: real fabric, editable as a networkx graph, compiled to arrays for the simulation."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.spec.topology import Routing, TopologySpec
from simnet.topology.arithmetic import ArithmeticRouter
from simnet.topology.census import Census, take_census
from simnet.topology.fabric import Fabric
from simnet.topology.graph import build_graph, read_back
from simnet.topology.in_network import built_reduction, with_searched_reduction
from simnet.topology.links import Links, Nodes, chosen_rows, link_bandwidths, link_rows, section_starts
from simnet.topology.resources import Resources
from simnet.topology.search import searched_fabric
from simnet.topology.wire import wire
from simnet.topology.wiring import Floats, Ids, Ints, Wiring

if TYPE_CHECKING:
    from networkx import DiGraph

ROUTINGS = ("adaptive", "static", "static-no-offset", "ecmp")
"""Routing modes."""
_NUM_ENDPOINT_SECTIONS = 3


class Cluster:
    """GPUs and the fabric that joins them; state is what was edited since it was built.

    Attributes
    ----------
    spec
        What it was built from.
    wiring
        Its cables before any edit.
    """

    def __init__(self, spec: TopologySpec) -> None:
        self.spec = spec
        self.wiring: Wiring = wire(spec)
        self._nodes = Nodes(wiring=self.wiring)
        self._links: Links | None = None
        self._up: Floats = link_bandwidths(self.wiring)
        self._down: Floats = self._up.copy()
        self._graph: DiGraph[str] | None = None

    @property
    def num_gpus(self) -> int:
        """Return the number of GPUs that are ranks."""
        return self.wiring.num_gpus

    @property
    def gpu_domain(self) -> Ids:
        """Return the scale-up domain of each GPU, ``(num_gpus,)``."""
        return self.wiring.gpu_domain

    @property
    def gpu_slot(self) -> Ids:
        """Return the place of each GPU inside its domain, ``(num_gpus,)``."""
        return self.wiring.gpu_slot

    @property
    def gpu_rail(self) -> Ids:
        """Return the rail of each GPU's NIC, ``(num_gpus,)``."""
        return self.wiring.gpu_rail

    @property
    def gpu_module(self) -> Ids:
        """Return the module of each GPU, ``(num_gpus,)``."""
        return self.wiring.gpu_module

    @property
    def nic_bytes_per_s(self) -> float:
        """Return what a GPU can send to other nodes: its share of the NICs, as fast as their cables and ports."""
        wiring = self.wiring
        return float(wiring.nic_bandwidth.sum()) * wiring.num_planes / wiring.num_gpus

    @property
    def graph(self) -> DiGraph[str]:
        """Return the cluster as a directed graph, two edges per bundle of parallel cables; edits count.

        Built on first access, which takes seconds at 100,000 GPUs; from then on :meth:`compile` reads it back.
        """
        if self._graph is None:
            self._graph = build_graph(self.wiring, self._nodes, self._rows, self._up, self._down)
        return self._graph

    @property
    def _rows(self) -> Links:
        if self._links is None:
            self._links = link_rows(self.wiring, self._nodes)
        return self._links

    def scale_link(self, a: str, b: str, factor: float) -> None:
        """Multiply the bandwidth between two nodes by *factor*, in both directions.

        Raises
        ------
        TopologyError
            If no cable joins the nodes, or the factor is no number from 0 up.
        """
        if not math.isfinite(factor) or factor < 0:
            raise TopologyError(Problem(message="a factor is finite and not negative", found=str(factor)))
        if self._graph is not None:
            self._scale_edges(self._graph, a, b, factor)
            return
        row = self._row(a, b)
        self._up[row] *= factor
        self._down[row] *= factor

    def cut_link(self, a: str, b: str) -> None:
        """Take all bandwidth from the link between two nodes; errors as :meth:`scale_link`."""
        self.scale_link(a, b, 0.0)

    def limit_links(
        self,
        link_class: str,
        *,
        factor: float = 1.0,
        most_bytes_per_s: float = math.inf,
        rails: Collection[int] | None = None,
        domains: Collection[int] | None = None,
    ) -> None:
        """Slow all links of a class down, in both directions.

        Parameters
        ----------
        link_class
            A word of :data:`simnet.topology.wiring.LINK_CLASSES`.
        factor
            Multiplies their bandwidth.
        most_bytes_per_s
            What each carries afterwards at most, in each direction [bytes/s].
        rails, domains
            Rails and scale-up domains whose links are meant; all unless given. Links between
            switches belong to none.

        Raises
        ------
        TopologyError
            If there is no such class, or the factor is no number from 0 up.
        """
        if not math.isfinite(factor) or factor < 0:
            raise TopologyError(Problem(message="a factor is finite and not negative", found=str(factor)))
        rows = chosen_rows(self.wiring, self._rows, self._nodes, link_class, rails, domains)
        if self._graph is None:
            for rates in (self._up, self._down):
                rates[rows] = np.minimum(rates[rows] * factor, most_bytes_per_s)
            return
        for row in rows.tolist():
            one, two = (self._nodes.name(int(end[row])) for end in (self._rows.low, self._rows.high))
            for a, b in ((one, two), (two, one)):
                if self._graph.has_edge(a, b):
                    edge = self._graph.edges[a, b]
                    edge["bandwidth"] = min(edge["bandwidth"] * factor, most_bytes_per_s)

    def compile(self, routing: Routing | None = None, seed: int = 0) -> Fabric:
        """Return the fabric as it is now, for simulation.

        Parameters
        ----------
        routing
            ``adaptive`` spreads a flow ideally over equal-cost links, around dead ones; ``static``
            sends all traffic of a target over cables that follow from its coordinates;
            ``static-no-offset`` does so by its place on its leaf alone; ``ecmp`` hashes each flow.
            That of the spec unless given.
        seed
            Of the ECMP hash.

        Raises
        ------
        TopologyError
            If an edited edge has no usable bandwidth.
        """
        mode = routing or self.spec.routing
        if mode not in ROUTINGS:
            raise TopologyError(
                Problem(message="no routing of that name", found=f'"{mode}"', allowed=", ".join(ROUTINGS))
            )
        up, down = self._up, self._down
        if self._graph is not None:
            read = read_back(self._graph, self.wiring, self._nodes, self._rows)
            if not read.is_same_structure:
                return with_searched_reduction(searched_fabric(self._graph, routing=mode, seed=seed), self.wiring)
            up, down = read.up, read.down
        return self._arithmetic_fabric(up, down, mode, seed)

    def census(self) -> Census:
        """Return what the cluster is made of, as it was built."""
        return take_census(self.spec, self.wiring)

    def node_name(self, gpu: int) -> str:
        """Return the name of a GPU's node, ``d3/gpu5``."""
        return self._nodes.name(gpu)

    def _arithmetic_fabric(self, up: Floats, down: Floats, mode: str, seed: int) -> Fabric:
        wiring = self.wiring
        resources = Resources(wiring=wiring, is_bundled=mode == "adaptive")
        capacity = resources.capacities(up, down)
        start = int(section_starts(wiring)[_NUM_ENDPOINT_SECTIONS])
        router = ArithmeticRouter(
            wiring=wiring, resources=resources, capacity=capacity, dead=_dead(up[start:], down[start:]),
            routing=mode, seed=seed,
        )  # fmt: skip
        return Fabric(
            num_gpus=wiring.num_gpus,
            gpu_domain=wiring.gpu_domain,
            gpu_slot=wiring.gpu_slot,
            gpu_rail=wiring.gpu_rail,
            gpu_module=wiring.gpu_module,
            capacity_bytes_per_s=capacity,
            link_class=resources.classes.astype(np.int8),
            direction=resources.directions.astype(np.int8),
            routing=mode,
            is_searched=False,
            router=router,
            reduction=built_reduction(self.spec, wiring, resources, up, down),
        )

    def _row(self, a: str, b: str) -> int:
        one, two = self._nodes.number(a), self._nodes.number(b)
        rows = self._rows
        found = np.flatnonzero(((rows.low == one) & (rows.high == two)) | ((rows.low == two) & (rows.high == one)))
        if not len(found):
            raise _no_link(a, b)
        return int(found[0])

    @staticmethod
    def _scale_edges(graph: DiGraph[str], a: str, b: str, factor: float) -> None:
        if not graph.has_edge(a, b) and not graph.has_edge(b, a):
            raise _no_link(a, b)
        for one, two in ((a, b), (b, a)):
            if graph.has_edge(one, two):
                graph.edges[one, two]["bandwidth"] *= factor


def _no_link(a: str, b: str) -> TopologyError:
    return TopologyError(Problem(message=f"no cable joins {a} and {b}", found=f"{a}, {b}"))


def _dead(up: Floats, down: Floats) -> Ints:
    """Return the rows of switch cables without bandwidth: upwards, then downwards plus the number of rows."""
    return np.concatenate([np.flatnonzero(up <= 0), np.flatnonzero(down <= 0) + len(up)])
