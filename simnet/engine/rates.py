"""Fair rates of the active transfers, one connected component at a time, cached.

A step repeats the same sets of active transfers over layers and micro-batches. Transfers couple
only if they load a common resource that can bind; each connected component is solved once per
set of (geometry, tasks) and remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import CROWDS, STRICT, Blocks, split, whole
from simnet.engine.couplings import Couplings, Key
from simnet.engine.filling import Filled, Filler, Part, Solution
from simnet.engine.masks import rows_of
from simnet.engine.program import Program
from simnet.errors import PhysicsError, Problem
from simnet.sharing.incidence import distinct

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Upstream = tuple[int, int, float]
"""A geometry, the tasks of it that are active (bit mask), and their rate [bytes/s]."""

CAPACITY_SLACK = 1e-9
"""Relative: how far the sum of rates may pass a capacity before it counts as a fault."""


@dataclass(slots=True, kw_only=True)
class RateBook:
    """Solves components on demand and remembers them."""

    program: Program
    peak: FloatArray = field(init=False)
    """Largest share of each resource's usable rate in use in any one component."""
    bound_by: NDArray[np.bool_] = field(init=False)
    """Resources that held a task back at least once."""
    blocks: Blocks = field(init=False)
    """Who can hold whom back."""
    couplings: Couplings = field(init=False)
    """Who meets whom."""
    filler: Filler = field(init=False)
    """Solves and counts what it solves."""
    crowds: tuple[float, ...] = CROWDS
    """Guesses of how crowded links get; with none left, everything that shares a link is solved together."""
    _solutions: dict[tuple[tuple[Key, ...], tuple[Upstream, ...]], Solution] = field(default_factory=dict)
    _passed: dict[Key, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    _taken: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing known."""
        program = self.program
        size = len(program.capacity)
        self.peak, self._taken = np.zeros(size), np.zeros(size)
        self.bound_by = np.zeros(size, dtype=bool)
        self.blocks = (
            split(program.geometries, program.capacity, program.can_bind, self.crowds[0])
            if self.crowds
            else whole(program.geometries, program.can_bind)
        )
        self.couplings = Couplings(program=program, blocks=self.blocks)
        self.filler = Filler(program=program, couplings=self.couplings)

    def coarser(self) -> RateBook:
        """Return a book with the next guess of how crowded links get, which goes on with the notes of this one."""
        book = RateBook(program=self.program, crowds=self.crowds[1:])
        book.peak, book.bound_by = self.peak, self.bound_by
        for name in ("num_solves", "num_rounds", "largest_solve"):
            setattr(book.filler, name, getattr(self.filler, name))
        return book

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

    def alone(self, key: Key) -> tuple[Part, ...]:
        """Tasks of a key grouped by rate if nothing else is under way; ``solve`` it when that has come true."""
        return self.filler.free((key,)).solution.parts[0]

    def _solve(self, component: tuple[Key, ...], upstream: tuple[Upstream, ...]) -> Solution:
        """Rates beside upstream tasks; if those leave room for the rates without them, these are the answer.

        A max-min allocation stays one when capacity goes that it does not use.
        """
        merged = _merged(component)
        if merged != component:
            return _parted(component, merged, self.solve(merged, upstream))
        found = self.filler.free(component)
        taken = self._taken
        passed = [(self._passed_by((geometry, mask)), rate) for geometry, mask, rate in upstream]
        for (link, coef), rate in passed:
            taken[link] += coef * rate
        beside = taken[found.link]
        fits = found.used + beside <= STRICT * self.program.capacity[found.link]
        if not np.all(fits | ~found.holds | (beside == 0)):
            found = self.filler.fill(component, np.maximum(self.program.capacity - taken, 0))
            beside = taken[found.link]
        for (link, _), _ in passed:
            taken[link] = 0
        self._note(found, beside)
        return found.solution

    def _passed_by(self, key: Key) -> tuple[IntArray, FloatArray]:
        """Links that a key's tasks pass without being held back there, and the coefficients on each summed."""
        known = self._passed.get(key)
        if known is None:
            passing = rows_of(self.couplings.passing[key[0]], key[1])
            link, place = distinct(passing.link, len(self.peak))
            coef = np.bincount(place, weights=passing.coef, minlength=len(link))
            known = self._passed[key] = (link, coef.astype(np.float64, copy=False))
        return known

    def _note(self, filled: Filled, beside: FloatArray) -> None:
        """Note what holds tasks back and the peak use of links; no sum of rates may pass a capacity."""
        self.bound_by[filled.bottleneck] = True
        link = filled.link[filled.used > 0]
        if len(link) == 0:  # groups of one member
            return
        used = (filled.used + beside)[filled.used > 0]
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


def _merged(component: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the component with disjoint tasks of one geometry, which started at different times, as one key."""
    found: list[Key] = []
    for geometry, mask in component:
        if found and found[-1][0] == geometry and not found[-1][1] & mask:
            found[-1] = (geometry, found[-1][1] | mask)
        else:
            found.append((geometry, mask))
    return tuple(sorted(found))


def _parted(component: tuple[Key, ...], merged: tuple[Key, ...], solution: Solution) -> Solution:
    """Return the solution of merged keys in terms of those that they came from."""
    parts: list[tuple[Part, ...]] = []
    for geometry, mask in component:
        at = next(i for i, (one, tasks) in enumerate(merged) if one == geometry and mask & ~tasks == 0)
        parts.append(tuple((tasks & mask, rate) for tasks, rate in solution.parts[at] if tasks & mask))
    return Solution(parts=tuple(parts))
