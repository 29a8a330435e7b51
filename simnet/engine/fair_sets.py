"""Fair rates of sets of whole transfers, remembered by the set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.flatten import Flat
from simnet.engine.incidence import Incidence
from simnet.engine.peers import cells
from simnet.engine.program import Program
from simnet.engine.sharing import Rates, max_min_rates

FloatArray = NDArray[np.float64]
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


class FairSets:
    """Rates of components of geometries; what passes above them is taken at the rate that it has on its own."""

    def __init__(self, flat: Flat, lone: Sequence[FloatArray], blocks: Blocks) -> None:
        program = self.program = flat.program
        self.flat, self.lone = flat, lone
        geometries = program.geometries
        self._holding = [_flagged(g.incidence, f) for g, f in zip(geometries, blocks.holds, strict=True)]
        self._passing = [_flagged(g.incidence, f) for g, f in zip(geometries, blocks.passes, strict=True)]
        self._loaded = [np.unique(g.incidence.link, return_inverse=True) for g in geometries]
        self.num_solves = self.largest_solve = 0
        self.peak = np.zeros(len(program.capacity))
        self.bound_by = np.zeros(len(program.capacity), dtype=bool)
        self._rates: dict[tuple[Counts, Counts], dict[int, FloatArray]] = {}
        self._apart: dict[tuple[Counts, Counts], dict[int, FloatArray]] = {}
        self._takes: dict[tuple[int, int], FloatArray] = {}
        self._components: dict[tuple[int, int], int] = {}
        self._beside, self._above, self._below = self._adjacency(len(geometries))
        self.around = [b | d for b, d in zip(self._beside, self._below, strict=True)]
        self._cells = cells(program, self._holding)
        self.own = [self.rates(((g, 1),), ())[g] for g in range(len(geometries))]
        self._free = [self._free_of(t) for t in range(len(program.transfers))]

    def _adjacency(self, count: int) -> tuple[list[int], list[int], list[int]]:
        held = [np.unique(one.link) for one in self._holding]
        passed = [np.unique(one.link) for one in self._passing]
        size = len(self.program.capacity)
        beside, above, below = [0] * count, [0] * count, [0] * count
        for one in range(count):
            marks = np.zeros(size, dtype=bool)
            marks[held[one]] = True
            for other in range(count):
                if marks[held[other]].any():
                    beside[one] |= 1 << other
                if other != one and marks[passed[other]].any():
                    above[one] |= 1 << other
                    below[other] |= 1 << one
        return beside, above, below

    def component(self, seed: int, active: int) -> int:
        """Geometries among the active ones that hold one another back, from one on, as bit masks."""
        known = self._components.get((seed, active))
        if known is None:
            known, front = seed, seed
            while front:
                reached = 0
                while front:
                    lowest = front & -front
                    reached |= self._beside[lowest.bit_length() - 1]
                    front ^= lowest
                front = reached & active & ~known
                known |= front
            self._components[seed, active] = known
        return known

    def above(self, mask: int) -> int:
        """Geometries whose leavings some of these share."""
        return _union(self._above, mask)

    def below(self, mask: int) -> int:
        """Geometries that share what some of these leave."""
        return _union(self._below, mask)

    def free(self, transfer: int) -> FloatArray | None:
        """Return what each bundle takes where nothing can hold it back; None where something can [s]."""
        return self._free[transfer]

    def _free_of(self, transfer: int) -> FloatArray | None:
        record = self.program.transfers[transfer]
        g = record.geometry
        if self._beside[g] & ~(1 << g) or self._above[g] or len(self._holding[g].link):
            return None
        return self._moving(transfer, self.lone[g])

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

    def takes(self, rates: dict[int, FloatArray], transfer: int) -> FloatArray:
        """Return what each bundle of a transfer takes at these rates [s]."""
        key = (id(rates), transfer)
        known = self._takes.get(key)
        if known is None:
            moving = self._moving(transfer, rates[self.program.transfers[transfer].geometry])
            known = self._takes[key] = np.maximum(moving, AT_ONCE_S)
        return known

    def _note(self, counts: Counts, above: Counts, rate: FloatArray) -> None:
        """Note the peak use of links."""
        used, at = np.zeros(len(self.peak)), 0
        for geometry, count in (*counts, *above):
            rows, (links, place) = self.program.geometries[geometry].incidence, self._loaded[geometry]
            mine = self.own[geometry] if at == len(rate) else rate[at : at + rows.num_flows]
            at = min(at + rows.num_flows, len(rate))
            load = rows.coef * np.repeat(mine, np.diff(rows.indptr))
            used[links] += count * np.bincount(place, weights=load, minlength=len(links))
        busy = np.flatnonzero(used)
        self.peak[busy] = np.maximum(self.peak[busy], used[busy] / self.program.capacity[busy])

    def _moving(self, transfer: int, rate: FloatArray) -> FloatArray:
        return self.flat.joints[transfer].moving(self.program.transfers[transfer], rate)

    def _solve(self, counts: Counts, above: Counts) -> dict[int, FloatArray]:
        found = self._filled(counts, self._left(above), self._holding)
        self._note(counts, above, found.rate)
        held = found.bottleneck[found.bottleneck >= 0]
        self.bound_by[held] = True
        return self._by_geometry(counts, found.rate)

    def _left(self, above: Counts) -> FloatArray:
        """Return what each link has left beside what passes on it [bytes/s]."""
        capacity = self.program.capacity
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


def _union(table: Sequence[int], mask: int) -> int:
    found = 0
    while mask:
        lowest = mask & -mask
        found |= table[lowest.bit_length() - 1]
        mask ^= lowest
    return found


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
