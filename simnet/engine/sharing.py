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

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

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
    while filling.settle_round():
        rounds += 1
    return Rates(rate=filling.rate, bottleneck=filling.bottleneck, rounds=rounds)


COMPACT_BELOW = 0.75
"""Entries are packed anew when fewer than this share of them still rises."""


class _Filling:
    """Progressive filling in flight: what is frozen, and what capacity is left.

    Entries are kept by flow and by link, and packed when enough of them are frozen; until then
    a frozen flow has an infinite level, so it binds nothing.
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
        num_flows = incidence.num_flows
        self.rate = np.full(num_flows, np.inf)
        self.bottleneck = np.full(num_flows, NO_LINK, dtype=np.int64)
        self._cap, self._weight = cap, weight
        counts = np.diff(incidence.indptr)
        alone = counts == 0
        self.rate[alone] = cap[alone]
        self._flows = np.flatnonzero(~alone)
        self._cap_level = (cap / weight)[self._flows]
        row = np.repeat(np.arange(len(self._flows)), counts[self._flows])
        is_used = np.bincount(incidence.link, minlength=len(capacity)) > 0
        self._link_name = np.flatnonzero(is_used)
        link = (np.cumsum(is_used) - 1)[incidence.link]
        self._left = capacity[self._link_name].astype(np.float64)
        flow = self._flows[row]
        load = incidence.coef * (weight * multiplicity)[flow]
        self._active = np.bincount(link, weights=load, minlength=len(self._left))
        self._num_rising = len(self._flows)
        self._pack(row, link, load, _stable_order(link))

    def _pack(self, row: IntArray, link: IntArray, load: FloatArray, by_link: IntArray) -> None:
        self._row, self._link, self._load, self._by_link = row, link, load, by_link
        if len(row) == 0:
            return
        self._row_start = _run_starts(row)
        sorted_link = link[by_link]
        self._link_start = _run_starts(sorted_link)
        self._live = sorted_link[self._link_start]
        self._link_count = np.diff(self._link_start, append=len(by_link))
        self._num_on_link = self._link_count.copy()
        self._row_by_link = row[by_link]
        self._is_frozen = np.zeros(len(self._flows), dtype=bool)

    def settle_round(self) -> bool:
        """Freeze the flows of every locally tightest link; False when none is left."""
        if self._num_rising == 0:
            return False
        level = np.full(len(self._left), np.inf)
        live = self._live[self._num_on_link > 0]
        level[live] = self._left[live] / self._active[live]
        link_level = np.minimum.reduceat(level[self._link], self._row_start)
        flow_level = np.minimum(link_level, self._cap_level)
        flow_level[self._is_frozen] = np.inf
        tightest = np.minimum.reduceat(flow_level[self._row_by_link], self._link_start)
        settled = level[self._live] <= tightest * (1 + TIE_TOLERANCE)
        settled &= self._num_on_link > 0
        freeze = self._cap_level <= link_level
        hit = np.flatnonzero(np.repeat(settled, self._link_count))
        rows = self._row_by_link[hit]
        self._name_bottlenecks(rows, self._by_link[hit])
        freeze[rows] = True
        freeze &= ~self._is_frozen
        self._freeze(np.flatnonzero(freeze), flow_level)
        return True

    def _name_bottlenecks(self, rows: IntArray, entries: IntArray) -> None:
        rising = ~self._is_frozen[rows]
        flows = self._flows[rows[rising]]
        self.bottleneck[flows] = self._link_name[self._link[entries[rising]]]

    def _freeze(self, rows: IntArray, flow_level: FloatArray) -> None:
        flows = self._flows[rows]
        level = flow_level[rows]
        capped = self._cap_level[rows] <= level
        self.rate[flows] = np.where(capped, self._cap[flows], self._weight[flows] * level)
        self.bottleneck[flows[capped]] = NO_LINK
        self._is_frozen[rows] = True
        self._num_rising -= len(rows)
        is_new = np.zeros(len(self._flows), dtype=bool)
        is_new[rows] = True
        entry = np.flatnonzero(is_new[self._row])
        link, load = self._link[entry], self._load[entry]
        num_links = len(self._left)
        self._active -= np.bincount(link, weights=load, minlength=num_links)
        load *= flow_level[self._row[entry]]
        self._left -= np.bincount(link, weights=load, minlength=num_links)
        np.maximum(self._left, 0, out=self._left)
        if self._num_rising < COMPACT_BELOW * len(self._flows):
            self._compact()
        else:
            self._num_on_link -= np.bincount(link, minlength=num_links)[self._live]

    def _compact(self) -> None:
        """Drop what is frozen, keeping both orders without sorting again."""
        keep_row = ~self._is_frozen
        keep = keep_row[self._row]
        new_row = np.cumsum(keep_row) - 1
        new_entry = np.cumsum(keep) - 1
        by_link = self._by_link[keep[self._by_link]]
        self._flows = self._flows[keep_row]
        self._cap_level = self._cap_level[keep_row]
        self._pack(
            new_row[self._row[keep]], self._link[keep], self._load[keep], new_entry[by_link]
        )


def _stable_order(ids: IntArray) -> IntArray:
    """Positions sorted by id, then by position (one sort of packed keys; quicker than argsort)."""
    bits = max(len(ids) - 1, 1).bit_length()
    keys = (ids << bits) | np.arange(len(ids))
    keys.sort()
    return keys & ((1 << bits) - 1)


def _run_starts(sorted_ids: IntArray) -> IntArray:
    flags = np.empty(len(sorted_ids), dtype=bool)
    flags[0] = True
    np.not_equal(sorted_ids[1:], sorted_ids[:-1], out=flags[1:])
    return np.flatnonzero(flags)
