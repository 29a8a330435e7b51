"""Flows with routes, start times and dependencies, run to their ends on the simpy clock.

Between events the rates are max-min fair. All flows that start or end at one time are one batch;
only the flows that are connected to a change through shared links are solved anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from simnet.engine.fluid_errors import check_flows, why_stuck
from simnet.sharing.incidence import Incidence, distinct, runs, take_rows, transpose
from simnet.sharing.max_min import max_min_rates

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SAME_TIME = 1e-12
"""Relative: events this close are one batch."""
SAME_RATE = 1e-12
"""Relative: a rate this close to the old one leaves the finish time as it was."""
MAX_SPREAD = 16
"""Steps over shared links from flow to flow, after which all active flows count as connected."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowSet:
    """Flows to run."""

    routes: Incidence
    """Links of each flow and the share of its rate on them."""
    size_bytes: FloatArray
    """Shape (num_flows,)."""
    start_s: FloatArray
    """Start, counted from 0 or from the end of the last flow that it comes after."""
    latency_s: FloatArray
    """Wait after the start, before bytes flow."""
    after_indptr: IntArray
    """Start of each flow's entries in ``after``, shape (num_flows + 1,)."""
    after: IntArray
    """Flows that must have ended before."""
    weight: FloatArray | None = None
    """Share weights; equal where omitted."""
    cap: FloatArray | None = None
    """Largest rate of each flow [bytes/s]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowResult:
    """When each flow ended, and the work that it took."""

    finish_s: FloatArray
    """Shape (num_flows,)."""
    link_bytes: FloatArray
    """Integral of the rates over time on each link, shape (num_links,) [bytes]."""
    peak_share: FloatArray
    """Largest share of each link's capacity in use, shape (num_links,)."""
    num_events: int
    num_solves: int


def run_flows(flows: FlowSet, capacity: FloatArray) -> FlowResult:
    """Finish times of all flows over links of the given capacity [bytes/s].

    Raises
    ------
    SpecError
        When flows wait for one another in a circle, or name flows or links that do not exist.
    TopologyError
        When flows never end because a link on their path, or their own cap, is zero.
    """
    check_flows(flows, capacity)
    run = _FluidRun(flows, capacity)
    environment = simpy.Environment()
    environment.process(run.clock(environment))
    environment.run()
    if np.isnan(run.finish).any():
        raise why_stuck(flows, capacity, run.finish)
    return FlowResult(
        finish_s=run.finish,
        link_bytes=run.link_bytes,
        peak_share=run.peak,
        num_events=run.num_events,
        num_solves=run.num_solves,
    )


class _FluidRun:
    """State over time."""

    def __init__(self, flows: FlowSet, capacity: FloatArray) -> None:
        self.flows, self.capacity = flows, capacity
        count = flows.routes.num_flows
        self.rate = np.zeros(count)
        self.left = flows.size_bytes.astype(np.float64)
        self.since = np.zeros(count)
        self.ends = np.full(count, np.inf)
        self.finish = np.full(count, np.nan)
        self.active: IntArray = np.zeros(0, dtype=np.int64)
        self.link_bytes = np.zeros(len(capacity))
        self.peak = np.zeros(len(capacity))
        self.num_events = 0
        self.num_solves = 0
        self._waits_for = np.diff(flows.after_indptr)
        self._followers = transpose(flows.after_indptr, flows.after, count)
        self.left[_is_free(flows, capacity)] = 0
        self._starts: list[tuple[float, int, FloatArray, IntArray]] = []
        self._num_scheduled = 0
        self._schedule(np.flatnonzero(self._waits_for == 0), 0.0)

    def clock(self, environment: simpy.Environment) -> Generator[simpy.Event, None, None]:
        """Step from batch to batch of starts and ends."""
        while True:
            next_end = float(self.ends[self.active].min(initial=np.inf))
            next_start = self._starts[0][0] if self._starts else np.inf
            now = min(next_end, next_start)
            if not np.isfinite(now):
                return
            if now > environment.now:
                yield environment.timeout(now - environment.now)
            self._batch(now)

    def _batch(self, now: float) -> None:
        limit = now * (1 + SAME_TIME)
        is_over = self.ends[self.active] <= limit
        ended = self.active[is_over]
        self._account(ended, now)
        self._finish(ended, now)
        due = self._due(limit)
        is_empty = self.left[due] <= 0
        self._finish(due[is_empty], now)
        fresh = due[~is_empty]
        self.since[fresh] = now
        self.num_events += len(ended) + len(due)
        staying = self.active[~is_over]
        self.active = np.concatenate([staying, fresh])
        if len(self.active) and len(ended) + len(fresh):
            self._solve(ended, len(staying), now)

    def _finish(self, flows: IntArray, now: float) -> None:
        """Note the ends, and schedule the flows that have waited for the last of them."""
        self.finish[flows] = now
        if len(flows) == 0 or len(self.flows.after) == 0:
            return
        start, end = self._followers.indptr[flows], self._followers.indptr[flows + 1]
        followers = self._followers.row[runs(start, end - start)]
        np.subtract.at(self._waits_for, followers, 1)
        self._schedule(np.unique(followers[self._waits_for[followers] == 0]), now)

    def _schedule(self, flows: IntArray, now: float) -> None:
        """Put flows on the list of starts, as one block in order of time."""
        if len(flows) == 0:
            return
        begin = now + self.flows.start_s[flows] + self.flows.latency_s[flows]
        order = np.argsort(begin, kind="stable")
        begin, flows = begin[order], flows[order].astype(np.int64)
        self._num_scheduled += 1
        heapq.heappush(self._starts, (float(begin[0]), self._num_scheduled, begin, flows))

    def _due(self, limit: float) -> IntArray:
        """Flows that start now, off the list."""
        due: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        while self._starts and self._starts[0][0] <= limit:
            _, serial, begin, flows = heapq.heappop(self._starts)
            count = int(np.searchsorted(begin, limit, "right"))
            due.append(flows[:count])
            begin, flows = begin[count:], flows[count:]
            if len(flows):
                heapq.heappush(self._starts, (float(begin[0]), serial, begin, flows))
        return np.concatenate(due)

    def _solve(self, ended: IntArray, num_staying: int, now: float) -> None:
        """Find new rates for all that a change can reach; flows after those that stay are new."""
        routes = take_rows(self.flows.routes, self.active)
        touched = self._reach(routes, ended, num_staying)
        flows = self.active[touched]
        if len(flows) == 0:
            return
        if len(flows) < len(self.active):
            routes = take_rows(routes, touched)
        weight, cap = self.flows.weight, self.flows.cap
        rates = max_min_rates(
            self.capacity,
            routes,
            weight=None if weight is None else weight[flows],
            cap=None if cap is None else cap[flows],
        )
        self.num_solves += 1
        old = self.rate[flows]
        is_new = (np.abs(rates.rate - old) > SAME_RATE * old) | (old == 0)
        self._set_rates(flows[is_new], rates.rate[is_new], now)
        self._observe(routes, rates.rate)

    def _reach(self, routes: Incidence, ended: IntArray, num_staying: int) -> IntArray:
        """Positions of the active flows that are connected to a change through shared links."""
        count = routes.num_flows
        if num_staying == 0:
            return np.arange(count)
        is_changed = np.zeros(len(self.capacity), dtype=bool)
        is_changed[take_rows(self.flows.routes, ended).link] = True
        is_changed[routes.link[routes.indptr[num_staying] :]] = True
        filled = np.flatnonzero(np.diff(routes.indptr))
        reached = np.zeros(count, dtype=bool)
        reached[num_staying:] = True
        for _ in range(MAX_SPREAD):
            before = int(reached.sum())
            touches = is_changed[routes.link]
            reached[filled] |= np.logical_or.reduceat(touches, routes.indptr[filled])
            if int(reached.sum()) == before:
                return np.flatnonzero(reached)
            is_changed[routes.link[np.repeat(reached, np.diff(routes.indptr))]] = True
        return np.arange(count)

    def _set_rates(self, flows: IntArray, rate: FloatArray, now: float) -> None:
        self._account(flows, now)
        self.rate[flows] = rate
        with np.errstate(divide="ignore"):
            self.ends[flows] = now + self.left[flows] / rate

    def _account(self, flows: IntArray, now: float) -> None:
        """Bytes that flows moved since their rates last changed."""
        moved = self.rate[flows] * (now - self.since[flows])
        is_over = self.ends[flows] <= now * (1 + SAME_TIME)
        moved = np.where(is_over, self.left[flows], np.minimum(moved, self.left[flows]))
        self.left[flows] -= moved
        self.since[flows] = now
        if not moved.any():
            return
        rows = take_rows(self.flows.routes, flows)
        np.add.at(self.link_bytes, rows.link, rows.coef * np.repeat(moved, np.diff(rows.indptr)))

    def _observe(self, routes: Incidence, rate: FloatArray) -> None:
        link, place = distinct(routes.link, len(self.capacity))
        amount = routes.coef * np.repeat(rate, np.diff(routes.indptr))
        used = np.zeros(len(link))
        np.add.at(used, place, amount)
        capacity = self.capacity[link]
        share = np.divide(used, capacity, out=np.zeros(len(link)), where=capacity > 0)
        self.peak[link] = np.maximum(self.peak[link], share)


def _is_free(flows: FlowSet, capacity: FloatArray) -> BoolArray:
    """Flows that nothing holds back, so that they take no time."""
    limits = np.zeros(len(flows.routes.link) + 1, dtype=np.int64)
    np.cumsum(np.isfinite(capacity)[flows.routes.link], out=limits[1:])
    is_free: BoolArray = np.diff(limits[flows.routes.indptr]) == 0
    return is_free if flows.cap is None else is_free & np.isinf(flows.cap)
