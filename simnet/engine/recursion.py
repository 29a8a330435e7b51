"""The approximate rung: a max-plus recursion over the step, one vector over replicas an operation.

Where nearly every replica differs (a speed for every node, hashed routes that collide) behaviour
classes do not help. Here every transfer keeps one rate for its whole life, so a step is a
recursion of sums and maxima. Three rates are used:

- estimate: the fair rate among the tasks of the same transfer, all under way at once;
- fastest: the task alone on its path, which no fair sharing exceeds;
- slowest: on each link its share among everything that may ever be there, ``c / n``, which no
  max-min fair rate falls below.

Finish times are monotone in the durations (only sums and maxima occur), so the step times of
the fastest and the slowest rates are a bracket of the exact one, as long as
no more uses of a transfer overlap than in the slow schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simnet.engine.program import Program, Transfer
from simnet.engine.rates import RateBook, bits_to_index
from simnet.engine.trace import BUBBLE, FlowSpan, StepTrace, TraceSpan, spread_bytes
from simnet.errors import Problem, TopologyError
from simnet.workload.ops import Compute, Start, Wait

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Step times between which the exact one lies [s]."""

    low_s: float
    high_s: float

    def width(self, step_time_s: float) -> float:
        """Width as a fraction of the step."""
        return (self.high_s - self.low_s) / step_time_s


def run_recursion(program: Program) -> tuple[StepTrace, Bracket]:
    """Approximate trace of one step, and the bracket of its step time.

    Raises
    ------
    TopologyError
        When a transfer never ends or is never started.
    """
    book = RateBook(program=program, is_split=False)
    own = _own_rates(program, book)
    alone = [book.lone_rates(g) for g in range(len(program.geometries))]
    trace = _Recursion(program, own).run(book)
    low = _Recursion(program, alone).run(book)
    high = _worst(program, alone)
    return trace, Bracket(
        low_s=min(low.step_time_s, trace.step_time_s),
        high_s=max(high, trace.step_time_s),
    )


def _own_rates(program: Program, book: RateBook) -> list[FloatArray]:
    """Fair rate of each task among those of its own geometry, per geometry [bytes/s]."""
    found: list[FloatArray] = []
    for index, geometry in enumerate(program.geometries):
        count = geometry.num_tasks
        rate = np.zeros(count)
        for mask, value in book.solve(((index, (1 << count) - 1),)).parts[0]:
            rate[bits_to_index(mask, count)] = value
        found.append(rate)
    return found


def _worst(program: Program, alone: Sequence[FloatArray]) -> float:
    """Step time with every task at its share among all that may overlap [s].

    How many uses of one transfer overlap is found by trying: the count that the resulting
    schedule shows must not exceed the count that was assumed.
    """
    overlap = np.ones(len(program.transfers))
    while True:
        run = _Recursion(program, _least_rates(program, alone, overlap))
        step_time_s = run.run(None).step_time_s
        seen = run.overlaps()
        if np.all(seen <= overlap):
            return step_time_s
        overlap = np.maximum(overlap, seen)


def _least_rates(program: Program, alone: Sequence[FloatArray], overlap: FloatArray) -> list[FloatArray]:
    size = len(program.capacity)
    load = np.zeros(size)
    copies = np.zeros(len(program.geometries))
    np.add.at(copies, [t.geometry for t in program.transfers], overlap)
    for geometry, count in zip(program.geometries, copies.tolist(), strict=True):
        rows = geometry.incidence
        weight = np.repeat(geometry.weight, np.diff(rows.indptr))
        load += count * np.bincount(rows.link, weights=rows.coef * weight, minlength=size)
    level = np.divide(program.capacity, load, out=np.full(size, np.inf), where=load > 0)
    found: list[FloatArray] = []
    for geometry, fastest in zip(program.geometries, alone, strict=True):
        rows = geometry.incidence
        least = fastest.copy()
        filled = np.flatnonzero(np.diff(rows.indptr) > 0)
        if len(filled):
            share = np.minimum.reduceat(level[rows.link], rows.indptr[filled])
            least[filled] = np.minimum(least[filled], share * geometry.weight[filled])
        found.append(least)
    return found


@dataclass(slots=True, kw_only=True)
class _Use:
    """One run of a transfer: when each starter started, and when each task arrives."""

    start_s: FloatArray
    missing: int
    begin_s: FloatArray | None = None
    end_s: FloatArray | None = None


@dataclass(slots=True, kw_only=True)
class _Sets:
    """Starters and waiters of a transfer as index arrays."""

    starter_task: NDArray[np.int64]
    waiter_task: NDArray[np.int64]
    starter_roles: int
    duration_s: FloatArray
    spans: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)


class _Recursion:
    """One pass over the step with fixed rates."""

    def __init__(self, program: Program, rates: Sequence[FloatArray]) -> None:
        self.program = program
        self.role_of = np.concatenate([np.full(role.num_actors, index) for index, role in enumerate(program.roles)])
        self.sets = [self._sets(t, rates[t.geometry]) for t in program.transfers]
        self.uses: dict[tuple[int, int], _Use] = {}
        self.now = [np.zeros(role.num_actors) for role in program.roles]
        self.pc = [0] * len(program.roles)
        self.spent: list[dict[str, float]] = [{} for _ in program.roles]
        self.spans: list[TraceSpan] = []
        self.num_ops = 0

    def _sets(self, transfer: Transfer, rate: FloatArray) -> _Sets:
        tasks = np.arange(len(transfer.size_bytes))
        with np.errstate(divide="ignore", invalid="ignore"):
            moving = np.where(transfer.size_bytes > 0, transfer.size_bytes / rate, 0.0)
        return _Sets(
            starter_task=np.repeat(tasks, np.diff(transfer.starters.indptr)),
            waiter_task=np.repeat(tasks, np.diff(transfer.waiters.indptr)),
            starter_roles=len(np.unique(self.role_of[transfer.starters.actor])),
            duration_s=transfer.latency_s + moving,
        )

    def run(self, book: RateBook | None) -> StepTrace:
        """Return the trace of the pass."""
        moved = True
        while moved:
            moved = False
            for role in range(len(self.program.roles)):
                moved |= self._advance(role)
        stuck = [role.name for role, pc in zip(self.program.roles, self.pc, strict=True) if pc < len(role.ops)]
        finish = np.concatenate(self.now)
        if stuck or not np.all(np.isfinite(finish)):
            raise TopologyError(
                Problem(
                    message="ranks wait for ever",
                    found=", ".join(stuck) or "a transfer whose path carries nothing",
                )
            )
        return self._trace(finish, book)

    def _advance(self, role: int) -> bool:
        """Run a role until it waits for a start that has not been seen; True if it moved."""
        ops = self.program.roles[role].ops
        first = self.pc[role]
        while self.pc[role] < len(ops):
            op = ops[self.pc[role]]
            if isinstance(op, Compute):
                self._compute(role, op)
            elif isinstance(op, Start):
                self._start(role, op)
            elif not self._wait(role, op):
                break
            self.pc[role] += 1
            self.num_ops += 1
        return self.pc[role] > first

    def _compute(self, role: int, op: Compute) -> None:
        record = self.program.roles[role]
        first = record.first_actor
        took = op.duration_s * self.program.slowdown[first : first + record.num_actors]
        begin = float(self.now[role][0])
        self.now[role] = self.now[role] + took
        self._spend(role, op.category.value, took)
        self._span(role, begin, float(self.now[role][0]), "compute")

    def _use(self, transfer: int, instance: int) -> _Use:
        key = (transfer, instance)
        found = self.uses.get(key)
        if found is None:
            found = self.uses[key] = _Use(
                start_s=np.zeros(self.program.num_actors),
                missing=self.sets[transfer].starter_roles,
            )
        return found

    def _start(self, role: int, op: Start) -> None:
        use = self._use(op.comm, op.instance)
        record = self.program.roles[role]
        use.start_s[record.first_actor : record.first_actor + record.num_actors] = self.now[role]
        use.missing -= 1
        if use.missing:
            return
        transfer, sets = self.program.transfers[op.comm], self.sets[op.comm]
        begin = np.zeros(len(transfer.size_bytes))
        np.maximum.at(begin, sets.starter_task, use.start_s[transfer.starters.actor])
        use.begin_s, use.end_s = begin, begin + sets.duration_s

    def _wait(self, role: int, op: Wait) -> bool:
        use = self._use(op.comm, op.instance)
        if use.begin_s is None or use.end_s is None:
            return False
        record = self.program.roles[role]
        entries, members = self._members(op.comm, role, record.first_actor, record.num_actors)
        now = self.now[role]
        began, ended = np.full(len(now), -np.inf), now.copy()
        np.maximum.at(began, members, use.begin_s[self.sets[op.comm].waiter_task[entries]])
        np.maximum.at(ended, members, use.end_s[self.sets[op.comm].waiter_task[entries]])
        middle = np.clip(began, now, ended)
        self._spend(role, BUBBLE, middle - now)
        category = self.program.transfers[op.comm].category.value
        self._spend(role, category, ended - middle)
        self._span(role, float(now[0]), float(middle[0]), BUBBLE)
        self._span(role, float(middle[0]), float(ended[0]), "exposed")
        self.now[role] = ended
        return True

    def _members(self, transfer: int, role: int, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries of the transfer's waiters that belong to a role, and which members they are."""
        spans = self.sets[transfer].spans
        found = spans.get(role)
        if found is None:
            actor = self.program.transfers[transfer].waiters.actor
            entries = np.flatnonzero((actor >= first) & (actor < first + count))
            found = spans[role] = (entries, actor[entries] - first)
        return found

    def overlaps(self) -> FloatArray:
        """Most uses of each transfer that are under way at once, shape (num_transfers,)."""
        times: dict[int, list[tuple[float, float]]] = {}
        for (transfer, _), use in self.uses.items():
            if use.begin_s is not None and use.end_s is not None:
                times.setdefault(transfer, []).append((float(use.begin_s.min()), float(use.end_s.max())))
        most = np.ones(len(self.program.transfers))
        for transfer, spans in times.items():
            most[transfer] = _deepest(spans)
        return most

    def _spend(self, role: int, category: str, seconds: FloatArray) -> None:
        spent = self.spent[role]
        spent[category] = spent.get(category, 0.0) + float(seconds.mean())

    def _span(self, role: int, start_s: float, end_s: float, kind: str) -> None:
        if end_s > start_s:
            self.spans.append(TraceSpan(role=role, op=self.pc[role], start_s=start_s, end_s=end_s, kind=kind))

    def _trace(self, finish: FloatArray, book: RateBook | None) -> StepTrace:
        step_time_s = float(finish.max())
        for role, spent in enumerate(self.spent):
            spent[BUBBLE] = spent.get(BUBBLE, 0.0) + float((step_time_s - self.now[role]).mean())
        runs = np.zeros(len(self.program.transfers))
        for transfer, _ in self.uses:
            runs[transfer] += 1
        moved = tuple(
            count * transfer.size_bytes for count, transfer in zip(runs.tolist(), self.program.transfers, strict=True)
        )
        size = len(self.program.capacity)
        return StepTrace(
            step_time_s=step_time_s,
            time_by_category_s=tuple(self.spent),
            finish_s=finish,
            spans=tuple(self.spans),
            flows=tuple(
                FlowSpan(
                    transfer=transfer,
                    instance=instance,
                    start_s=float(use.begin_s[0]),
                    end_s=float(use.end_s[0]),
                )
                for (transfer, instance), use in self.uses.items()
                if use.begin_s is not None and use.end_s is not None
            ),
            bytes_by_transfer=moved,
            resource_bytes=spread_bytes(self.program, moved),
            peak_share=np.zeros(size) if book is None else book.peak,
            bound_by=np.zeros(size, dtype=bool) if book is None else book.bound_by,
            num_events=self.num_ops,
            num_solves=0 if book is None else book.num_solves,
            num_classes=self.program.num_actors,
            largest_solve=0 if book is None else book.largest_solve,
        )


def _deepest(spans: Sequence[tuple[float, float]]) -> int:
    """Most intervals that cover one point; touching ends do not overlap."""
    marks = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    depth = most = 0
    for _, change in marks:
        depth += change
        most = max(most, depth)
    return max(most, 1)
