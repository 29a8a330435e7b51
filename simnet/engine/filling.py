"""Fair rates of one component of active tasks, and what they do to the links.

Tasks that share no link that can hold them back do not know of each other. So the rates of nearly all
tasks of some geometries are those of all, as long as the missing ones share no such link with them:
one slow replica does not make its thousand neighbours be solved anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simnet.engine.couplings import Couplings, Key
from simnet.engine.masks import bits_to_index, index_to_bits, rows_of
from simnet.engine.program import Program
from simnet.sharing.incidence import Incidence, distinct
from simnet.sharing.max_min import NO_LINK, max_min_rates

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Part = tuple[int, float]
"""Tasks (bit mask) that move at one rate, and that rate [bytes/s]."""

SAME_RATE = 1e-12
"""Relative: rates this close are one rate."""
FEW = 4
"""The missing tasks are few if they are fewer than one in so many."""


class CrowdedError(Exception):
    """More is under way on a link than the split into blocks allows for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Rates of one component: per key of the component, its tasks grouped by rate."""

    parts: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A solved component and what it does to the network."""

    solution: Solution
    link: IntArray
    """Links that the component loads, ascending."""
    used: FloatArray
    """Rate that it puts on each of them [bytes/s]."""
    holds: NDArray[np.bool_]
    """Which of them can hold one of its tasks back, or one that is missing."""
    bottleneck: IntArray
    """Links that do hold one back."""


@dataclass(slots=True, kw_only=True)
class Filler:
    """Solves components of a program."""

    program: Program
    couplings: Couplings
    num_solves: int = 0
    num_rounds: int = 0
    largest_solve: int = 0
    _free: dict[tuple[Key, ...], Filled] = field(default_factory=dict)
    _caps: dict[int, FloatArray] = field(default_factory=dict)
    _marks: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing known."""
        self._marks = np.zeros(len(self.program.capacity), dtype=bool)

    def free(self, component: tuple[Key, ...]) -> Filled:
        """Rates of a component that has the whole capacity of all links; remembered."""
        known = self._free.get(component)
        if known is None:
            known = self._free[component] = self._of_whole(component) or self.fill(component, self.program.capacity)
        return known

    def fill(self, component: tuple[Key, ...], capacity: FloatArray) -> Filled:
        """Solve a component on what is left of each link [bytes/s].

        Raises
        ------
        CrowdedError
            When more is under way on a link than the split into blocks allows for.
        """
        geometries = [self.program.geometries[geometry] for geometry, _ in component]
        full = _stack([rows_of(g.incidence, mask) for g, (_, mask) in zip(geometries, component, strict=True)])
        binding = _stack([rows_of(self.couplings.holding[g], mask) for g, mask in component])
        rows = [bits_to_index(mask, g.num_tasks) for (_, mask), g in zip(component, geometries, strict=True)]
        cap = np.concatenate([self._cap(g)[r] for (g, _), r in zip(component, rows, strict=True)])
        weight = np.concatenate([g.weight[r] for g, r in zip(geometries, rows, strict=True)])
        self._check_crowd(binding, weight)
        rates = max_min_rates(capacity, binding, cap=cap, weight=weight)
        self.num_solves += 1
        self.num_rounds += rates.rounds
        self.largest_solve = max(self.largest_solve, len(cap))
        link, place = distinct(full.link, len(capacity))
        used = np.bincount(place, weights=full.coef * np.repeat(rates.rate, np.diff(full.indptr)), minlength=len(link))
        self._marks[binding.link] = True
        holds = self._marks[link]
        self._marks[binding.link] = False
        bounds = np.cumsum([0, *(len(r) for r in rows)])
        parts = tuple(
            _group_by_rate(rates.rate[bounds[i] : bounds[i + 1]], rows[i], g.num_tasks)
            for i, g in enumerate(geometries)
        )
        return Filled(
            solution=Solution(parts=parts),
            link=link,
            used=used.astype(np.float64, copy=False),
            holds=holds,
            bottleneck=rates.bottleneck[rates.bottleneck != NO_LINK],
        )

    def lone_rates(self, geometry: int) -> FloatArray:
        """Rate of each task of a geometry when it is alone on its links [bytes/s]."""
        record = self.program.geometries[geometry]
        return np.minimum(record.cap, _lone_cap(record.incidence, self.program.capacity))

    def _cap(self, geometry: int) -> FloatArray:
        known = self._caps.get(geometry)
        if known is None:
            known = self._caps[geometry] = self.lone_rates(geometry)
        return known

    def _of_whole(self, component: tuple[Key, ...]) -> Filled | None:
        """Rates of a component as part of all tasks of its geometries; None where that is no help."""
        full = self.couplings.full
        missing = tuple((g, full[g] ^ mask) for g, mask in component if mask != full[g])
        num_missing = sum(mask.bit_count() for _, mask in missing)
        num_tasks = sum(mask.bit_count() for _, mask in component)
        if not missing or FEW * num_missing > num_tasks or len({g for g, _ in component}) < len(component):
            return None
        gone = np.concatenate([rows_of(self.couplings.holding[g], mask).link for g, mask in missing])
        self._marks[gone] = True
        try:
            if any(self._touches(key) for key in component):
                return None
            whole = self.free(tuple((g, full[g]) for g, _ in component))
            bottleneck = whole.bottleneck[~self._marks[whole.bottleneck]]
        finally:
            self._marks[gone] = False
        parts = tuple(
            tuple((tasks & mask, rate) for tasks, rate in part if tasks & mask)
            for part, (_, mask) in zip(whole.solution.parts, component, strict=True)
        )
        used = whole.used.copy()
        for (geometry, mask), part in zip(component, whole.solution.parts, strict=True):
            for tasks, rate in part:
                away = tasks & ~mask
                if away:
                    rows = rows_of(self.program.geometries[geometry].incidence, away)
                    np.subtract.at(used, np.searchsorted(whole.link, rows.link), rows.coef * rate)
        return Filled(
            solution=Solution(parts=parts),
            link=whole.link,
            used=np.maximum(used, 0),
            holds=whole.holds,
            bottleneck=bottleneck,
        )

    def _touches(self, key: Key) -> bool:
        """Whether a task of a key can be held back by a marked link."""
        incidence = self.couplings.holding[key[0]]
        entries = np.flatnonzero(self._marks[incidence.link])
        tasks = np.unique(np.searchsorted(incidence.indptr, entries, "right") - 1)
        return any(key[1] >> task & 1 for task in tasks.tolist())

    def _check_crowd(self, binding: Incidence, weight: FloatArray) -> None:
        allowed = self.couplings.blocks.allowed_load
        if len(binding.link) == 0 or not np.isfinite(allowed[binding.link]).any():
            return
        load = binding.coef * np.repeat(weight, np.diff(binding.indptr))
        crowd = np.bincount(binding.link, weights=load, minlength=len(allowed))
        if np.any(crowd > allowed):
            raise CrowdedError


def _stack(parts: Sequence[Incidence]) -> Incidence:
    """Put incidences under one another."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([np.diff(t.indptr) for t in parts])
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return Incidence(
        indptr=indptr,
        link=np.concatenate([t.link for t in parts]),
        coef=np.concatenate([t.coef for t in parts]),
    )


def _lone_cap(full: Incidence, capacity: FloatArray) -> FloatArray:
    """Rate of each task when it is alone on its links [bytes/s]; infinite without links."""
    lone = np.full(full.num_flows, np.inf)
    has_links = np.flatnonzero(np.diff(full.indptr) > 0)
    if len(has_links):
        share = capacity[full.link] / full.coef
        lone[has_links] = np.minimum.reduceat(share, full.indptr[has_links])
    return lone


def _group_by_rate(rate: FloatArray, rows: IntArray, num_tasks: int) -> tuple[Part, ...]:
    """Tasks of one key grouped by rate, slowest first."""
    order = np.argsort(rate, kind="stable")
    ordered = rate[order]
    is_step = ordered[1:] > ordered[:-1] * (1 + SAME_RATE)
    bounds = [0, *(np.flatnonzero(is_step) + 1).tolist(), len(rate)]
    return tuple(
        (index_to_bits(rows[order[low:high]], num_tasks), float(ordered[low]))
        for low, high in pairwise(bounds)
        if high > low
    )
