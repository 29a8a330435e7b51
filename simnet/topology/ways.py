"""All shortest ways between two switches of any graph, with traffic split by the capacity behind each fork."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simnet.topology.wiring import Floats

_NO_SWITCH = frozenset(("gpu", "nic", "nvswitch"))


class Way(NamedTuple):
    """Equal-cost paths between two nodes: edges with the share of the traffic, alone rate, latency, switches."""

    edges: tuple[tuple[int, float], ...]
    rate: float
    latency: float
    hops: int


NO_WAY = Way((), 0.0, 0.0, -1)
"""What is returned where no path exists."""


@dataclass(kw_only=True)
class SwitchWays:
    """Ways over switches, kept once they are found."""

    kinds: list[str]
    after: list[dict[int, int]]
    """For each node, the live edge to each next node."""
    before: list[dict[int, int]]
    capacity: Floats
    latency: Floats
    _distances: dict[int, dict[int, int]] = field(default_factory=dict)
    _ways: dict[tuple[int, int], Way] = field(default_factory=dict)

    def is_switch(self, node: int) -> bool:
        """Return whether traffic may pass through a node on its way."""
        return self.kinds[node] not in _NO_SWITCH

    def between(self, source: int, target: int) -> Way:
        """Return the shortest ways between two switches."""
        key = (source, target)
        if key not in self._ways:
            self._ways[key] = self._found(source, target)
        return self._ways[key]

    def _distance(self, target: int) -> dict[int, int]:
        """Return the hops from every switch to *target*, over switches alone."""
        if target not in self._distances:
            found = {target: 0}
            queue = deque([target])
            while queue:
                here = queue.popleft()
                for there in self.before[here]:
                    if there not in found and self.is_switch(there):
                        found[there] = found[here] + 1
                        queue.append(there)
            self._distances[target] = found
        return self._distances[target]

    def _found(self, source: int, target: int) -> Way:
        distance = self._distance(target)
        if source not in distance:
            return NO_WAY
        layers = self._layers(source, distance)
        behind, forks = self._behind(target, layers, distance)
        share = dict.fromkeys(behind, 0.0)
        share[source] = 1.0
        late = dict.fromkeys(behind, 0.0)
        edges: dict[int, float] = {}
        for layer in layers[:-1]:
            for here in sorted(layer):
                for there, edge, rate in forks[here]:
                    part = share[here] * rate / behind[here]
                    edges[edge] = edges.get(edge, 0.0) + part
                    share[there] += part
                    late[there] += part * float(self.latency[edge]) + part / share[here] * late[here]
        rate = min((float(self.capacity[edge]) / part for edge, part in edges.items()), default=np.inf)
        return Way(tuple(edges.items()), rate, late[target], distance[source] + 1)

    def _layers(self, source: int, distance: dict[int, int]) -> list[set[int]]:
        """Return the switches on shortest ways, by hops from the source."""
        layers = [{source}]
        for step in range(distance[source], 0, -1):
            ahead = {there for here in layers[-1] for there in self.after[here]}
            layers.append({there for there in ahead if distance.get(there, -1) == step - 1})
        return layers

    def _behind(
        self, target: int, layers: list[set[int]], distance: dict[int, int]
    ) -> tuple[dict[int, float], dict[int, list[tuple[int, int, float]]]]:
        """Return what can flow from each switch to the target, and the edges onwards with the share of it."""
        behind: dict[int, float] = {target: np.inf}
        forks: dict[int, list[tuple[int, int, float]]] = {}
        for layer in reversed(layers[:-1]):
            for here in layer:
                forks[here] = [
                    (there, edge, min(float(self.capacity[edge]), behind[there]))
                    for there, edge in self.after[here].items()
                    if distance.get(there, -1) == distance[here] - 1 and there in behind
                ]
                behind[here] = sum(rate for _, _, rate in forks[here])
        return behind, forks
