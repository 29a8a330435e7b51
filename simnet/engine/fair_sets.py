"""Fair rates of sets of whole transfers, remembered by the set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.flatten import Flat
from simnet.engine.peers import cells
from simnet.engine.program import Program
from simnet.sharing.incidence import Incidence
from simnet.sharing.max_min import Rates, max_min_rates

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Links = NDArray[np.integer[Any]]
AT_ONCE_S = 1e-15
"""What moves nothing takes no longer."""
LEAST_LEFT = 1e-3
"""Share of a link that is always left beside what passes on the way, should that be crowded."""
Counts = tuple[tuple[int, int], ...]
"""Geometries and how many uses of each are under way."""


def lone_rates(program: Program, geometry: int) -> FloatArray:
    """Rate of each task of a geometry when it is alone on its links [bytes/s]."""
    record = program.geometries[geometry]
    rows = record.incidence
    found = record.cap.astype(np.float64)
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    if len(filled):
        share = np.minimum.reduceat(program.capacity[rows.link] / rows.coef, rows.indptr[filled])
        found[filled] = np.minimum(found[filled], share)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Takes:
    """What the bundles of a transfer take [s]."""

    each_s: FloatArray
    """Shape (num_bundles,)."""
    middle_s: float
    """Their median."""


def median(values: FloatArray) -> float:
    """Return the middle value, the upper one of two."""
    if len(values) == 1:
        return float(values[0])
    ordered = values.copy()
    ordered.sort()
    return ordered.item(len(ordered) // 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Loads:
    """What the tasks of a geometry load."""

    link: Links
    """Links, ascending."""
    place: IntArray
    """Place among them of each entry."""
    task: IntArray
    coef: FloatArray

    @staticmethod
    def of_tasks(incidence: Incidence) -> _Loads:
        """Return the loads of all links of an incidence."""
        link, place = np.unique(incidence.link, return_inverse=True)
        task = np.repeat(np.arange(incidence.num_flows), np.diff(incidence.indptr))
        return _Loads(link=link, place=place, task=task, coef=incidence.coef)

    def of(self, rate: FloatArray) -> FloatArray:
        """Return the load of each link when each task moves at its rate [bytes/s]."""
        load = np.bincount(self.place, weights=self.coef * rate[self.task], minlength=len(self.link))
        return load.astype(np.float64, copy=False)


class FairSets:
    """Rates of components of geometries; what passes above them is taken at the rate that it has on its own."""

    def __init__(self, flat: Flat, lone: Sequence[FloatArray], blocks: Blocks) -> None:
        program = self.program = flat.program
        self.flat, self.lone = flat, lone
        geometries = program.geometries
        holding = [_flagged(g.incidence, f) for g, f in zip(geometries, blocks.holds, strict=True)]
        passing = [_flagged(g.incidence, f) for g, f in zip(geometries, blocks.passes, strict=True)]
        # Links that hold nobody back are no part of any solve: the others are numbered among themselves.
        self._link, number = _numbered([one.link for one in holding], len(program.capacity))
        self._capacity = program.capacity[self._link]
        self._holding = [_renamed(one, number) for one in holding]
        self._passing = [_renamed(_flagged(one, number[one.link] >= 0), number) for one in passing]
        self._loads = [_Loads.of_tasks(g.incidence) for g in geometries]
        self.num_solves = self.largest_solve = 0
        self._used, self._most = np.zeros((2, len(program.capacity)))
        self.bound_by = np.zeros(len(program.capacity), dtype=bool)
        self._rates: dict[tuple[Counts, Counts], dict[int, FloatArray]] = {}
        self._apart: dict[tuple[Counts, Counts], dict[int, FloatArray]] = {}
        self._takes: dict[tuple[int, int], Takes] = {}
        self._components: dict[tuple[int, int], int] = {}
        self._above_of: dict[int, int] = {}
        self._below_of: dict[int, int] = {}
        self._members: dict[int, tuple[int, ...]] = {}
        held = [one.link for one in self._holding]
        self._beside = _sharing(held, held, len(self._link))
        above = _sharing(held, [one.link for one in self._passing], len(self._link))
        self._above = [mask & ~(1 << g) for g, mask in enumerate(above)]
        self._below = _transposed(self._above)
        self.around = [b | d for b, d in zip(self._beside, self._below, strict=True)]
        self._cells = cells(program, self._holding)
        self.own = [self.rates(((g, 1),), ())[g] for g in range(len(geometries))]
        self._free = [self._free_of(t) for t in range(len(program.transfers))]

    def component(self, seed: int, active: int) -> int:
        """Geometries among the active ones that hold one another back, from one on, as bit masks."""
        known = self._components.get((seed, active))
        if known is None:
            known = self._components[seed, active] = _reach(self._beside, seed, active)
        return known

    def above(self, mask: int) -> int:
        """Geometries whose leavings some of these share."""
        known = self._above_of.get(mask)
        if known is None:
            known = self._above_of[mask] = _union(self._above, mask)
        return known

    def below(self, mask: int) -> int:
        """Geometries that share what some of these leave."""
        known = self._below_of.get(mask)
        if known is None:
            known = self._below_of[mask] = _union(self._below, mask)
        return known

    def members(self, mask: int) -> tuple[int, ...]:
        """Geometries of a bit mask, ascending."""
        known = self._members.get(mask)
        if known is None:
            known = self._members[mask] = tuple(g for g in range(mask.bit_length()) if mask >> g & 1)
        return known

    def free(self, transfer: int) -> FloatArray | None:
        """Return what each bundle takes where nothing can hold it back; None where something can [s]."""
        return self._free[transfer]

    def _free_of(self, transfer: int) -> FloatArray | None:
        record = self.program.transfers[transfer]
        g = record.geometry
        if self._beside[g] & ~(1 << g) or self._above[g] or len(self._holding[g].link):
            return None
        return self._moving(transfer, self.lone[g])

    def is_alone(self, geometry: int) -> bool:
        """Whether its tasks meet only themselves, and those of different replicas not even that."""
        return self._beside[geometry] == 1 << geometry and not self._cells.is_shared[geometry]

    def rates(self, counts: Counts, above: Counts) -> dict[int, FloatArray]:
        """Rates of the tasks of each geometry [bytes/s]."""
        known = self._rates.get((counts, above))
        if known is None:
            known = self._rates[counts, above] = self._solve(counts, above)
        return known

    def apart(self, counts: Counts, above: Counts) -> dict[int, FloatArray]:
        """Rates when other replicas are out of the way [bytes/s]; the same value where they share no link."""
        known = self._apart.get((counts, above))
        if known is None:
            if any(self._cells.is_shared[g] for g, _ in counts):
                left = self._left(above)[self._cells.link]
                known = self._by_geometry(counts, self._filled(counts, left, self._cells.incidences).rate)
            else:
                known = self.rates(counts, above)
            self._apart[counts, above] = known
        return known

    def takes(self, rates: dict[int, FloatArray], transfer: int) -> Takes:
        """Return what each bundle of a transfer takes at these rates."""
        key = (id(rates), transfer)
        known = self._takes.get(key)
        if known is None:
            moving = self._moving(transfer, rates[self.program.transfers[transfer].geometry])
            each_s = np.maximum(moving, AT_ONCE_S)
            known = self._takes[key] = Takes(each_s=each_s, middle_s=median(each_s))
        return known

    def _note(self, counts: Counts, above: Counts, rate: FloatArray) -> None:
        """Note the most that links carry."""
        used, at = self._used, 0
        used.fill(0.0)
        for geometry, count in (*counts, *above):
            one, rows = self._loads[geometry], self.program.geometries[geometry].num_tasks
            mine = self.own[geometry] if at == len(rate) else rate[at : at + rows]
            at = min(at + rows, len(rate))
            used[one.link] += count * one.of(mine)
        np.maximum(self._most, used, out=self._most)

    @property
    def peak(self) -> FloatArray:
        """Peak use of each link, as a share of its capacity."""
        return np.divide(self._most, self.program.capacity, out=np.zeros_like(self._most), where=self._most > 0)

    def _moving(self, transfer: int, rate: FloatArray) -> FloatArray:
        return self.flat.joints[transfer].moving(self.program.transfers[transfer], rate)

    def _solve(self, counts: Counts, above: Counts) -> dict[int, FloatArray]:
        found = self._filled(counts, self._left(above), self._holding)
        self._note(counts, above, found.rate)
        held = found.bottleneck[found.bottleneck >= 0]
        self.bound_by[self._link[held]] = True
        return self._by_geometry(counts, found.rate)

    def _left(self, above: Counts) -> FloatArray:
        """Return what each link has left beside what passes on it [bytes/s]."""
        capacity = self._capacity
        if not above:
            return capacity
        left = capacity.copy()
        for g, count in above:
            one = self._passing[g]
            load = one.coef * np.repeat(self.own[g], np.diff(one.indptr))
            left -= count * np.bincount(one.link, weights=load, minlength=len(left))
        return np.maximum(left, LEAST_LEFT * capacity)

    def _filled(self, counts: Counts, capacity: FloatArray, incidences: Sequence[Incidence]) -> Rates:
        geometries, chosen = self.program.geometries, [g for g, _ in counts]
        found = max_min_rates(
            capacity,
            _stacked([incidences[g] for g in chosen]),
            cap=np.concatenate([self.lone[g] for g in chosen]),
            weight=np.concatenate([geometries[g].weight for g in chosen]),
            multiplicity=np.repeat([float(count) for _, count in counts], [geometries[g].num_tasks for g in chosen]),
        )
        self.num_solves += 1
        self.largest_solve = max(self.largest_solve, len(found.rate))
        return found

    def _by_geometry(self, counts: Counts, rate: FloatArray) -> dict[int, FloatArray]:
        bounds = np.cumsum([0, *(self.program.geometries[g].num_tasks for g, _ in counts)])
        return {g: rate[bounds[i] : bounds[i + 1]] for i, (g, _) in enumerate(counts)}


def _sharing(some: Sequence[Links], others: Sequence[Links], size: int) -> list[int]:
    """Per set of links: bit mask of the others that share a link with it."""
    marks = np.zeros((len(others), size), dtype=bool)
    for row, links in zip(marks, others, strict=True):
        row[links] = True
    found = []
    for links in some:
        meets = marks[:, np.unique(links)].any(axis=1)
        found.append(sum(1 << other for other in np.flatnonzero(meets).tolist()))
    return found


def _transposed(masks: Sequence[int]) -> list[int]:
    return [sum(1 << one for one, mask in enumerate(masks) if mask >> other & 1) for other in range(len(masks))]


def _reach(beside: Sequence[int], seed: int, among: int) -> int:
    """Those among some that lead from one to the next from a seed on."""
    known = front = seed
    while front:
        front = _union(beside, front) & among & ~known
        known |= front
    return known


def _union(table: Sequence[int], mask: int) -> int:
    found = 0
    while mask:
        lowest = mask & -mask
        found |= table[lowest.bit_length() - 1]
        mask ^= lowest
    return found


def _numbered(links: Sequence[Links], size: int) -> tuple[IntArray, IntArray]:
    """Links that occur, ascending, and the number of each link among them; -1 of those that do not."""
    occurs = np.zeros(size, dtype=bool)
    for link in links:
        occurs[link] = True
    return np.flatnonzero(occurs), np.where(occurs, np.cumsum(occurs) - 1, -1)


def _renamed(incidence: Incidence, number: IntArray) -> Incidence:
    return replace(incidence, link=number[incidence.link].astype(np.int32))


def _flagged(incidence: Incidence, kept: NDArray[np.bool_]) -> Incidence:
    total = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    return Incidence(indptr=total[incidence.indptr], link=incidence.link[kept], coef=incidence.coef[kept])


def _stacked(parts: Sequence[Incidence]) -> Incidence:
    counts = np.concatenate([np.diff(p.indptr) for p in parts])
    return Incidence(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        link=np.concatenate([p.link for p in parts]),
        coef=np.concatenate([p.coef for p in parts]),
    )
