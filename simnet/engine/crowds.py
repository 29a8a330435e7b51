"""How slow a transfer can be beside the sets of others that may be under way: a lower bound of its fair rates.

A task at rate ``x`` and weight ``w`` is at its own cap, or some saturated link holds it back, on
which nobody has a larger ``x / w``. Let the tasks there weigh ``W`` together. Then its ``x / w``
is at least ``c / W``; and where some of them cannot have more than ``B`` together, because of the
rest of their paths, at least ``(c - B) / W'`` with the weight ``W'`` of the others. Both hold as
well when ``W``, ``W'`` and ``B`` are larger than what is really there.

A task is counted where its first starter is: a cell is one link and one starter. Of sets that a
starter has under way at different times only the largest counts, cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.flatten import Flat

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Sets = frozenset[frozenset[tuple[int, int]]]
"""Sets of (kind, how many uses of it) that may be under way at different times."""

_ROUNDING = 1e-12
"""Relative: a weight or capacity that small beside the whole is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """Tasks of one geometry whose first starters are of one role, as the links that can bind see them."""

    role: int
    geometry: int
    tasks: IntArray
    """The tasks, ascending, that cross such a link."""
    first: IntArray
    """Where the entries of each begin."""
    link: IntArray
    """Link of each entry."""
    cell: IntArray
    """Cell of the role that each entry loads."""
    load: FloatArray
    """Per cell of the role: weight in all, weight of what the link can hold back, and most bytes/s of what it
    cannot, shape (3, num_cells)."""


class Crowds:
    """Kinds of a program, and the least rates of each beside sets of others."""

    def __init__(self, flat: Flat, lone: Sequence[FloatArray], blocks: Blocks) -> None:
        self.program, self._lone = flat.program, lone
        self.kinds: list[Kind] = []
        self.of_transfer: list[dict[int, int]] = []
        """Kind of each transfer by role of its first starters, if it crosses a link that can bind."""
        self._cell_link: list[IntArray] = []
        self._find(flat, blocks)
        links = [frozenset(kind.link.tolist()) for kind in self.kinds]
        self._meets = [frozenset(q for q, other in enumerate(links) if not mine.isdisjoint(other)) for mine in links]
        self.roles = [sorted({self.kinds[q].role for q in group}) for group in self._meets]
        """Per kind: roles that start something on one of its links."""
        self._local = [np.unique(kind.link, return_inverse=True) for kind in self.kinds]
        self._near: dict[tuple[int, int], tuple[IntArray, IntArray]] = {}
        self._beside: dict[tuple[int, int, Sets], FloatArray] = {}
        self._rates: dict[tuple[int, bool, Sets, tuple[Sets, ...]], FloatArray] = {}

    def _find(self, flat: Flat, blocks: Blocks) -> None:
        program = self.program
        role_of = np.repeat(np.arange(len(program.roles)), [role.num_actors for role in program.roles])
        number: dict[tuple[int, int, bytes], int] = {}
        entries: list[tuple[int, int, IntArray, IntArray, IntArray]] = []
        for transfer, joint in zip(program.transfers, flat.joints, strict=True):
            rows = program.geometries[transfer.geometry].incidence
            task = np.repeat(np.arange(rows.num_flows), np.diff(rows.indptr))
            home_role = role_of[joint.home]
            mine: dict[int, int] = {}
            for role in np.unique(home_role).tolist():
                key = (role, transfer.geometry, joint.home.tobytes())
                chosen = np.flatnonzero(program.can_bind[rows.link] & (home_role[task] == role))
                if key not in number and len(chosen):
                    number[key] = len(entries)
                    entries.append((role, transfer.geometry, chosen, task[chosen], joint.home[task[chosen]]))
                if key in number:
                    mine[role] = number[key]
            self.of_transfer.append(mine)
        names = [
            program.geometries[g].incidence.link[chosen].astype(np.int64) * program.num_actors + home
            for _, g, chosen, _, home in entries
        ]
        cells: list[IntArray] = []
        for role in range(len(program.roles)):
            here = [name for name, entry in zip(names, entries, strict=True) if entry[0] == role]
            cells.append(np.unique(np.concatenate(here)) if here else np.zeros(0, dtype=np.int64))
        self._cell_link = [c // program.num_actors for c in cells]
        for (role, g, chosen, task, _), name in zip(entries, names, strict=True):
            cell = np.searchsorted(cells[role], name)
            load = self._loads(g, chosen, task, cell, len(cells[role]), blocks.passes[g][chosen])
            first = np.flatnonzero(np.diff(task, prepend=-1))
            link = program.geometries[g].incidence.link[chosen].astype(np.int64)
            self.kinds.append(
                Kind(role=role, geometry=g, tasks=task[first], first=first, link=link, cell=cell, load=load)
            )

    def _loads(
        self, g: int, chosen: IntArray, task: IntArray, cell: IntArray, count: int, passes: NDArray[np.bool_]
    ) -> FloatArray:
        geometry = self.program.geometries[g]
        coef = geometry.incidence.coef[chosen]
        weight, most = coef * geometry.weight[task], coef * self._lone[g][task]
        columns = (weight, np.where(passes, 0.0, weight), np.where(passes, most, 0.0))
        return np.stack([np.bincount(cell, weights=column, minlength=count) for column in columns])

    def forget(self) -> None:
        """Drop the largest of what is remembered."""
        self._beside.clear()

    def relevant(self, kind: int, one: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """Return what of a set crosses a link of the kind."""
        meets = self._meets[kind]
        return frozenset(pair for pair in one if pair[0] in meets)

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
        record, (links, entry) = self.kinds[kind], self._local[kind]
        total = np.zeros((3, len(links)))
        at = np.zeros((3, len(entry)))
        for role, sets in zip(self.roles[kind], others, strict=True):
            if role != record.role or is_whole:
                total += self._on_links(kind, role, own if role == record.role else sets)
            else:
                total += self._on_links(kind, role, sets)
                at += self._cells(role, own, record.cell) - self._cells(role, sets, record.cell)
        weight, held, passing = at + total[:, entry]
        capacity = self.program.capacity[record.link]
        left = capacity - passing
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(left > _ROUNDING * capacity, np.inf, 0.0)
            level = np.where(held > _ROUNDING * weight, left / held, alone)
            level = np.maximum(level, capacity / weight)
        geometry = self.program.geometries[record.geometry]
        least = np.minimum.reduceat(level, record.first) * geometry.weight[record.tasks]
        found: FloatArray = np.minimum(least, self._lone[record.geometry][record.tasks])
        return found

    def _on_links(self, kind: int, role: int, sets: Sets) -> FloatArray:
        """Load on the links of a kind when each starter of a role has the largest of the sets under way."""
        key = (kind, role, sets)
        known = self._beside.get(key)
        if known is None:
            near, place = self._cells_near(kind, role)
            load = self._cells(role, sets, near)
            count = len(self._local[kind][0])
            known = np.stack([np.bincount(place, weights=row, minlength=count) for row in load])
            self._beside[key] = known
        return known

    def _cells_near(self, kind: int, role: int) -> tuple[IntArray, IntArray]:
        """Cells of a role on the links of a kind, and which of its links each is on."""
        known = self._near.get((kind, role))
        if known is None:
            links = self._local[kind][0]
            near = np.flatnonzero(np.isin(self._cell_link[role], links))
            known = self._near[kind, role] = (near, np.searchsorted(links, self._cell_link[role][near]))
        return known

    def _cells(self, role: int, sets: Sets, chosen: IntArray) -> FloatArray:
        """Largest load that one of the sets puts on each cell."""
        most = np.zeros((3, len(chosen)))
        for one in sets:
            load = np.zeros_like(most)
            for kind, count in one:
                load += count * self.kinds[kind].load[:, chosen]
            np.maximum(most, load, out=most)
        return most


def largest(sets: set[frozenset[tuple[int, int]]]) -> Sets:
    """Return the sets without those that are part of another."""
    kept: list[dict[int, int]] = []
    for one in sorted((dict(s) for s in sets), key=lambda d: (-sum(d.values()), sorted(d.items()))):
        if one and not any(all(other.get(k, 0) >= count for k, count in one.items()) for other in kept):
            kept.append(one)
    return frozenset(frozenset(one.items()) for one in kept)
