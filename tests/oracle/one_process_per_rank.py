"""A program run with one simpy process per actor and one flow object per task.

Nothing is shared with the engine but the ``Program`` value itself: rates come from the reference
water-filling over all active tasks at every change, nothing is cached, merged or pruned.
"""

from __future__ import annotations

import numpy as np
import simpy

from simnet.workload.ops import Compute, Start
from tests.oracle.fair_sharing import water_filling


class _Wire:
    """All active tasks; re-solves everything whenever one comes or goes."""

    def __init__(self, env, program):
        self.env, self.program = env, program
        self.active = []
        self.since = 0.0
        self.alarm = None

    def usage(self, flow):
        column = np.zeros(len(self.program.capacity))
        rows = self.program.geometries[flow["geometry"]].incidence
        low, high = rows.indptr[flow["task"]], rows.indptr[flow["task"] + 1]
        np.add.at(column, rows.link[low:high], rows.coef[low:high])
        return column

    def add(self, flow):
        flow["column"] = self.usage(flow)
        flow["rate"] = 0.0
        self._elapse()
        self.active.append(flow)
        self._settle()

    def _elapse(self):
        for flow in self.active:
            flow["left"] -= flow["rate"] * (self.env.now - self.since)
        self.since = self.env.now

    def _settle(self):
        if not self.active:
            return
        usage = np.stack([flow["column"] for flow in self.active], axis=1)
        cap = np.array([flow["cap"] for flow in self.active])
        weight = np.array([flow["weight"] for flow in self.active])
        rates = water_filling(self.program.capacity, usage, cap, weight)
        soonest = np.inf
        for flow, rate in zip(self.active, rates, strict=True):
            flow["rate"] = rate
            if rate > 0:
                soonest = min(soonest, max(flow["left"], 0.0) / rate)
        self.alarm = object()
        if np.isfinite(soonest):
            self.env.process(self._ring(soonest, self.alarm))

    def _ring(self, delay, alarm):
        yield self.env.timeout(delay)
        if alarm is not self.alarm:
            return
        self._elapse()
        over = [f for f in self.active if f["left"] <= 1e-12 * f["size"]]
        self.active = [f for f in self.active if f["left"] > 1e-12 * f["size"]]
        for flow in over:
            flow["done"].succeed()
        self._settle()


def run_per_rank(program):
    """Finish time of every actor [s], shape (num_actors,)."""
    env = simpy.Environment()
    wire = _Wire(env, program)
    arrived, done = {}, {}
    finish = np.zeros(program.num_actors)

    def task_done(transfer, instance, task):
        key = (transfer, instance, task)
        if key not in done:
            done[key] = env.event()
        return done[key]

    def carry(transfer, instance, task):
        record = program.transfers[transfer]
        yield env.timeout(record.latency_s[task])
        size = record.size_bytes[task]
        event = task_done(transfer, instance, task)
        if size <= 0:
            event.succeed()
            return
        geometry = program.geometries[record.geometry]
        wire.add({
            "geometry": record.geometry, "task": task, "left": size, "size": size, "done": event,
            "cap": geometry.cap[task], "weight": geometry.weight[task],
        })

    def start(actor, op):
        record = program.transfers[op.comm]
        sets = record.starters
        for task in range(len(record.size_bytes)):
            members = sets.actor[sets.indptr[task] : sets.indptr[task + 1]]
            if actor in members:
                here = arrived.setdefault((op.comm, op.instance, task), set())
                here.add(actor)
                if len(here) == len(set(members)):
                    env.process(carry(op.comm, op.instance, task))

    def wait(actor, op):
        record = program.transfers[op.comm]
        sets = record.waiters
        for task in range(len(record.size_bytes)):
            if actor in sets.actor[sets.indptr[task] : sets.indptr[task + 1]]:
                event = task_done(op.comm, op.instance, task)
                if not event.processed:
                    yield event

    def live(role, member):
        actor = role.first_actor + member
        for op in role.ops:
            if isinstance(op, Compute):
                yield env.timeout(op.duration_s * program.slowdown[actor])
            elif isinstance(op, Start):
                start(actor, op)
            else:
                yield from wait(actor, op)
        finish[actor] = env.now

    for role in program.roles:
        for member in range(role.num_actors):
            env.process(live(role, member))
    env.run()
    return finish
