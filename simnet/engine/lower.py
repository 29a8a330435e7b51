"""From a step plan, a placement and a fabric to a program that the engine can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simnet.collectives.tasks import TaskSet
from simnet.engine.program import ActorSets, Geometry, Program, Role, Transfer
from simnet.engine.pruning import PortUse, links_that_can_bind, without_twins
from simnet.sharing.max_min import Incidence
from simnet.workload.ops import Comm, StepPlan, Wait

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
GpuArray = NDArray[np.int32]

Collective = Callable[[Comm, GpuArray], TaskSet]
"""Tasks of a collective over groups of GPUs, shape (num_groups, group_size)."""
Send = Callable[[Comm, GpuArray, GpuArray], TaskSet]
"""Tasks of sends from one array of GPUs to another."""

AXES = ("pp", "dp_replica", "dp_shard", "cp", "tp")
"""Axes of the placement array, outermost first, dp in its two parts: shard groups, and the replicas of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A program and how its communications were carried out."""

    program: Program
    tasks: tuple[TaskSet, ...]
    """Per communication of the plan."""
    merged_latency_s: float
    """Largest latency that merging adds to a task of one communication [s]."""


def lower_plan(
    plan: StepPlan,
    gpu: GpuArray,
    capacity: FloatArray,
    *,
    collective: Collective,
    send: Send,
    slowdown: FloatArray | None = None,
    merge_latencies: bool = True,
) -> Lowered:
    """Return the program of one step.

    Parameters
    ----------
    plan
        What each pipeline stage does and sends.
    gpu
        GPU of each rank, shape (pp, dp, cp, tp).
    capacity
        Usable rate of each resource of the fabric [payload bytes/s], shape (num_resources,).
    collective, send
        Turn a communication over given GPUs into tasks on the fabric.
    slowdown
        Factor on compute time per GPU of ``gpu``, same shape; the ranks of one stage of one
        replica wait for one another, so the slowest counts.
    merge_latencies
        Give all tasks of a communication the latency of its longest path. Replicas whose paths
        differ by a switch or two then behave alike; ``Lowered.merged_latency_s`` bounds what
        one communication gains by it.
    """
    builder = _Lowering(plan=plan, gpu=gpu, collective=collective, send=send, merge_latencies=merge_latencies)
    tasks = tuple(builder.tasks(comm) for comm in plan.comms)
    transfers = tuple(
        builder.transfer(index, comm, one) for index, (comm, one) in enumerate(zip(plan.comms, tasks, strict=True))
    )
    num_stages, dp = gpu.shape[:2]
    can_bind = without_twins(
        capacity,
        links_that_can_bind(capacity, builder.port_uses),
        [geometry.incidence for geometry in builder.geometries],
    )
    actor_slowdown = np.ones(num_stages * dp) if slowdown is None else slowdown.max(axis=(2, 3)).ravel()
    return Lowered(
        program=Program(
            roles=tuple(
                Role(name=f"stage {s}", first_actor=s * dp, num_actors=dp, ops=plan.ops[s]) for s in range(num_stages)
            ),
            transfers=transfers,
            geometries=tuple(builder.geometries),
            capacity=capacity,
            can_bind=can_bind,
            slowdown=actor_slowdown,
        ),
        tasks=tasks,
        merged_latency_s=builder.merged_latency_s,
    )


@dataclass(slots=True, eq=False)
class _Contents:
    """Numbers for the contents of arrays, equal for equal ones; an array seen before is not read again."""

    _of_array: dict[int, tuple[int, NDArray[np.generic]]] = field(default_factory=dict)
    _of_bytes: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def number(self, array: NDArray[np.generic]) -> int:
        """Return the number of an array's content."""
        known = self._of_array.get(id(array))
        if known is None:
            number = self._of_bytes.setdefault((array.dtype.str, array.tobytes()), len(self._of_bytes))
            known = self._of_array[id(array)] = number, array  # kept, so that no other array takes its id
        return known[0]


@dataclass(slots=True, kw_only=True)
class _Lowering:
    plan: StepPlan
    gpu: GpuArray
    collective: Collective
    send: Send
    merge_latencies: bool
    merged_latency_s: float = 0.0
    geometries: list[Geometry] = field(default_factory=list)
    port_uses: list[PortUse] = field(default_factory=list)
    _tasks: dict[tuple[object, ...], TaskSet] = field(default_factory=dict)
    _contents: _Contents = field(default_factory=_Contents)
    _known: dict[tuple[int, ...], int] = field(default_factory=dict)
    _grouped: dict[tuple[object, ...], tuple[GpuArray, IntArray]] = field(default_factory=dict)
    _actor_sets: dict[tuple[object, ...], ActorSets] = field(default_factory=dict)
    _waits_at_sender: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        comms = self.plan.comms
        for stage, ops in enumerate(self.plan.ops):
            waited_for = {op.comm for op in ops if type(op) is Wait}
            self._waits_at_sender |= {comm for comm in waited_for if comms[comm].stage == stage}

    def tasks(self, comm: Comm) -> TaskSet:
        """Tasks of a communication; the same one twice is the same object."""
        key = (
            comm.op,
            comm.stage,
            comm.peer_stage,
            comm.axes,
            comm.size_bytes,
            comm.repeats,
            comm.algorithm,
            comm.category,
        )
        known = self._tasks.get(key)
        if known is None:
            if comm.op == "send":
                source = self.gpu[comm.stage].reshape(-1)
                known = self.send(comm, source, self.gpu[comm.peer_stage].reshape(-1))
            else:
                known = self.collective(comm, self._groups(comm)[0])
            self._tasks[key] = known
        return known

    def transfer(self, index: int, comm: Comm, tasks: TaskSet) -> Transfer:
        """Return the transfer of one communication, with its actors."""
        if comm.op == "send":
            starters, waiters = self._ends(comm, waits_at_sender=index in self._waits_at_sender)
        else:
            starters = waiters = self._members(comm, tasks)
        return Transfer(
            name=comm.name,
            category=comm.category,
            geometry=self._geometry(tasks),
            size_bytes=tasks.size_bytes,
            latency_s=self._latency(tasks),
            starters=starters,
            waiters=waiters,
        )

    def _latency(self, tasks: TaskSet) -> FloatArray:
        if not self.merge_latencies:
            return tasks.latency_s
        longest = float(tasks.latency_s.max())
        self.merged_latency_s = max(self.merged_latency_s, longest - float(tasks.latency_s.min()))
        return np.full(len(tasks.latency_s), longest)

    def _groups(self, comm: Comm) -> tuple[GpuArray, IntArray]:
        key = (comm.stage, comm.axes)
        known = self._grouped.get(key)
        if known is None:
            known = self._grouped[key] = _groups(self.gpu, comm, self.plan.dp_shard)
        return known

    def _ends(self, comm: Comm, *, waits_at_sender: bool) -> tuple[ActorSets, ActorSets]:
        """Who starts each send of a communication, and who waits for it."""
        starters, receivers = self._one_each(comm.stage), self._one_each(comm.peer_stage)
        if not waits_at_sender:
            return starters, receivers
        key = ("both", comm.stage, comm.peer_stage)
        known = self._actor_sets.get(key)
        if known is None:
            known = self._actor_sets[key] = _both(starters, receivers)
        return starters, known

    def _one_each(self, stage: int) -> ActorSets:
        """Return the actor of each rank of a stage."""
        key = ("each", stage)
        known = self._actor_sets.get(key)
        if known is None:
            _, dp, cp, tp = self.gpu.shape
            actor = np.repeat(np.arange(stage * dp, (stage + 1) * dp), cp * tp)
            known = self._actor_sets[key] = ActorSets(indptr=np.arange(len(actor) + 1), actor=actor)
        return known

    def _members(self, comm: Comm, tasks: TaskSet) -> ActorSets:
        key = (comm.stage, comm.axes, self._contents.number(tasks.group))
        known = self._actor_sets.get(key)
        if known is None:
            known = self._actor_sets[key] = _members(self._groups(comm)[1], tasks.group)
        return known

    def _geometry(self, tasks: TaskSet) -> int:
        """Index of the geometry; transfers that load the same things share one."""
        parts = (tasks.indptr, tasks.resource, tasks.coef, tasks.rate_cap_bytes_per_s, tasks.weight)
        content = tuple(self._contents.number(part) for part in parts)
        known = self._known.get(content)
        if known is None:
            known = self._known[content] = len(self.geometries)
            self.geometries.append(
                Geometry(
                    incidence=_merged(tasks),
                    cap=tasks.rate_cap_bytes_per_s,
                    weight=tasks.weight,
                )
            )
            self.port_uses.append(
                PortUse(
                    indptr=tasks.indptr,
                    link=tasks.resource,
                    coef=tasks.coef,
                    source_port=tasks.edge_src_port,
                    target_port=tasks.edge_dst_port,
                )
            )
        return known


def _merged(tasks: TaskSet) -> Incidence:
    """Return the incidence with one entry for each task and resource (a ring crosses some links often)."""
    num_tasks = len(tasks.size_bytes)
    task = np.repeat(np.arange(num_tasks), np.diff(tasks.indptr))
    width = int(tasks.resource.max(initial=0)) + 1
    pair, where = np.unique(task * width + tasks.resource, return_inverse=True)
    indptr = np.zeros(num_tasks + 1, dtype=np.int64)
    np.cumsum(np.bincount(pair // width, minlength=num_tasks), out=indptr[1:])
    return Incidence(
        indptr=indptr,
        link=(pair % width).astype(np.int32),
        coef=np.bincount(where, weights=tasks.coef, minlength=len(pair)).astype(np.float64, copy=False),
    )


def _groups(gpu: GpuArray, comm: Comm, dp_shard: int) -> tuple[GpuArray, IntArray]:
    """GPUs of each group in rank order, and the actors of its members; (num_groups, size)."""
    num_stages, dp, cp, tp = gpu.shape
    grid = gpu.reshape(num_stages, dp // dp_shard, dp_shard, cp, tp)
    actor = np.arange(num_stages * dp).reshape(*grid.shape[:3], 1, 1)
    actors = np.broadcast_to(actor, grid.shape)
    stages = slice(None) if "pp" in comm.axes else slice(comm.stage, comm.stage + 1)
    spanned = {*comm.axes, *(("dp_replica", "dp_shard") if "dp" in comm.axes else ())}
    inner = [AXES.index(axis) for axis in AXES if axis in spanned]
    outer = [axis for axis in range(len(AXES)) if axis not in inner]
    size = int(np.prod([grid[stages].shape[axis] for axis in inner]))
    members = grid[stages].transpose(*outer, *inner).reshape(-1, size)
    owners = actors[stages].transpose(*outer, *inner).reshape(-1, size)
    order = np.argsort(members, axis=1, kind="stable")
    return np.take_along_axis(members, order, 1), np.take_along_axis(owners, order, 1)


def _both(one: ActorSets, other: ActorSets) -> ActorSets:
    actor = np.stack([one.actor, other.actor], axis=1).reshape(-1)
    return ActorSets(indptr=2 * np.arange(len(one.actor) + 1), actor=actor)


def _members(owners: IntArray, group: IntArray) -> ActorSets:
    """Distinct actors of each task's group."""
    ordered = np.sort(owners, axis=1)
    is_new = np.ones(ordered.shape, dtype=bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    sizes = is_new.sum(axis=1)
    flat = ordered[is_new]
    first = np.concatenate([[0], np.cumsum(sizes)])
    counts = sizes[group]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    entry = np.arange(indptr[-1]) + np.repeat(first[group] - indptr[:-1], counts)
    return ActorSets(indptr=indptr, actor=flat[entry].astype(np.int64))
