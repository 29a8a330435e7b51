"""A program run with one simpy process per actor and one flow object per task.

Nothing is shared with the engine but the ``Program`` value itself: rates come from the reference
water-filling over all active tasks at every change, nothing is cached, merged or pruned.
"""

from __future__ import annotations

import numpy as np
import simpy

from simnet.workload.ops import Compute, Start
from tests.oracle.fair_sharing import water_filling

SAME_TIME = 1e-12
"""Relative: flows whose ends are this close end together."""


class Wire:
    """All active tasks; solves everything anew whenever one comes or goes."""

    def __init__(self, env, program):
        self.env, self.program = env, program
        self.active = []
        self.since = 0.0
        self.alarm = None
        self.resource_bytes = np.zeros(len(program.capacity))

    def add(self, transfer, task, done):
        record = self.program.transfers[transfer]
        geometry = self.program.geometries[record.geometry]
        size = record.size_bytes[task]
        self._elapse()
        self.active.append({
            "column": self._usage(geometry.incidence, task), "left": size, "rate": 0.0, "done": done,
            "cap": geometry.cap[task], "weight": geometry.weight[task],
        })  # fmt: skip
        self._settle()

    def _usage(self, rows, task):
        column = np.zeros(len(self.program.capacity))
        low, high = rows.indptr[task], rows.indptr[task + 1]
        np.add.at(column, rows.link[low:high], rows.coef[low:high])
        return column

    def _elapse(self):
        passed = self.env.now - self.since
        for flow in self.active:
            if passed > 0:
                flow["left"] -= flow["rate"] * passed
                self.resource_bytes += flow["column"] * (flow["rate"] * passed)
        self.since = self.env.now

    def _settle(self):
        if not self.active:
            return
        usage = np.stack([flow["column"] for flow in self.active], axis=1)
        cap = np.array([flow["cap"] for flow in self.active])
        weight = np.array([flow["weight"] for flow in self.active])
        rates = water_filling(self.program.capacity, usage, cap, weight)
        for flow, rate in zip(self.active, rates, strict=True):
            flow["rate"] = rate
            flow["end_s"] = self.env.now + max(flow["left"], 0.0) / rate if rate > 0 else np.inf
        soonest = min(flow["end_s"] for flow in self.active)
        self.alarm = object()
        if np.isfinite(soonest):
            self.env.process(self._ring(soonest, self.alarm))

    def _ring(self, end_s, alarm):
        yield self.env.timeout(max(end_s - self.env.now, 0.0))
        if alarm is not self.alarm:
            return
        self._elapse()
        over = [flow for flow in self.active if flow["end_s"] <= end_s * (1 + SAME_TIME)]
        self.active = [flow for flow in self.active if flow["end_s"] > end_s * (1 + SAME_TIME)]
        for flow in over:
            flow["done"].succeed()
        self._settle()


class Ranks:
    """The actors' processes and what they share: who has arrived, and what is done."""

    def __init__(self, program):
        self.program = program
        self.env = simpy.Environment()
        self.wire = Wire(self.env, program)
        self.arrived, self.done = {}, {}
        self.finish_s = np.full(program.num_actors, np.nan)

    def run(self):
        for role in self.program.roles:
            for member in range(role.num_actors):
                self.env.process(self._live(role, role.first_actor + member))
        self.env.run()

    def _live(self, role, actor):
        for op in role.ops:
            if isinstance(op, Compute):
                yield self.env.timeout(op.duration_s * self.program.slowdown[actor])
            elif isinstance(op, Start):
                self._start(actor, op)
            else:
                yield from self._wait(actor, op)
        self.finish_s[actor] = self.env.now

    def _tasks_of(self, sets, actor):
        return [
            task
            for task, (low, high) in enumerate(zip(sets.indptr[:-1], sets.indptr[1:], strict=True))
            if actor in sets.actor[low:high]
        ]

    def _start(self, actor, op):
        sets = self.program.transfers[op.comm].starters
        for task in self._tasks_of(sets, actor):
            here = self.arrived.setdefault((op.comm, op.instance, task), set())
            here.add(actor)
            if len(here) == len(set(sets.actor[sets.indptr[task] : sets.indptr[task + 1]].tolist())):
                self.env.process(self._carry(op.comm, op.instance, task))

    def _carry(self, transfer, instance, task):
        record = self.program.transfers[transfer]
        yield self.env.timeout(record.latency_s[task])
        event = self._event(transfer, instance, task)
        if record.size_bytes[task] <= 0:
            event.succeed()
        else:
            self.wire.add(transfer, task, event)

    def _wait(self, actor, op):
        for task in self._tasks_of(self.program.transfers[op.comm].waiters, actor):
            event = self._event(op.comm, op.instance, task)
            if not event.processed:
                yield event

    def _event(self, *key):
        if key not in self.done:
            self.done[key] = self.env.event()
        return self.done[key]


def run_ranks(program):
    """Finish time of every actor [s] (nan where it waits for ever), and bytes over each resource."""
    ranks = Ranks(program)
    ranks.run()
    return ranks.finish_s, ranks.wire.resource_bytes


def run_per_rank(program):
    """Finish time of every actor [s], shape (num_actors,); nan where it waits for ever."""
    return run_ranks(program)[0]
