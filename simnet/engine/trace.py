"""What happened in a step: times by category, spans of one replica, bytes by resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simnet.engine.masks import bits_to_index
from simnet.engine.program import Program
from simnet.engine.rates import RateBook
from simnet.sharing.incidence import distinct
from simnet.workload.ops import Compute, Wait

FloatArray = NDArray[np.float64]
BUBBLE = "bubble"
"""Waiting for work that its sender has not finished: idle, not communication."""


class TraceSpan(NamedTuple):
    """One interval of the first actor of a role."""

    role: int
    op: int
    start_s: float
    end_s: float
    kind: str
    """``compute``, ``bubble`` or ``exposed``."""


class FlowSpan(NamedTuple):
    """One transfer instance that the first actors of its roles took part in."""

    transfer: int
    instance: int
    start_s: float
    end_s: float


_tuple = tuple.__new__
"""Makes a named tuple three times as fast as calling its class; a step has tens of thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """The outcome of one step."""

    step_time_s: float
    time_by_category_s: tuple[dict[str, float], ...]
    """Per role: mean seconds of its actors by category name, ``bubble`` included."""
    finish_s: FloatArray
    """When each actor was done, shape (num_actors,)."""
    spans: tuple[TraceSpan, ...]
    flows: tuple[FlowSpan, ...]
    bytes_by_transfer: tuple[FloatArray, ...]
    """Payload bytes moved by each task over the step, per transfer."""
    resource_bytes: FloatArray
    """Payload bytes over each resource, shape (num_resources,)."""
    peak_share: FloatArray
    """Largest share of the usable rate in use within one component, shape (num_resources,)."""
    bound_by: NDArray[np.bool_]
    """Resources that held a transfer back."""
    num_events: int
    num_solves: int
    num_classes: int
    largest_solve: int


@dataclass(slots=True, kw_only=True)
class TraceSink:
    """Collects what the executor reports."""

    program: Program
    num_events: int = 0
    num_classes: int = 0
    _spent: list[dict[str, float]] = field(init=False)
    _spans: list[TraceSpan] = field(default_factory=list)
    _flows: list[FlowSpan] = field(default_factory=list)
    _finish: FloatArray = field(init=False)
    _done: list[dict[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing spent."""
        self._spent = [{} for _ in self.program.roles]
        self._finish = np.zeros(self.program.num_actors)
        self._done = [{} for _ in self.program.transfers]

    def compute(self, role: int, mask: int, op: int, start_s: float, end_s: float) -> None:
        """Actors compute from start to end."""
        operation = self.program.roles[role].ops[op]
        assert isinstance(operation, Compute)
        self._spend(role, operation.category.value, mask, end_s - start_s)
        if mask & 1:
            self._spans.append(_tuple(TraceSpan, (role, op, start_s, end_s, "compute")))

    def waited(self, role: int, mask: int, op: int, since_s: float, started_s: float, now_s: float) -> None:
        """Actors waited since ``since_s`` for a transfer that started at ``started_s``."""
        if now_s <= since_s:
            return
        operation = self.program.roles[role].ops[op]
        assert isinstance(operation, Wait)
        middle = min(max(since_s, started_s), now_s)
        category = self.program.transfers[operation.comm].category.value
        if middle > since_s:
            self._spend(role, BUBBLE, mask, middle - since_s)
            if mask & 1:
                self._spans.append(_tuple(TraceSpan, (role, op, since_s, middle, BUBBLE)))
        self._spend(role, category, mask, now_s - middle)
        if mask & 1 and now_s > middle:
            self._spans.append(_tuple(TraceSpan, (role, op, middle, now_s, "exposed")))

    def moved(self, transfer: int, instance: int, mask: int, started_s: float, now_s: float) -> None:
        """Tasks of a transfer have arrived."""
        counts = self._done[transfer]
        counts[mask] = counts.get(mask, 0) + 1
        if mask & 1:
            self._flows.append(_tuple(FlowSpan, (transfer, instance, started_s, now_s)))

    def end(self, role: int, mask: int, now_s: float) -> None:
        """Actors have no operation left."""
        record = self.program.roles[role]
        self._finish[record.first_actor + bits_to_index(mask, record.num_actors)] = now_s

    def finish(self, step_time_s: float, book: RateBook) -> StepTrace:
        """Return the trace, with every actor's idle time to the end of the step as bubble."""
        means: list[dict[str, float]] = []
        for role, spent in zip(self.program.roles, self._spent, strict=True):
            mean = {name: total / role.num_actors for name, total in spent.items()}
            ends = self._finish[role.first_actor : role.first_actor + role.num_actors]
            idle = float(np.mean(step_time_s - ends))
            mean[BUBBLE] = mean.get(BUBBLE, 0.0) + idle
            means.append(mean)
        moved, resource_bytes = self._bytes()
        return StepTrace(
            step_time_s=step_time_s,
            time_by_category_s=tuple(means),
            finish_s=self._finish,
            spans=tuple(self._spans),
            flows=tuple(self._flows),
            bytes_by_transfer=moved,
            resource_bytes=resource_bytes,
            peak_share=book.peak,
            bound_by=book.bound_by,
            num_events=self.num_events,
            num_solves=book.filler.num_solves,
            num_classes=self.num_classes,
            largest_solve=book.filler.largest_solve,
        )

    def _bytes(self) -> tuple[tuple[FloatArray, ...], FloatArray]:
        per_transfer: list[FloatArray] = []
        for transfer, counts in zip(self.program.transfers, self._done, strict=True):
            times = np.zeros(len(transfer.size_bytes))
            for mask, count in counts.items():
                times[bits_to_index(mask, len(times))] += count
            per_transfer.append(times * transfer.size_bytes)
        moved = tuple(per_transfer)
        return moved, spread_bytes(self.program, moved)

    def _spend(self, role: int, category: str, mask: int, seconds: float) -> None:
        spent = self._spent[role]
        spent[category] = spent.get(category, 0.0) + seconds * mask.bit_count()


def spread_bytes(program: Program, moved: Sequence[FloatArray]) -> FloatArray:
    """Payload over each resource when the tasks of each transfer moved so much [bytes].

    Parameters
    ----------
    moved
        Payload of each task, one array per transfer; empty for transfers to leave out.
    """
    by_geometry: dict[int, FloatArray] = {}
    for transfer, part in zip(program.transfers, moved, strict=True):
        if len(part):
            known = by_geometry.get(transfer.geometry)
            by_geometry[transfer.geometry] = part if known is None else known + part
    total = np.zeros(len(program.capacity))
    for geometry, part in by_geometry.items():
        rows = program.geometries[geometry].incidence
        spread = np.repeat(part, np.diff(rows.indptr)) * rows.coef
        link, place = distinct(rows.link, len(total))
        total[link] += np.bincount(place, weights=spread, minlength=len(link))
    return total
