"""A collective as the only thing that happens, for the engine on its clock."""

from __future__ import annotations

import numpy as np

from simnet.collectives.capacity import usable_capacity
from simnet.engine.program import ActorSets, Geometry, Program, Role, Transfer
from simnet.sharing.incidence import Incidence
from simnet.workload.ops import Category, Start, Wait


def one_use(tasks, fabric, constants):
    """Program of one actor that makes the collective once."""
    count = len(tasks.size_bytes)
    everyone = ActorSets(indptr=np.arange(count + 1), actor=np.zeros(count, dtype=np.int64))
    return Program(
        roles=(
            Role(name="all", first_actor=0, num_actors=1, ops=(Start(comm=0, instance=0), Wait(comm=0, instance=0))),
        ),
        transfers=(
            Transfer(
                name="all-reduce",
                category=Category.DP,
                geometry=0,
                size_bytes=tasks.size_bytes,
                latency_s=tasks.latency_s,
                starters=everyone,
                waiters=everyone,
            ),
        ),
        geometries=(
            Geometry(
                incidence=Incidence(indptr=tasks.indptr, link=tasks.resource, coef=tasks.coef),
                cap=tasks.rate_cap_bytes_per_s,
                weight=tasks.weight,
            ),
        ),
        capacity=usable_capacity(fabric, constants),
        can_bind=np.ones(fabric.num_resources, dtype=bool),
        slowdown=np.ones(1),
    )
