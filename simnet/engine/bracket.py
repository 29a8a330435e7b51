"""A schedule that no true one passes: the high end of the bracket.

Take a schedule with its rates fixed, and assume of the true one that by now nothing has come
later than in it, nor taken longer. Then only those transfers can be under way together whose
windows, from the earliest begin to the latest end, overlap, and that the order of the program and
the time on the way between them do not keep apart. If each rate of the schedule is a lower bound of the
fair rates beside all those, the true step is not slower up to the next moment either: so never.
Hence any schedule that reproduces itself is a bound; it is found from below, by trying.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.crowds import Crowds, Sets, largest
from simnet.engine.flatten import Flat, Timing, run_flat
from simnet.engine.order import are_whole, stays
from simnet.engine.segments import Names, Ranges, Segments, distinct, last_left, numbers, segments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_PASSES = 10
"""Passes that may still grow; then nothing is assumed but the order of the program."""
AHEAD = 1e-3
"""Relative: what grows is assumed to grow by this much more, and twice as much each pass, so that passes are few."""
FORESIGHT = 0.5
"""Of the growth of the step from one pass to the next, what is assumed to come yet."""
ROUGH_PASSES = 1
"""Passes until what grows does so in rows of alike uses."""
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

    def grow(self, other: _Assumed, ahead: float = AHEAD) -> bool:
        """Raise to what another schedule shows, and by so much more where that is more; True if it is."""
        has_grown = False
        for mine, its in zip(self._parts(), other._parts(), strict=True):
            more = its > mine * (1 + ROUNDING)
            has_grown |= bool(more.any())
            mine[more] = its[more] * (1 + ahead)
        return has_grown

    def level(self, longest_s: FloatArray, transfer: IntArray) -> None:
        """Raise the longest stays of a transfer that were alike before to the largest that they have come to.

        One stay in a row of alike ones grows because the one before it has: they would all follow, one a pass.
        """
        order = np.lexsort((longest_s, transfer))
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (np.diff(transfer[order]) != 0) | (np.diff(longest_s[order]) != 0)
        most = np.maximum.reduceat(self.longest_s[order], np.flatnonzero(is_new))
        self.longest_s[order] = most[np.cumsum(is_new) - 1]

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
    last_s = guess.step_time_s
    for number in range(MAX_PASSES):
        found = run_flat(flat, bound.durations(assumed))
        growth, before_s = found.step_time_s / last_s - 1, assumed.longest_s.copy()
        if not assumed.grow(bound.seen(found), max(AHEAD * 2**number, FORESIGHT * growth)):
            return found
        if number >= ROUGH_PASSES:
            assumed.level(before_s, bound.transfer)
        last_s = max(last_s, found.step_time_s)
    for part in (assumed.end_s, assumed.longest_s, *assumed.left_s):
        part.fill(np.inf)
    return run_flat(flat, bound.durations(assumed))


class _Bound:
    """Durations that hold for whatever may be under way together."""

    def __init__(self, flat: Flat, lone: Sequence[FloatArray], blocks: Blocks, fast: Timing) -> None:
        program = flat.program
        self.flat, self.lone = flat, lone
        self.crowds = Crowds(flat, lone, blocks)
        self._first = np.concatenate([[0], np.cumsum([len(begin) for begin in fast.begin])[:-1]]).astype(np.int64)
        self._begin_s = np.minimum.reduceat(np.concatenate(fast.begin), self._first) if fast.begin else _NONE
        self.transfer = np.array([use.transfer for use in flat.uses], dtype=np.int64)
        self._whole = are_whole(program)
        self._alone = [self._durations_of(t, lone[record.geometry]) for t, record in enumerate(program.transfers)]
        kinds = self.crowds.of_transfer
        self._segments: list[Segments] = []
        for role, one in enumerate(stays(flat)):
            mine = {t: ks[role] for t, ks in enumerate(kinds) if role in ks}
            least_s = np.array([self._least_wait(t, role) for t in range(len(kinds))])
            self._segments.append(segments(flat, role, one, mine, fast, least_s))
        self._names = [Names(one.kind) for one in self._segments]
        self._places = self._of_kinds()
        self._sets: dict[tuple[frozenset[int], int, bytes], Sets] = {}
        self._known: dict[tuple[int, bytes], FloatArray] = {}
        self._transfers: list[int] = self.transfer.tolist()
        self._seen: dict[int, IntArray] = {}
        self._slow: list[dict[int, FloatArray]] = [{} for _ in flat.uses]
        self._found = [self._alone[transfer] for transfer in self._transfers]

    def _least_wait(self, transfer: int, role: int) -> float:
        wait = self.flat.joints[transfer].waits.get(role)
        if wait is None or wait.members is not None:
            return 0.0
        return float(wait.bundles.gather(self._alone[transfer]).min())

    def _of_kinds(self) -> list[tuple[int, int, IntArray]]:
        """Role, kind, and segments in which the role starts it."""
        found: list[tuple[int, int, IntArray]] = []
        for role, one in enumerate(self._segments):
            kind = np.array(one.kind, dtype=np.int64)
            found += [(role, q, np.flatnonzero(kind == q)) for q in sorted(set(one.kind) - {-1})]
        return found

    def _durations_of(self, transfer: int, rate: FloatArray) -> FloatArray:
        return self.flat.joints[transfer].durations(self.flat.program.transfers[transfer], rate)

    def seen(self, timing: Timing) -> _Assumed:
        """Return what a schedule shows."""
        if not timing.end:
            return _Assumed(end_s=_NONE, longest_s=_NONE, left_s=[])
        begin_s, end_s = np.concatenate(timing.begin), np.concatenate(timing.end)
        return _Assumed(
            end_s=np.maximum.reduceat(end_s, self._first),
            longest_s=np.maximum.reduceat(end_s - begin_s, self._first),
            left_s=[last_left(timing, one.stays) for one in self._segments],
        )

    def durations(self, assumed: _Assumed) -> list[FloatArray]:
        """Most that each bundle of each use takes when nothing passes what is assumed [s]."""
        own, beside = self._neighbours(assumed)
        changed: set[int] = set()
        for part, (role, kind, places) in enumerate(self._places):
            use = self._segments[role].stays.use[places]
            masks = [own[role][:, places], *(beside[other][:, use] for other in self.crowds.roles[kind])]
            columns = np.concatenate([self._whole[self.transfer[use]][None], *masks])
            last = self._seen.get(part)
            # From one pass to the next most neighbours stay what they were.
            is_known = last is not None and last.shape == columns.shape
            new = np.flatnonzero((columns != last).any(axis=0)) if is_known else np.arange(len(use))
            self._seen[part] = columns
            first, which = distinct(columns[:, new])
            bounds = np.cumsum([1, *(len(mask) for mask in masks)])
            rates = [self._rates(kind, columns[:, new[k]], bounds) for k in first.tolist()]
            for u, number in zip(use[new].tolist(), which.tolist(), strict=True):
                self._slow[u][kind] = rates[number]
                changed.add(u)
        known: dict[tuple[int, ...], FloatArray] = {}
        for u in changed:
            slow, transfer = self._slow[u], self._transfers[u]
            key = (transfer, *[id(rates) for rates in slow.values()])
            if key not in known:
                known[key] = self._combined(transfer, slow)
            self._found[u] = known[key]
        return self._found

    def _neighbours(self, assumed: _Assumed) -> tuple[list[IntArray], list[IntArray]]:
        """Return masks of sets, by role: what the starter of each stay, or anyone beside each use, has under way."""
        self.crowds.forget()
        own: list[IntArray] = []
        beside: list[IntArray] = []
        for names, one, left_s in zip(self._names, self._segments, assumed.left_s, strict=True):
            over = one.over(assumed.longest_s, assumed.end_s)
            table = Ranges(names.along(over), len(names.found))
            own.append(table.union(np.arange(len(over)), over))
            low = np.searchsorted(_until(one, left_s, assumed.end_s), self._begin_s, "right")
            beside.append(table.union(low, np.searchsorted(one.entered_s, assumed.end_s)))
        return own, beside

    def _combined(self, transfer: int, slow: Mapping[int, FloatArray]) -> FloatArray:
        rate = self.lone[self.flat.program.transfers[transfer].geometry].copy()
        for kind, rates in slow.items():
            rate[self.crowds.kinds[kind].tasks] = rates
        return self._durations_of(transfer, rate)

    def _rates(self, kind: int, column: IntArray, bounds: IntArray) -> FloatArray:
        key = (kind, column.tobytes())
        known = self._known.get(key)
        if known is None:
            crowds = self.crowds
            own, *masks = (column[low:high] for low, high in itertools.pairwise(bounds.tolist()))
            known = self._known[key] = crowds.least_rates(
                kind,
                is_whole=bool(column[0]),
                own=self._named(kind, crowds.kinds[kind].role, own),
                others=tuple(self._named(kind, r, mask) for r, mask in zip(crowds.roles[kind], masks, strict=True)),
            )
        return known

    def _named(self, kind: int, role: int, mask: IntArray) -> Sets:
        """Return the sets of a mask, as far as they cross links of a kind."""
        met = self.crowds.met(kind, role)
        key = (met, role, mask.tobytes())
        known = self._sets.get(key)
        if known is None:
            names = self._names[role].found
            known = largest({frozenset(pair for pair in names[k] if pair[0] in met) for k in numbers(mask)})
            self._sets[key] = known
        return known


def _until(one: Segments, left_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """When each segment is left, or all that was started up to it is over."""
    return np.minimum(left_s, np.maximum.accumulate(end_s[one.stays.use]))


_NONE = np.zeros(0)
