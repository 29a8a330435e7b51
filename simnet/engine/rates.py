"""Fair rates of the active transfers, one connected component at a time, cached.

A step repeats the same sets of active transfers over layers and micro-batches. Transfers couple
only if they load a common resource that can bind; each connected component is solved once per
set of (geometry, tasks) and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import STRICT, Blocks, split, whole
from simnet.engine.couplings import Couplings, Key
from simnet.engine.incidence import Incidence, distinct
from simnet.engine.masks import bits_to_index, index_to_bits, rows_of
from simnet.engine.program import Program
from simnet.engine.sharing import NO_LINK, max_min_rates
from simnet.errors import PhysicsError, Problem

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Part = tuple[int, float]
"""Tasks (bit mask) that move at one rate, and that rate [bytes/s]."""
Upstream = tuple[int, int, float]
"""A geometry, the tasks of it that are active (bit mask), and their rate [bytes/s]."""

SAME_RATE = 1e-12
"""Relative: rates this close are one rate."""
CAPACITY_SLACK = 1e-9
"""Relative: how far the sum of rates may pass a capacity before it counts as a fault."""


class CrowdedError(Exception):
    """More is under way on a link than the split into blocks allows for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Rates of one component: per key of the component, its tasks grouped by rate."""

    parts: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """A solved component and what it does to the network."""

    solution: Solution
    link: IntArray
    """Links that the component loads, ascending."""
    used: FloatArray
    """Rate that it puts on each of them [bytes/s]."""
    holds: NDArray[np.bool_]
    """Which of them can hold one of its tasks back."""
    bottleneck: IntArray
    """Links that do."""


@dataclass(slots=True, kw_only=True)
class RateBook:
    """Solves components on demand and remembers them."""

    program: Program
    num_solves: int = 0
    num_rounds: int = 0
    largest_solve: int = 0
    peak: FloatArray = field(init=False)
    """Largest share of each resource's usable rate in use in any one component."""
    bound_by: NDArray[np.bool_] = field(init=False)
    """Resources that held a task back at least once."""
    blocks: Blocks = field(init=False)
    """Who can hold whom back."""
    couplings: Couplings = field(init=False)
    """Who meets whom."""
    is_split: bool = True
    """Whether to solve in blocks; without, everything that shares a link is solved together."""
    _solutions: dict[tuple[tuple[Key, ...], tuple[Upstream, ...]], Solution] = field(default_factory=dict)
    _free: dict[tuple[Key, ...], _Filled] = field(default_factory=dict)
    _caps: dict[int, FloatArray] = field(default_factory=dict)
    _passed: dict[Key, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    _taken: FloatArray = field(init=False)
    _marks: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing known."""
        program = self.program
        size = len(program.capacity)
        self.peak, self._taken = np.zeros(size), np.zeros(size)
        self.bound_by, self._marks = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        self.blocks = (
            split(program.geometries, program.capacity, program.can_bind)
            if self.is_split
            else whole(program.geometries, program.can_bind)
        )
        self.couplings = Couplings(program=program, blocks=self.blocks)

    def solve(self, component: tuple[Key, ...], upstream: tuple[Upstream, ...] = ()) -> Solution:
        """Rates of the keys of one component, in their order (keys must be sorted).

        Parameters
        ----------
        component
            What is solved together.
        upstream
            Other active tasks and their rates, which are what they are whatever the component does.

        Raises
        ------
        CrowdedError
            When more is under way on a link than the split into blocks allows for.
        """
        known = self._solutions.get((component, upstream))
        if known is None:
            known = self._solve(component, upstream)
            self._solutions[component, upstream] = known
        return known

    def lone_rates(self, geometry: int) -> FloatArray:
        """Rate of each task of a geometry when it is alone on its links [bytes/s]."""
        record = self.program.geometries[geometry]
        return np.minimum(record.cap, _lone_cap(record.incidence, self.program.capacity))

    def alone(self, key: Key) -> tuple[Part, ...]:
        """Tasks of a key grouped by rate if nothing else is under way; ``solve`` it when that has come true."""
        return self._fill_free((key,)).solution.parts[0]

    def _solve(self, component: tuple[Key, ...], upstream: tuple[Upstream, ...]) -> Solution:
        """Rates beside upstream tasks; if those leave room for the rates without them, these are the answer.

        A max-min allocation stays one when capacity goes that it does not use.
        """
        found = self._fill_free(component)
        taken = self._taken
        passed = [(self._passed_by((geometry, mask)), rate) for geometry, mask, rate in upstream]
        for (link, coef), rate in passed:
            taken[link] += coef * rate
        beside = taken[found.link]
        fits = found.used + beside <= STRICT * self.program.capacity[found.link]
        if not np.all(fits | ~found.holds | (beside == 0)):
            found = self._fill(component, np.maximum(self.program.capacity - taken, 0))
        for (link, _), _ in passed:
            taken[link] = 0
        self._note(found, beside)
        return found.solution

    def _fill_free(self, component: tuple[Key, ...]) -> _Filled:
        """Rates of a component with nothing upstream."""
        known = self._free.get(component)
        if known is None:
            known = self._free[component] = self._fill(component, self.program.capacity)
        return known

    def _passed_by(self, key: Key) -> tuple[IntArray, FloatArray]:
        """Links that a key's tasks pass without being held back there, and the coefficients on each summed."""
        known = self._passed.get(key)
        if known is None:
            passing = rows_of(self.couplings.passing[key[0]], key[1])
            link, place = distinct(passing.link, len(self.peak))
            coef = np.bincount(place, weights=passing.coef, minlength=len(link))
            known = self._passed[key] = (link, coef.astype(np.float64, copy=False))
        return known

    def _fill(self, component: tuple[Key, ...], capacity: FloatArray) -> _Filled:
        """Solve a component on what is left of each link [bytes/s]."""
        full = _stack([rows_of(self.program.geometries[g].incidence, mask) for g, mask in component])
        binding = _stack([rows_of(self.couplings.holding[g], mask) for g, mask in component])
        geometries = [self.program.geometries[geometry] for geometry, _ in component]
        rows = [bits_to_index(mask, g.num_tasks) for (_, mask), g in zip(component, geometries, strict=True)]
        cap = np.concatenate([self._cap(g)[r] for (g, _), r in zip(component, rows, strict=True)])
        weight = np.concatenate([g.weight[r] for g, r in zip(geometries, rows, strict=True)])
        self._check_crowd(binding, weight)
        rates = max_min_rates(capacity, binding, cap=cap, weight=weight)
        self.num_solves += 1
        self.num_rounds += rates.rounds
        self.largest_solve = max(self.largest_solve, len(cap))
        link, place = distinct(full.link, len(self.peak))
        used = np.bincount(place, weights=full.coef * np.repeat(rates.rate, np.diff(full.indptr)), minlength=len(link))
        self._marks[binding.link] = True
        holds = self._marks[link]
        self._marks[binding.link] = False
        bounds = np.cumsum([0, *(len(r) for r in rows)])
        parts = tuple(
            _group_by_rate(rates.rate[bounds[i] : bounds[i + 1]], rows[i], g.num_tasks)
            for i, g in enumerate(geometries)
        )
        return _Filled(
            solution=Solution(parts=parts),
            link=link,
            used=used.astype(np.float64, copy=False),
            holds=holds,
            bottleneck=rates.bottleneck[rates.bottleneck != NO_LINK],
        )

    def _cap(self, geometry: int) -> FloatArray:
        """Largest rate of each task, alone on its links [bytes/s]."""
        known = self._caps.get(geometry)
        if known is None:
            known = self._caps[geometry] = self.lone_rates(geometry)
        return known

    def _check_crowd(self, binding: Incidence, weight: FloatArray) -> None:
        if not self.is_split or len(binding.link) == 0:
            return
        load = binding.coef * np.repeat(weight, np.diff(binding.indptr))
        crowd = np.bincount(binding.link, weights=load, minlength=len(self.peak))
        if np.any(crowd > self.blocks.allowed_load):
            raise CrowdedError

    def _note(self, filled: _Filled, beside: FloatArray) -> None:
        """Note what holds tasks back and the peak use of links; no sum of rates may pass a capacity."""
        link, used = filled.link, filled.used + beside
        self.bound_by[filled.bottleneck] = True
        if len(link) == 0:  # groups of one member
            return
        capacity = self.program.capacity[link]
        share = np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)
        worst = int(np.argmax(share))
        if share[worst] > 1 + CAPACITY_SLACK:
            raise PhysicsError(
                Problem(
                    message="rates add up to more than a link carries",
                    found=f"{share[worst]:.12f} of resource {link[worst]}",
                    allowed="1",
                    hint="a bug in the engine; please report the scenario",
                )
            )
        self.peak[link] = np.maximum(self.peak[link], share)


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
