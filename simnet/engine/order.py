"""Program order: until which operation of its starter a transfer may be under way, without any times.

A starter learns of an end when it waits for it, or for anything that was started by someone who
knew: vector clocks over roles, of the same member (replica) of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.flatten import NEVER, START, WAIT, Flat
from simnet.engine.program import ActorSets, Program, Transfer

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stays:
    """Uses with tasks whose first starter is of one role, in program order."""

    use: IntArray
    """Shape (num_stays,)."""
    place: IntArray
    """Operation of the step's list that starts it."""
    opened: IntArray
    """Operation of the role that starts it."""
    closed: IntArray
    """First operation of the role before which it is known to be over."""


def stays(flat: Flat) -> tuple[Stays, ...]:
    """Return, per role, how long the transfers that start there may be under way."""
    program = flat.program
    known = _known(program)
    clocks = _Clocks(flat, known)
    clocks.run()
    found: list[Stays] = []
    for role in range(len(program.roles)):
        rows = [
            (use, place, pc)
            for use, place, pc in clocks.started[role]
            if role in known[flat.uses[use].transfer].closers
        ]
        use, place, pc = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)) if rows else _NONE
        closed = np.array([clocks.closed(role, u, known) for u in use.tolist()], dtype=np.int64)
        found.append(Stays(use=use, place=place, opened=pc, closed=closed))
    return tuple(found)


_NONE = tuple(np.zeros(0, dtype=np.int64) for _ in range(3))


def _known(program: Program) -> list[_Known]:
    found: dict[tuple[int, int], _Known] = {}
    rows: list[_Known] = []
    for transfer in program.transfers:
        key = (id(transfer.starters), id(transfer.waiters))
        if key not in found:
            found[key] = _Known.of(program, transfer)
        rows.append(found[key])
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What waiting for a transfer tells."""

    closers: dict[int, tuple[int, ...]]
    """By role of first starters: roles each of whose members waits for all the tasks that its peer there started."""
    tells: dict[int, tuple[int, ...]]
    """By waiting role: roles whose peers have started it, once the wait is over."""

    @staticmethod
    def of(program: Program, transfer: Transfer) -> _Known:
        role_of = np.repeat(np.arange(len(program.roles)), [role.num_actors for role in program.roles])
        first = np.array([role.first_actor for role in program.roles])
        starters, waiters = transfer.starters, transfer.waiters
        home = starters.actor[starters.indptr[:-1]]
        tasks = len(home)
        wait_task = np.repeat(np.arange(tasks), np.diff(waiters.indptr))
        start_task = np.repeat(np.arange(tasks), np.diff(starters.indptr))
        wait_role, wait_peer = role_of[waiters.actor], waiters.actor - first[role_of[waiters.actor]]
        home_role, home_peer = role_of[home], home - first[role_of[home]]
        closers: dict[int, tuple[int, ...]] = {}
        for s in np.unique(home_role).tolist():
            chosen = []
            for w in np.unique(wait_role).tolist():
                mine = (wait_role == w) & (wait_peer == home_peer[wait_task])
                is_covered = np.zeros(tasks, dtype=bool)
                is_covered[wait_task[mine]] = True
                if is_covered[home_role == s].all():
                    chosen.append(w)
            closers[s] = tuple(chosen)
        tells: dict[int, tuple[int, ...]] = {}
        start_role, start_peer = role_of[starters.actor], starters.actor - first[role_of[starters.actor]]
        peers = {
            s: {
                (t, k)
                for t, k in zip(start_task[start_role == s].tolist(), start_peer[start_role == s].tolist(), strict=True)
            }
            for s in np.unique(start_role).tolist()
        }
        for w in np.unique(wait_role).tolist():
            pairs = list(zip(wait_task[wait_role == w].tolist(), wait_peer[wait_role == w].tolist(), strict=True))
            members = set(range(program.roles[w].num_actors))
            tells[w] = tuple(s for s, seen in peers.items() if {k for t, k in pairs if (t, k) in seen} == members)
        return _Known(closers=closers, tells=tells)


class _Clocks:
    """Vector clocks over roles along the step."""

    def __init__(self, flat: Flat, known: Sequence[_Known]) -> None:
        self.flat, self.known = flat, known
        count = len(flat.program.roles)
        self.started: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
        self._waits: dict[tuple[int, int], int] = {}
        self._pcs: list[list[int]] = [[] for _ in range(count)]
        self._history: list[list[IntArray]] = [[] for _ in range(count)]
        self._columns: list[IntArray] = []

    def run(self) -> None:
        """Pass over the step once."""
        count = len(self.flat.program.roles)
        clock = [np.zeros(count, dtype=np.int64) for _ in range(count)]
        said: dict[tuple[int, int], IntArray] = {}
        for place, (kind, role, pc, use) in enumerate(self.flat.ops):
            mine = clock[role]
            mine[role] = pc + 1
            if kind == START and use >= 0:
                said[use, role] = mine.copy()
                self.started[role].append((use, place, pc))
            elif kind == WAIT:
                self._waits[use, role] = pc
                for other in self.known[self.flat.uses[use].transfer].tells.get(role, ()):
                    np.maximum(mine, said[use, other], out=mine)
                self._pcs[role].append(pc + 1)
                self._history[role].append(mine.copy())
        self._columns = [np.array(rows, dtype=np.int64).reshape(-1, count) for rows in self._history]

    def closed(self, role: int, use: int, known: Sequence[_Known]) -> int:
        """First operation of a role before which a use that started there is known to be over."""
        first = NEVER
        for closer in known[self.flat.uses[use].transfer].closers[role]:
            waited = self._waits.get((use, closer))
            if waited is None:
                continue
            row = int(np.searchsorted(self._columns[role][:, closer], waited, side="right"))
            if row < len(self._pcs[role]):
                first = min(first, self._pcs[role][row])
        return int(first)


def are_whole(program: Program) -> IntArray:
    """Per transfer, 1 if every task has all actors of each role that it involves at both ends: none is ever past it."""
    role_of = np.repeat(np.arange(len(program.roles)), [role.num_actors for role in program.roles])
    size = np.array([role.num_actors for role in program.roles])
    known: dict[int, bool] = {}
    for sets in (sets for t in program.transfers for sets in (t.starters, t.waiters)):
        if id(sets) not in known:
            known[id(sets)] = _has_all(sets, role_of, size)
    return np.array([known[id(t.starters)] and known[id(t.waiters)] for t in program.transfers], dtype=np.int64)


def _has_all(sets: ActorSets, role_of: IntArray, size: IntArray) -> bool:
    count = len(sets.indptr) - 1
    task = np.repeat(np.arange(count), np.diff(sets.indptr))
    found = np.zeros((count, len(size)), dtype=np.int64)
    np.add.at(found, (task, role_of[sets.actor]), 1)
    return bool(np.all(found == np.where(found.any(axis=0), size, 0)))
