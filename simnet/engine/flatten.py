"""The step as one list of operations, each after what it needs whatever the speeds are.

Where every transfer has a duration of its own, a step is a recursion of sums and maxima over
vectors of actors. The order of the recursion does not depend on times, so it is found once and
passed over many times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    return Flat(
        program=program,
        ops=tuple(walk.found),
        uses=tuple(walk.uses),
        joints=found,
        computations=tuple(_computations(program)),
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
    program, by_transfer = flat.program, flat.joints
    now = [np.zeros(role.num_actors) for role in program.roles]
    took = flat.computations
    begin: list[FloatArray] = []
    end: list[FloatArray] = []
    after: list[FloatArray] = []
    started: dict[int, dict[int, FloatArray]] = {}
    transfers = [use.transfer for use in flat.uses]
    for kind, role, pc, use in flat.ops:
        if kind == COMPUTE:
            now[role] = now[role] + took[role][pc]
        elif kind == WAIT:
            one = by_transfer[transfers[use]].waits.get(role)
            if one is not None:
                now[role] = one.released(now[role], end[use])
        elif use >= 0:
            one_joint = by_transfer[transfers[use]]
            if one_joint.alone is not None:
                at = one_joint.alone.gather(now[role])
            else:
                seen = started.setdefault(use, {})
                seen[role] = now[role]
                if len(seen) < len(one_joint.starts):
                    after.append(now[role])
                    continue
                at = one_joint.begin(seen)
                del started[use]
            # Uses are numbered in the order in which they begin.
            begin.append(at)
            end.append(at + durations[use])
        after.append(now[role])
    return _timing(now, after, begin, end)


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
