"""Exchanges on the fabric: a matrix of messages to one fluid task for each communicator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives import names
from simnet.collectives.batches import batched_rate_bytes_per_s, is_batched, peer_batches
from simnet.collectives.capacity import usable_capacity
from simnet.collectives.choice import Choice, choose
from simnet.collectives.connections import message_weight, task_weight
from simnet.collectives.cost import Terms, terms
from simnet.collectives.edges import edges_of, relayed
from simnet.collectives.fabric_like import FabricLike, Float64, Int32, Int64
from simnet.collectives.groups import Groups
from simnet.collectives.known import Known, Shape, Traffic, relay_of, traffic_of
from simnet.collectives.messages import message_bound_s, message_edges, message_loads
from simnet.collectives.relays import spoken
from simnet.collectives.tasks import TaskSet, concatenate, select
from simnet.errors import Problem, SpecError
from simnet.spec.collectives import CollectiveConstants


def exchange(
    fabric: FabricLike,
    groups: ArrayLike,
    sent_bytes: ArrayLike,
    *,
    constants: CollectiveConstants,
    op: str = names.ALL_TO_ALL_V,
    algorithm: str = names.AUTO,
    repeats: int = 1,
    known: Known | None = None,
    by_connections: bool = False,
) -> TaskSet:
    """Return one fluid task for each communicator whose ranks exchange messages of any size.

    The task lasts until the last byte of its most loaded link has arrived; its size is the largest
    buffer that any rank sends or receives.

    Parameters
    ----------
    fabric
        Compiled fabric.
    groups
        GPU indices of each communicator's ranks, ``(num_groups, num_ranks)``.
    sent_bytes
        Bytes that rank i sends to rank j in row i and column j, all repeats together,
        ``(num_ranks, num_ranks)`` or ``(num_groups, num_ranks, num_ranks)``. What a rank sends to
        itself counts for its buffer and loads no link.
    constants
        Constants of the GPU generation.
    op
        ``all_to_all_v``, or ``sendrecv`` where each rank sends a single message.
    algorithm
        ``pairwise``, as ``auto`` takes it, sends along the receiver's rail (PXN);
        ``pairwise_no_pxn`` from the sender's own NIC.
    repeats
        So many exchanges back to back: the latency is theirs.
    known
        What earlier calls found out about groups on this fabric; grows.
    by_connections
        Whether tasks share links by their connections.

    Raises
    ------
    SpecError
        If the matrix does not fit the groups, or a message is negative or not finite.
    NoPathError
        If two ranks that exchange a message have no path.
    """
    algorithm = names.algorithm(algorithm)
    gpu = np.atleast_2d(np.asarray(groups, dtype=np.int32))
    sent = _checked(sent_bytes, gpu)
    parts = []
    for shape in (Known() if known is None else known).shapes(fabric, gpu):
        own = shape.groups.row
        call = _Call(
            fabric=fabric,
            op=op,
            shape=shape,
            sent_bytes=in_order_of(shape.groups, gpu[own], sent[own]),
            by_connections=by_connections,
        )
        parts.append(call.lowered(constants, algorithm, repeats))
    tasks = concatenate(parts)
    return tasks if len(parts) == 1 else select(tasks, np.argsort(tasks.group, kind="stable"))


def in_order_of(groups: Groups, gpu: Int32, sent_bytes: Float64) -> Float64:
    """Return matrices whose ranks stood in the order of *gpu*, ``(num_groups, num_ranks)``, in that of the groups."""
    place = np.argsort(gpu, axis=1, kind="stable")
    target = np.argsort(np.argsort(groups.gpu, axis=1, kind="stable"), axis=1, kind="stable")
    order = np.take_along_axis(place, target, axis=1)
    rows = np.take_along_axis(sent_bytes, order[:, :, None], axis=1)
    return np.take_along_axis(rows, order[:, None, :], axis=2)


def ring_messages(num_ranks: int, size_bytes: float) -> Float64:
    """Return the matrix in which every rank sends to the next, the last to the first."""
    return np.roll(np.eye(num_ranks), 1, axis=1) * size_bytes


def least_times_s(fabric: FabricLike, groups: ArrayLike, sent_bytes: ArrayLike, known: Known | None = None) -> Float64:
    """Return the least time that the wires allow the messages of each communicator [s], ``(num_groups,)``."""
    gpu = np.atleast_2d(np.asarray(groups, dtype=np.int32))
    sent, least = _checked(sent_bytes, gpu), np.zeros(len(gpu))
    for shape in (Known() if known is None else known).shapes(fabric, gpu):
        own = shape.groups.row
        ordered = in_order_of(shape.groups, gpu[own], sent[own])
        nodes = zip(ordered, shape.groups.node, strict=True)
        least[own] = [message_bound_s(one, node, shape.machine) for one, node in nodes]
    return least


def _checked(sent_bytes: ArrayLike, gpu: Int32) -> Float64:
    sent = np.asarray(sent_bytes, dtype=np.float64)
    shape = (*gpu.shape, gpu.shape[1])
    if sent.shape not in (shape, shape[1:]):
        raise SpecError(
            Problem(
                message="messages are a matrix of ranks by ranks",
                found=" x ".join(map(str, sent.shape)) or "one number",
                allowed=f"{shape[1]} x {shape[2]}",
            )
        )
    wrong = sent[~(np.isfinite(sent) & (sent >= 0))]
    if wrong.size:
        raise SpecError(Problem(message="a message has no such size", found=f"{wrong[0]:g}", allowed="0 and more"))
    return np.broadcast_to(sent, shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Exchanges of communicators of one shape."""

    fabric: FabricLike
    op: str
    shape: Shape
    sent_bytes: Float64
    """Ranks in the order of the groups, ``(num_groups, num_ranks, num_ranks)``."""
    by_connections: bool

    def lowered(self, constants: CollectiveConstants, algorithm: str, repeats: int) -> TaskSet:
        groups, machine = self.shape.groups, self.shape.machine
        size = np.maximum(self.sent_bytes.sum(axis=2).max(axis=1), self.sent_bytes.sum(axis=1).max(axis=1))
        share = self.sent_bytes / np.where(size > 0, size, 1.0)[:, None, None]
        choice = choose(self.op, machine, float(size.max()), constants, algorithm=algorithm)
        pxn = choice.algorithm == names.PAIRWISE
        both = message_edges(groups, share, pxn=pxn)
        traffic = traffic_of(
            self.fabric, choice.algorithm, relayed(*both, groups.relays) if groups.relays else both, groups.num_groups
        )
        nic = nic_of(self.fabric, groups)
        costs = [
            terms(
                self.op,
                choice.algorithm,
                choice.protocol,
                machine,
                size[row] / repeats,
                constants,
                traffic=message_loads(share[row], groups.node[row], nic[row], pxn=pxn and groups.is_even),
            )
            for row in range(groups.num_groups)
        ]
        return self._tasks(choice, traffic, costs, constants, repeats)

    def _tasks(
        self, choice: Choice, traffic: Traffic, costs: list[Terms], constants: CollectiveConstants, repeats: int
    ) -> TaskSet:
        groups, part = self.shape.groups, traffic.part
        path_s = np.zeros(groups.num_groups)
        extra_s = np.maximum(0.0, traffic.between_path_s - constants.latency.network_path_included.si)
        np.maximum.at(path_s, traffic.between.group, extra_s)
        cap = np.array([float(cost.cap_bytes_per_s) for cost in costs])
        if groups.num_nodes > 1 and is_batched(self.op, self.fabric.routing):
            cap = np.minimum(cap, self._batched(choice, traffic, constants))
        return TaskSet(
            indptr=part.indptr,
            resource=part.resource,
            coef=part.coef,
            edge_src_port=part.src_port,
            edge_dst_port=part.dst_port,
            size_bytes=np.array([float(cost.task_bytes) * repeats for cost in costs]),
            latency_s=repeats * (np.array([float(cost.latency_s) for cost in costs]) + path_s),
            rate_cap_bytes_per_s=cap,
            weight=self._weights(choice, costs, constants),
            group=groups.row,
            algorithm=choice.algorithm,
            protocol=choice.protocol,
            channels=choice.channels,
            why=choice.why,
        )

    def _weights(self, choice: Choice, costs: list[Terms], constants: CollectiveConstants) -> Float64:
        machine = self.shape.machine
        if not self.by_connections:
            return np.ones(len(costs))
        if self.op == names.SENDRECV:
            return np.full(len(costs), message_weight(constants, is_near=machine.num_nodes == 1))
        weights = [task_weight(choice.algorithm, choice.channels, machine, cost.loads, constants) for cost in costs]
        return np.array(weights)

    def _batched(self, choice: Choice, traffic: Traffic, constants: CollectiveConstants) -> Float64:
        """Return the rate that batches of peers leave each group, infinite for one that stays inside nodes."""
        capacity, groups = usable_capacity(self.fabric, constants), self.shape.groups
        relay, rate = relay_of(choice.algorithm), np.full(groups.num_groups, np.inf)
        for row in np.unique(traffic.between.group).tolist():
            own = edges_of(traffic.between, row)
            batches = peer_batches(self.fabric, own, groups.gpu[row], groups.node[row], relay=relay)
            rate[row] = batched_rate_bytes_per_s(batches, capacity)
        return rate


def nic_of(fabric: FabricLike, groups: Groups) -> Int64:
    """Return a number for the NIC that each rank speaks through, ``(num_groups, num_ranks)``."""
    speaker = spoken(groups.gpu, groups.relays)
    most = int(fabric.gpu_rail.max()) + 1
    return fabric.gpu_domain[speaker].astype(np.int64) * most + fabric.gpu_rail[speaker]
