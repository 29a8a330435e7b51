"""What has been found out about communicators on one fabric, so that every collective on them need not ask again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from simnet.collectives import names
from simnet.collectives.batches import batched_rate_bytes_per_s, is_batched, peer_batches
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.edges import Edges, edge_form, edges, edges_of
from simnet.collectives.fabric_like import FabricLike, Float64, Int32, RoutesLike
from simnet.collectives.groups import Groups, by_shape
from simnet.collectives.machine import Machine
from simnet.collectives.names import reduces_in_network
from simnet.collectives.planted import Trees, plant, with_trees
from simnet.collectives.relays import spoken
from simnet.collectives.tasks import Entries, entries
from simnet.spec.collectives import CollectiveConstants
from simnet.topology.reduction import TreeBook

_ACCESS = (0, 1, 2)
"""Link classes next to a GPU: NVLink, its link to the NIC, the NIC's to a switch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """What an algorithm puts on the fabric, whatever the size."""

    part: Entries
    """Resources of each group's task."""
    between: Edges
    """Edges between nodes."""
    between_path_s: Float64
    """Latency of the path of each of them [s]."""


@dataclass(slots=True, kw_only=True, eq=False)
class Shape:
    """Communicators of one shape, with the traffic of the algorithms that were asked for."""

    groups: Groups
    machine: Machine
    trees: Trees = ()
    """Reduction trees of each group, one for each NIC of a node; none where the switches do not reduce for them."""
    _traffic: dict[tuple[object, ...], Traffic] = field(default_factory=dict)
    _batched: dict[tuple[str, bytes], Float64] = field(default_factory=dict)

    def traffic(self, fabric: FabricLike, op: str, algorithm: str) -> Traffic:
        """Return the traffic of an algorithm; operations with the same edges share it."""
        form = edge_form(op, algorithm)
        known = self._traffic.get(form)
        if known is None:
            known = _traffic(fabric, op, algorithm, self.groups)
            if reduces_in_network(algorithm, self.groups.num_nodes):
                known = replace(known, part=with_trees(op, known.part, self.trees, self.groups.num_ranks))
            self._traffic[form] = known
        return known

    def batched_rate_bytes_per_s(
        self, fabric: FabricLike, op: str, algorithm: str, constants: CollectiveConstants
    ) -> Float64:
        """Return the rate that batches of peers leave each group [task bytes/s], infinite where they cost nothing."""
        if self.groups.num_nodes == 1 or not is_batched(op, fabric.routing):
            return np.full(self.groups.num_groups, np.inf)
        capacity = usable_capacity(fabric, constants)
        key = (algorithm, capacity.tobytes())
        known = self._batched.get(key)
        if known is None:
            between = self.traffic(fabric, op, algorithm).between
            groups, relay = self.groups, relay_of(algorithm)
            batches = [
                peer_batches(fabric, edges_of(between, row), groups.gpu[row], groups.node[row], relay=relay)
                for row in range(groups.num_groups)
            ]
            known = self._batched[key] = np.array([batched_rate_bytes_per_s(one, capacity) for one in batches])
        return known


@dataclass(slots=True, kw_only=True, eq=False)
class Known:
    """Shapes of the communicators of one fabric; make a new one for another fabric."""

    _book: TreeBook | None = None
    _shapes: dict[tuple[tuple[int, ...], bytes], tuple[Shape, ...]] = field(default_factory=dict)

    def shapes(self, fabric: FabricLike, gpu: Int32) -> tuple[Shape, ...]:
        """Return the shapes of groups, ``(num_groups, num_ranks)`` GPU indices; equal groups have the same ones."""
        gpu = np.asarray(gpu, dtype=np.int32)  # one communicator, one key: it holds its reduction trees once
        key = (gpu.shape, gpu.tobytes())
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = tuple(
                shape for groups in by_shape(fabric, gpu) for shape in self._planted(fabric, groups)
            )
        return known

    def _planted(self, fabric: FabricLike, groups: Groups) -> Iterator[Shape]:
        """Yield the groups that get reduction trees and those that do not; trees go to those who ask first."""
        machine = machine_of(fabric, groups)
        if fabric.reduction is None or groups.num_nodes == 1:
            yield Shape(groups=groups, machine=machine)
            return
        if self._book is None:
            self._book = fabric.reduction.book()
        found = plant(self._book, groups)
        for reason, index in found.refused.items():
            yield Shape(groups=groups.take(index), machine=replace(machine, no_reduction=reason))
        if len(found.planted):
            yield Shape(
                groups=groups.take(found.planted),
                machine=replace(machine, no_reduction="", reduction_path_s=found.path_s),
                trees=found.trees,
            )


def machine_of(fabric: FabricLike, groups: Groups) -> Machine:
    """Return what the closed forms know of groups of one shape, read off the first group's best ports."""
    nvlink = nic = np.inf
    latency = 0.0
    if groups.num_nodes < groups.num_ranks:
        node = int(np.argmax(groups.count[0]))
        rank = np.flatnonzero(groups.node[0] == node)
        inside = fabric.routes(groups.gpu[0, rank], np.roll(groups.gpu[0, rank], -1))
        nvlink = float(_port_bytes_per_s(fabric, inside).max())
    if groups.num_nodes > 1:
        heads = spoken(groups.head[0], groups.relays)
        between = fabric.routes(heads.ravel(), np.roll(heads, -1, axis=0).ravel())
        nic = float(_port_bytes_per_s(fabric, between).max())
        latency = float(between.latency_s.max())
    return Machine(
        num_ranks=groups.num_ranks,
        num_nodes=groups.num_nodes,
        num_heads=groups.num_heads,
        max_local=int(groups.count.max()),
        min_local=int(groups.count.min()),
        nvlink_bytes_per_s=nvlink,
        nic_bytes_per_s=nic,
        num_modules=groups.num_modules,
        network_latency_s=latency,
    )


def _port_bytes_per_s(fabric: FabricLike, routes: RoutesLike) -> Float64:
    """Return the rate of the port that each flow leaves through, or of all its ports where it spreads at once."""
    access = np.isin(fabric.link_class[routes.resource], _ACCESS)
    rate = np.where(access, fabric.capacity_bytes_per_s[routes.resource] / routes.weight, np.inf)
    together: Float64 = np.minimum.reduceat(rate, routes.indptr[:-1])
    own = fabric.capacity_bytes_per_s[np.maximum(routes.src_port, 0)]
    return np.where(routes.src_port >= 0, own, together)


def relay_of(algorithm: str) -> str:
    """Return whether messages may first go over NVLink to a rail that leads to their target."""
    return "never" if algorithm == names.PAIRWISE_NO_PXN else "auto"


def _traffic(fabric: FabricLike, op: str, algorithm: str, groups: Groups) -> Traffic:
    return traffic_of(fabric, algorithm, edges(op, algorithm, groups), groups.num_groups)


def traffic_of(fabric: FabricLike, algorithm: str, both: tuple[Edges, Edges], num_groups: int) -> Traffic:
    """Return what edges inside nodes and between nodes put on the fabric.

    Raises
    ------
    NoPathError
        If an edge has no path; without PXN also where it would need another rail's NIC.
    """
    inside, between = both
    part, path_s = entries(
        fabric,
        np.concatenate((inside.group, between.group)),
        np.concatenate((inside.src, between.src)),
        np.concatenate((inside.dst, between.dst)),
        np.concatenate((inside.load, between.load)),
        num_groups,
        relay=relay_of(algorithm),
    )
    return Traffic(part=part, between=between, between_path_s=path_s[len(inside.group) :])
