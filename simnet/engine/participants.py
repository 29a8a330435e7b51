"""Who starts a transfer's tasks and who waits for them, as bit masks with a memory.

Behaviour hardly differs between actors, so the same few masks come up again and again; each
answer is computed once with numpy and remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simnet.engine.masks import bits_to_index, index_to_bits
from simnet.engine.program import ActorSets, Transfer


@dataclass(slots=True, kw_only=True)
class Participants:
    """Starters and waiters of one transfer; masks are relative to ``first_actor``."""

    geometry: int
    """Index into ``Program.geometries``."""
    num_tasks: int
    first_starter: int
    num_starters: int
    first_waiter: int
    num_waiters: int
    starters: ActorSets
    waiters: ActorSets
    parts: tuple[tuple[int, float, float], ...]
    """Tasks (bit mask) of one latency [s] and one size [bytes]."""
    _ready: dict[int, int] = field(default_factory=dict)
    _released: dict[int, int] = field(default_factory=dict)

    @property
    def all_tasks(self) -> int:
        """Bit mask of all tasks."""
        return (1 << self.num_tasks) - 1

    def ready(self, arrived: int) -> int:
        """Tasks all of whose starters are in ``arrived``."""
        known = self._ready.get(arrived)
        if known is None:
            here = np.zeros(self.num_starters, dtype=bool)
            here[bits_to_index(arrived, self.num_starters)] = True
            missing = ~here[self.starters.actor - self.first_starter]
            task = np.repeat(np.arange(self.num_tasks), np.diff(self.starters.indptr))
            num_missing = np.bincount(task[missing], minlength=self.num_tasks)
            known = index_to_bits(np.flatnonzero(num_missing == 0), self.num_tasks)
            self._ready[arrived] = known
        return known

    def released(self, done: int) -> int:
        """Waiters none of whose tasks is left when ``done`` are."""
        known = self._released.get(done)
        if known is None:
            is_left = np.ones(self.num_tasks, dtype=bool)
            is_left[bits_to_index(done, self.num_tasks)] = False
            left = np.repeat(is_left, np.diff(self.waiters.indptr))
            waiter = self.waiters.actor[left] - self.first_waiter
            num_left = np.bincount(waiter, minlength=self.num_waiters)
            known = index_to_bits(np.flatnonzero(num_left == 0), self.num_waiters)
            self._released[done] = known
        return known


def participants(transfer: Transfer) -> Participants:
    """Starters and waiters of a transfer, and its tasks by latency and size."""
    starters, waiters = transfer.starters, transfer.waiters
    first_starter, last_starter = int(starters.actor.min()), int(starters.actor.max())
    first_waiter, last_waiter = int(waiters.actor.min()), int(waiters.actor.max())
    num_tasks = len(transfer.size_bytes)
    return Participants(
        geometry=transfer.geometry,
        num_tasks=num_tasks,
        first_starter=first_starter,
        num_starters=last_starter - first_starter + 1,
        first_waiter=first_waiter,
        num_waiters=last_waiter - first_waiter + 1,
        starters=starters,
        waiters=waiters,
        parts=_by_latency_and_size(transfer),
    )


def _by_latency_and_size(transfer: Transfer) -> tuple[tuple[int, float, float], ...]:
    num_tasks = len(transfer.size_bytes)
    pairs = np.stack([transfer.latency_s, transfer.size_bytes], axis=1)
    if (pairs == pairs[0]).all():
        return (((1 << num_tasks) - 1, float(pairs[0, 0]), float(pairs[0, 1])),)
    kinds, which = np.unique(pairs, axis=0, return_inverse=True)
    return tuple(
        (index_to_bits(np.flatnonzero(which.ravel() == k), num_tasks), lat, size)
        for k, (lat, size) in enumerate(kinds.tolist())
    )


class Instance:
    """One run of a transfer: who has arrived, what has started, what is done."""

    __slots__ = ("arrived", "done", "index", "part", "started", "transfer", "waiting")

    def __init__(self, transfer: int, index: int, part: Participants) -> None:
        """Start with nobody there."""
        self.transfer, self.index, self.part = transfer, index, part
        self.arrived = self.started = self.done = 0
        self.waiting: list[tuple[int, int, int, float]] = []
        """(role, actors, operation, since) of the classes that wait."""
