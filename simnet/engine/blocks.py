"""Who can hold whom back: a split of the network into blocks that are solved one after the other.

A thin network next to a fat one couples everything in principle: a gradient ring that is held back
by a NIC also crosses the NVLink ports that tensor-parallel traffic fills. But it never is held
back *there*. Let the flows ``P`` of a link be bounded, all together, to ``B`` by other links on
their paths, and let the others weigh ``W`` in all. If the link of capacity ``c`` is saturated, the
others have at least ``c - B`` among them, so the largest of them has a level (rate over weight)
of at least ``(c - B) / W``; a flow of ``P`` that the link held back would need at least that level,
but its own bound is lower. So in the max-min allocation the link is no bottleneck of ``P``: the
rates of ``P`` do not depend on the others', while the others share what ``P`` leaves. Blocks of
flows are solved upstream first, each on the capacity that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.program import Geometry

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

CROWDS = (0.5, 1.0)
"""Shares of all traffic of a link that the split expects to be under way at once (a stage gathers,
scatters and sends in turn). Only a guess of where to split: the engine checks every solve against
``allowed_load`` and, where a link is more crowded, goes on with the next guess, in the end without a split."""
STRICT = 1 - 1e-9
"""Bounds that are met but for rounding do not count as met."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """The split; per geometry and entry of its incidence."""

    holds: tuple[BoolArray, ...]
    """Whether the entry's link can hold the task back."""
    passes: tuple[BoolArray, ...]
    """Whether the entry's link can hold others back, which share what the task leaves."""
    level: tuple[int, ...]
    """Per geometry: solved after those of lower level."""
    allowed_load: FloatArray
    """Largest sum of weights on each link for which the split holds, shape (num_links,)."""


def whole(geometries: Sequence[Geometry], can_bind: BoolArray) -> Blocks:
    """No split: every link that can bind can hold back whatever crosses it."""
    holds = tuple(can_bind[g.incidence.link] for g in geometries)
    return Blocks(
        holds=holds,
        passes=tuple(np.zeros(len(h), dtype=bool) for h in holds),
        level=(0,) * len(geometries),
        allowed_load=np.full(len(can_bind), np.inf),
    )


def split(
    geometries: Sequence[Geometry], capacity: FloatArray, can_bind: BoolArray, crowd: float = CROWDS[0]
) -> Blocks:
    """Split all traffic that may ever be under way into blocks; ``crowd`` is the share of it to expect at once."""
    if not any(can_bind[g.incidence.link].any() for g in geometries):
        return whole(geometries, can_bind)
    pairs = _Pairs(geometries, capacity, can_bind)
    is_passive = pairs.passive(crowd)
    while True:
        block = pairs.blocks(~is_passive)
        edges = pairs.edges(is_passive, block)
        inside = edges[:, 0] == edges[:, 1]
        looped = _looped(edges[~inside])
        if not inside.any() and not len(looped):
            break
        is_passive &= ~pairs.between(is_passive, block, looped)
    level = _levels(edges, len(geometries))
    passes = pairs.to_entries(is_passive)
    holds = tuple(can_bind[g.incidence.link] & ~p for g, p in zip(geometries, passes, strict=True))
    return Blocks(
        holds=holds,
        passes=passes,
        level=tuple(int(level[b]) for b in block),
        allowed_load=pairs.allowed_load(is_passive),
    )


class _Pairs:
    """Every pair of a link that can bind and a geometry that crosses it, by link and bound."""

    def __init__(self, geometries: Sequence[Geometry], capacity: FloatArray, can_bind: BoolArray) -> None:
        self.geometries, self.capacity = geometries, capacity
        parts = [_bounds(index, g, capacity, can_bind) for index, g in enumerate(geometries)]
        link, geometry, bound, weight, level = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((geometry, level, bound, link))
        self.link: IntArray = link[order]
        self.geometry: IntArray = geometry[order]
        self._bound, self._weight, self._level = bound[order], weight[order], level[order]

    def passive(self, crowd: float) -> BoolArray:
        """Pairs whose link never holds the geometry back, most at each link."""
        start = np.flatnonzero(np.diff(self.link, prepend=-1))
        length = np.diff(start, append=len(self.link))
        place = np.arange(len(self.link)) - np.repeat(start, length)
        bounded, weight = _running(np.add, self._bound, place), _running(np.add, self._weight, place)
        others = np.maximum(np.repeat(weight[start + length - 1], length) - weight, 0)
        capacity = self.capacity[self.link]
        # Links of equal capacity on one path both bind: what is left of one beside the other is rounding.
        left = capacity - bounded - (1 - STRICT) * capacity
        highest = _running(np.maximum, self._level, place)
        is_finite = np.isfinite(highest)
        is_safe = is_finite & (np.where(is_finite, highest, 0) * crowd * others < left * STRICT)
        furthest = np.maximum.reduceat(np.where(is_safe, place, -1), start)
        result: BoolArray = place <= np.repeat(furthest, length)
        return result

    def blocks(self, is_active: BoolArray) -> IntArray:
        """Block of each geometry: those that hold one another back are one."""
        link, geometry = self.link[is_active], self.geometry[is_active]
        same = link[1:] == link[:-1]
        parent = list(range(len(self.geometries)))
        for one, other in _pairs(geometry[:-1][same], geometry[1:][same], len(parent)).tolist():
            first, second = _root(parent, one), _root(parent, other)
            parent[max(first, second)] = min(first, second)
        return np.array([_root(parent, index) for index in range(len(parent))])

    def edges(self, is_passive: BoolArray, block: IntArray) -> IntArray:
        """Distinct (block, block that shares what it leaves), shape (num_edges, 2)."""
        target = self._active_block(is_passive, block)
        chosen = is_passive & (target >= 0)
        return _pairs(block[self.geometry[chosen]], target[chosen], len(self.geometries))

    def between(self, is_passive: BoolArray, block: IntArray, looped: IntArray) -> BoolArray:
        """Passive pairs inside one block, or between blocks that depend on each other."""
        target = self._active_block(is_passive, block)
        source = block[self.geometry]
        in_loop = np.isin(source, looped) & np.isin(target, looped)
        found: BoolArray = is_passive & (target >= 0) & ((source == target) | in_loop)
        return found

    def _active_block(self, is_passive: BoolArray, block: IntArray) -> IntArray:
        """Block of the geometries that the pair's link can hold back; -1 if none."""
        of_link = np.full(len(self.capacity), -1, dtype=np.int64)
        of_link[self.link[~is_passive]] = block[self.geometry[~is_passive]]
        return of_link[self.link]

    def to_entries(self, is_passive: BoolArray) -> tuple[BoolArray, ...]:
        """Passive pairs as flags on the entries of each geometry."""
        found: list[BoolArray] = []
        for index, geometry in enumerate(self.geometries):
            is_mine = np.zeros(len(self.capacity), dtype=bool)
            is_mine[self.link[is_passive & (self.geometry == index)]] = True
            found.append(is_mine[geometry.incidence.link])
        return tuple(found)

    def allowed_load(self, is_passive: BoolArray) -> FloatArray:
        """Weights of active flows on each link up to which the passive ones are safe."""
        size = len(self.capacity)
        bounded, level = np.zeros(size), np.zeros(size)
        np.add.at(bounded, self.link[is_passive], self._bound[is_passive])
        np.maximum.at(level, self.link[is_passive], self._level[is_passive])
        allowed = np.full(size, np.inf)
        np.divide((self.capacity - bounded) * STRICT, level, out=allowed, where=level > 0)
        return allowed


def _bounds(
    index: int, geometry: Geometry, capacity: FloatArray, can_bind: BoolArray
) -> tuple[NDArray[np.generic], ...]:
    """Per link of a geometry: what the rest of the paths lets through, weights, largest level."""
    rows = geometry.incidence
    task = np.repeat(np.arange(rows.num_flows), np.diff(rows.indptr))
    lone = capacity[rows.link] / rows.coef
    first = np.full(rows.num_flows, np.inf)
    np.minimum.at(first, task, lone)
    is_first = lone <= first[task]
    num_first = np.bincount(task[is_first], minlength=rows.num_flows)
    second = np.full(rows.num_flows, np.inf)
    np.minimum.at(second, task[~is_first], lone[~is_first])
    alone_first = is_first & (num_first[task] == 1)
    elsewhere = np.where(alone_first, second[task], first[task])
    kept = can_bind[rows.link]
    load = rows.coef * geometry.weight[task]
    link, place = np.unique(rows.link[kept], return_inverse=True)
    through = np.where(np.isfinite(elsewhere), rows.coef * elsewhere, capacity[rows.link])
    bound = np.bincount(place, weights=through[kept], minlength=len(link))
    weight = np.bincount(place, weights=load[kept], minlength=len(link))
    level = np.zeros(len(link))
    np.maximum.at(level, place, (np.minimum(elsewhere, geometry.cap[task]) / geometry.weight[task])[kept])
    return link.astype(np.int64), np.full(len(link), index), bound, weight, level


def _running(combine: np.ufunc, values: FloatArray, place: IntArray) -> FloatArray:
    """Sum or largest so far within each run, by doubling; ``place`` counts from 0 in each.

    A difference of sums over all runs would leave rounding behind.
    """
    found = values.copy()
    step = 1
    while step <= place.max(initial=0):
        reach = np.flatnonzero(place >= step)
        found[reach] = combine(found[reach], found[reach - step])
        step *= 2
    return found


def _pairs(one: IntArray, other: IntArray, size: int) -> IntArray:
    """Distinct pairs of numbers below ``size``, in order, shape (num_pairs, 2)."""
    occurs = np.zeros((size, size), dtype=bool)
    occurs[one, other] = True
    return np.argwhere(occurs)


def _root(parent: list[int], index: int) -> int:
    while parent[index] != index:
        parent[index] = parent[parent[index]]
        index = parent[index]
    return index


def _looped(edges: IntArray) -> IntArray:
    """Blocks on a cycle of dependencies, or between two cycles."""
    left = edges
    while len(left):
        open_ends = np.isin(left[:, 0], left[:, 1]) & np.isin(left[:, 1], left[:, 0])
        if open_ends.all():
            break
        left = left[open_ends]
    return np.unique(left)


def _levels(edges: IntArray, size: int) -> IntArray:
    """Longest chain of dependencies above each block."""
    level = np.zeros(size, dtype=np.int64)
    for _ in range(size):
        raised = level.copy()
        np.maximum.at(raised, edges[:, 1], level[edges[:, 0]] + 1)
        if np.array_equal(raised, level):
            break
        level = raised
    return level
