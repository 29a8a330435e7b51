"""How slow a transfer can be beside the sets of others that may be under way: a lower bound of its fair rates.

A task at rate ``x`` and weight ``w`` is at its own cap, or some saturated link holds it back, on
which nobody has a larger ``x / w``. Let the tasks there weigh ``W`` together. Then its ``x / w``
is at least ``c / W``; and where some of them cannot have more than ``B`` together, because of the
rest of their paths, at least ``(c - B) / W'`` with the weight ``W'`` of the others. Both hold as
well when ``W``, ``W'`` and ``B`` are larger than what is really there.

A task is counted where its first starter is. Of sets that a starter has under way at different
times only the largest counts, cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.flatten import Flat
from simnet.engine.kinds import kinds

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Sets = frozenset[frozenset[tuple[int, int]]]
"""Sets of (kind, how many uses of it) that may be under way at different times."""

_ROUNDING = 1e-12
"""Relative: a weight or capacity that small beside the whole is rounding."""


class Crowds:
    """Kinds of a program, and the least rates of each beside sets of others."""

    def __init__(self, flat: Flat, lone: Sequence[FloatArray], blocks: Blocks) -> None:
        self.program, self._lone = flat.program, lone
        found = kinds(flat, lone, blocks)
        self.kinds, self.of_transfer = found.found, found.of_transfer
        self._role_links, self._cell_place = found.links, found.place
        self._meets = self._meeting()
        self.roles = [sorted({self.kinds[q].role for q in group}) for group in self._meets]
        """Per kind: roles that start something on one of its links."""
        self._met = {
            (kind, role): frozenset(q for q in group if self.kinds[q].role == role)
            for kind, group in enumerate(self._meets)
            for role in self.roles[kind]
        }
        self._capacity = [self.program.capacity[kind.link] for kind in self.kinds]
        self._slot: dict[tuple[int, int], IntArray] = {}
        self._cells: dict[tuple[int, Sets], FloatArray] = {}
        self._links: dict[tuple[int, Sets], FloatArray] = {}
        self._rates: dict[tuple[int, bool, Sets, tuple[Sets, ...]], FloatArray] = {}

    def _meeting(self) -> list[frozenset[int]]:
        """Kinds that share a link, per kind."""
        marks = np.zeros(len(self.program.capacity), dtype=bool)
        found = []
        for mine in self.kinds:
            marks[mine.link] = True
            found.append(frozenset(q for q, other in enumerate(self.kinds) if marks[other.link].any()))
            marks[mine.link] = False
        return found

    def forget(self) -> None:
        """Drop the largest of what is remembered."""
        self._cells.clear()
        self._links.clear()

    def met(self, kind: int, role: int) -> frozenset[int]:
        """Return the kinds of a role that cross a link of the kind."""
        return self._met[kind, role]

    def least_rates(self, kind: int, *, is_whole: bool, own: Sets, others: tuple[Sets, ...]) -> FloatArray:
        """Rates that no fair sharing falls below, for the tasks of a kind [bytes/s].

        Parameters
        ----------
        is_whole
            Whether every task is tied to all actors of the role, not to its first starter alone.
        own
            What the task's first starter may have under way together with it.
        others
            What any starter may have under way, by role of ``roles[kind]``.
        """
        key = (kind, is_whole, own, others)
        known = self._rates.get(key)
        if known is None:
            known = self._rates[key] = self._least(kind, is_whole, own, others)
        return known

    def _least(self, kind: int, is_whole: bool, own: Sets, others: tuple[Sets, ...]) -> FloatArray:
        record = self.kinds[kind]
        parts: list[FloatArray] = []
        for role, sets in zip(self.roles[kind], others, strict=True):
            is_own = role == record.role
            on_links = self._on_links(role, own if is_own and is_whole else sets)
            parts.append(on_links.take(self._slots(kind, role), axis=1))
            if is_own and not is_whole and own != sets:
                parts.append(self._on_cells(role, own).take(record.cell, axis=1))
                parts.append(-self._on_cells(role, sets).take(record.cell, axis=1))
        capacity = self._capacity[kind]
        weight = _sum([part[0] for part in parts])
        with np.errstate(divide="ignore", invalid="ignore"):
            level = capacity / weight
            passing = [part[2] for part in parts if len(part) > 1]
            if passing:
                held = _sum([part[1 if len(part) > 1 else 0] for part in parts])
                left = capacity - _sum(passing)
                alone = np.where(left > _ROUNDING * capacity, np.inf, 0.0)
                level = np.maximum(level, np.where(held > _ROUNDING * weight, left / held, alone))
        geometry = self.program.geometries[record.geometry]
        least = np.minimum.reduceat(level, record.first) * geometry.weight[record.tasks]
        found: FloatArray = np.minimum(least, self._lone[record.geometry][record.tasks])
        return found

    def _slots(self, kind: int, role: int) -> IntArray:
        """Place of the entries of a kind among the links of a role; one past the last where it is not on the link."""
        known = self._slot.get((kind, role))
        if known is None:
            links, mine = self._role_links[role], self.kinds[kind].link
            place = np.searchsorted(links, mine)
            is_there = links[np.minimum(place, len(links) - 1)] == mine
            known = self._slot[kind, role] = np.where(is_there, place, len(links))
        return known

    def _on_links(self, role: int, sets: Sets) -> FloatArray:
        """Load on the links of a role, and 0 after them, when each starter has the largest of the sets under way."""
        known = self._links.get((role, sets))
        if known is None:
            count = len(self._role_links[role]) + 1
            place = self._cell_place[role]
            rows = [np.bincount(place, weights=row, minlength=count) for row in self._on_cells(role, sets)]
            known = self._links[role, sets] = np.stack(rows)
        return known

    def _on_cells(self, role: int, sets: Sets) -> FloatArray:
        """Largest load that one of the sets puts on each cell of a role; one row where nothing passes."""
        known = self._cells.get((role, sets))
        if known is None:
            passes = any(self.kinds[kind].passes for one in sets for kind, _ in one)
            known = np.zeros((3 if passes else 1, len(self._cell_place[role])))
            for one in sets:
                load = np.zeros_like(known)
                for kind, count in one:
                    load += count * self.kinds[kind].load[: len(known)]
                np.maximum(known, load, out=known)
            self._cells[role, sets] = known
        return known


def _sum(rows: Sequence[FloatArray]) -> FloatArray:
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


def largest(sets: set[frozenset[tuple[int, int]]]) -> Sets:
    """Return the sets without those that are part of another."""
    kept: list[dict[int, int]] = []
    for one in sorted((dict(s) for s in sets), key=lambda d: (-sum(d.values()), sorted(d.items()))):
        if one and not any(all(other.get(k, 0) >= count for k, count in one.items()) for other in kept):
            kept.append(one)
    return frozenset(frozenset(one.items()) for one in kept)
