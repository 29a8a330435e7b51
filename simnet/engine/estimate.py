"""The estimate: the step with all replicas of a role on one clock.

Every use of a transfer is one entity that begins and ends at the median of its tasks. Between
two such events tasks move at the fair rates of everything under way as far as the replicas are
together, and at those of one replica on its own as far as they have drifted apart; what each task
has moved is carried as a share of its own, so that replicas keep their differences.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.fair_sets import Counts, FairSets, Takes, median
from simnet.engine.flatten import COMPUTE, START, Flat
from simnet.engine.private import Private

FloatArray = NDArray[np.float64]

ROUNDS = 8
"""Tries at how long a stay is that is as long as what is shared makes it."""
SETTLED = 1e-2
"""A share that falls by less than this from one try to the next is taken."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Stream:
    """A use under way."""

    use: int
    transfer: int
    geometry: int
    begin_s: FloatArray
    """Per bundle, latency included."""
    clock_s: float
    """When it began on the clock."""
    since_s: float
    left: FloatArray
    """Share that each bundle has yet to move, as of ``since_s``; negative where it was done before."""
    takes_s: FloatArray
    """What each bundle takes in all at the present rates; empty before there are any."""
    fair: Takes | None = None
    """The same if all replicas were at it at once."""
    apart: Takes | None = None
    """The same if the other replicas were out of the way."""
    together: float = -1.0
    """Share of the replicas that are at it at the same time as the one in the middle; negative where not asked yet."""
    leaves_s: float = np.inf


def shared_durations(flat: Flat, sets: FairSets) -> list[FloatArray]:
    """Return what each bundle of each use takes, latency included, when transfers share links [s]."""
    clock = _Clock(flat, sets)
    clock.run()
    return clock.found


class _Clock:
    """The uses under way, and how far each role has come."""

    def __init__(self, flat: Flat, sets: FairSets) -> None:
        program = flat.program
        self.flat, self.sets = flat, sets
        self.found: list[FloatArray] = [_EMPTY] * len(flat.uses)
        self._end: list[FloatArray | None] = [None] * len(flat.uses)
        self._transfer = [use.transfer for use in flat.uses]
        self._geometry = [t.geometry for t in program.transfers]
        self._latency = [j.last(t.latency_s) for t, j in zip(program.transfers, flat.joints, strict=True)]
        self._now = [np.zeros(role.num_actors) for role in program.roles]
        self._ops = [[op for op in flat.ops if op[1] == r] for r in range(len(program.roles))]
        self._next = [0] * len(program.roles)
        self._blocked: dict[int, list[int]] = {}
        self._started: dict[int, dict[int, FloatArray]] = {}
        self._heap: list[tuple[float, int, _Stream | None, tuple[int, FloatArray] | None]] = []
        self._order = 0
        self._streams: dict[int, list[_Stream]] = {}
        self._active = 0
        self._touched = 0
        self._private = Private(flat, sets)
        self._is_private = self._private.is_private
        self._own_begin: dict[int, FloatArray] = {}

    def run(self) -> None:
        """Run until nothing is under way."""
        for role in range(len(self._ops)):
            self._advance(role)
        heap = self._heap
        while heap:
            now = heap[0][0]
            limit = now * (1 + 1e-12)
            while heap and heap[0][0] <= limit:
                time_s, _, stream, fresh = heapq.heappop(heap)
                if stream is None:
                    assert fresh is not None
                    self._begin(now, *fresh)
                elif stream.leaves_s == time_s:
                    self._leave(stream)
            if self._touched:
                self._settle(now)
        for use in self._private.pending():
            self._own_end(use)

    def _advance(self, role: int) -> None:
        ops, now, took = self._ops[role], self._now[role], self.flat.computations[role]
        joints, transfer = self.flat.joints, self._transfer
        place = self._next[role]
        while place < len(ops):
            kind, _, pc, use = ops[place]
            if kind == COMPUTE:
                now = now + took[pc]
            elif kind == START:
                if use >= 0:
                    self._start(role, use, now)
            else:
                end = self._end[use]
                if end is None and use in self._own_begin:
                    end = self._own_end(use)
                if end is None:
                    self._blocked.setdefault(use, []).append(role)
                    break
                wait = joints[transfer[use]].waits.get(role)
                if wait is not None:
                    now = wait.released(now, end)
            place += 1
        self._next[role], self._now[role] = place, now

    def _start(self, role: int, use: int, now: FloatArray) -> None:
        transfer = self._transfer[use]
        joint = self.flat.joints[transfer]
        if joint.alone is not None:
            begin = joint.alone.gather(now)
        else:
            seen = self._started.setdefault(use, {})
            seen[role] = now
            if len(seen) < len(joint.starts):
                return
            begin = joint.begin(self._started.pop(use))
        begin = begin + self._latency[transfer]
        if self._is_private[transfer]:
            self._own_begin[use] = begin
            self._private.start(use, begin)
            return
        free = self.sets.free(transfer)
        if free is not None:
            self._done(use, begin, free)
            return
        self._order += 1
        heapq.heappush(self._heap, (median(begin), self._order, None, (use, begin)))

    def _done(self, use: int, begin: FloatArray, moving: FloatArray) -> None:
        self.found[use] = self._latency[self._transfer[use]] + moving
        self._end[use] = begin + moving
        for role in self._blocked.pop(use, ()):
            self._advance(role)

    def _own_end(self, use: int) -> FloatArray:
        begin, moving = self._own_begin.pop(use), self._private.moving(use)
        self.found[use] = self._latency[self._transfer[use]] + moving
        end = self._end[use] = begin + moving
        return end

    def _begin(self, now: float, use: int, begin: FloatArray) -> None:
        transfer = self._transfer[use]
        geometry = self._geometry[transfer]
        stream = _Stream(
            use=use,
            transfer=transfer,
            geometry=geometry,
            begin_s=begin,
            clock_s=now,
            since_s=now,
            left=np.ones(len(begin)),
            takes_s=_EMPTY,
        )
        self._streams.setdefault(geometry, []).append(stream)
        self._active |= 1 << geometry
        self._touched |= 1 << geometry

    def _leave(self, stream: _Stream) -> None:
        group = self._streams[stream.geometry]
        group.remove(stream)
        stream.leaves_s = np.inf
        if not group:
            self._active &= ~(1 << stream.geometry)
        self._touched |= self.sets.around[stream.geometry]
        moving = stream.since_s - stream.clock_s + stream.left * stream.takes_s
        self._done(stream.use, stream.begin_s, moving)

    def _settle(self, now: float) -> None:
        """Share the links anew among what is under way."""
        sets, active = self.sets, self._active
        todo = (self._touched | sets.below(self._touched)) & active
        self._touched = 0
        while todo:
            component = sets.component(todo & -todo, active)
            todo &= ~component
            counts = self._counts(component)
            above = self._counts(sets.above(component) & active & ~component)
            rates, apart = sets.rates(counts, above), sets.apart(counts, above)
            for geometry, _ in counts:
                for stream in self._streams[geometry]:
                    fair = sets.takes(rates, stream.transfer)
                    beside = fair if apart is rates else sets.takes(apart, stream.transfer)
                    if fair is not stream.fair or beside is not stream.apart:
                        self._set_rate(stream, fair, beside, now)

    def _counts(self, mask: int) -> Counts:
        return tuple([(g, len(self._streams[g])) for g in self.sets.members(mask)])

    def _set_rate(self, stream: _Stream, fair: Takes, apart: Takes, now: float) -> None:
        is_new = stream.fair is None
        stream.fair, stream.apart = fair, apart
        if apart is fair:
            takes_s = fair.each_s
        else:
            if stream.together < 0:
                stream.together = _together(stream.begin_s, fair.middle_s, apart.middle_s)
            takes_s = apart.each_s + stream.together * (fair.each_s - apart.each_s)
        if is_new:
            stays = fair.middle_s if apart is fair else median(takes_s)
        else:
            # What is done keeps its end: counted in the new pace, from now on.
            left = stream.left - (now - stream.since_s) / stream.takes_s
            over = left < 0
            if over.any():
                left[over] *= stream.takes_s[over] / takes_s[over]
            stream.left = left
            stays = median(left * takes_s)
        stream.since_s, stream.takes_s = now, takes_s
        stream.leaves_s = max(now, now + stays)
        self._order += 1
        heapq.heappush(self._heap, (stream.leaves_s, self._order, stream, None))


_EMPTY = np.zeros(0)


def _together(begin_s: FloatArray, most_s: float, least_s: float) -> float:
    """Share of a stay of the middle one that the others spend on it as well, on average.

    The stay is as long as what is shared makes it; the longest that fits is taken.
    """
    away = np.abs(begin_s - median(begin_s))
    share, stay = 1.0, most_s
    for _ in range(ROUNDS):
        last, share = share, float(np.add.reduce(np.maximum(1 - away / stay, 0.0))) / len(away)
        if last - share < SETTLED:
            break
        stay = share * most_s + (1 - share) * least_s
    return share
