"""Collectives to fluid tasks on the fabric."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives import names
from simnet.collectives.choice import Choice, choose
from simnet.collectives.cost import terms
from simnet.collectives.edges import Edges, edges
from simnet.collectives.fabric_like import FabricLike, Float64
from simnet.collectives.groups import Groups, by_shape
from simnet.collectives.latency import ring_passes
from simnet.collectives.machine import Machine
from simnet.collectives.relays import spoken
from simnet.collectives.tasks import TaskSet, concatenate, entries, select
from simnet.collectives.trees import depth_s, double_tree
from simnet.spec.collectives import CollectiveConstants


def lower(
    fabric: FabricLike,
    op: str,
    groups: ArrayLike,
    size_bytes: float,
    *,
    constants: CollectiveConstants,
    algorithm: str = names.AUTO,
    repeats: int = 1,
) -> TaskSet:
    """Return one fluid task for each communicator, in the order given.

    Parameters
    ----------
    fabric
        Compiled fabric.
    op
        Operation; the spellings of nccl-tests are understood.
    groups
        GPU indices of each communicator's ranks, ``(num_groups, num_ranks)``.
    size_bytes
        Whole buffer of each communicator, as nccl-tests counts it [bytes], all repeats together.
    constants
        Constants of the GPU generation.
    algorithm
        ``auto``, or one of :data:`simnet.collectives.names.ALGORITHMS`.
    repeats
        So many collectives of ``size_bytes / repeats`` back to back: latency and choice are theirs.

    Raises
    ------
    SpecError
        If the operation or the algorithm does not exist or cannot run on these groups.
    NoPathError
        If two ranks that must exchange data have no path.
    """
    op = names.operation(op)
    names.check_algorithm(op, algorithm)
    parts = [
        _lower_shape(fabric, op, shape, size_bytes, constants, algorithm, repeats) for shape in by_shape(fabric, groups)
    ]
    tasks = concatenate(parts)
    return tasks if len(parts) == 1 else select(tasks, np.argsort(tasks.group, kind="stable"))


def machine_of(fabric: FabricLike, groups: Groups) -> Machine:
    """Return what the closed forms know of groups of one shape, read off the first group's best ports."""
    nvlink = nic = np.inf
    latency = 0.0
    if groups.num_nodes < groups.num_ranks:
        node = int(np.argmax(groups.count[0]))
        rank = np.flatnonzero(groups.node[0] == node)
        inside = fabric.routes(groups.gpu[0, rank], np.roll(groups.gpu[0, rank], -1))
        nvlink = float(fabric.capacity_bytes_per_s[inside.src_port].max())
    if groups.num_nodes > 1:
        heads = spoken(groups.head[0], groups.relays)
        between = fabric.routes(heads.ravel(), np.roll(heads, -1, axis=0).ravel())
        nic = float(fabric.capacity_bytes_per_s[between.src_port].max())
        latency = float(between.latency_s.max())
    return Machine(
        num_ranks=groups.num_ranks,
        num_nodes=groups.num_nodes,
        num_heads=groups.num_heads,
        max_local=int(groups.count.max()),
        min_local=int(groups.count.min()),
        nvlink_bytes_per_s=nvlink,
        nic_bytes_per_s=nic,
        network_latency_s=latency,
    )


def _lower_shape(
    fabric: FabricLike,
    op: str,
    groups: Groups,
    size_bytes: float,
    constants: CollectiveConstants,
    algorithm: str,
    repeats: int,
) -> TaskSet:
    machine = machine_of(fabric, groups)
    choice = choose(op, machine, size_bytes / repeats, constants, algorithm=algorithm)
    cost = terms(op, choice.algorithm, choice.protocol, machine, size_bytes / repeats, constants)
    inside, between = edges(op, choice.algorithm, groups)
    task = np.concatenate((inside.group, between.group))
    part, edge_path_s = entries(
        fabric,
        task,
        np.concatenate((inside.src, between.src)),
        np.concatenate((inside.dst, between.dst)),
        np.concatenate((inside.load, between.load)),
        groups.num_groups,
    )
    included_s = constants.latency.network_path_included.si
    extra_s = np.maximum(0.0, edge_path_s[len(inside.group) :] - included_s)
    path_s = _path_s(op, choice, groups, between, extra_s)
    count = groups.num_groups
    return TaskSet(
        indptr=part.indptr,
        resource=part.resource,
        coef=part.coef,
        edge_src_port=part.src_port,
        edge_dst_port=part.dst_port,
        size_bytes=np.full(count, float(cost.task_bytes) * repeats),
        latency_s=repeats * (float(cost.latency_s) + path_s),
        rate_cap_bytes_per_s=np.full(count, float(cost.cap_bytes_per_s)),
        weight=np.ones(count),
        group=groups.row,
        algorithm=choice.algorithm,
        protocol=choice.protocol,
        channels=choice.channels,
        why=choice.why,
    )


def _path_s(op: str, choice: Choice, groups: Groups, between: Edges, extra_s: Float64) -> Float64:
    """Return what long ways between nodes add to each group [s].

    A ring's block passes all edges between nodes but one, once for each pass; a tree goes up and
    down its deepest branch; pairs take the longest way.
    """
    count, nodes = groups.num_groups, groups.num_nodes
    if nodes == 1 or not len(between.group):
        return np.zeros(count)
    if choice.algorithm in (names.RING, names.HIERARCHICAL) and op != names.BROADCAST:
        edge_s: Float64 = extra_s.reshape(count, nodes, -1).max(axis=2)
        around: Float64 = ring_passes(op) * (edge_s.sum(axis=1) - edge_s.min(axis=1))
        return around
    if choice.algorithm == names.RING:
        path: Float64 = extra_s.reshape(count, nodes - 1, -1).max(axis=2).sum(axis=1)
        return path
    if choice.algorithm in (names.TREE, names.NVLS_TREE):
        up = extra_s.reshape(count, 2, -1, groups.num_heads).max(axis=(1, 3))
        tree, child = np.nonzero(double_tree(nodes) >= 0)
        edge_s = np.zeros((count, 2, nodes))
        edge_s[:, tree, child] = up
        return 2 * depth_s(nodes, edge_s)
    longest = np.zeros(count)
    np.maximum.at(longest, between.group, extra_s)
    return ring_passes(op) * longest
