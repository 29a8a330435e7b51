"""Links as each replica sees them, when the others are out of the way.

Replicas at speeds of their own drift apart, so that what they send no longer meets, while what one
replica sends still does. Here each link is cut into cells, one for each replica with a task of its
own on it; a task of several replicas loads all cells of its links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.program import ActorSets, Program, Transfer
from simnet.sharing.incidence import Incidence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SEVERAL = -1
"""Instead of a member: actors of several."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Incidences of the geometries with cells in place of links."""

    link: IntArray
    """Link of each cell, shape (num_cells,)."""
    incidences: tuple[Incidence, ...]
    is_shared: tuple[bool, ...]
    """Per geometry: whether some link of it has cells of several replicas."""


def cells(program: Program, incidences: Sequence[Incidence]) -> Cells:
    """Cut the links that geometries load into cells.

    Parameters
    ----------
    incidences
        Per geometry: links that can hold its tasks back.
    """
    members = _members(program)
    width = max(role.num_actors for role in program.roles) + 1
    # A link that only tasks of several replicas load is one cell: that of no member, the last.
    owners = [_owner(one, mine) for one, mine in zip(incidences, members, strict=True)]
    names = [
        one.link.astype(np.int64) * width + np.where(o < 0, width - 1, o)
        for one, o in zip(incidences, owners, strict=True)
    ]
    own = np.unique(np.concatenate([name[o >= 0] for name, o in zip(names, owners, strict=True)]))
    none = np.unique(np.concatenate([name[o < 0] for name, o in zip(names, owners, strict=True)]))
    found = np.sort(np.concatenate([own, none[~np.isin(none // width, own // width)]]))
    link = found // width
    cut = [_cut(one, o, name, found, link) for one, o, name in zip(incidences, owners, names, strict=True)]
    several = link[1:][link[1:] == link[:-1]]
    shared = tuple(bool(np.isin(one.link, several).any()) for one in incidences)
    return Cells(link=link, incidences=tuple(cut), is_shared=shared)


def _cut(one: Incidence, owner: IntArray, name: IntArray, found: IntArray, link: IntArray) -> Incidence:
    low = np.where(owner < 0, np.searchsorted(link, one.link), np.searchsorted(found, name))
    count = np.where(owner < 0, np.searchsorted(link, one.link, "right") - low, 1)
    total = np.concatenate([[0], np.cumsum(count)])
    cell = np.arange(total[-1]) - np.repeat(total[:-1] - low, count)
    return Incidence(indptr=total[one.indptr], link=cell, coef=np.repeat(one.coef, count))


def _owner(one: Incidence, member: IntArray) -> IntArray:
    """Member whose task each entry is of."""
    return np.repeat(member, np.diff(one.indptr))


def _members(program: Program) -> list[IntArray]:
    """Per geometry: number within its role, alike at both ends, of the actors of each task."""
    first = np.repeat([role.first_actor for role in program.roles], [role.num_actors for role in program.roles])
    peer = np.arange(program.num_actors) - first
    found: dict[int, IntArray] = {}
    for transfer in program.transfers:
        if transfer.geometry not in found:
            found[transfer.geometry] = _member(transfer, peer)
    # A geometry that no transfer uses is never under way.
    return [found.get(g, np.full(one.num_tasks, SEVERAL)) for g, one in enumerate(program.geometries)]


def _member(transfer: Transfer, peer: IntArray) -> IntArray:
    lows, highs = zip(*(_ends(sets, peer) for sets in (transfer.starters, transfer.waiters)), strict=True)
    low, high = np.minimum(*lows), np.maximum(*highs)
    return np.where(low == high, low, SEVERAL)


def _ends(sets: ActorSets, peer: IntArray) -> tuple[IntArray, IntArray]:
    """Smallest and largest of the members of each task; without any, of none."""
    count = np.diff(sets.indptr)
    low, high = np.full(len(count), np.iinfo(np.int64).max), np.full(len(count), -1)
    filled = np.flatnonzero(count)
    if len(filled):
        low[filled] = np.minimum.reduceat(peer[sets.actor], sets.indptr[filled])
        high[filled] = np.maximum.reduceat(peer[sets.actor], sets.indptr[filled])
    return low, high
