"""Who sends how much to whom when every two ranks exchange a message of their own size.

All-to-all with unequal parts, send-and-receive along a ring, and the traffic of experts are all one
matrix: row i holds what rank i sends to each rank.
"""

from __future__ import annotations

import numpy as np

from simnet.collectives.edges import Edges, joined
from simnet.collectives.fabric_like import Float64, Int64
from simnet.collectives.groups import Groups
from simnet.collectives.loads import Loads
from simnet.collectives.machine import Machine

_ROUNDING = 1e-15
"""Share of a task below which a message counts as nothing."""


def message_edges(groups: Groups, share: Float64, *, pxn: bool) -> tuple[Edges, Edges]:
    """Return the edges inside nodes and those between nodes.

    Parameters
    ----------
    groups
        Communicators of one shape.
    share
        Bytes from each rank to each other per byte of the task, ranks in the order of *groups*,
        ``(num_groups, num_ranks, num_ranks)``; the diagonal does not count.
    pxn
        Whether a message to another node first goes over NVLink to the local rank on the receiver's
        rail (PXN); in nodes of unequal size it cannot.
    """
    node = groups.node
    is_near = node[:, :, None] == node[:, None, :]
    off = share * ~np.eye(groups.num_ranks, dtype=bool)
    near = _edges(groups, groups.gpu, groups.gpu, np.where(is_near, off, 0.0))
    far = np.where(is_near, 0.0, off)
    if not (pxn and groups.is_even):
        return near, _edges(groups, groups.gpu, groups.gpu, far)
    count, nodes, each = groups.num_groups, groups.num_nodes, groups.num_ranks // groups.num_nodes
    ranks = groups.gpu.reshape(count, nodes, each)
    by_place = far.reshape(count, nodes, each, nodes, each)
    to_relay = by_place.sum(axis=3) * ~np.eye(each, dtype=bool)  # group, node, sender's place, receiver's place
    relayed = _edges(groups, ranks, ranks, to_relay)
    along = np.moveaxis(by_place.sum(axis=2), 3, 1)  # group, place, node, receiver's node
    rails = np.moveaxis(ranks, 2, 1)
    return joined(near, relayed), _edges(groups, rails, rails, along)


def message_loads(share: Float64, node: Int64, nic: Int64, *, pxn: bool) -> Loads:
    """Return the bytes on the busiest NVLink port and NIC, whichever way, per byte of the task.

    Parameters
    ----------
    share
        Bytes from each rank to each other per byte of the task, ``(num_ranks, num_ranks)``.
    node
        Node of each rank, ranks of a node one after another, ``(num_ranks,)``.
    nic
        NIC of each rank, by any number, ``(num_ranks,)``.
    pxn
        As in :func:`message_edges`; nodes hold equally many ranks then.
    """
    off = np.where(np.eye(len(node), dtype=bool), 0.0, share)
    is_near = node[:, None] == node[None, :]
    near, far = np.where(is_near, off, 0.0), np.where(is_near, 0.0, off)
    sent, received = far.sum(axis=1), far.sum(axis=0)
    if pxn:
        each = int((node == node[0]).sum())
        place = np.arange(len(node)) % each
        relay = (np.arange(len(node)) - place)[:, None] + place[None, :]  # the local rank on the receiver's rail
        sender = np.broadcast_to(np.arange(len(node))[:, None], far.shape)
        handed = np.zeros_like(far)
        np.add.at(handed, (sender, relay), far)
        sent = handed.sum(axis=0)
        near = near + np.where(np.eye(len(node), dtype=bool), 0.0, handed)
    return Loads(
        size_factor=1.0,
        nvlink=float(max(near.sum(axis=1).max(), near.sum(axis=0).max())),
        nic=float(max(np.bincount(_dense(nic), weights=side).max() for side in (sent, received))),
    )


def message_bound_s(sent_bytes: Float64, node: Int64, machine: Machine) -> float:
    """Return the least time that the wires allow [s]: of each rank's ports together, and of each node's NICs."""
    off = np.where(np.eye(len(node), dtype=bool), 0.0, sent_bytes)
    far = np.where(node[:, None] == node[None, :], 0.0, off)
    nvlink = machine.nvlink_bytes_per_s if machine.max_local > 1 else 0.0
    nic = machine.nic_bytes_per_s if machine.num_nodes > 1 else 0.0
    bound = max(off.sum(axis=1).max(), off.sum(axis=0).max()) / (nvlink + nic)
    if machine.num_nodes > 1:
        by_node = max(np.bincount(node, weights=far.sum(axis=axis)).max() for axis in (0, 1))
        bound = max(bound, by_node / (machine.num_heads * nic))
    return float(bound)


def _dense(nic: Int64) -> Int64:
    found: Int64 = np.unique(nic, return_inverse=True)[1]
    return found


def _edges(groups: Groups, src: np.ndarray, dst: np.ndarray, load: Float64) -> Edges:
    """Return an edge for each load beyond rounding; the last axis counts receivers, the one before it senders."""
    kept = np.nonzero(load > _ROUNDING)
    return Edges(group=kept[0], src=src[kept[:-1]], dst=dst[(*kept[:-2], kept[-1])], load=load[kept])
