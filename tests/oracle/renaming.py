"""The same program under other numbers: actors, tasks, transfers and resources permuted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simnet.engine.program import ActorSets, Geometry, Program, Transfer
from simnet.sharing.incidence import take_rows
from simnet.workload.ops import Compute


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """A program, and what the old numbers are called in it."""

    program: Program
    actor: np.ndarray
    resource: np.ndarray
    transfer: np.ndarray


def renamed(program, seed):
    """A program that differs only in its numbers."""
    r = np.random.default_rng(seed)
    actor = np.concatenate([role.first_actor + r.permutation(role.num_actors) for role in program.roles])
    resource = r.permutation(len(program.capacity))
    transfer = r.permutation(len(program.transfers))
    tasks = [r.permutation(geometry.num_tasks) for geometry in program.geometries]
    geometries = tuple(_geometry(g, order, resource) for g, order in zip(program.geometries, tasks, strict=True))
    transfers = [_transfer(t, tasks[t.geometry], actor) for t in program.transfers]
    roles = tuple(replace(role, ops=tuple(_op(op, transfer) for op in role.ops)) for role in program.roles)
    return Renamed(
        program=Program(
            roles=roles,
            transfers=tuple(transfers[old] for old in np.argsort(transfer)),
            geometries=geometries,
            capacity=program.capacity[np.argsort(resource)],
            can_bind=program.can_bind[np.argsort(resource)],
            slowdown=program.slowdown[np.argsort(actor)],
        ),
        actor=actor,
        resource=resource,
        transfer=transfer,
    )


def _geometry(geometry, order, resource):
    rows = take_rows(geometry.incidence, order)
    return Geometry(
        incidence=replace(rows, link=resource[rows.link].astype(np.int32)),
        cap=geometry.cap[order],
        weight=geometry.weight[order],
    )


def _transfer(transfer, order, actor):
    return Transfer(
        name=transfer.name,
        category=transfer.category,
        geometry=transfer.geometry,
        size_bytes=transfer.size_bytes[order],
        latency_s=transfer.latency_s[order],
        starters=_sets(transfer.starters, order, actor),
        waiters=_sets(transfer.waiters, order, actor),
    )


def _sets(sets, order, actor):
    rows = [actor[sets.actor[sets.indptr[task] : sets.indptr[task + 1]]] for task in order]
    return ActorSets(indptr=np.cumsum([0, *(len(row) for row in rows)]), actor=np.concatenate(rows))


def _op(op, transfer):
    return op if isinstance(op, Compute) else replace(op, comm=int(transfer[op.comm]))
