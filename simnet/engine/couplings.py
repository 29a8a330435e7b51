"""Which active sets of tasks meet: on links that hold both back, or where one leaves the other room."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.masks import rows_of
from simnet.engine.program import Program
from simnet.sharing.incidence import Incidence, distinct

IntArray = NDArray[np.int64]
Key = tuple[int, int]
"""A geometry and the tasks of it that are active (bit mask)."""


@dataclass(slots=True, kw_only=True)
class Couplings:
    """Coupled geometries and keys of a program, found on demand and remembered."""

    program: Program
    blocks: Blocks
    holding: list[Incidence] = field(init=False)
    """Per geometry: the entries whose links can hold its tasks back."""
    passing: list[Incidence] = field(init=False)
    """Per geometry: the entries whose links hold others back, which share what its tasks leave."""
    full: list[int] = field(init=False)
    """Bit mask of all tasks of each geometry."""
    _marks: NDArray[np.bool_] = field(init=False)
    _adjacent: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] | None = None
    _around: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _loads: dict[tuple[bool, Key], IntArray] = field(default_factory=dict)
    _couples: dict[tuple[bool, Key, Key], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the entries of the split apart."""
        geometries, blocks = self.program.geometries, self.blocks
        self._marks = np.zeros(len(self.program.capacity), dtype=bool)
        self.full = [(1 << g.num_tasks) - 1 for g in geometries]
        self.holding = [_flagged(g.incidence, flags) for g, flags in zip(geometries, blocks.holds, strict=True)]
        self.passing = [_flagged(g.incidence, flags) for g, flags in zip(geometries, blocks.passes, strict=True)]

    def neighbours(self, geometry: int) -> tuple[int, ...]:
        """Geometries with which this one holds one another back, itself included."""
        return self._adjacency()[0][geometry]

    def downstream(self, geometry: int) -> tuple[int, ...]:
        """Geometries that share what this one leaves."""
        return self._adjacency()[1][geometry]

    def around(self, geometry: int) -> tuple[int, int, int]:
        """Geometries beside, upstream and downstream of one, as bit masks."""
        known = self._around.get(geometry)
        if known is None:
            beside = sum(1 << g for g in self.neighbours(geometry))
            above = sum(1 << g for g in range(len(self.full)) if geometry in self.downstream(g))
            below = sum(1 << g for g in self.downstream(geometry))
            known = self._around[geometry] = (beside, above, below)
        return known

    def _adjacency(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Neighbours and downstream geometries of every geometry, found link by link.

        Most links carry one of a few sets of geometries; each set is looked at once.
        """
        if self._adjacent is None:
            beside: list[set[int]] = [set() for _ in self.full]
            below: list[set[int]] = [set() for _ in self.full]
            for held, passed in self._sets_on_links():
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

    def _sets_on_links(self) -> list[tuple[frozenset[int], frozenset[int]]]:
        """Geometries held and geometries passed of every kind of link.

        Links begin as one kind; each geometry parts the links of a kind that it crosses from the others.
        """
        kind = np.zeros(len(self._marks), dtype=np.int64)
        empty: frozenset[int] = frozenset()
        sets = [(empty, empty)]
        for geometry, (holding, passing) in enumerate(zip(self.holding, self.passing, strict=True)):
            for is_passing, incidence in enumerate((holding, passing)):
                old, place = distinct(kind[incidence.link], len(sets))
                kind[incidence.link] = len(sets) + place
                for held, passed in [sets[number] for number in old.tolist()]:
                    sets.append((held, passed | {geometry}) if is_passing else (held | {geometry}, passed))
        return [sets[number] for number in np.flatnonzero(np.bincount(kind)).tolist()]

    def couples(self, one: Key, other: Key) -> bool:
        """Whether active tasks of two geometries that are neighbours can hold one another back."""
        if one[1] == self.full[one[0]] and other[1] == self.full[other[0]]:
            return True
        pair = (one, other) if one <= other else (other, one)
        return self._share(False, *pair)

    def feeds(self, one: Key, other: Key) -> bool:
        """Whether the second shares what the first leaves, which is of a geometry upstream."""
        if one[1] == self.full[one[0]] and other[1] == self.full[other[0]]:
            return True
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
            incidence = (self.passing if passes else self.holding)[key[0]]
            known, _ = distinct(rows_of(incidence, key[1]).link, len(self._marks))
            self._loads[passes, key] = known
        return known


def _flagged(incidence: Incidence, kept: NDArray[np.bool_]) -> Incidence:
    """Return the incidence with the flagged entries only."""
    total = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=total[1:])
    return Incidence(
        indptr=total[incidence.indptr],
        link=incidence.link[kept],
        coef=incidence.coef[kept],
    )
