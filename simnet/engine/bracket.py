"""A schedule that no true one passes: the high end of the bracket.

Take a schedule with its rates fixed, and assume of the true one that by now nothing has come
later than in it, nor taken longer. Then only those transfers can be under way together whose
windows, from the earliest begin to the latest end, overlap, and that the order of the program and
the time on the way between them do not keep apart. If each rate of the schedule is a lower bound of the
fair rates beside all those, the true step is not slower up to the next moment either: so never.
Hence any schedule that reproduces itself is a bound; it is found from below, by trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.crowds import Crowds, Sets, largest
from simnet.engine.flatten import Flat, Timing, run_flat
from simnet.engine.order import is_whole, stays
from simnet.engine.segments import Names, Ranges, Segments, segments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_PASSES = 8
"""Passes that may still grow; then nothing is assumed but the order of the program."""
AHEAD = 1e-3
"""Relative: what grows is assumed to grow by this much more, which saves passes."""
ROUNDING = 1e-12
"""Relative: a growth this small is none."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Assumed:
    """What the true step does not pass."""

    end_s: FloatArray
    """Per use."""
    longest_s: FloatArray
    """Per use: most that it takes."""
    left_s: list[FloatArray]
    """Per role: when the last actor has left each segment."""

    def grow(self, other: _Assumed) -> bool:
        """Raise to what another schedule shows; True if that is more."""
        has_grown = False
        for mine, its in zip(self._parts(), other._parts(), strict=True):
            more = its > mine * (1 + ROUNDING)
            has_grown |= bool(more.any())
            mine[more] = its[more] * (1 + AHEAD)
        return has_grown

    def _parts(self) -> list[FloatArray]:
        return [self.end_s, self.longest_s, *self.left_s]


def slowest(flat: Flat, lone: Sequence[FloatArray], blocks: Blocks, fast: Timing, guess: Timing) -> Timing:
    """Return a schedule that the true one does not pass.

    Parameters
    ----------
    lone
        Rate of each task alone on its path, per geometry [bytes/s].
    blocks
        Links of which it pays to count some tasks at their most.
    fast
        The step at those rates.
    guess
        A schedule not faster than that, from which to start; the closer, the fewer passes.
    """
    bound = _Bound(flat, lone, blocks, fast)
    assumed = bound.seen(guess)
    assumed.grow(bound.seen(fast))
    for _ in range(MAX_PASSES):
        found = run_flat(flat, bound.durations(assumed))
        if not assumed.grow(bound.seen(found)):
            return found
    for part in (assumed.end_s, assumed.longest_s, *assumed.left_s):
        part.fill(np.inf)
    return run_flat(flat, bound.durations(assumed))


class _Bound:
    """Durations that hold for whatever may be under way together."""

    def __init__(self, flat: Flat, lone: Sequence[FloatArray], blocks: Blocks, fast: Timing) -> None:
        program = flat.program
        self.flat, self.lone = flat, lone
        self.crowds = Crowds(flat, lone, blocks)
        self._begin_s = -_largest_of([-begin for begin in fast.begin])
        self._transfer = [use.transfer for use in flat.uses]
        self._whole = [is_whole(program, t) for t in program.transfers]
        self._alone = [self._durations_of(t, lone[record.geometry]) for t, record in enumerate(program.transfers)]
        kinds = self.crowds.of_transfer
        self._segments: list[Segments] = []
        for role, one in enumerate(stays(flat)):
            mine = {t: ks[role] for t, ks in enumerate(kinds) if role in ks}
            least_s = np.array([self._least_wait(t, role) for t in range(len(kinds))])
            self._segments.append(segments(flat, role, one, mine, fast, least_s))
        self._names = [Names() for _ in program.roles]
        self._sets: dict[tuple[int, int, int], Sets] = {}
        self._known: dict[tuple[int, bool, int, tuple[int, ...]], FloatArray] = {}

    def _least_wait(self, transfer: int, role: int) -> float:
        wait = self.flat.joints[transfer].waits.get(role)
        if wait is None or wait.members is not None:
            return 0.0
        return float(wait.bundles.gather(self._alone[transfer]).min())

    def _durations_of(self, transfer: int, rate: FloatArray) -> FloatArray:
        return self.flat.joints[transfer].durations(self.flat.program.transfers[transfer], rate)

    def seen(self, timing: Timing) -> _Assumed:
        """Return what a schedule shows."""
        left_s: list[FloatArray] = []
        for one in self._segments:
            after = [timing.after[place] for place in one.stays.place.tolist()[1:]]
            left_s.append(np.concatenate([_largest_of(after), [np.inf]])[: len(one.stays.use)])
        took = [end - begin for begin, end in zip(timing.begin, timing.end, strict=True)]
        return _Assumed(end_s=_largest_of(timing.end), longest_s=_largest_of(took), left_s=left_s)

    def durations(self, assumed: _Assumed) -> list[FloatArray]:
        """Most that each bundle of each use takes when nothing passes what is assumed [s]."""
        self.crowds.forget()
        over = [one.over(assumed.longest_s, assumed.end_s) for one in self._segments]
        tables = [
            Ranges(names.along(one.kind, last), len(names.found))
            for names, one, last in zip(self._names, self._segments, over, strict=True)
        ]
        beside = [
            table.union(
                np.searchsorted(_until(one, left_s, assumed.end_s), self._begin_s, "right"),
                np.searchsorted(one.entered_s, assumed.end_s),
            )
            for table, one, left_s in zip(tables, self._segments, assumed.left_s, strict=True)
        ]
        found = [self._alone[transfer] for transfer in self._transfer]
        slow: dict[int, list[tuple[int, FloatArray]]] = {}
        for table, one, last in zip(tables, self._segments, over, strict=True):
            own = table.union(np.arange(len(last)), last)
            for use, kind, mask in zip(one.stays.use.tolist(), one.kind, own, strict=True):
                if kind >= 0:
                    masks = tuple(beside[role][use] for role in self.crowds.roles[kind])
                    slow.setdefault(use, []).append((kind, self._rates(kind, self._transfer[use], mask, masks)))
        known: dict[tuple[int, ...], FloatArray] = {}
        for use, parts in slow.items():
            transfer = self._transfer[use]
            key = (transfer, *(id(rates) for _, rates in parts))
            if key not in known:
                rate = self.lone[self.flat.program.transfers[transfer].geometry].copy()
                for kind, rates in parts:
                    rate[self.crowds.kinds[kind].tasks] = rates
                known[key] = self._durations_of(transfer, rate)
            found[use] = known[key]
        return found

    def _rates(self, kind: int, transfer: int, own: int, masks: tuple[int, ...]) -> FloatArray:
        key = (kind, self._whole[transfer], own, masks)
        known = self._known.get(key)
        if known is None:
            crowds = self.crowds
            known = self._known[key] = crowds.least_rates(
                kind,
                is_whole=self._whole[transfer],
                own=self._named(kind, crowds.kinds[kind].role, own),
                others=tuple(self._named(kind, r, mask) for r, mask in zip(crowds.roles[kind], masks, strict=True)),
            )
        return known

    def _named(self, kind: int, role: int, mask: int) -> Sets:
        """Return the sets of a mask, as far as they cross links of a kind."""
        key = (kind, role, mask)
        known = self._sets.get(key)
        if known is None:
            found, rest = set(), mask
            while rest:
                lowest = rest & -rest
                found.add(self.crowds.relevant(kind, self._names[role].found[lowest.bit_length() - 1]))
                rest ^= lowest
            known = self._sets[key] = largest(found)
        return known


def _until(one: Segments, left_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """When each segment is left, or all that was started up to it is over."""
    return np.minimum(left_s, np.maximum.accumulate(end_s[one.stays.use]))


def _largest_of(rows: Sequence[FloatArray]) -> FloatArray:
    """Largest entry of each row, shape (num_rows,)."""
    if not rows:
        return np.zeros(0)
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows])[:-1]])
    found: FloatArray = np.maximum.reduceat(np.concatenate(rows), first)
    return found
