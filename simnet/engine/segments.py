"""Sets of transfers that one role may have under way, between one start and the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.flatten import Flat, Timing
from simnet.engine.order import Stays
from simnet.workload.ops import Compute, Start

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_BITS = 63
"""Sets named by one word of a bit mask."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """What a role has started, start by start; segment ``j`` is from start ``j`` to the next."""

    stays: Stays
    kind: tuple[int, ...]
    """Per segment: kind of what is started, or -1 if it crosses no link that can bind."""
    entered_s: FloatArray
    """When the first actor can be there, shape (num_segments,) [s]."""
    progress_s: FloatArray
    """Time since some fixed moment that an actor has at least behind it [s]."""
    is_lone: NDArray[np.bool_]
    """Whether each task of what is started has one starter."""

    def over(self, longest_s: FloatArray, end_s: FloatArray) -> IntArray:
        """First segment in which each use is known to be over: by order, by time on the way, by the clock.

        Parameters
        ----------
        longest_s, end_s
            Per use: the most that it takes, and the time at which it is over at the latest [s].
        """
        use = self.stays.use
        first = np.searchsorted(self.stays.opened, self.stays.closed)
        passed = np.searchsorted(self.progress_s, self.progress_s + longest_s[use])
        first = np.where(self.is_lone, np.minimum(first, passed), first)
        first = np.minimum(first, np.searchsorted(self.entered_s, end_s[use]))
        found: IntArray = np.maximum(first, np.arange(len(use)) + 1)
        return found


def segments(flat: Flat, role: int, stays: Stays, kinds: dict[int, int], fast: Timing, least_s: FloatArray) -> Segments:
    """Return the segments of a role.

    Parameters
    ----------
    kinds
        Kind of what the role starts, by transfer.
    fast
        The step when every transfer is alone: nobody is anywhere earlier.
    least_s
        Per transfer: the least that any actor of the role that waits for it spends from start to end [s].
    """
    transfers = [flat.uses[use].transfer for use in stays.use.tolist()]
    progress = _progress(flat, role, least_s)
    return Segments(
        stays=stays,
        kind=tuple(kinds.get(t, -1) for t in transfers),
        entered_s=_rows(fast, stays).min(axis=1),
        progress_s=progress[stays.opened],
        is_lone=np.array([flat.joints[t].is_lone_start for t in transfers], dtype=bool),
    )


def last_left(timing: Timing, stays: Stays) -> FloatArray:
    """When the last actor of a role has left each segment [s]."""
    return np.append(_rows(timing, stays).max(axis=1)[1:], np.inf)[: len(stays.use)]


def _rows(timing: Timing, stays: Stays) -> FloatArray:
    """When each actor is at each start, shape (num_segments, num_actors) [s]."""
    if not len(stays.place):
        return np.zeros((0, 1))
    # Joined and cut anew: much quicker than stacking thousands of short rows.
    after = timing.after
    return np.concatenate([after[place] for place in stays.place.tolist()]).reshape(len(stays.place), -1)


def _progress(flat: Flat, role: int, least_s: FloatArray) -> FloatArray:
    """Time that an actor has at least behind it before each operation, so that differences are lower bounds.

    Computations, and what a wait adds to those since its start if nothing else was waited for
    between: from anywhere between the two, at least that much of it is still to come.
    """
    record = flat.program.roles[role]
    slowdown = flat.program.slowdown[record.first_actor : record.first_actor + record.num_actors]
    fastest, slowest = float(slowdown.min()), float(slowdown.max())
    took = np.zeros(len(record.ops) + 1)
    pending: dict[tuple[int, int], tuple[int, float]] = {}
    waits, computed = 0, 0.0
    for pc, op in enumerate(record.ops):
        if isinstance(op, Compute):
            took[pc + 1] = op.duration_s * fastest
            computed += op.duration_s
        elif isinstance(op, Start):
            pending[op.comm, op.instance] = (waits, computed)
        else:
            begun = pending.pop((op.comm, op.instance), None)
            if begun is not None and begun[0] == waits:
                took[pc + 1] = max(0.0, least_s[op.comm] - (computed - begun[1]) * slowest)
            waits += 1
    return np.cumsum(took)


class Names:
    """Numbers for the sets of one role."""

    def __init__(self, kinds: tuple[int, ...]) -> None:
        self.found: list[frozenset[tuple[int, int]]] = []
        """Each set: (kind, how many uses of it)."""
        self._number: dict[bytes, int] = {}
        self._kinds = sorted(set(kinds) - {-1})
        row = {kind: index for index, kind in enumerate(self._kinds)}
        self._start = np.array([segment for segment, kind in enumerate(kinds) if kind >= 0], dtype=np.int64)
        self._row = np.array([row[kind] for kind in kinds if kind >= 0], dtype=np.int64)

    def along(self, over: IntArray) -> IntArray:
        """Return the number of the set that is under way in each segment, where each use is over in a given one."""
        change = np.zeros((len(self._kinds), len(over) + 1), dtype=np.int64)
        np.add.at(change, (self._row, self._start), 1)
        np.add.at(change, (self._row, over[self._start]), -1)
        counts = change.cumsum(axis=1)[:, :-1]
        first, which = distinct(counts)
        return np.array([self._named(column) for column in counts[:, first].T], dtype=np.int64)[which]

    def _named(self, counts: IntArray) -> int:
        key = counts.tobytes()
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.found)
            self.found.append(frozenset((k, c) for k, c in zip(self._kinds, counts.tolist(), strict=True) if c))
        return number


def distinct(columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return one column of each distinct value, and for every column which of them it is like."""
    if not columns.size:
        return np.zeros(min(columns.shape[1], 1), dtype=np.int64), np.zeros(columns.shape[1], dtype=np.int64)
    order = np.lexsort(columns)
    ordered = columns[:, order]
    is_new = np.concatenate([[True], (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)])
    which = np.zeros(len(order), dtype=np.int64)
    which[order] = np.cumsum(is_new) - 1
    return order[is_new], which


class Ranges:
    """Sets that occur in ranges of segments, as bit masks; unions over powers of two are kept."""

    def __init__(self, sets: IntArray, count: int) -> None:
        self._num_words = max(-(-count // _BITS), 1)
        words = np.zeros((self._num_words, len(sets)), dtype=np.int64)
        words[sets // _BITS, np.arange(len(sets))] = np.int64(1) << (sets % _BITS)
        self._levels = [words]
        width = 1
        while 2 * width <= len(sets):
            last = self._levels[-1]
            self._levels.append(last[:, :-width] | last[:, width:])
            width *= 2

    def union(self, low: IntArray, high: IntArray) -> IntArray:
        """Bit mask of the sets in each range of segments, shape (num_words, num_ranges); 0 where it is empty."""
        found = np.zeros((self._num_words, len(low)), dtype=np.int64)
        length = high - low
        level = np.where(length > 0, np.frexp(np.maximum(length, 1))[1] - 1, -1)
        for index, words in enumerate(self._levels):
            chosen = np.flatnonzero(level == index)
            found[:, chosen] = words[:, low[chosen]] | words[:, high[chosen] - (1 << index)]
        return found


def numbers(mask: IntArray) -> list[int]:
    """Return the numbers of the sets in a mask of words."""
    found: list[int] = []
    for word, bits in enumerate(mask.tolist()):
        rest = bits
        while rest:
            lowest = rest & -rest
            found.append(word * _BITS + lowest.bit_length() - 1)
            rest ^= lowest
    return found
