"""Who uses what, as compressed rows, and the same as a table of columns for quick passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_WIDTH = 8
"""Columns of the table of entries; a flow with more entries takes several rows."""
MAX_PADDING = 2
"""Largest number of cells per entry for which every flow keeps to one row."""
DENSE = 8
"""Up to so many links per entry, a pass over all links is quicker than sorting the entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidence:
    """Which flow uses which link, and with how much of its rate (compressed rows by flow)."""

    indptr: IntArray
    """Start of each flow's entries, shape (num_flows + 1,)."""
    link: NDArray[np.int32]
    """Link of each entry, shape (num_entries,)."""
    coef: FloatArray
    """Share of the flow's rate that the entry puts on the link, shape (num_entries,)."""

    @property
    def num_flows(self) -> int:
        """Number of flows."""
        return len(self.indptr) - 1


def runs(start: IntArray, counts: IntArray) -> IntArray:
    """Integers from each start on, as many as its count, one run after the other."""
    ends = np.cumsum(counts)
    position: IntArray = np.arange(int(counts.sum()), dtype=np.int64)
    position += np.repeat(start - (ends - counts), counts)
    return position


def distinct(ids: NDArray[np.integer[Any]], size: int) -> tuple[IntArray, IntArray]:
    """Ids that occur, ascending, and for each entry where its id stands among them.

    Parameters
    ----------
    ids
        Shape (num_entries,), each at least 0 and less than ``size``.
    """
    if DENSE * len(ids) < size:
        names, place = np.unique(ids, return_inverse=True)
        return names.astype(np.int64), place
    is_used = np.zeros(size, dtype=bool)
    is_used[ids] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[ids]


def take_rows(incidence: Incidence, rows: IntArray) -> Incidence:
    """Rows of an incidence, in the order given."""
    start = incidence.indptr[rows]
    counts = incidence.indptr[rows + 1] - start
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    entry = runs(start, counts)
    return Incidence(indptr=indptr, link=incidence.link[entry], coef=incidence.coef[entry])


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Rows of each column (compressed)."""

    indptr: IntArray
    """Start of each column's entries, shape (num_columns + 1,)."""
    row: IntArray
    """Row of each entry, ascending in a column."""


def transpose(indptr: IntArray, column: NDArray[np.integer[Any]], num_columns: int) -> Columns:
    """Rows that name each column."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    starts = np.zeros(num_columns + 1, dtype=np.int64)
    np.cumsum(np.bincount(column, minlength=num_columns), out=starts[1:])
    return Columns(indptr=starts, row=row[np.argsort(column, kind="stable")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the entries of flows lie in a table."""

    starts: IntArray | None
    """First row of each flow, and the end; None if each takes one row."""
    begin: IntArray
    """First entry of each row."""
    length: IntArray
    """Entries of each row."""

    def fill(self, values: NDArray[Any], padding: float) -> NDArray[Any]:
        """Table of the entries' values."""
        width = int(self.length.max(initial=1))
        dtype = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float64
        table = np.full((width, len(self.begin)), padding, dtype=dtype)
        shortest = int(self.length.min(initial=0))
        for column in range(width):
            if column < shortest:
                table[column] = values[self.begin + column]
                continue
            rows = np.flatnonzero(self.length > column)
            table[column, rows] = values[self.begin[rows] + column]
        return table


def lay_out(begin: IntArray, counts: IntArray) -> Layout:
    """Room in a table for flows with so many entries from ``begin`` on."""
    num_flows, num_entries = len(counts), int(counts.sum())
    longest = int(counts.max(initial=1))
    if longest <= MAX_WIDTH and longest * num_flows <= MAX_PADDING * num_entries:
        return Layout(starts=None, begin=begin, length=counts)
    width = min(MAX_WIDTH, -(-num_entries // max(num_flows, 1)))
    num_rows = -(-counts // max(width, 1))
    starts = np.concatenate([[0], np.cumsum(num_rows)])
    before = width * (np.arange(starts[-1]) - np.repeat(starts[:-1], num_rows))
    return Layout(
        starts=starts,
        begin=np.repeat(begin, num_rows) + before,
        length=np.minimum(np.repeat(counts, num_rows) - before, width),
    )
