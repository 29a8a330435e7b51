"""Max-min fair rates of flows over links, as one vectorised progressive filling.

A flow moves at one rate on everything that it touches. On link ``l`` it uses ``coef[l]`` times
its rate: 1 for a plain flow, a fraction for a flow spread over equal-cost routes, more than 1
for a pipelined ring that crosses the link with several of its edges.

The filling raises a common level: a flow of weight ``w`` has rate ``w * level`` until a link on
its path saturates or it reaches its own cap. Instead of one global minimum a round, every link
that is the tightest for all of its flows is settled at once ("locally tightest"); what is
frozen elsewhere later can only loosen it, so the result is the same (Bertsekas & Gallager,
Data Networks, section 6.5.2, applied to each local minimum).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

TIE_TOLERANCE = 1e-13
"""Relative: two levels this close saturate together; far above rounding, far below 1e-9."""

NO_LINK = -1
"""Bottleneck of a flow that sits at its own cap."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Fair rates and what holds each flow back."""

    rate: FloatArray
    """[bytes/s], shape (num_flows,)."""
    bottleneck: IntArray
    """Link that holds the flow back, or ``NO_LINK`` at its own cap, shape (num_flows,)."""
    rounds: int
    """Rounds of filling that were needed."""


def max_min_rates(
    capacity: FloatArray,
    incidence: Incidence,
    *,
    cap: FloatArray | None = None,
    weight: FloatArray | None = None,
    multiplicity: FloatArray | None = None,
) -> Rates:
    """Max-min fair rate of every flow.

    Parameters
    ----------
    capacity
        Link capacities [bytes/s], shape (num_links,); zero stops every flow on the link.
    incidence
        Links of each flow; coefficients must be positive.
    cap
        Largest rate of each flow [bytes/s], shape (num_flows,); infinite where none.
    weight
        Share weights, shape (num_flows,); 1 where omitted.
    multiplicity
        How many identical flows each row stands for; rates are those of one of them.

    Returns
    -------
    Rates
        ``rate[f]`` infinite only for a flow without links and without cap.
    """
    num_flows = incidence.num_flows
    filling = _Filling(
        capacity=capacity,
        incidence=incidence,
        cap=np.full(num_flows, np.inf) if cap is None else cap,
        weight=np.ones(num_flows) if weight is None else weight,
        multiplicity=np.ones(num_flows) if multiplicity is None else multiplicity,
    )
    rounds = 0
    while filling.num_rising:
        filling.settle_round()
        rounds += 1
    return Rates(rate=filling.rate, bottleneck=filling.bottleneck, rounds=rounds)


MAX_WIDTH = 8
"""Columns of the table of entries; a flow with more entries takes several rows."""
MAX_PADDING = 2
"""Largest number of cells per entry for which a flow keeps to one row."""
PACK_BELOW = 0.7
"""The table is packed anew when fewer than this share of its flows still rise."""
SPARSE = 8
"""Where fewer than one in so many links occurs, sorting is quicker than a pass over all links."""


class _Filling:
    """Progressive filling in flight: who still rises, and what capacity is left.

    The entries lie in a table of a few columns, one column after another in memory (the minimum
    over a row is then a few vector instructions), and one or more rows a flow. Cells that a row
    does not need point to a last link without limit and load nothing. Frozen flows stay in the
    table at an infinite level, where they bind nothing, until a smaller table is worth its making.
    """

    def __init__(
        self,
        *,
        capacity: FloatArray,
        incidence: Incidence,
        cap: FloatArray,
        weight: FloatArray,
        multiplicity: FloatArray,
    ) -> None:
        counts = np.diff(incidence.indptr)
        self.rate = cap.astype(np.float64)
        self.bottleneck = np.full(len(counts), NO_LINK, dtype=np.int64)
        self._cap, self._weight = cap, weight
        self._flows = np.flatnonzero(counts)
        self._cap_level = (cap / weight)[self._flows]
        self.num_rising = len(self._flows)
        names, link = distinct(incidence.link, len(capacity))
        self._link_name = names
        self._left = np.append(capacity[names], np.inf)
        width, self._starts, cells = _table_of(counts[self._flows])
        num_rows = len(self._flows) if self._starts is None else int(self._starts[-1])
        self._table = np.full((width, num_rows), len(names))
        self._table.reshape(-1)[cells] = link
        self._load = np.zeros((width, num_rows))
        self._load.reshape(-1)[cells] = incidence.coef * np.repeat(weight * multiplicity, counts)
        self._is_frozen = np.zeros(len(self._flows), dtype=bool)

    def settle_round(self) -> None:
        """Freeze the flows of every locally tightest link, and those that reach their caps."""
        # Summed afresh, not carried on: what is left of a large sum would be rounding.
        load = self._by_link(self._table, self._load)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = self._left / load
        level[-1] = np.inf
        flow_level = np.minimum(self._per_flow(np.minimum, level[self._table]), self._cap_level)
        capped = self._cap_level <= flow_level
        flow_level[self._is_frozen] = np.inf
        tightest = np.full(len(level), np.inf)
        row_level = self._per_row(flow_level)
        for links in self._table:
            np.minimum.at(tightest, links, row_level)
        settled = level <= tightest * (1 + TIE_TOLERANCE)
        settled[-1] = False
        hit = settled[self._table]
        freeze = (self._per_flow(np.logical_or, hit) | capped) & ~self._is_frozen
        self._freeze(freeze, flow_level, capped, hit)
        if self.num_rising < PACK_BELOW * len(self._flows):
            self._pack()

    def _freeze(
        self, freeze: BoolArray, flow_level: FloatArray, capped: BoolArray, hit: BoolArray
    ) -> None:
        index = np.flatnonzero(freeze)
        flows, level, is_capped = self._flows[index], flow_level[index], capped[index]
        self.rate[flows] = np.where(is_capped, self._cap[flows], self._weight[flows] * level)
        self._is_frozen[index] = True
        self.num_rising -= len(index)
        rows = index if self._starts is None else np.flatnonzero(self._per_row(freeze))
        table, load = self._table[:, rows], self._load[:, rows]
        self._name_bottlenecks(rows, table, hit[:, rows])
        self.bottleneck[flows[is_capped]] = NO_LINK
        self._load[:, rows] = 0
        row_level = level if self._starts is None else self._per_row(flow_level)[rows]
        load *= np.where(np.isinf(row_level), 0.0, row_level)
        self._left -= self._by_link(table, load)
        np.maximum(self._left, 0, out=self._left)

    def _name_bottlenecks(self, rows: IntArray, table: IntArray, hit: BoolArray) -> None:
        column = hit.argmax(axis=0)
        position = np.arange(len(rows))
        is_hit = hit[column, position]
        owner = rows if self._starts is None else np.searchsorted(self._starts, rows, "right") - 1
        link = table[column, position][is_hit]
        self.bottleneck[self._flows[owner[is_hit]]] = self._link_name[link]

    def _pack(self) -> None:
        """Leave the frozen flows and the links that only they used out of the table."""
        keep = ~self._is_frozen
        rows = self._per_row(keep)
        if self._starts is not None:
            num_rows = np.diff(self._starts)[keep]
            self._starts = np.concatenate([[0], np.cumsum(num_rows)])
        self._flows, self._cap_level = self._flows[keep], self._cap_level[keep]
        self._is_frozen = self._is_frozen[keep]
        self._table, self._load = self._table[:, rows], self._load[:, rows]
        last = len(self._left) - 1
        if self._table.size < last:
            used, table = distinct(np.append(self._table.reshape(-1), last), last + 1)
            self._table = table[:-1].reshape(self._table.shape)
            self._left, self._link_name = self._left[used], self._link_name[used[:-1]]

    def _by_link(self, table: IntArray, amount: FloatArray) -> FloatArray:
        return np.bincount(table.reshape(-1), amount.reshape(-1), minlength=len(self._left))

    def _per_flow(self, combine: np.ufunc, cells: NDArray[Any]) -> NDArray[Any]:
        rows: NDArray[Any] = combine.reduce(cells, axis=0)
        return rows if self._starts is None else combine.reduceat(rows, self._starts[:-1])

    def _per_row(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self._starts is None else np.repeat(values, np.diff(self._starts))


def _table_of(counts: IntArray) -> tuple[int, IntArray | None, IntArray]:
    """Columns of a table for rows of so many entries, first table row of each (None if one each,
    else with the end), and the cell of each entry.
    """
    num_flows, num_entries = len(counts), int(counts.sum())
    if num_flows == 0:
        return 1, None, counts
    longest = int(counts.max())
    ends = np.cumsum(counts)
    within = np.arange(num_entries) - np.repeat(ends - counts, counts)
    if longest <= MAX_WIDTH and longest * num_flows <= MAX_PADDING * num_entries:
        within *= num_flows
        within += np.repeat(np.arange(num_flows), counts)
        return longest, None, within
    width = min(MAX_WIDTH, -(-num_entries // num_flows))
    starts = np.concatenate([[0], np.cumsum(-(-counts // width))])
    row, column = np.divmod(within, width)
    return width, starts, column * int(starts[-1]) + row + np.repeat(starts[:-1], counts)


def distinct(ids: NDArray[np.integer[Any]], size: int) -> tuple[IntArray, IntArray]:
    """The ids that occur, ascending, and for each entry where its id stands among them.

    Parameters
    ----------
    ids
        Shape (num_entries,), each at least 0 and less than ``size``.
    """
    if SPARSE * len(ids) < size:
        names, place = np.unique(ids, return_inverse=True)
        return names.astype(np.int64), place
    is_used = np.zeros(size, dtype=bool)
    is_used[ids] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[ids]
