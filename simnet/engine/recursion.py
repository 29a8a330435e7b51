"""The approximate rung: the step as a recursion of sums and maxima over vectors of replicas.

Where nearly every replica differs (a speed for every node, hashed routes that collide) behaviour
classes do not help. Here every use of a transfer has a duration for each of its tasks, and the
step is a recursion (``flatten.py``). Three sets of durations are used:

- estimate: rates as they are when all replicas of a role are on one clock (``estimate.py``);
- fastest: the task alone on its path, which no fair sharing exceeds;
- slowest: rates that no fair sharing beside all that may be under way falls below (``bracket.py``).

Finish times are monotone in the durations, so the last two are a bracket of the exact step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.engine.blocks import split
from simnet.engine.bracket import slowest
from simnet.engine.estimate import shared_durations
from simnet.engine.fair_sets import FairSets, lone_rates
from simnet.engine.flatten import COMPUTE, START, Flat, Timing, flatten, run_flat
from simnet.engine.program import Program
from simnet.engine.trace import BUBBLE, FlowSpan, StepTrace, TraceSpan, spread_bytes
from simnet.workload.ops import Compute

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
    flat = flatten(program)
    lone = [lone_rates(program, geometry) for geometry in range(len(program.geometries))]
    alone = [
        joint.durations(transfer, lone[transfer.geometry])
        for transfer, joint in zip(program.transfers, flat.joints, strict=True)
    ]
    fast = run_flat(flat, [alone[use.transfer] for use in flat.uses])
    blocks = split(program.geometries, program.capacity, program.can_bind)
    sets = FairSets(flat, lone, blocks)
    estimate = run_flat(flat, shared_durations(flat, sets))
    slow = slowest(flat, lone, blocks, fast, estimate)
    trace = _Recorder(flat, estimate).trace(sets)
    return trace, Bracket(
        low_s=min(fast.step_time_s, trace.step_time_s), high_s=max(slow.step_time_s, trace.step_time_s)
    )


class _Recorder:
    """Reads a trace off a pass over the step."""

    def __init__(self, flat: Flat, timing: Timing) -> None:
        self.flat, self.timing = flat, timing
        self.program = flat.program
        self._spent: list[dict[str, FloatArray]] = [{} for _ in self.program.roles]
        self._spans: list[TraceSpan] = []

    def trace(self, sets: FairSets) -> StepTrace:
        """Return what happened."""
        program, timing = self.program, self.timing
        now = [np.zeros(role.num_actors) for role in program.roles]
        for (kind, role, pc, use), after in zip(self.flat.ops, timing.after, strict=True):
            if kind == COMPUTE:
                self._compute(role, pc, now[role], after)
            elif kind != START:
                self._wait(role, pc, use, now[role], after)
            now[role] = after
        for role, end in enumerate(now):
            self._spend(role, BUBBLE, timing.step_time_s - end)
        runs = np.bincount([use.transfer for use in self.flat.uses], minlength=len(program.transfers))
        moved = tuple(count * t.size_bytes for count, t in zip(runs.tolist(), program.transfers, strict=True))
        return StepTrace(
            step_time_s=timing.step_time_s,
            time_by_category_s=tuple({name: float(s.mean()) for name, s in one.items()} for one in self._spent),
            finish_s=timing.finish_s,
            spans=tuple(self._spans),
            flows=tuple(self._flows()),
            bytes_by_transfer=moved,
            resource_bytes=spread_bytes(program, moved),
            peak_share=sets.peak,
            bound_by=sets.bound_by,
            num_events=len(self.flat.ops),
            num_solves=sets.num_solves,
            num_classes=program.num_actors,
            largest_solve=sets.largest_solve,
        )

    def _compute(self, role: int, pc: int, before: FloatArray, after: FloatArray) -> None:
        op = self.program.roles[role].ops[pc]
        assert isinstance(op, Compute)
        self._spend(role, op.category.value, after - before)
        self._span(role, pc, float(before[0]), float(after[0]), "compute")

    def _wait(self, role: int, pc: int, use: int, before: FloatArray, after: FloatArray) -> None:
        """Note a wait: bubble until the transfer has begun, exposed from then on."""
        transfer = self.flat.uses[use].transfer
        wait = self.flat.joints[transfer].waits.get(role)
        if wait is None:
            return
        middle = np.minimum(wait.released(before, self.timing.begin[use]), after)
        self._spend(role, BUBBLE, middle - before)
        self._spend(role, self.program.transfers[transfer].category.value, after - middle)
        self._span(role, pc, float(before[0]), float(middle[0]), BUBBLE)
        self._span(role, pc, float(middle[0]), float(after[0]), "exposed")

    def _spend(self, role: int, category: str, seconds: FloatArray) -> None:
        spent = self._spent[role].get(category)
        if spent is None:
            self._spent[role][category] = seconds.copy()
        else:
            np.add(spent, seconds, out=spent)

    def _span(self, role: int, pc: int, start_s: float, end_s: float, kind: str) -> None:
        if end_s > start_s:
            self._spans.append(TraceSpan(role=role, op=pc, start_s=start_s, end_s=end_s, kind=kind))

    def _flows(self) -> list[FlowSpan]:
        """Return the uses, at the times of their first task."""
        found: list[FlowSpan] = []
        for use, begin, end in zip(self.flat.uses, self.timing.begin, self.timing.end, strict=True):
            bundle = self.flat.joints[use.transfer].first_bundle
            found.append(
                FlowSpan(
                    transfer=use.transfer,
                    instance=use.instance,
                    start_s=float(begin[bundle]),
                    end_s=float(end[bundle]),
                )
            )
        return found
