"""Routes of graphs whose structure was edited: shortest paths, spread over equal-cost ones by their capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.topology.fabric import Fabric, Routes
from simnet.topology.paths import no_path
from simnet.topology.ways import NO_WAY, SwitchWays, Way
from simnet.topology.wiring import LINK_CLASSES, NVLINK, Floats, Ints, offsets

if TYPE_CHECKING:
    from networkx import DiGraph

KIND_RANK = {"gpu": 0, "nvswitch": 1, "nic": 1, "leaf": 2, "spine": 3, "core": 4, "wan": 5}
"""How high each kind of node stands; kinds of a user's own count as leaves."""
_MAX_SHOWN = 5
_BETWEEN = {("gpu", "gpu"): 0, ("gpu", "nvswitch"): 0, ("gpu", "nic"): 1, ("leaf", "nic"): 2, ("gpu", "leaf"): 2,
            ("leaf", "spine"): 3, ("core", "spine"): 4}  # fmt: skip


def searched_fabric(graph: DiGraph[str], *, routing: str, seed: int) -> Fabric:
    """Return a fabric whose every edge is a resource.

    Raises
    ------
    TopologyError
        If a GPU has no coordinates, or routing is by single cables, which a graph of bundles does not show.
    """
    if routing not in {"adaptive", "ecmp"}:
        raise TopologyError(
            Problem(
                message="static routing follows from coordinates, which an edited graph does not have",
                found=f'"{routing}"',
                allowed="adaptive, ecmp",
            )
        )
    gpus = [(name, data) for name, data in graph.nodes(data=True) if data.get("kind") == "gpu"]
    _check_gpus(gpus)
    gpus.sort(key=lambda entry: (entry[1]["domain"], entry[1]["slot"]))
    router = SearchRouter.of(graph, [name for name, _ in gpus], routing=routing, seed=seed)
    columns = {key: np.array([int(data.get(key, 0)) for _, data in gpus], dtype=np.int32)
               for key in ("domain", "slot", "rail", "module")}  # fmt: skip
    return Fabric(
        num_gpus=len(gpus),
        gpu_domain=columns["domain"],
        gpu_slot=columns["slot"],
        gpu_rail=columns["rail"],
        gpu_module=columns["module"],
        capacity_bytes_per_s=router.capacity,
        link_class=router.classes.astype(np.int8),
        direction=router.directions.astype(np.int8),
        routing=routing,
        is_searched=True,
        router=router,
    )


def _check_gpus(gpus: list[tuple[str, dict[str, object]]]) -> None:
    problems = [
        Problem(message=f"the GPU {name} has no domain and slot", path=name, allowed="two integers")
        for name, data in gpus
        if not {"domain", "slot"} <= data.keys()
    ]
    if problems:
        raise TopologyError(*problems)


@dataclass(kw_only=True)
class SearchRouter:
    """Adjacency of the edited graph, and the ways found so far."""

    names: list[str]
    kinds: list[str]
    places: list[tuple[int, int, int]]
    """Host, module and rail of each node."""
    ends: list[tuple[int, int]]
    after: list[dict[int, int]]
    """For each node, the edge to each next node."""
    before: list[dict[int, int]]
    capacity: Floats
    latency: Floats
    classes: Ints
    directions: Ints
    gpus: list[int]
    """Node of each GPU."""
    cables: Ints
    """Parallel cables of each edge."""
    routing: str
    seed: int
    ways: SwitchWays

    @staticmethod
    def of(graph: DiGraph[str], gpu_names: list[str], *, routing: str, seed: int) -> SearchRouter:
        """Return the router of a graph."""
        names = list(graph.nodes)
        number = {name: index for index, name in enumerate(names)}
        kinds = [str(graph.nodes[name].get("kind", "leaf")) for name in names]
        places = [
            (int(values.get("host", -1 - index)), int(values.get("module", 0)), int(values.get("rail", -1)))
            for index, values in enumerate(graph.nodes[name] for name in names)
        ]
        ends = [(number[one], number[two]) for one, two in graph.edges]
        after: list[dict[int, int]] = [{} for _ in names]
        before: list[dict[int, int]] = [{} for _ in names]
        data = [values for _, _, values in graph.edges(data=True)]
        capacity = np.array([float(values["bandwidth"]) for values in data])
        for edge, (one, two) in enumerate(ends):
            if capacity[edge] > 0:
                after[one][two] = edge
                before[two][one] = edge
        classes = np.array([_class(values.get("link_class"), kinds[one], kinds[two])
                            for values, (one, two) in zip(data, ends, strict=True)])  # fmt: skip
        ranks = [KIND_RANK.get(kind, KIND_RANK["leaf"]) for kind in kinds]
        latency = np.array([float(values.get("latency", 0.0)) for values in data])
        ways = SwitchWays(kinds=kinds, after=after, before=before, capacity=capacity, latency=latency)
        return SearchRouter(
            ways=ways,
            names=names, kinds=kinds, places=places, ends=ends, after=after, before=before, capacity=capacity,
            latency=latency, classes=classes,
            directions=np.array([int(ranks[one] > ranks[two]) for one, two in ends]),
            gpus=[number[name] for name in gpu_names],
            cables=np.array([max(1, int(values.get("multiplicity", 1))) for values in data]),
            routing=routing, seed=seed,
        )  # fmt: skip

    def name(self, resource: int) -> str:
        """Return the two ends of an edge."""
        one, two = self.ends[resource]
        return f"{self.names[one]} -> {self.names[two]}"

    def routes(self, src: Ints, dst: Ints, flow_id: Ints, relay: str) -> Routes:
        """Return the routes of all flows; see :meth:`simnet.topology.Fabric.routes`."""
        rows, lost = [], []
        for flow, (one, two) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            way, relays = self._gpu_way(self.gpus[one], self.gpus[two], relay)
            if way.hops < 0:
                lost.append((self.names[self.gpus[one]], self.names[self.gpus[two]]))
            elif self.routing == "ecmp":
                way = self._hashed(way, (one, two, int(flow_id[flow])))
            rows.append((way, relays))
        if lost:
            raise no_path(lost[:_MAX_SHOWN], len(lost))
        return self._assembled(rows)

    def _assembled(self, rows: list[tuple[Way, int]]) -> Routes:
        edges = [edge for way, _ in rows for edge, _ in way.edges]
        ports = [self._ports(way) for way, _ in rows]
        crosses = [max((int(self.classes[edge]) for edge, _ in way.edges), default=-1) for way, _ in rows]
        inside = [way.edges and cross == NVLINK for (way, _), cross in zip(rows, crosses, strict=True)]
        nvlink = [relays + bool(stays) for (_, relays), stays in zip(rows, inside, strict=True)]
        return Routes(
            indptr=offsets(np.array([len(way.edges) for way, _ in rows], dtype=np.int64)),
            resource=np.array(edges, dtype=np.int32),
            weight=np.array([share for way, _ in rows for _, share in way.edges], dtype=np.float64),
            latency_s=np.array([way.latency for way, _ in rows]),
            num_nvlink_hops=np.array(nvlink, dtype=np.int32),
            num_switch_hops=np.array([way.hops for way, _ in rows], dtype=np.int32),
            crosses=np.array(crosses, dtype=np.int8),
            src_port=np.array([first for first, _ in ports], dtype=np.int32),
            dst_port=np.array([last for _, last in ports], dtype=np.int32),
        )

    def _ports(self, way: Way) -> tuple[int, int]:
        """Return the edges that carry all of the flow and bound it: next to the NIC, or -1 where it spreads at once."""
        whole = [edge for edge, share in way.edges if share >= 1.0]
        network = [edge for edge in whole if LINK_CLASSES[self.classes[edge]] == "nic_leaf"]
        inner = [edge for edge in whole if LINK_CLASSES[self.classes[edge]] == "gpu_nic"]
        found = network if len(network) == 2 else inner
        return (found[0], found[-1]) if found else (-1, -1)

    def _gpu_way(self, source: int, target: int, relay: str) -> tuple[Way, int]:
        """Return the way between two GPUs and the relays over NVLink on it."""
        if source == target:
            return Way((), np.inf, 0.0, 0), 0
        way = self._nvlink(source, target)
        if way.hops >= 0:
            return way, 0
        way = self._network(source, target)
        if relay == "never" or (relay == "auto" and way.hops >= 0 and not self._strays(way, source, target)):
            return way, 0
        over = self._relayed(source, target, relay)
        return (way, 0) if over.hops < 0 else (over, 1)

    def _strays(self, way: Way, source: int, target: int) -> bool:
        """Return whether a way between two GPUs of one module leaves it."""
        crossed = {LINK_CLASSES[self.classes[edge]] for edge, _ in way.edges}
        return self.places[source][1] == self.places[target][1] and "join" in crossed

    def _relayed(self, source: int, target: int, relay: str) -> Way:
        """Return the way over NVLink to a GPU of the same host, then over the network; none for the source's rail."""
        host, _, rail = self.places[source]
        for near in self.gpus:
            near_host, _, near_rail = self.places[near]
            if near == source or near_host != host or near_rail == rail:
                continue
            if relay == "always" and near_rail != self.places[target][2]:
                continue
            first, rest = self._nvlink(source, near), self._network(near, target)
            if first.hops < 0 or rest.hops < 0 or (relay == "auto" and self._strays(rest, near, target)):
                continue
            return Way(first.edges + rest.edges, min(first.rate, rest.rate), first.latency + rest.latency, rest.hops)
        return NO_WAY

    def _nvlink(self, source: int, target: int) -> Way:
        """Return the way over NVLink: a cable of their own, or all NVSwitches that both reach."""
        direct = self.after[source].get(target)
        if direct is not None:
            return Way(((direct, 1.0),), float(self.capacity[direct]), float(self.latency[direct]), 0)
        legs = [
            (edge, self.after[mid][target])
            for mid, edge in self.after[source].items()
            if self.kinds[mid] == "nvswitch" and target in self.after[mid]
        ]
        if not legs:
            return NO_WAY
        rates = np.array([min(self.capacity[up], self.capacity[down]) for up, down in legs])
        shares = (rates / rates.sum()).tolist()
        edges = [(edge, share) for leg, share in zip(legs, shares, strict=True) for edge in leg]
        latency = max(float(self.latency[up] + self.latency[down]) for up, down in legs)
        return Way(tuple(edges), float(rates.sum()), latency, 0)

    def _network(self, source: int, target: int) -> Way:
        """Return the way over the scale-out network: all shortest ones between the ports of the two."""
        found = [
            (out, way, into)
            for out in self._access(source, self.after)
            for into in self._access(target, self.before)
            if (way := self.ways.between(out[-1], into[-1])).hops >= 0
        ]
        if not found:
            return NO_WAY
        fewest = min(way.hops for _, way, _ in found)
        found = [entry for entry in found if entry[1].hops == fewest]
        rates = np.array([min(out[1], way.rate, into[1]) for out, way, into in found])
        shares = (rates / rates.sum()).tolist()
        edges: dict[int, float] = {}
        latency = 0.0
        for (out, way, into), share in zip(found, shares, strict=True):
            for edge, part in (*((edge, 1.0) for edge in out[0]), *way.edges,
                               *((edge, 1.0) for edge in reversed(into[0]))):  # fmt: skip
                edges[edge] = edges.get(edge, 0.0) + share * part
            own = float(self.latency[list(out[0] + into[0])].sum()) + way.latency
            latency += share * own
        return Way(tuple(edges.items()), float(rates.sum()), latency, fewest)

    def _access(self, gpu: int, near: list[dict[int, int]]) -> list[tuple[tuple[int, ...], float, int]]:
        """Return edges, rate and switch of every port of a GPU: over a NIC, or straight."""
        ports: list[tuple[tuple[int, ...], float, int]] = []
        for mid, edge in near[gpu].items():
            if self.kinds[mid] == "nic":
                for switch, further in near[mid].items():
                    if self.ways.is_switch(switch):
                        rate = float(min(self.capacity[edge], self.capacity[further]))
                        ports.append(((edge, further), rate, switch))
            elif self.ways.is_switch(mid):
                ports.append(((edge,), float(self.capacity[edge]), mid))
        return ports

    def _hashed(self, way: Way, flow: tuple[int, int, int]) -> Way:
        """Return one path of *way*, picked at every fork by a seeded draw in proportion to the shares."""
        shares = dict(way.edges)
        draw = np.random.default_rng((self.seed, *flow))
        starts = {self.ends[edge][0] for edge in shares} - {self.ends[edge][1] for edge in shares}
        here = min(starts, default=-1)
        edges: list[tuple[int, float]] = []
        latency = 0.0
        while here >= 0:
            out = [edge for edge in shares if self.ends[edge][0] == here]
            if not out:
                break
            weights = np.array([shares[edge] for edge in out])
            edge = out[int(draw.choice(len(out), p=weights / weights.sum()))]
            edges.append((edge, 1.0))
            latency += float(self.latency[edge])
            here = self.ends[edge][1]
        rate = min((float(self.capacity[edge]) for edge, _ in edges), default=np.inf)
        return Way(tuple(edges), rate, latency, way.hops)


def _class(link_class: object, one: str, two: str) -> int:
    """Return the index of an edge's link class, by the kinds of its ends if it has none."""
    if link_class in LINK_CLASSES:
        return LINK_CLASSES.index(str(link_class))
    low, high = sorted((one, two))
    return _BETWEEN.get((low, high), LINK_CLASSES.index("join"))
