"""Who sends to whom: the edges of each algorithm over a set of alike communicators.

An edge is (group, source GPU, destination GPU, bytes per task byte). Channels are folded: a
node's traffic to another node is spread evenly over its NICs, as NCCL splits every collective
evenly over channels, so that the slowest rail sets the total. Inside a node, the rings of all
channels together load each GPU alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from simnet.collectives import names
from simnet.collectives.fabric_like import Float64, Int32, Int64
from simnet.collectives.groups import Groups
from simnet.collectives.latency import ring_passes
from simnet.collectives.relays import spoken
from simnet.collectives.trees import double_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Edges of all groups."""

    group: Int64
    """Group of each edge, counted inside the shape."""
    src: Int32
    """GPU that sends."""
    dst: Int32
    """GPU that receives."""
    load: Float64
    """Bytes per task byte."""


def edges(op: str, algorithm: str, groups: Groups) -> tuple[Edges, Edges]:
    """Return the edges inside nodes and those between nodes."""
    if groups.num_ranks == 1:
        return _none(), _none()
    inside, between = _FORMS[algorithm](op, groups)
    return relayed(inside, between, groups.relays) if groups.relays else (inside, between)


def edges_of(all_edges: Edges, group: int) -> Edges:
    """Return the edges of one group."""
    return _taken(all_edges, all_edges.group == group)


def edge_form(op: str, algorithm: str) -> tuple[object, ...]:
    """Return what the edges follow from beside the groups; operations of one form have the same edges."""
    if algorithm in (names.TREE, names.NVLS, names.NVLS_TREE, names.COLLNET_CHAIN):
        return (algorithm,)
    if algorithm == names.RING:
        return (algorithm, op == names.BROADCAST)
    return (algorithm, op)


def next_node(groups: Groups) -> tuple[Int64, Int64]:
    """Return the nodes of a ring over nodes: sender and receiver of each edge."""
    node = np.arange(groups.num_nodes, dtype=np.int64)
    return node, (node + 1) % groups.num_nodes


def _ring(op: str, groups: Groups) -> tuple[Edges, Edges]:
    if groups.num_nodes == 1:
        inside = _cycle(groups, np.ones((groups.num_groups, 1)))
        if op == names.BROADCAST:  # a chain from the root: nobody sends to the first rank
            keep = inside.dst != groups.gpu[inside.group, 0]
            inside = _taken(inside, keep)
        return inside, _none()
    sender, receiver = next_node(groups)
    if op == names.BROADCAST:
        sender, receiver = sender[:-1], receiver[:-1]
    return _cycle(groups, _share(groups)), _between(groups, sender, receiver, 1.0)


def _tree(op: str, groups: Groups) -> tuple[Edges, Edges]:
    del op
    return _cycle(groups, 2 * _share(groups)), _tree_between(groups)


def _nvls(op: str, groups: Groups) -> tuple[Edges, Edges]:
    del op
    return _cycle(groups, 1 + 1 / groups.count), _none()


def _nvls_tree(op: str, groups: Groups) -> tuple[Edges, Edges]:
    del op
    return _cycle(groups, 1 + 1 / groups.count), _tree_between(groups)


def _exchange(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """Send every head its part and get it back from it, reduced; between nodes trees carry the bytes, not edges.

    A gather has the second half of it alone, a scatter the first.
    """
    group, src, dst, is_near = _all_pairs(groups)
    heads = spoken(groups.head, groups.relays).reshape(groups.num_groups, -1)
    is_head = (groups.gpu[:, :, None] == heads[:, None, :]).any(axis=2)
    first, second = np.nonzero(~np.eye(groups.num_ranks, dtype=bool))
    to_heads, from_heads = float(op != names.ALL_GATHER), float(op != names.REDUCE_SCATTER)
    load = (is_head[:, second] * to_heads + is_head[:, first] * from_heads).ravel() / max(1, groups.num_heads)
    keep = is_near & (load > 0)
    return Edges(group=group[keep], src=src[keep], dst=dst[keep], load=load[keep]), _none()


def _chain(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """Chain the ranks of a node to the NIC and back; between nodes trees carry the bytes, not edges."""
    del op
    return _cycle(groups, 2 * _share(groups)), _none()


def _hierarchical(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """Shards along slots: each rank rings with the ranks of the same place in the other nodes."""
    passes = ring_passes(op)
    inside = _cycle(groups, passes * _share(groups))
    if groups.num_nodes == 1:
        return inside, _none()
    per_node = groups.num_ranks // groups.num_nodes
    ranks = groups.gpu.reshape(groups.num_groups, groups.num_nodes, per_node)
    load = passes * (groups.num_nodes - 1) / groups.num_nodes / per_node
    return inside, _pairs(ranks, np.roll(ranks, -1, axis=1), load)


def _hierarchical_3(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """Shards along slots, a ring over the nodes of each subcluster, and a ring over subclusters for each node."""
    passes, modules = ring_passes(op), groups.num_modules
    per_module, per_node = groups.num_nodes // modules, groups.num_ranks // groups.num_nodes
    order = np.argsort(groups.module, axis=1, kind="stable")
    ranks = np.take_along_axis(groups.gpu.reshape(groups.num_groups, groups.num_nodes, per_node), order[..., None], 1)
    ranks = ranks.reshape(groups.num_groups, modules, per_module, per_node)
    inner = _pairs(ranks, np.roll(ranks, -1, axis=2), passes * (per_module - 1) / per_module / per_node)
    outer = _pairs(ranks, np.roll(ranks, -1, axis=1), passes * (modules - 1) / modules / per_module / per_node)
    return _cycle(groups, passes * _share(groups)), joined(inner, outer) if per_module > 1 else outer


def _pat(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """One rank a node: step k moves 2^k blocks to the rank 2^k further, the last step what is left."""
    del op
    num_ranks = groups.num_ranks
    steps = [1 << step for step in range((num_ranks - 1).bit_length())]
    parts = [
        _pairs(groups.gpu, np.roll(groups.gpu, -step, axis=1), min(step, num_ranks - step) / num_ranks)
        for step in steps
    ]
    return _none(), functools.reduce(joined, parts)


def _symmetric(op: str, groups: Groups) -> tuple[Edges, Edges]:
    return _nvls(op, groups) if op == names.ALL_REDUCE else _direct(op, groups)


def _direct(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """Every rank sends its part straight to every other rank."""
    group, src, dst, is_near = _all_pairs(groups)
    load = np.full(len(group), ring_passes(op) / groups.num_ranks)
    pairs = Edges(group=group, src=src, dst=dst, load=load)
    return _taken(pairs, is_near), _taken(pairs, ~is_near)


def _pairwise(op: str, groups: Groups) -> tuple[Edges, Edges]:
    """Messages to another node go over NVLink to the local rank on the receiver's rail, then along that rail."""
    near, far = _direct(op, groups)
    if groups.num_nodes == 1 or not groups.is_even:
        return near, far
    per_node = groups.num_ranks // groups.num_nodes
    ranks = groups.gpu.reshape(groups.num_groups, groups.num_nodes, per_node)
    shape = (groups.num_groups, groups.num_nodes, per_node, per_node)
    src, relay = np.broadcast_to(ranks[..., :, None], shape), np.broadcast_to(ranks[..., None, :], shape)
    group = np.broadcast_to(np.arange(groups.num_groups)[:, None, None, None], shape)
    keep = src != relay
    relayed = (groups.num_ranks - per_node) / per_node / groups.num_ranks
    to_relay = Edges(group=group[keep], src=src[keep], dst=relay[keep], load=np.full(int(keep.sum()), relayed))
    senders, receivers = np.nonzero(~np.eye(groups.num_nodes, dtype=bool))
    along = _pairs(ranks[:, senders], ranks[:, receivers], per_node / groups.num_ranks)
    return joined(near, to_relay), along


def _share(groups: Groups) -> Float64:
    """Return the part of a chain's bytes that each GPU of a node sends, averaged over channels."""
    return (groups.count - 1) / groups.count


def _cycle(groups: Groups, load: Float64) -> Edges:
    """Return edges from each rank to the next of its node, the last to the first; *load* is per group and node."""
    start: Int64 = np.cumsum(groups.count, axis=1) - groups.count
    place = np.arange(groups.num_ranks) - np.take_along_axis(start, groups.node, axis=1)
    number = np.take_along_axis(groups.count, groups.node, axis=1)
    after = np.take_along_axis(start, groups.node, axis=1) + (place + 1) % number
    peer = np.take_along_axis(groups.gpu, after, axis=1)
    per_rank = np.take_along_axis(np.broadcast_to(load, groups.count.shape), groups.node, axis=1)
    keep = number > 1
    group = np.broadcast_to(np.arange(groups.num_groups)[:, None], groups.gpu.shape)
    return Edges(group=group[keep], src=groups.gpu[keep], dst=peer[keep], load=per_rank[keep])


def _between(groups: Groups, sender: Int64, receiver: Int64, load: float) -> Edges:
    """Return edges between nodes, each spread over the NICs of both ends in order."""
    return _pairs(groups.head[:, sender], groups.head[:, receiver], load / groups.num_heads)


def _tree_between(groups: Groups) -> Edges:
    """Return the double tree's edges, up and down; each tree carries half of the bytes."""
    if groups.num_nodes == 1:
        return _none()
    tree, child = np.nonzero(double_tree(groups.num_nodes) >= 0)
    parent = double_tree(groups.num_nodes)[tree, child]
    sender, receiver = np.concatenate((child, parent)), np.concatenate((parent, child))
    return _between(groups, sender, receiver, 1 / 2)


def _pairs(src: Int32, dst: Int32, load: float) -> Edges:
    """Return an edge for each pair of places; the first axis counts groups."""
    group = np.broadcast_to(np.arange(len(src)).reshape(-1, *[1] * (src.ndim - 1)), src.shape)
    return Edges(group=group.ravel(), src=src.ravel(), dst=dst.ravel(), load=np.full(src.size, load))


def _all_pairs(groups: Groups) -> tuple[Int64, Int32, Int32, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    first, second = np.nonzero(~np.eye(groups.num_ranks, dtype=bool))
    group = np.repeat(np.arange(groups.num_groups), len(first))
    is_near = (groups.node[:, first] == groups.node[:, second]).ravel()
    return group, groups.gpu[:, first].ravel(), groups.gpu[:, second].ravel(), is_near


def relayed(inside: Edges, between: Edges, relays: Mapping[int, int]) -> tuple[Edges, Edges]:
    """Return the edges with the traffic of lost NICs going over NVLink to and from their relays."""
    src, dst = spoken(between.src, relays), spoken(between.dst, relays)
    sends, receives = src != between.src, dst != between.dst
    ways = (
        Edges(group=between.group[sends], src=between.src[sends], dst=src[sends], load=between.load[sends]),
        Edges(group=between.group[receives], src=dst[receives], dst=between.dst[receives], load=between.load[receives]),
    )
    for way in ways:
        inside = joined(inside, way)
    return inside, Edges(group=between.group, src=src, dst=dst, load=between.load)


def _taken(edge: Edges, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Edges:
    return Edges(**{name: getattr(edge, name)[keep] for name in Edges.__slots__})


def joined(one: Edges, other: Edges) -> Edges:
    """Return the edges of both."""
    return Edges(**{name: np.concatenate((getattr(one, name), getattr(other, name))) for name in Edges.__slots__})


def _none() -> Edges:
    nobody = np.zeros(0, dtype=np.int32)
    return Edges(group=np.zeros(0, dtype=np.int64), src=nobody, dst=nobody, load=np.zeros(0))


_FORMS: dict[str, Callable[[str, Groups], tuple[Edges, Edges]]] = {
    names.RING: _ring,
    names.TREE: _tree,
    names.NVLS: _nvls,
    names.NVLS_TREE: _nvls_tree,
    names.COLLNET: _exchange,
    names.COLLNET_CHAIN: _chain,
    names.HIERARCHICAL: _hierarchical,
    names.HIERARCHICAL_3: _hierarchical_3,
    names.PAT: _pat,
    names.SYMMETRIC: _symmetric,
    names.DIRECT: _direct,
    names.PAIRWISE: _pairwise,
    names.PAIRWISE_NO_PXN: _direct,
}
