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

from simnet.engine.blocks import Blocks, split, whole
from simnet.engine.incidence import Incidence, distinct, take_rows
from simnet.engine.program import Program
from simnet.engine.sharing import NO_LINK, max_min_rates
from simnet.errors import PhysicsError, Problem

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Part = tuple[int, float]
"""Tasks (bit mask) that move at one rate, and that rate [bytes/s]."""
Key = tuple[int, int]
"""A geometry and the tasks of it that are active (bit mask)."""
Upstream = tuple[int, int, float]
"""A geometry, the tasks of it that are active (bit mask), and their rate [bytes/s]."""

SAME_RATE = 1e-12
"""Relative: rates this close are one rate."""
CAPACITY_SLACK = 1e-9
"""Relative: how far the sum of rates may pass a capacity before it counts as a fault."""


def bits_to_index(mask: int, count: int) -> IntArray:
    """Positions of the set bits of ``mask``, ascending, shape (popcount,)."""
    data = np.frombuffer(mask.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little", count=count))


def index_to_bits(index: IntArray, count: int) -> int:
    """Bit mask with the given positions set."""
    flags = np.zeros(count, dtype=np.uint8)
    flags[index] = 1
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


class CrowdedError(Exception):
    """More is under way on a link than the split into blocks allows for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Rates of one component: per key of the component, its tasks grouped by rate."""

    parts: tuple[tuple[Part, ...], ...]


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
    is_split: bool = True
    """Whether to solve in blocks; without, everything that shares a link is solved together."""
    _solutions: dict[tuple[tuple[Key, ...], tuple[Upstream, ...]], Solution] = field(default_factory=dict)
    _loads: dict[tuple[bool, Key], IntArray] = field(default_factory=dict)
    _couples: dict[tuple[bool, Key, Key], bool] = field(default_factory=dict)
    _full: list[int] = field(init=False)
    _marks: NDArray[np.bool_] = field(init=False)
    _holding: list[Incidence] = field(init=False)
    _passing: list[Incidence] = field(init=False)
    _adjacent: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] | None = None

    def __post_init__(self) -> None:
        """Start with nothing known."""
        size = len(self.program.capacity)
        self.peak = np.zeros(size)
        self.bound_by = np.zeros(size, dtype=bool)
        self._marks = np.zeros(size, dtype=bool)
        self._full = [(1 << g.num_tasks) - 1 for g in self.program.geometries]
        geometries, can_bind = self.program.geometries, self.program.can_bind
        self.blocks = (
            split(geometries, self.program.capacity, can_bind) if self.is_split else whole(geometries, can_bind)
        )
        self._holding = [_flagged(g.incidence, flags) for g, flags in zip(geometries, self.blocks.holds, strict=True)]
        self._passing = [_flagged(g.incidence, flags) for g, flags in zip(geometries, self.blocks.passes, strict=True)]

    def neighbours(self, geometry: int) -> tuple[int, ...]:
        """Geometries with which this one holds one another back, itself included."""
        return self._adjacency()[0][geometry]

    def downstream(self, geometry: int) -> tuple[int, ...]:
        """Geometries that share what this one leaves."""
        return self._adjacency()[1][geometry]

    def _adjacency(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Neighbours and downstream geometries of every geometry, found link by link.

        Most links carry one of a few sets of geometries; each set is looked at once.
        """
        if self._adjacent is None:
            holding = _geometries_by_link(self._holding, len(self.peak))
            passing = _geometries_by_link(self._passing, len(self.peak))
            beside: list[set[int]] = [set() for _ in self._full]
            below: list[set[int]] = [set() for _ in self._full]
            for held, passed in set(zip(holding, passing, strict=True)):
                for one in held:
                    beside[one].update(held)
                for one in passed:
                    below[one].update(held)
            level = self.blocks.level
            self._adjacent = (
                [tuple(sorted(group)) for group in beside],
                [tuple(sorted(o for o in group if level[o] > level[g])) for g, group in enumerate(below)],
            )
        return self._adjacent

    def couples(self, one: Key, other: Key) -> bool:
        """Whether two active sets of tasks can hold one another back."""
        pair = (one, other) if one <= other else (other, one)
        return self._share(False, *pair)

    def feeds(self, one: Key, other: Key) -> bool:
        """Whether the second shares what the first leaves, but cannot hold it back."""
        if self.blocks.level[one[0]] >= self.blocks.level[other[0]]:
            return False
        return self._share(True, one, other)

    def _share(self, is_feed: bool, one: Key, other: Key) -> bool:
        known = self._couples.get((is_feed, one, other))
        if known is None:
            first, second = self._load(is_feed, one), self._load(False, other)
            self._marks[first] = True
            known = bool(self._marks[second].any())
            self._marks[first] = False
            self._couples[is_feed, one, other] = known
        return known

    def _load(self, passes: bool, key: Key) -> IntArray:
        """Links that can hold a key's tasks back, or that it passes on the way; ascending."""
        known = self._loads.get((passes, key))
        if known is None:
            taken = (self._passing if passes else self._holding)[key[0]]
            rows = bits_to_index(key[1], taken.num_flows)
            known, _ = distinct(take_rows(taken, rows).link, len(self.peak))
            self._loads[passes, key] = known
        return known

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

    def _solve(self, component: tuple[Key, ...], upstream: tuple[Upstream, ...]) -> Solution:
        rows = [bits_to_index(mask, self.program.geometries[geometry].num_tasks) for geometry, mask in component]
        geometries = [self.program.geometries[geometry] for geometry, _ in component]
        full = stack_rows([g.incidence for g in geometries], rows)
        binding = stack_rows([self._holding[index] for index, _ in component], rows)
        cap = np.concatenate([g.cap[r] for g, r in zip(geometries, rows, strict=True)])
        weight = np.concatenate([g.weight[r] for g, r in zip(geometries, rows, strict=True)])
        cap = np.minimum(cap, _lone_cap(full, self.program.capacity))
        capacity = self._left(upstream) if upstream else self.program.capacity
        self._check_crowd(binding, weight)
        rates = max_min_rates(capacity, binding, cap=cap, weight=weight)
        self.num_solves += 1
        self.num_rounds += rates.rounds
        self.largest_solve = max(self.largest_solve, len(cap))
        self._observe(full, rates.rate, self.program.capacity - capacity)
        held = rates.bottleneck[rates.bottleneck != NO_LINK]
        self.bound_by[held] = True
        bounds = np.cumsum([0, *(len(r) for r in rows)])
        return Solution(
            parts=tuple(
                _group_by_rate(rates.rate[bounds[i] : bounds[i + 1]], rows[i], g.num_tasks)
                for i, g in enumerate(geometries)
            )
        )

    def _left(self, upstream: tuple[Upstream, ...]) -> FloatArray:
        """Capacity that upstream tasks leave [bytes/s]."""
        left = self.program.capacity.copy()
        for geometry, mask, rate in upstream:
            record = self.program.geometries[geometry]
            rows = bits_to_index(mask, record.num_tasks)
            passing = take_rows(self._passing[geometry], rows)
            np.subtract.at(left, passing.link, passing.coef * rate)
        return np.maximum(left, 0)

    def _check_crowd(self, binding: Incidence, weight: FloatArray) -> None:
        if not self.is_split or len(binding.link) == 0:
            return
        load = binding.coef * np.repeat(weight, np.diff(binding.indptr))
        crowd = np.bincount(binding.link, weights=load, minlength=len(self.peak))
        if np.any(crowd > self.blocks.allowed_load):
            raise CrowdedError

    def _observe(self, full: Incidence, rate: FloatArray, taken: FloatArray) -> None:
        """Note the peak use of every resource; no sum of rates may pass a capacity."""
        if len(full.link) == 0:  # groups of one member
            return
        used = np.bincount(
            full.link,
            weights=full.coef * np.repeat(rate, np.diff(full.indptr)),
            minlength=len(self.peak),
        )
        used += np.where(used > 0, taken, 0)
        capacity = self.program.capacity
        share = np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)
        worst = int(np.argmax(share))
        if share[worst] > 1 + CAPACITY_SLACK:
            raise PhysicsError(
                Problem(
                    message="rates add up to more than a link carries",
                    found=f"{share[worst]:.12f} of resource {worst}",
                    allowed="1",
                    hint="a bug in the engine; please report the scenario",
                )
            )
        np.maximum(self.peak, share, out=self.peak)


def _geometries_by_link(incidences: Sequence[Incidence], num_links: int) -> list[tuple[int, ...]]:
    """Geometries that use each link."""
    found: list[list[int]] = [[] for _ in range(num_links)]
    for index, incidence in enumerate(incidences):
        for link in np.unique(incidence.link).tolist():
            found[link].append(index)
    return [tuple(group) for group in found]


def stack_rows(incidences: Sequence[Incidence], rows: Sequence[IntArray]) -> Incidence:
    """Put the chosen rows of several incidences under one another."""
    taken = [take_rows(one, r) for one, r in zip(incidences, rows, strict=True)]
    counts = np.concatenate([np.diff(t.indptr) for t in taken])
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return Incidence(
        indptr=indptr,
        link=np.concatenate([t.link for t in taken]),
        coef=np.concatenate([t.coef for t in taken]),
    )


def _flagged(incidence: Incidence, kept: NDArray[np.bool_]) -> Incidence:
    """Return the incidence with the flagged entries only."""
    total = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=total[1:])
    return Incidence(
        indptr=total[incidence.indptr],
        link=incidence.link[kept],
        coef=incidence.coef[kept],
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
