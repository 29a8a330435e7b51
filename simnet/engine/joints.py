"""What a transfer joins: tasks with the same starters and waiters as one bundle.

A bundle is over when its last task is, so a pass over the step handles bundles: one for a
gradient ring over all replicas, one a replica for a send.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.program import ActorSets, Program, Transfer

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Largest:
    """Picks from one vector, for each entry of another, the largest of some."""

    index: IntArray | None
    """What is looked at, entry by entry; None if it is the whole vector as it stands."""
    first: IntArray | None
    """Where each entry's part of ``index`` begins; None if each is one long."""

    @property
    def is_same(self) -> bool:
        """Whether each entry is the one of the other vector in its place."""
        return self.index is None and self.first is None

    def gather(self, values: FloatArray) -> FloatArray:
        """Return the largest for each entry."""
        taken = values if self.index is None else values.take(self.index)
        if self.first is None:
            return taken
        found: FloatArray = np.maximum.reduceat(taken, self.first)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitFor:
    """What the actors of one role wait for."""

    members: IntArray | None
    """Those that wait at all; None for all."""
    bundles: Largest

    def released(self, now: FloatArray, end: FloatArray) -> FloatArray:
        """When each actor goes on."""
        until = self.bundles.gather(end)
        if self.members is None:
            return np.maximum(now, until)
        later = now.copy()
        later[self.members] = np.maximum(now[self.members], until)
        return later


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joint:
    """The bundles of a transfer."""

    order: IntArray
    """Tasks by bundle."""
    first: IntArray
    """Where each bundle begins in ``order``, shape (num_bundles,)."""
    first_bundle: int
    """Bundle of the first task."""
    home: IntArray
    """First starter of each task, shape (num_tasks,)."""
    starts: tuple[int, ...]
    """Roles that start it, ascending."""
    alone: Largest | None
    """Begin of the bundles from the one role that starts them; None if several do."""
    _together: Largest
    waits: Mapping[int, WaitFor]
    """By role."""
    is_lone_start: bool
    """Whether every task has one starter."""

    def begin(self, started: Mapping[int, FloatArray]) -> FloatArray:
        """When each bundle begins, from when the actors of each role started it."""
        return self._together.gather(np.concatenate([started[role] for role in self.starts]))

    def last(self, per_task: FloatArray) -> FloatArray:
        """Largest of each bundle."""
        found: FloatArray = np.maximum.reduceat(per_task[self.order], self.first)
        return found

    def durations(self, transfer: Transfer, rate: FloatArray) -> FloatArray:
        """Return what each bundle takes at fixed rates of the tasks, latency included [s]."""
        return self.last(transfer.latency_s + _moving(transfer, rate))

    def moving(self, transfer: Transfer, rate: FloatArray) -> FloatArray:
        """Return what each bundle takes at fixed rates of the tasks, without latency [s]."""
        return self.last(_moving(transfer, rate))


def _moving(transfer: Transfer, rate: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        moving: FloatArray = np.where(transfer.size_bytes > 0, transfer.size_bytes / rate, 0.0)
    return moving


def joints(program: Program) -> tuple[Joint, ...]:
    """Find the bundles of each transfer; those of the same starters and waiters are one value."""
    known: dict[tuple[int, int], Joint] = {}
    found: list[Joint] = []
    for transfer in program.transfers:
        key = (id(transfer.starters), id(transfer.waiters))
        if key not in known:
            known[key] = _joint(program, transfer)
        found.append(known[key])
    return tuple(found)


def _joint(program: Program, transfer: Transfer) -> Joint:
    sets = list(zip(_rows(transfer.starters), _rows(transfer.waiters), strict=True))
    number = {pair: index for index, pair in enumerate(sorted(set(sets)))}
    bundle = np.array([number[pair] for pair in sets], dtype=np.int64)
    order = np.argsort(bundle, kind="stable")
    role_of = np.repeat(np.arange(len(program.roles)), [role.num_actors for role in program.roles])
    starts = tuple(np.unique(role_of[transfer.starters.actor]).tolist())
    offset, total = {}, 0
    for role in starts:
        offset[role] = total - program.roles[role].first_actor
        total += program.roles[role].num_actors
    rows = [[offset[int(role_of[a])] + a for a in starters] for starters, _ in number]
    together = _largest(rows, total)
    return Joint(
        order=order,
        first=np.flatnonzero(np.diff(bundle[order], prepend=-1)),
        first_bundle=int(bundle[0]),
        home=transfer.starters.actor[transfer.starters.indptr[:-1]],
        starts=starts,
        alone=together if len(starts) == 1 else None,
        _together=together,
        waits=_waits(program, role_of, [waiters for _, waiters in number]),
        is_lone_start=bool(np.all(np.diff(transfer.starters.indptr) == 1)),
    )


def _rows(sets: ActorSets) -> list[tuple[int, ...]]:
    actor, bounds = sets.actor.tolist(), sets.indptr.tolist()
    return [tuple(actor[low:high]) for low, high in itertools.pairwise(bounds)]


def _waits(program: Program, role_of: IntArray, waiters: list[tuple[int, ...]]) -> dict[int, WaitFor]:
    """Bundles that the actors of each role wait for."""
    by_actor: dict[int, list[int]] = {}
    for bundle, actors in enumerate(waiters):
        for actor in actors:
            by_actor.setdefault(actor, []).append(bundle)
    found: dict[int, WaitFor] = {}
    for role in sorted({int(role_of[actor]) for actor in by_actor}):
        first, count = program.roles[role].first_actor, program.roles[role].num_actors
        members = [k for k in range(count) if first + k in by_actor]
        rows = [by_actor[first + k] for k in members]
        found[role] = WaitFor(
            members=None if len(members) == count else np.array(members),
            bundles=_largest(rows, len(waiters)),
        )
    return found


def _largest(rows: list[list[int]], size: int) -> Largest:
    flat = np.array([entry for row in rows for entry in row], dtype=np.int64)
    lengths = np.array([len(row) for row in rows])
    is_whole = len(flat) == size and bool(np.all(flat == np.arange(size)))
    return Largest(
        index=None if is_whole else flat,
        first=None if np.all(lengths == 1) else np.concatenate([[0], np.cumsum(lengths)[:-1]]),
    )
