"""Collectives to fluid tasks on the fabric."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives import names
from simnet.collectives.choice import Choice, choose
from simnet.collectives.cost import terms
from simnet.collectives.edges import Edges
from simnet.collectives.fabric_like import FabricLike, Float64
from simnet.collectives.groups import Groups
from simnet.collectives.known import Known, Shape
from simnet.collectives.latency import ring_passes
from simnet.collectives.planted import narrowest_bytes_per_s, tree_path_s
from simnet.collectives.tasks import TaskSet, concatenate, select
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
    excluded: Collection[str] = (),
    repeats: int = 1,
    known: Known | None = None,
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
    excluded
        Algorithms and protocols that are switched off.
    repeats
        So many collectives of ``size_bytes / repeats`` back to back: latency and choice are theirs.
    known
        What earlier calls found out about groups on this fabric; grows. Task sets that load the
        same things then share the arrays that say so.

    Raises
    ------
    SpecError
        If the operation or the algorithm does not exist or cannot run on these groups.
    NoPathError
        If two ranks that must exchange data have no path.
    """
    op, algorithm = names.operation(op), names.algorithm(algorithm)
    names.check_algorithm(op, algorithm)
    gpu = np.atleast_2d(np.asarray(groups, dtype=np.int32))
    shapes = (Known() if known is None else known).shapes(fabric, gpu)
    parts = [_lower_shape(fabric, op, shape, size_bytes, constants, algorithm, excluded, repeats) for shape in shapes]
    tasks = concatenate(parts)
    return tasks if len(parts) == 1 else select(tasks, np.argsort(tasks.group, kind="stable"))


def _lower_shape(
    fabric: FabricLike,
    op: str,
    shape: Shape,
    size_bytes: float,
    constants: CollectiveConstants,
    algorithm: str,
    excluded: Collection[str],
    repeats: int,
) -> TaskSet:
    machine, groups = shape.machine, shape.groups
    choice = choose(op, machine, size_bytes / repeats, constants, algorithm=algorithm, excluded=excluded)
    cost = terms(op, choice.algorithm, choice.protocol, machine, size_bytes / repeats, constants)
    traffic = shape.traffic(fabric, op, choice.algorithm)
    part, between = traffic.part, traffic.between
    extra_s = np.maximum(0.0, traffic.between_path_s - constants.latency.network_path_included.si)
    path_s = _path_s(op, choice, groups, between, extra_s)
    count = groups.num_groups
    batched = shape.batched_rate_bytes_per_s(fabric, op, choice.algorithm, constants)
    cap = np.minimum(float(cost.cap_bytes_per_s), batched)
    if names.reduces_in_network(choice.algorithm, groups.num_nodes):
        path_s = np.maximum(0.0, tree_path_s(shape.trees) - constants.latency.network_path_included.si)
        narrowest = narrowest_bytes_per_s(shape.trees) * constants.in_network.efficiency.si
        cap = np.minimum(cap, groups.num_heads * narrowest)
    return TaskSet(
        indptr=part.indptr,
        resource=part.resource,
        coef=part.coef,
        edge_src_port=part.src_port,
        edge_dst_port=part.dst_port,
        size_bytes=np.full(count, float(cost.task_bytes) * repeats),
        latency_s=repeats * (float(cost.latency_s) + path_s),
        rate_cap_bytes_per_s=cap,
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
