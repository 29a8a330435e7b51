"""Runs a program: classes of actors that behave alike, on the simpy clock.

A class is a set of actors of one role that stand at the same operation at the same time. It
runs as one process for as long as the fabric treats its members alike: when a transfer releases
only some of them, or a slow GPU takes longer over an operation, the class splits there; classes
of one role that wake at the same time and operation merge again. With every class and every
group split to single members the same code is one process per rank.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from math import inf
from typing import Any

import simpy

from simnet.engine.network import Group, Network
from simnet.engine.participants import Instance, Participants, participants
from simnet.engine.program import Program
from simnet.engine.rates import RateBook
from simnet.engine.trace import StepTrace, TraceSink
from simnet.errors import Problem, TopologyError
from simnet.workload.ops import Compute, Op, Start

SAME_TIME = 1e-12
"""Relative: events this close are one batch."""
MAX_NAMED = 8
"""Waiting ranks that a deadlock report names."""

_RESUME, _BEGIN, _FINISH = 0, 1, 2
_COMPUTE, _START, _WAIT = 0, 1, 2


class TooManyClassesError(Exception):
    """Nearly every replica behaves differently; the approximate rung is the one to ask."""


def run_program(program: Program, *, is_split: bool = False, max_classes: int | None = None) -> StepTrace:
    """Exact trace of one step.

    Parameters
    ----------
    program
        What every actor does, and what its transfers load.
    is_split
        True keeps every actor a class of its own and every task a group of its own (one process
        per rank; slow, the engine's own witness).
    max_classes
        Give up when more classes than this are under way.

    Raises
    ------
    TooManyClassesError
        When ``max_classes`` is passed.
    TopologyError
        When ranks wait for a transfer that never ends; names the ranks and what they wait for.
    """
    executor = _Executor(program, is_split=is_split, max_classes=max_classes)
    executor.run()
    return executor.sink.finish(executor.now_s, executor.network.book)


class _Executor:
    """The state over time of one run."""

    def __init__(self, program: Program, *, is_split: bool, max_classes: int | None) -> None:
        self.program = program
        self.max_classes = max_classes
        self.now_s = 0.0
        self.is_split = is_split
        self.network = Network(book=RateBook(program=program))
        self.parts: list[Participants] = [participants(t) for t in program.transfers]
        self.sink = TraceSink(program=program)
        self._heap: list[tuple[float, int, int, tuple[Any, ...]]] = []
        self._order = 0
        self._instances: list[dict[int, Instance]] = [{} for _ in program.transfers]
        self._wakes: dict[tuple[int, int], int] = {}
        self._first = [role.first_actor for role in program.roles]
        self._ops = [[self._encode(op) for op in role.ops] for role in program.roles]
        self._speeds = [_speed_parts(program, r) for r in range(len(program.roles))]
        self._asleep = 0
        self._num_done = 0

    def run(self) -> None:
        """Run to the end on a simpy clock, one timeout per batch of events."""
        for index, role in enumerate(self.program.roles):
            for mask in self._pieces((1 << role.num_actors) - 1):
                self._push(0.0, _RESUME, (index, mask, 0))
                self._asleep += 1
        environment = simpy.Environment()
        environment.process(self._clock(environment))
        environment.run()
        if self._num_done < self.program.num_actors or self.network.active():
            raise self._deadlock()

    def _clock(self, environment: simpy.Environment) -> Generator[simpy.Event, None, None]:
        """One batch of events after another; simpy is asked whenever a timer or fault comes first."""
        heap = self._heap
        yield environment.timeout(0)
        while heap:
            if environment.peek() <= heap[0][0]:
                yield environment.timeout(max(heap[0][0] - environment.now, 0))
            self._batch()

    def _batch(self) -> None:
        """Everything that happens at the earliest time in the heap."""
        heap = self._heap
        while heap and _is_stale(heap[0]):
            heapq.heappop(heap)
        if not heap:
            return
        now = self.now_s = heap[0][0]
        limit = now + SAME_TIME * now
        sink, wakes = self.sink, self._wakes
        handle = (self._wake, self._begin, self._finish)
        while heap and heap[0][0] <= limit:
            while heap and heap[0][0] <= limit:
                _, _, kind, data = heapq.heappop(heap)
                sink.num_events += 1
                handle[kind](*data)
            while wakes:
                role, pc = key = next(iter(wakes)) if len(wakes) == 1 else min(wakes)
                self._advance(role, wakes.pop(key), pc)
        self._settle(now)
        if self._asleep > sink.num_classes:
            sink.num_classes = self._asleep
            if self.max_classes is not None and self._asleep > self.max_classes:
                raise TooManyClassesError

    def _settle(self, now: float) -> None:
        """Share the links anew and note the ends that changed."""
        for group in self.network.settle(now):
            if group.finish_s < inf:
                self._push(max(group.finish_s, now), _FINISH, (group, group.finish_s))
        if self.network.put_off:
            self._put_off()

    def _push(self, time_s: float, kind: int, data: tuple[Any, ...]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time_s, self._order, kind, data))

    def _pieces(self, mask: int) -> list[int]:
        """Single members of a set, or the set itself where classes are in use."""
        if not self.is_split:
            return [mask]
        return [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]

    # -- classes ----------------------------------------------------------------------------

    def _wake(self, role: int, mask: int, pc: int) -> None:
        key = (role, pc)
        self._asleep -= 1
        self._wakes[key] = self._wakes.get(key, 0) | mask

    def _advance(self, role: int, mask: int, pc: int) -> None:
        """Run a class until it computes, waits or ends."""
        ops = self._ops[role]
        while pc < len(ops):
            kind, what = ops[pc]
            if kind == _START:
                self._arrive(role, mask, what)
            elif kind == _WAIT:
                mask = self._wait(role, mask, pc, what)
                if not mask:
                    return
            else:
                self._compute(role, mask, pc, what)
                return
            pc += 1
        self._num_done += mask.bit_count()
        self.sink.end(role, mask, self.now_s)

    def _compute(self, role: int, mask: int, pc: int, duration_s: float) -> None:
        for members, factor in self._speeds[role]:
            slice_ = mask & members
            if slice_:
                end_s = self.now_s + duration_s * factor
                self.sink.compute(role, slice_, pc, self.now_s, end_s)
                for piece in self._pieces(slice_) if self.is_split else (slice_,):
                    self._asleep += 1
                    self._push(end_s, _RESUME, (role, piece, pc + 1))

    def _wait(self, role: int, mask: int, pc: int, instance: Instance) -> int:
        """Members that need not wait; the others are parked with the instance."""
        part = instance.part
        shift = self._first[role] - part.first_waiter
        released = part.released(instance.done)
        ready = mask & _shift(released, -shift)
        blocked = mask & ~ready
        if blocked:
            for piece in self._pieces(blocked):
                self._asleep += 1
                instance.waiting.append((role, piece, pc, self.now_s))
        return ready

    # -- transfers --------------------------------------------------------------------------

    def _instance(self, transfer: int, index: int) -> Instance:
        known = self._instances[transfer]
        found = known.get(index)
        if found is None:
            found = known[index] = Instance(transfer, index, self.parts[transfer])
        return found

    def _encode(self, op: Op) -> tuple[int, Any]:
        """Return an operation with what it needs looked up once."""
        if isinstance(op, Compute):
            return (_COMPUTE, op.duration_s)
        kind = _START if isinstance(op, Start) else _WAIT
        return (kind, self._instance(op.comm, op.instance))

    def _arrive(self, role: int, mask: int, instance: Instance) -> None:
        part = instance.part
        instance.arrived |= _shift(mask, self._first[role] - part.first_starter)
        fresh = part.ready(instance.arrived) & ~instance.started
        if not fresh:
            return
        instance.started |= fresh
        for tasks, latency_s, size_bytes in part.parts:
            slice_ = fresh & tasks
            if slice_:
                for piece in self._pieces(slice_) if self.is_split else (slice_,):
                    self._expect(instance, piece, size_bytes, self.now_s + latency_s)

    def _expect(self, instance: Instance, mask: int, size_bytes: float, begin_s: float) -> None:
        """Tasks whose starters are ready flow after their latency."""
        now, network = self.now_s, self.network
        if size_bytes > 0:
            key = (instance.part.geometry, mask)
            group = network.reserve(instance, key, size_bytes, now, begin_s)
            if group is not None:
                self._push(group.finish_s, _FINISH, (group, group.finish_s))
                return
            network.announce(key, now)
            if network.put_off:
                self._put_off()
        self._push(begin_s, _BEGIN, (instance, mask, size_bytes, now))

    def _put_off(self) -> None:
        """Let groups that the network had reserved begin when their latency is over, as others do."""
        for group in self.network.put_off:
            self._push(group.since_s, _BEGIN, (group.owner, group.key[1], group.left_bytes, group.started_s))
        self.network.put_off.clear()

    def _begin(self, instance: Instance, mask: int, size_bytes: float, started_s: float) -> None:
        if size_bytes > 0:
            self.network.begin(instance, (instance.part.geometry, mask), size_bytes, started_s, self.now_s)
        else:
            self._complete(instance, mask, started_s)

    def _finish(self, group: Group, finish_s: float) -> None:
        if not group.is_active or group.finish_s != finish_s:
            return
        self.network.end(group)
        self._complete(group.owner, group.key[1], group.started_s)

    def _complete(self, instance: Instance, mask: int, started_s: float) -> None:
        part = instance.part
        instance.done |= mask
        self.sink.moved(instance.transfer, instance.index, mask, started_s, self.now_s)
        if not instance.waiting:
            return
        released = part.released(instance.done)
        still: list[tuple[int, int, int, float]] = []
        for role, waiting, pc, since_s in instance.waiting:
            free = waiting & _shift(released, part.first_waiter - self._first[role])
            if free:
                self.sink.waited(role, free, pc, since_s, started_s, self.now_s)
                self._wake(role, free, pc + 1)
                self._asleep += 1
            if waiting & ~free:
                still.append((role, waiting & ~free, pc, since_s))
        self._asleep += len(still) - len(instance.waiting)
        instance.waiting = still

    def _deadlock(self) -> TopologyError:
        named: list[str] = []
        for transfer, uses in zip(self.program.transfers, self._instances, strict=True):
            for index, instance in sorted(uses.items()):
                for role, mask, _, _ in instance.waiting:
                    first = (mask & -mask).bit_length() - 1
                    named.append(f"{self.program.roles[role].name} replica {first} waits for {transfer.name} #{index}")
        if not named:
            named = [
                f"{self.program.transfers[group.owner.transfer].name} #{group.owner.index}, "
                "which nobody waits for, never ends"
                for group in self.network.active()
            ]
        shown = "; ".join(named[:MAX_NAMED])
        more = f"; and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        return TopologyError(
            Problem(
                message="ranks wait for ever",
                found=shown + more,
                hint="a link on their path carries nothing, or a send has no receiver",
            )
        )


def _is_stale(event: tuple[float, int, int, tuple[Any, ...]]) -> bool:
    """Whether the event is an end that no longer stands: the group's rate has changed since."""
    if event[2] != _FINISH:
        return False
    group, finish_s = event[3]
    return not (group.is_active and group.finish_s == finish_s)


def _shift(mask: int, by: int) -> int:
    return mask << by if by >= 0 else mask >> -by


def _speed_parts(program: Program, role: int) -> list[tuple[int, float]]:
    """Members of a role by their slowdown factor."""
    first = program.roles[role].first_actor
    masks: dict[float, int] = {}
    for member in range(program.roles[role].num_actors):
        factor = float(program.slowdown[first + member])
        masks[factor] = masks.get(factor, 0) | 1 << member
    return [(mask, factor) for factor, mask in sorted(masks.items())]
