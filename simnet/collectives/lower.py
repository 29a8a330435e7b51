"""Collectives to fluid tasks on the fabric."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives import names
from simnet.collectives.choice import choose
from simnet.collectives.connections import task_weight
from simnet.collectives.cost import terms
from simnet.collectives.exchange import exchange, ring_messages
from simnet.collectives.fabric_like import FabricLike, Float64
from simnet.collectives.known import Known, Shape
from simnet.collectives.planted import narrowest_bytes_per_s, tree_path_s
from simnet.collectives.tasks import TaskSet, concatenate, select
from simnet.collectives.way import path_s_of
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
    parts: ArrayLike | None = None,
    buffers: str = names.PLAIN,
    by_connections: bool = False,
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
    parts
        Of an all-to-all-v: share of *size_bytes* that each rank sends to each, ``(num_ranks, num_ranks)``;
        equal parts unless given.
    buffers
        How they are handed to NCCL, one of :data:`simnet.collectives.names.BUFFERS`.
    by_connections
        Whether tasks share links by their connections, see :mod:`simnet.collectives.connections`; alike
        unless asked.

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
    if op in names.EXCHANGES:
        sent = messages(op, gpu.shape[1], size_bytes, parts)
        return exchange(
            fabric,
            gpu,
            sent,
            constants=constants,
            op=op,
            algorithm=algorithm,
            repeats=repeats,
            known=known,
            by_connections=by_connections,
        )
    shapes = (Known() if known is None else known).shapes(fabric, gpu)
    lowered = [
        _lower_shape(fabric, op, shape, size_bytes, constants, algorithm, excluded, repeats, buffers, by_connections)
        for shape in shapes
    ]
    tasks = concatenate(lowered)
    return tasks if len(lowered) == 1 else select(tasks, np.argsort(tasks.group, kind="stable"))


def messages(op: str, num_ranks: int, size_bytes: float, parts: ArrayLike | None = None) -> Float64:
    """Return the bytes from each rank to each other of an operation that is a matrix of messages."""
    if op == names.SENDRECV:
        return ring_messages(num_ranks, size_bytes)
    equal = np.full((num_ranks, num_ranks), 1 / num_ranks)
    return size_bytes * (equal if parts is None else np.asarray(parts, dtype=np.float64))


def _lower_shape(
    fabric: FabricLike,
    op: str,
    shape: Shape,
    size_bytes: float,
    constants: CollectiveConstants,
    algorithm: str,
    excluded: Collection[str],
    repeats: int,
    buffers: str,
    by_connections: bool,
) -> TaskSet:
    machine, groups = shape.machine, shape.groups
    choice = choose(
        op, machine, size_bytes / repeats, constants, algorithm=algorithm, excluded=excluded, buffers=buffers
    )
    cost = terms(
        op,
        choice.algorithm,
        choice.protocol,
        machine,
        size_bytes / repeats,
        constants,
        registered=buffers != names.PLAIN,
    )
    traffic = shape.traffic(fabric, op, choice.algorithm)
    part, between = traffic.part, traffic.between
    extra_s = np.maximum(0.0, traffic.between_path_s - constants.latency.network_path_included.si)
    path_s = path_s_of(op, choice.algorithm, groups, between, extra_s)
    count = groups.num_groups
    batched = shape.batched_rate_bytes_per_s(fabric, op, choice.algorithm, constants)
    cap = np.minimum(float(cost.cap_bytes_per_s), batched)
    if names.reduces_in_network(choice.algorithm, groups.num_nodes):
        path_s = np.maximum(0.0, tree_path_s(shape.trees) - constants.latency.network_path_included.si)
        narrowest = narrowest_bytes_per_s(shape.trees) * constants.in_network.efficiency.si
        cap = np.minimum(cap, groups.num_heads * narrowest)
    weight = task_weight(choice.algorithm, choice.channels, machine, cost.loads, constants) if by_connections else 1.0
    return TaskSet(
        indptr=part.indptr,
        resource=part.resource,
        coef=part.coef,
        edge_src_port=part.src_port,
        edge_dst_port=part.dst_port,
        size_bytes=np.full(count, float(cost.task_bytes) * repeats),
        latency_s=repeats * (float(cost.latency_s) + path_s),
        rate_cap_bytes_per_s=cap,
        weight=np.full(count, weight),
        group=groups.row,
        algorithm=choice.algorithm,
        protocol=choice.protocol,
        channels=choice.channels,
        why=choice.why,
    )
