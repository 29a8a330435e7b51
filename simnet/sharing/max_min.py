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

from simnet.sharing.incidence import Incidence, distinct, lay_out, runs

__all__ = ["NO_LINK", "TIE_TOLERANCE", "Incidence", "Rates", "max_min_rates"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

TIE_TOLERANCE = 1e-13
"""Relative: two levels this close saturate together; far above rounding, far below 1e-9."""

NO_LINK = -1
"""Bottleneck of a flow that sits at its own cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Fair rates and what holds each flow back."""

    rate: FloatArray
    """[bytes/s], shape (num_flows,)."""
    bottleneck: IntArray
    """Link that holds the flow back (at a tie with its cap, too), or ``NO_LINK`` if its cap alone does, shape
    (num_flows,)."""
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


PACK_BELOW = 0.7
"""The table is packed anew when fewer than this share of its flows still rise."""
SPARSE = 2
"""Links are renumbered where there are more than so many per entry."""


class _Filling:
    """Progressive filling in flight: who still rises, and what capacity is left.

    The entries lie in a table of a few columns, one column after another in memory (the minimum
    over a row is then a few vector instructions), and one or more rows a flow. Cells that a row
    does not need point to a last link without limit and load nothing. Frozen flows stay in the
    table at a level below all others until a smaller table is worth its making.
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
        self._is_frozen = np.zeros(len(self._flows), dtype=bool)
        self.num_rising = len(self._flows)
        self._left, self._link_name = np.append(capacity, np.inf), np.arange(len(capacity))
        link: NDArray[np.integer[Any]] = incidence.link
        if len(capacity) > SPARSE * len(link):
            self._link_name, link = distinct(link, len(capacity))
            self._left = self._left[np.append(self._link_name, len(capacity))]
        layout = lay_out(incidence.indptr[self._flows], counts[self._flows])
        self._starts = layout.starts
        self._table = layout.fill(link, len(self._link_name))
        share = self._per_row((weight * multiplicity)[self._flows])
        # One row of loads stands for all columns where every coefficient is 1.
        is_plain = bool((incidence.coef == 1).all())
        self._load = share[None, :] if is_plain else layout.fill(incidence.coef, 0.0) * share
        self._is_count = is_plain and bool((share == 1).all())
        self._num_on_link = np.bincount(self._table.reshape(-1), minlength=len(self._left))

    def settle_round(self) -> None:
        """Freeze the flows of every locally tightest link, and those that reach their caps."""
        # Summed afresh, not carried on: what is left of a large sum would be rounding.
        load = self._num_on_link if self._is_count else self._by_link(self._table, self._load)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = self._left / load
        level[-1] = np.inf
        entry = level.take(self._table)
        flow_level = np.minimum(self._least(entry), self._cap_level)
        capped = (self._cap_level <= flow_level) & ~self._is_frozen
        flow_level[self._is_frozen] = -1
        # A link is locally tightest if it is a tightest one for every flow on it that rises.
        tight = np.flatnonzero(entry <= self._per_row(flow_level * (1 + TIE_TOLERANCE)))
        link = self._table.reshape(-1).take(tight)
        settled = np.bincount(link, minlength=len(level)) == self._num_on_link
        settled[-1] = False
        hit = np.flatnonzero(settled.take(link))
        flow = self._flow_of_row(tight[hit] % self._table.shape[1])
        self.bottleneck[self._flows[flow]] = self._link_name[link[hit]]
        freeze = capped.copy()
        freeze[flow] = True
        self._freeze(np.flatnonzero(freeze), flow_level, capped)
        if 0 < self.num_rising < PACK_BELOW * len(self._flows):
            self._pack()

    def _freeze(self, index: IntArray, flow_level: FloatArray, capped: BoolArray) -> None:
        flows, level = self._flows[index], flow_level[index]
        self.rate[flows] = np.where(capped[index], self._cap[flows], self._weight[flows] * level)
        self._is_frozen[index] = True
        self.num_rising -= len(index)
        rows, row_level = self._rows_of(index, level)
        table, load = self._table.take(rows, axis=1), self._load.take(rows, axis=1)
        self._load[:, rows] = 0
        self._num_on_link -= np.bincount(table.reshape(-1), minlength=len(self._left))
        load *= np.where(np.isinf(row_level), 0.0, row_level)
        self._left -= self._by_link(table, load)
        np.maximum(self._left, 0, out=self._left)

    def _pack(self) -> None:
        """Leave the frozen flows and the links that only they used out of the table."""
        keep = np.flatnonzero(~self._is_frozen)
        rows, _ = self._rows_of(keep, self._cap_level[keep])
        if self._starts is not None:
            num_rows = np.diff(self._starts)[keep]
            self._starts = np.concatenate([[0], np.cumsum(num_rows)])
        self._flows, self._cap_level = self._flows[keep], self._cap_level[keep]
        self._is_frozen = np.zeros(len(keep), dtype=bool)
        self._table, self._load = self._table.take(rows, axis=1), self._load.take(rows, axis=1)
        last = len(self._left) - 1
        if self._table.size < last:
            used, table = distinct(np.append(self._table.reshape(-1), last), last + 1)
            self._table = table[:-1].reshape(self._table.shape)
            self._left, self._link_name = self._left[used], self._link_name[used[:-1]]
            self._num_on_link = self._num_on_link[used]

    def _by_link(self, table: IntArray, amount: FloatArray) -> FloatArray:
        cells = np.broadcast_to(amount, table.shape).reshape(-1)
        total = np.bincount(table.reshape(-1), weights=cells, minlength=len(self._left))
        return total.astype(np.float64, copy=False)

    # -- flows and their rows; None as starts means one row each ----------------------------

    def _least(self, cells: FloatArray) -> FloatArray:
        rows: FloatArray = cells.min(axis=0)
        return rows if self._starts is None else np.minimum.reduceat(rows, self._starts[:-1])

    def _per_row(self, values: FloatArray) -> FloatArray:
        return values if self._starts is None else np.repeat(values, np.diff(self._starts))

    def _flow_of_row(self, rows: IntArray) -> IntArray:
        return rows if self._starts is None else np.searchsorted(self._starts, rows, "right") - 1

    def _rows_of(self, index: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Rows of the flows at ``index``, and the value of each row's flow."""
        if self._starts is None:
            return index, values
        num_rows = np.diff(self._starts)[index]
        return runs(self._starts[index], num_rows), np.repeat(values, num_rows)
