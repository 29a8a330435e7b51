"""Flows with routes, start times and dependencies, run to their ends on the simpy clock.

Between events the rates are max-min fair. All flows that end at one time are one batch; only the
flows that are connected to a change through shared links are solved anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from simnet.engine.incidence import Incidence, take_rows
from simnet.engine.sharing import max_min_rates
from simnet.errors import Problem, TopologyError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SAME_TIME = 1e-12
"""Relative: events this close are one batch."""
MAX_NAMED = 8
"""Stuck flows that an error names."""


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
    TopologyError
        When flows never end: a dead link on their path, or a cycle of dependencies.
    """
    run = _FluidRun(flows, capacity)
    environment = simpy.Environment()
    environment.process(run.clock(environment))
    environment.run()
    return run.result()


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
        self.is_active = np.zeros(count, dtype=bool)
        self.link_bytes = np.zeros(len(capacity))
        self.peak = np.zeros(len(capacity))
        self.num_events = 0
        self.num_solves = 0
        self._waits_for = np.diff(flows.after_indptr)
        self._children = _children(flows)
        self._by_link = _transpose(flows.routes, len(capacity))
        self._starts: list[tuple[float, int]] = []
        self._schedule(np.flatnonzero(self._waits_for == 0), 0.0)

    def clock(self, environment: simpy.Environment) -> Generator[simpy.Event, None, None]:
        """Step from batch to batch of starts and ends."""
        while True:
            active = np.flatnonzero(self.is_active)
            next_end = float(self.ends[active].min(initial=np.inf))
            next_start = self._starts[0][0] if self._starts else np.inf
            now = min(next_end, next_start)
            if not np.isfinite(now):
                return
            if now > environment.now:
                yield environment.timeout(now - environment.now)
            self._batch(now, active)

    def _batch(self, now: float, active: IntArray) -> None:
        limit = now * (1 + SAME_TIME)
        ended = active[self.ends[active] <= limit]
        self._account(ended, now)
        self.is_active[ended] = False
        self.finish[ended] = now
        self._release(ended, now)
        started: list[int] = []
        while self._starts and self._starts[0][0] <= limit:
            started.append(heapq.heappop(self._starts)[1])
        fresh = np.array(started, dtype=np.int64)
        empty = fresh[self.left[fresh] <= 0]
        self.finish[empty] = now
        self._release(empty, now)
        fresh = fresh[self.left[fresh] > 0]
        self.is_active[fresh] = True
        self.since[fresh] = now
        self.num_events += len(ended) + len(started)
        self._solve(np.concatenate([ended, fresh]), now)

    def _solve(self, changed: IntArray, now: float) -> None:
        touched = self._component(changed)
        if len(touched) == 0:
            return
        routes = take_rows(self.flows.routes, touched)
        weight, cap = self.flows.weight, self.flows.cap
        rates = max_min_rates(
            self.capacity,
            routes,
            weight=None if weight is None else weight[touched],
            cap=None if cap is None else cap[touched],
        )
        self.num_solves += 1
        moved = np.abs(rates.rate - self.rate[touched]) > 0
        new = touched[moved]
        self._account(new, now)
        self.rate[new] = rates.rate[moved]
        with np.errstate(divide="ignore"):
            self.ends[new] = now + self.left[new] / self.rate[new]
        self._observe(routes, rates.rate)

    def _observe(self, routes: Incidence, rate: FloatArray) -> None:
        used = np.bincount(
            routes.link,
            weights=routes.coef * np.repeat(rate, np.diff(routes.indptr)),
            minlength=len(self.capacity),
        )
        share = np.divide(used, self.capacity, out=np.zeros_like(used), where=self.capacity > 0)
        np.maximum(self.peak, share, out=self.peak)

    def _account(self, which: IntArray, now: float) -> None:
        """Bytes that flows moved since their rates last changed."""
        moved = self.rate[which] * (now - self.since[which])
        ending = self.ends[which] <= now * (1 + SAME_TIME)
        moved = np.where(ending, self.left[which], np.minimum(moved, self.left[which]))
        self.left[which] -= moved
        self.since[which] = now
        rows = take_rows(self.flows.routes, which)
        spread = rows.coef * np.repeat(moved, np.diff(rows.indptr))
        self.link_bytes += np.bincount(rows.link, weights=spread, minlength=len(self.capacity))

    def _component(self, changed: IntArray) -> IntArray:
        """Active flows connected to the changed ones through shared links."""
        seen_link = np.zeros(len(self.capacity), dtype=bool)
        seen = np.zeros(len(self.left), dtype=bool)
        frontier = changed
        seen[frontier[self.is_active[frontier]]] = True
        while len(frontier):
            links = np.unique(take_rows(self.flows.routes, frontier).link)
            links = links[~seen_link[links]]
            seen_link[links] = True
            found = take_rows(self._by_link, links.astype(np.int64)).link
            found = np.unique(found[self.is_active[found] & ~seen[found]])
            seen[found] = True
            frontier = found.astype(np.int64)
        return np.flatnonzero(seen)

    def _release(self, ended: IntArray, now: float) -> None:
        if len(ended) == 0 or len(self.flows.after) == 0:
            return
        children = take_rows(self._children, ended).link
        np.subtract.at(self._waits_for, children, 1)
        freed = np.unique(children[self._waits_for[children] == 0])
        self._schedule(freed.astype(np.int64), now)

    def _schedule(self, which: IntArray, now: float) -> None:
        begin = now + self.flows.start_s[which] + self.flows.latency_s[which]
        for time_s, flow in zip(begin.tolist(), which.tolist(), strict=True):
            heapq.heappush(self._starts, (time_s, flow))

    def result(self) -> FlowResult:
        """Finish times, if all flows ended."""
        stuck = np.flatnonzero(np.isnan(self.finish))
        if len(stuck):
            raise TopologyError(
                Problem(
                    message="flows never end",
                    found=f"{len(stuck)}, first of them {stuck[:MAX_NAMED].tolist()}",
                    hint="a link on their path carries nothing, or they wait for each other",
                )
            )
        return FlowResult(
            finish_s=self.finish,
            link_bytes=self.link_bytes,
            peak_share=self.peak,
            num_events=self.num_events,
            num_solves=self.num_solves,
        )


def _children(flows: FlowSet) -> Incidence:
    rows = Incidence(
        indptr=flows.after_indptr,
        link=flows.after.astype(np.int32),
        coef=np.ones(len(flows.after)),
    )
    return _transpose(rows, flows.routes.num_flows)


def _transpose(rows: Incidence, num_columns: int) -> Incidence:
    """Columns of an incidence as rows."""
    order = np.argsort(rows.link, kind="stable")
    counts = np.bincount(rows.link, minlength=num_columns)
    indptr = np.zeros(num_columns + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    row = np.repeat(np.arange(rows.num_flows), np.diff(rows.indptr))
    return Incidence(indptr=indptr, link=row[order].astype(np.int32), coef=rows.coef[order])
