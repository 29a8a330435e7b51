"""Kinds of tasks: those of one geometry whose first starters are of one role, and the cells that they load.

A cell is one link and one starter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import Blocks
from simnet.engine.flatten import Flat
from simnet.engine.program import Program

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
    passes: bool
    """Whether some link cannot hold some task back."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """All kinds of a program."""

    found: tuple[Kind, ...]
    of_transfer: tuple[dict[int, int], ...]
    """Kind of each transfer by role of its first starters, if it crosses a link that can bind."""
    links: tuple[IntArray, ...]
    """Per role: links of its cells, ascending."""
    place: tuple[IntArray, ...]
    """Per role: which of them each cell is on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entries:
    """Entries of the incidence of a geometry that are of one kind."""

    role: int
    geometry: int
    chosen: IntArray
    task: IntArray
    name: IntArray
    """Cell, as link * number of actors + starter."""


def kinds(flat: Flat, lone: Sequence[FloatArray], blocks: Blocks) -> Kinds:
    """Find the kinds of a program.

    Parameters
    ----------
    lone
        Rate of each task alone on its path, per geometry [bytes/s].
    blocks
        Links that cannot hold back some of the tasks on them.
    """
    program = flat.program
    entries, of_transfer = _entries(flat)
    cells: list[IntArray] = []
    for role in range(len(program.roles)):
        here = [entry.name for entry in entries if entry.role == role]
        cells.append(np.unique(np.concatenate(here)) if here else np.zeros(0, dtype=np.int64))
    on_links = [np.unique(names // program.num_actors, return_inverse=True) for names in cells]
    return Kinds(
        found=tuple(_kind(program, entry, cells[entry.role], lone, blocks) for entry in entries),
        of_transfer=tuple(of_transfer),
        links=tuple(links for links, _ in on_links),
        place=tuple(place for _, place in on_links),
    )


def _entries(flat: Flat) -> tuple[list[_Entries], list[dict[int, int]]]:
    program = flat.program
    role_of = np.repeat(np.arange(len(program.roles)), [role.num_actors for role in program.roles])
    number: dict[tuple[int, bytes], dict[int, int]] = {}
    found: list[_Entries] = []
    of_transfer: list[dict[int, int]] = []
    for transfer, joint in zip(program.transfers, flat.joints, strict=True):
        key = (transfer.geometry, joint.home.tobytes())
        if key not in number:
            mine = number[key] = {}
            rows = program.geometries[transfer.geometry].incidence
            chosen = np.flatnonzero(program.can_bind[rows.link])
            task = np.repeat(np.arange(rows.num_flows), np.diff(rows.indptr))[chosen]
            home = joint.home[task]
            name = rows.link[chosen].astype(np.int64) * program.num_actors + home
            for role in np.unique(role_of[home]).tolist():
                is_here = role_of[home] == role
                mine[role] = len(found)
                found.append(
                    _Entries(
                        role=role,
                        geometry=transfer.geometry,
                        chosen=chosen[is_here],
                        task=task[is_here],
                        name=name[is_here],
                    )
                )
        of_transfer.append(number[key])
    return found, of_transfer


def _kind(program: Program, entry: _Entries, cells: IntArray, lone: Sequence[FloatArray], blocks: Blocks) -> Kind:
    g, task = entry.geometry, entry.task
    geometry = program.geometries[g]
    cell = np.searchsorted(cells, entry.name)
    passes = blocks.passes[g][entry.chosen]
    coef = geometry.incidence.coef[entry.chosen]
    weight, most = coef * geometry.weight[task], coef * lone[g][task]
    columns = (weight, np.where(passes, 0.0, weight), np.where(passes, most, 0.0))
    first = np.flatnonzero(np.diff(task, prepend=-1))
    return Kind(
        role=entry.role,
        geometry=g,
        tasks=task[first],
        first=first,
        link=geometry.incidence.link[entry.chosen].astype(np.int64),
        cell=cell,
        load=np.stack([np.bincount(cell, weights=column, minlength=len(cells)) for column in columns]),
        passes=bool(passes.any()),
    )
