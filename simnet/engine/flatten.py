"""The step as one list of operations, each after what it needs whatever the speeds are.

Where every transfer has a duration of its own, a step is a recursion of sums and maxima over
vectors of actors. The order of the recursion does not depend on times, so it is found once and
passed over many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simnet.engine.joints import Joint, joints
from simnet.engine.program import Program
from simnet.errors import Problem, TopologyError
from simnet.workload.ops import Compute, Start

FloatArray = NDArray[np.float64]

COMPUTE, START, WAIT = 0, 1, 2
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One run of a transfer."""

    transfer: int
    instance: int


_ADD, _MEET, _WAIT, _BEGIN, _GATHER, _JOIN, _NOTHING = range(7)
_Pass: TypeAlias = tuple[int, int, Any, int]
"""What to do, role, with what, and use: see ``run_flat``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flat:
    """A program in an order in which its operations can be carried out one by one."""

    program: Program
    ops: tuple[tuple[int, int, int, int], ...]
    """Kind, role, operation of the role, and use (of a start or wait; -1 of a computation)."""
    uses: tuple[Use, ...]
    """In the order in which they begin; those that never do are left out."""
    joints: tuple[Joint, ...]
    """Per transfer."""
    computations: tuple[dict[int, FloatArray], ...]
    """Per role and operation: what a computation takes each actor [s]."""
    passes: tuple[_Pass, ...]
    """What a pass does for each operation."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """One pass over the step."""

    after: tuple[FloatArray, ...]
    """Per operation of the list: when each actor of its role went on, shape (num_actors,) [s]."""
    begin: tuple[FloatArray, ...]
    """Per use: when the tasks of each bundle started, shape (num_bundles,) [s]."""
    end: tuple[FloatArray, ...]
    """Per use: when each bundle was done, shape (num_bundles,) [s]."""
    finish_s: FloatArray
    """When each actor was done, shape (num_actors,)."""
    step_time_s: float


def flatten(program: Program) -> Flat:
    """Return the operations of all roles in one order.

    Raises
    ------
    TopologyError
        When a role waits for a transfer that is never started.
    """
    found = joints(program)
    walk = _Walk(program, found)
    has_moved = True
    while has_moved:
        has_moved = False
        for role in range(len(program.roles)):
            has_moved |= walk.advance(role)
    stuck = [role.name for role, pc in zip(program.roles, walk.pc, strict=True) if pc < len(role.ops)]
    if stuck:
        raise TopologyError(Problem(message="ranks wait for ever", found=", ".join(stuck)))
    computations = tuple(_computations(program))
    return Flat(
        program=program,
        ops=tuple(walk.found),
        uses=tuple(walk.uses),
        joints=found,
        computations=computations,
        passes=tuple(_passes(walk, found, computations)),
    )


class _Walk:
    """How far each role has come."""

    def __init__(self, program: Program, joints: Sequence[Joint]) -> None:
        self.program = program
        self.pc = [0] * len(program.roles)
        self.found: list[tuple[int, int, int, int]] = []
        self.uses: list[Use] = []
        self._missing = [len(j.starts) for j in joints]
        self._left: dict[tuple[int, int], int] = {}
        self._number: dict[tuple[int, int], int] = {}
        self._early: dict[tuple[int, int], list[int]] = {}

    def advance(self, role: int) -> bool:
        """Go on until the role waits for what has not been started; True if it moved."""
        ops, first = self.program.roles[role].ops, self.pc[role]
        pc = first
        while pc < len(ops):
            op = ops[pc]
            if isinstance(op, Compute):
                self.found.append((COMPUTE, role, pc, -1))
            elif isinstance(op, Start):
                self._start(role, pc, op)
            else:
                use = self._number.get((op.comm, op.instance))
                if use is None:
                    break
                self.found.append((WAIT, role, pc, use))
            pc += 1
        self.pc[role] = pc
        return pc > first

    def _start(self, role: int, pc: int, op: Start) -> None:
        key = (op.comm, op.instance)
        left = self._left.get(key, self._missing[op.comm]) - 1
        self._left[key] = left
        self._early.setdefault(key, []).append(len(self.found))
        self.found.append((START, role, pc, -1))
        if left == 0:
            number = self._number[key] = len(self.uses)
            self.uses.append(Use(transfer=op.comm, instance=op.instance))
            for place in self._early.pop(key):
                self.found[place] = (*self.found[place][:3], number)


def run_flat(flat: Flat, durations: Sequence[FloatArray]) -> Timing:
    """Pass over the step with fixed durations.

    Parameters
    ----------
    durations
        Per use: what each bundle takes from its last starter on, shape (num_bundles,) [s].

    Raises
    ------
    TopologyError
        When a transfer never ends.
    """
    now = [np.zeros(role.num_actors) for role in flat.program.roles]
    begin: list[FloatArray] = []
    end: list[FloatArray] = []
    after: list[FloatArray] = []
    started: dict[int, dict[int, FloatArray]] = {}
    for what, role, value, use in flat.passes:
        mine = now[role]
        if what == _MEET:
            mine = now[role] = np.maximum(mine, end[use])
        elif what == _BEGIN:
            # Uses are numbered in the order in which they begin.
            begin.append(mine)
            end.append(mine + durations[use])
        elif what == _ADD:
            mine = now[role] = mine + value
        elif what == _WAIT:
            mine = now[role] = value.released(mine, end[use])
        elif what == _GATHER:
            at = value.gather(mine)
            begin.append(at)
            end.append(at + durations[use])
        elif what == _JOIN:
            seen = started.setdefault(use, {})
            seen[role] = mine
            if len(seen) == len(value.starts):
                at = value.begin(started.pop(use))
                begin.append(at)
                end.append(at + durations[use])
        after.append(mine)
    return _timing(now, after, begin, end)


def _passes(walk: _Walk, joints: Sequence[Joint], computations: Sequence[dict[int, FloatArray]]) -> Iterator[_Pass]:
    """Plain cases, by far the most, apart from those that look things up."""
    for kind, role, pc, use in walk.found:
        joint = joints[walk.uses[use].transfer] if use >= 0 else None
        if kind == COMPUTE:
            yield _ADD, role, computations[role][pc], use
        elif joint is None:
            yield _NOTHING, role, None, use
        elif kind == WAIT:
            wait = joint.waits.get(role)
            if wait is None:
                yield _NOTHING, role, None, use
            elif wait.members is None and wait.bundles.is_same:
                yield _MEET, role, None, use
            else:
                yield _WAIT, role, wait, use
        elif joint.alone is None:
            yield _JOIN, role, joint, use
        elif joint.alone.is_same:
            yield _BEGIN, role, None, use
        else:
            yield _GATHER, role, joint.alone, use


def _timing(now: list[FloatArray], after: list[FloatArray], begin: list[FloatArray], end: list[FloatArray]) -> Timing:
    finish = np.concatenate(now)
    last = float(np.concatenate(end).max()) if end else 0.0
    step_time_s = max(float(finish.max()), last)
    if not np.isfinite(step_time_s):
        raise TopologyError(Problem(message="ranks wait for ever", found="a transfer whose path carries nothing"))
    return Timing(after=tuple(after), begin=tuple(begin), end=tuple(end), finish_s=finish, step_time_s=step_time_s)


def _computations(program: Program) -> list[dict[int, FloatArray]]:
    found: list[dict[int, FloatArray]] = []
    for role in program.roles:
        slowdown = program.slowdown[role.first_actor : role.first_actor + role.num_actors]
        known: dict[float, FloatArray] = {}
        row: dict[int, FloatArray] = {}
        for pc, op in enumerate(role.ops):
            if isinstance(op, Compute):
                if op.duration_s not in known:
                    known[op.duration_s] = op.duration_s * slowdown
                row[pc] = known[op.duration_s]
        found.append(row)
    return found
