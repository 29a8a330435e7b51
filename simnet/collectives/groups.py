"""Communicators by what they look like to NCCL: ranks by node, and the NICs through which each node speaks.

A *node* is an NVLink domain, whatever its size: an NVL72 rack is one node. Everything follows
from coordinates, nothing from the size of a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives.fabric_like import FabricLike, Int32, Int64
from simnet.collectives.relays import find_relays, spoken
from simnet.errors import LayoutError, NoPathError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Communicators of one shape: equally many ranks, nodes and NICs in use."""

    row: Int64
    """Index of each group among those asked for, ``(num_groups,)``."""
    gpu: Int32
    """Ranks' GPUs, nodes one after another in the order of their first rank, ``(num_groups, num_ranks)``."""
    node: Int64
    """Node of each rank, counted inside the group, ``(num_groups, num_ranks)``."""
    count: Int64
    """Ranks in each node, ``(num_groups, num_nodes)``."""
    head: Int32
    """A GPU for each NIC through which a node speaks, ``(num_groups, num_nodes, num_heads)``; no heads in one node."""
    module: Int32
    """Subcluster of each node, ``(num_groups, num_nodes)``."""
    relays: Mapping[int, int] = field(default_factory=dict)
    """GPUs whose NIC is lost, each with the GPU of its node that speaks for it."""

    def take(self, index: Int64) -> Groups:
        """Return some of the groups, by their places."""
        return replace(
            self, row=self.row[index], gpu=self.gpu[index], node=self.node[index],
            count=self.count[index], head=self.head[index], module=self.module[index],
        )  # fmt: skip

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return int(self.gpu.shape[0])

    @property
    def num_ranks(self) -> int:
        """Ranks of each group."""
        return int(self.gpu.shape[1])

    @property
    def num_nodes(self) -> int:
        """Nodes of each group."""
        return int(self.count.shape[1])

    @property
    def num_heads(self) -> int:
        """NICs that each node uses."""
        return int(self.head.shape[2])

    @property
    def num_modules(self) -> int:
        """Subclusters that hold equally many nodes of every group, 1 where they do not."""
        ordered = np.sort(self.module, axis=1)
        number = 1 + int(np.count_nonzero(np.diff(ordered[0])))
        if number == 1 or self.num_nodes % number:
            return 1
        runs = ordered.reshape(self.num_groups, number, -1)
        is_even = (runs == runs[..., :1]).all() and (np.diff(runs[..., 0], axis=1) > 0).all()
        return number if is_even else 1

    @property
    def is_even(self) -> bool:
        """Whether every node of every group has equally many ranks."""
        return bool((self.count == self.count[0, 0]).all())


def by_shape(fabric: FabricLike, groups: ArrayLike) -> tuple[Groups, ...]:
    """Return the groups, ``(num_groups, num_ranks)`` GPU indices, sorted into shapes.

    Raises
    ------
    LayoutError
        If a group names a GPU twice or one that does not exist.
    """
    gpu = np.atleast_2d(np.asarray(groups, dtype=np.int32))
    _check(fabric, gpu)
    gpu, node = _by_node(fabric, gpu)
    num_nodes = node[:, -1] + 1
    most = int(num_nodes.max())
    rows = np.arange(len(gpu))
    count = np.bincount((rows[:, None] * most + node).ravel(), minlength=len(gpu) * most).reshape(-1, most)
    nic, relays = _nics(fabric, gpu, node, count)
    first, heads_of = _first_of_each_nic(node, nic, most)
    num_heads = np.where(count > 0, heads_of, np.iinfo(np.int64).max).min(axis=1)
    for row in np.flatnonzero(((heads_of != num_heads[:, None]) & (count > 0)).any(axis=1)).tolist():
        first[row] = _on_shared_rails(fabric.gpu_rail[gpu[row]], first[row], heads_of[row], count[row])
    shape = np.stack((num_nodes, num_heads, count.max(axis=1), np.where(count > 0, count, gpu.shape[1]).min(axis=1)))
    _, which = np.unique(shape, axis=1, return_inverse=True)
    found = []
    for index in range(int(which.max()) + 1):
        own = np.flatnonzero(which == index)
        nodes, heads = int(num_nodes[own[0]]), int(num_heads[own[0]])
        picked = first[own, :nodes, :heads] if nodes > 1 else np.zeros((len(own), 1, 0), dtype=np.int64)
        head = np.take_along_axis(gpu[own], picked.reshape(len(own), -1), axis=1).reshape(picked.shape)
        ranks, local = gpu[own], count[own, :nodes]
        module = fabric.gpu_module[np.take_along_axis(ranks, np.cumsum(local, axis=1) - local, axis=1)]
        found.append(Groups(row=own, gpu=ranks, node=node[own], count=local, head=head, module=module, relays=relays))
    return tuple(found)


def _check(fabric: FabricLike, gpu: Int32) -> None:
    if gpu.size == 0:
        raise LayoutError(Problem(message="a communicator needs at least one rank"))
    if gpu.min() < 0 or gpu.max() >= fabric.num_gpus:
        wrong = int(gpu.max() if gpu.max() >= fabric.num_gpus else gpu.min())
        raise LayoutError(
            Problem(
                message="a communicator names a GPU that the cluster does not have",
                found=str(wrong),
                allowed=f"0 to {fabric.num_gpus - 1}",
            )
        )
    ordered = np.sort(gpu, axis=1)
    twice = ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]]
    if twice.size:
        raise LayoutError(Problem(message="a communicator names a GPU twice", found=str(int(twice[0]))))


def _by_node(fabric: FabricLike, gpu: Int32) -> tuple[Int32, Int64]:
    """Return each row ordered by (first rank of the node, rail, slot), and the nodes counted from 0."""
    num_ranks = gpu.shape[1]
    domain = fabric.gpu_domain[gpu]
    order = np.argsort(domain, axis=1, kind="stable")
    grouped = np.take_along_axis(domain, order, axis=1)
    is_start = np.ones_like(grouped, dtype=bool)
    is_start[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    start = np.maximum.accumulate(np.where(is_start, np.arange(num_ranks), 0), axis=1)
    first_rank = np.empty_like(order)
    np.put_along_axis(first_rank, order, np.take_along_axis(order, start, axis=1), axis=1)
    key = first_rank.astype(np.int64)
    for inner in (fabric.gpu_rail[gpu], fabric.gpu_slot[gpu]):
        key = key * (int(inner.max()) + 1) + inner
    order = np.argsort(key, axis=1, kind="stable")
    first_rank = np.take_along_axis(first_rank, order, axis=1)
    is_new = np.zeros_like(first_rank)
    is_new[:, 1:] = first_rank[:, 1:] != first_rank[:, :-1]
    return np.take_along_axis(gpu, order, axis=1), np.cumsum(is_new, axis=1)


def _nics(fabric: FabricLike, gpu: Int32, node: Int64, count: Int64) -> tuple[Int64, dict[int, int]]:
    """Return the NIC of each rank (its first narrow port towards another node; -1 in one node), and relays."""
    relays: dict[int, int] = {}
    nic = np.full(gpu.shape, -1, dtype=np.int64)
    several = np.flatnonzero(node[:, -1] > 0)
    if several.size:
        gpu, node, count = gpu[several], node[several], count[several]
        start: Int64 = np.cumsum(count, axis=1) - count
        place = np.arange(gpu.shape[1]) - np.take_along_axis(start, node, axis=1)
        after = (node + 1) % (node[:, -1:] + 1)
        across = np.take_along_axis(start, after, axis=1) + place % np.take_along_axis(count, after, axis=1)
        src, dst = gpu.ravel(), np.take_along_axis(gpu, across, axis=1).ravel()
        try:
            routes = fabric.routes(src, dst)
        except NoPathError:
            relays = find_relays(fabric, src, dst)
            routes = fabric.routes(spoken(src, relays), spoken(dst, relays))
        nic[several] = routes.src_port.reshape(gpu.shape)
    return nic, relays


def _first_of_each_nic(node: Int64, nic: Int64, num_nodes: int) -> tuple[Int64, Int64]:
    """Return the place of each NIC's first rank, ``(rows, nodes, most NICs)`` from the left, and their number."""
    num_rows, num_ranks = nic.shape
    span = int(nic.max()) + 2
    key = (np.arange(num_rows)[:, None] * num_nodes + node) * span + nic + 1
    _, index = np.unique(key, return_index=True)
    index.sort()  # ranks of a row lie node by node, so the order of places is the order of NICs
    row, place = np.divmod(index, num_ranks)
    owner = row * num_nodes + node[row, place]
    number = np.bincount(owner, minlength=num_rows * num_nodes)
    rank_in_owner = np.arange(len(index)) - (np.cumsum(number) - number)[owner]
    most = int(number.max())
    first = np.zeros((num_rows * num_nodes, most), dtype=np.int64)
    first[owner, rank_in_owner] = place
    return first.reshape(num_rows, num_nodes, most), number.reshape(num_rows, num_nodes)


def _on_shared_rails(rail: Int32, first: Int64, number: Int64, count: Int64) -> Int64:
    """Return one row's heads in such order that nodes with many NICs first use the rails of the node with fewest."""
    nodes = np.flatnonzero(count)
    poorest = nodes[int(np.argmin(number[nodes]))]
    shared = rail[first[poorest, : number[poorest]]]
    ordered = first.copy()
    for node in nodes.tolist():
        own = first[node, : number[node]]
        is_other = ~np.isin(rail[own], shared)
        ordered[node, : number[node]] = own[np.lexsort((rail[own], is_other))]
    return ordered
