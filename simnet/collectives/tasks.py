"""Fluid tasks: what a collective or a send asks of the fabric, in compressed sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives.fabric_like import FabricLike, Float64, Int32, Int64
from simnet.collectives.relays import find_relays, spoken
from simnet.errors import NoPathError, Problem, SpecError
from simnet.spec.collectives import CollectiveConstants

SEPARATOR = "+"
"""Between algorithms, or protocols, of one call whose groups differ."""
UNKNOWN_PORT = -1
"""Port of a contribution that stands for many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """Fluid tasks; each moves at one rate on everything that it touches.

    A pipelined ring is one task: its rate is that of every ring edge [bytes/s], its size the bytes
    of one edge, and its coefficients count the edges that lie on a resource.
    """

    indptr: Int64
    """Where each task's entries start, ``(num_tasks + 1,)``."""
    resource: Int32
    """Resource of each entry, ``(num_entries,)``; a task may name one resource in several entries."""
    coef: Float64
    """Payload bytes that the entry puts on its resource per byte of the task, ``(num_entries,)``."""
    edge_src_port: Int32
    """Narrow port through which the entry's traffic enters the fabric, -1 if unknown, ``(num_entries,)``."""
    edge_dst_port: Int32
    """Narrow port through which it leaves, -1 if unknown, ``(num_entries,)``."""
    size_bytes: Float64
    """Task bytes, ``(num_tasks,)``."""
    latency_s: Float64
    """Time before or after the fluid part, whatever the rates [s], ``(num_tasks,)``."""
    rate_cap_bytes_per_s: Float64
    """Limit of algorithm and protocol, infinite if none, ``(num_tasks,)``."""
    weight: Float64
    """Weight in max-min fair sharing, ``(num_tasks,)``."""
    group: Int64
    """Communicator that each task serves, or index of the send, ``(num_tasks,)``."""
    algorithm: str
    """Algorithm, or several joined by "+" if groups of one call differ."""
    protocol: str
    """Protocol, likewise."""
    channels: int
    """Most channels of any task."""
    why: str
    """Reason of the choice, in words."""

    @property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return len(self.size_bytes)

    @property
    def entry_task(self) -> Int64:
        """Task of each entry, ``(num_entries,)``."""
        return np.repeat(np.arange(self.num_tasks), np.diff(self.indptr))


def send(
    fabric: FabricLike,
    src: ArrayLike,
    dst: ArrayLike,
    size_bytes: ArrayLike,
    constants: CollectiveConstants,
    *,
    weights: tuple[float, float] = (1.0, 1.0),
) -> TaskSet:
    """Return one task for each message.

    Parameters
    ----------
    fabric
        Compiled fabric.
    src, dst
        GPU indices, ``(num_sends,)``; the sender uses its own NIC.
    size_bytes
        Bytes of each message, ``(num_sends,)`` or one number.
    constants
        Constants of the GPU generation.
    weights
        Of a message over the network and of one over NVLink, where tasks share a link.

    Raises
    ------
    NoPathError
        If a pair has no path.
    """
    source = np.atleast_1d(np.asarray(src, dtype=np.int32))
    target = np.atleast_1d(np.asarray(dst, dtype=np.int32))
    if source.shape != target.shape:
        raise SpecError(Problem(message="as many sources as destinations", found=f"{source.shape}, {target.shape}"))
    size = np.broadcast_to(np.asarray(size_bytes, dtype=np.float64), source.shape)
    is_near = fabric.gpu_domain[source] == fabric.gpu_domain[target]
    task = np.arange(len(source))
    try:
        part, path_s = entries(fabric, task, source, target, np.ones(len(source)), len(source))
    except NoPathError:
        relays = find_relays(fabric, source, target)
        start, goal = spoken(source, relays), spoken(target, relays)
        up, down = np.flatnonzero(start != source), np.flatnonzero(goal != target)
        part, path_s = entries(
            fabric,
            np.concatenate((task, up, down)),
            np.concatenate((start, source[up], goal[down])),
            np.concatenate((goal, start[up], target[down])),
            np.ones(len(source) + len(up) + len(down)),
            len(source),
        )
        path_s = path_s[: len(source)]
    table = constants.latency
    hop_s = np.where(is_near, table.ring_nvlink_hop.si("simple"), table.ring_network_hop.si("simple"))
    hop_s = hop_s + table.ring_base.si("simple")
    extra_s = np.where(is_near, 0.0, np.maximum(0.0, path_s - constants.latency.network_path_included.si))
    return TaskSet(
        indptr=part.indptr,
        resource=part.resource,
        coef=part.coef,
        edge_src_port=part.src_port,
        edge_dst_port=part.dst_port,
        size_bytes=np.array(size),
        latency_s=hop_s + extra_s,
        rate_cap_bytes_per_s=np.full(len(source), np.inf),
        weight=np.where(is_near, weights[1], weights[0]),
        group=np.arange(len(source)),
        algorithm="send",
        protocol="simple",
        channels=1,
        why="one message from each source to its destination",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """The sparse part of a task set."""

    indptr: Int64
    resource: Int32
    coef: Float64
    src_port: Int32
    dst_port: Int32


def entries(
    fabric: FabricLike, task: Int64, src: Int32, dst: Int32, load: Float64, num_tasks: int, *, relay: str = "auto"
) -> tuple[Entries, Float64]:
    """Return the entries of edges and the path latency of each edge [s].

    Parameters
    ----------
    task
        Task of each edge, ``(num_edges,)``, in any order.
    src, dst
        GPUs of each edge.
    load
        Bytes on the edge per task byte.
    num_tasks
        Number of tasks.
    relay
        When a message first goes over NVLink to the rail of its target, see :class:`FabricLike`.
    """
    routes = fabric.routes(src, dst, relay=relay)
    number = np.diff(routes.indptr)
    entry_task = np.repeat(task, number)
    coef = np.repeat(load, number) * routes.weight
    src_port, dst_port = np.repeat(routes.src_port, number), np.repeat(routes.dst_port, number)
    indptr = np.zeros(num_tasks + 1, dtype=np.int64)
    np.cumsum(np.bincount(entry_task, minlength=num_tasks), out=indptr[1:])
    resource = routes.resource
    if (np.diff(task) < 0).any():
        order = np.argsort(entry_task, kind="stable")
        resource, coef, src_port, dst_port = resource[order], coef[order], src_port[order], dst_port[order]
    part = Entries(indptr=indptr, resource=resource, coef=coef, src_port=src_port, dst_port=dst_port)
    return part, routes.latency_s


def concatenate(parts: Sequence[TaskSet]) -> TaskSet:
    """Return the tasks of all *parts*, one after another; groups keep the numbers that they have."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(len(part.resource) for part in parts)])
    indptr = [part.indptr[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return TaskSet(
        indptr=np.concatenate([*indptr, offsets[-1:]]),
        resource=np.concatenate([part.resource for part in parts]),
        coef=np.concatenate([part.coef for part in parts]),
        edge_src_port=np.concatenate([part.edge_src_port for part in parts]),
        edge_dst_port=np.concatenate([part.edge_dst_port for part in parts]),
        size_bytes=np.concatenate([part.size_bytes for part in parts]),
        latency_s=np.concatenate([part.latency_s for part in parts]),
        rate_cap_bytes_per_s=np.concatenate([part.rate_cap_bytes_per_s for part in parts]),
        weight=np.concatenate([part.weight for part in parts]),
        group=np.concatenate([part.group for part in parts]),
        algorithm=_joined([part.algorithm for part in parts]),
        protocol=_joined([part.protocol for part in parts]),
        channels=max((part.channels for part in parts), default=0),
        why=_joined([part.why for part in parts], "; "),
    )


def select(tasks: TaskSet, order: Int64) -> TaskSet:
    """Return the tasks that *order* names, in that order."""
    number = np.diff(tasks.indptr)[order]
    indptr = np.concatenate(([0], np.cumsum(number)))
    entry = np.repeat(tasks.indptr[:-1][order] - indptr[:-1], number) + np.arange(indptr[-1])
    return TaskSet(
        indptr=indptr,
        resource=tasks.resource[entry],
        coef=tasks.coef[entry],
        edge_src_port=tasks.edge_src_port[entry],
        edge_dst_port=tasks.edge_dst_port[entry],
        size_bytes=tasks.size_bytes[order],
        latency_s=tasks.latency_s[order],
        rate_cap_bytes_per_s=tasks.rate_cap_bytes_per_s[order],
        weight=tasks.weight[order],
        group=tasks.group[order],
        algorithm=tasks.algorithm,
        protocol=tasks.protocol,
        channels=tasks.channels,
        why=tasks.why,
    )


def payload_bytes(tasks: TaskSet, num_resources: int) -> Float64:
    """Return the payload that all tasks put on each resource [bytes], ``(num_resources,)``."""
    moved = tasks.coef * tasks.size_bytes[tasks.entry_task]
    return np.bincount(tasks.resource, weights=moved, minlength=num_resources).astype(np.float64)


def uncontended_time_s(tasks: TaskSet, capacity_bytes_per_s: Float64) -> Float64:
    """Return the time of each task if it had the fabric to itself [s], ``(num_tasks,)``.

    Parameters
    ----------
    tasks
        Any tasks.
    capacity_bytes_per_s
        Usable payload rate of each resource, of :func:`simnet.collectives.capacity.usable_capacity`.
    """
    return tasks.latency_s + tasks.size_bytes / uncontended_rate_bytes_per_s(tasks, capacity_bytes_per_s)


def uncontended_rate_bytes_per_s(tasks: TaskSet, capacity_bytes_per_s: Float64) -> Float64:
    """Return the rate of each task alone on the fabric [bytes/s]: its cap or its tightest resource."""
    key = tasks.entry_task * len(capacity_bytes_per_s) + tasks.resource
    pair, inverse = np.unique(key, return_inverse=True)
    load = np.bincount(inverse, weights=tasks.coef, minlength=len(pair))
    task, resource = np.divmod(pair, len(capacity_bytes_per_s))
    rate = tasks.rate_cap_bytes_per_s.copy()
    loaded = load > 0
    np.minimum.at(rate, task[loaded], capacity_bytes_per_s[resource[loaded]] / load[loaded])
    return rate


def _joined(words: Sequence[str], separator: str = SEPARATOR) -> str:
    return separator.join(dict.fromkeys(words))
