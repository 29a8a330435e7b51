"""Programs written by hand, in a few lines."""

from __future__ import annotations

import numpy as np

from simnet.engine.program import ActorSets, Geometry, Program, Role, Transfer
from simnet.sharing.incidence import Incidence
from simnet.workload.ops import Category


def transfer(*tasks, name="transfer", category=Category.DP, size=1.0, latency=0.0, cap=np.inf, weight=1.0):
    """Tasks as ({link: coefficient}, starters, waiters); sizes and the like are one number or one each."""
    links = [links for links, _, _ in tasks]
    return {
        "name": name,
        "category": category,
        "size_bytes": np.broadcast_to(np.array(size, dtype=float), len(tasks)),
        "latency_s": np.broadcast_to(np.array(latency, dtype=float), len(tasks)),
        "starters": actor_sets([starters for _, starters, _ in tasks]),
        "waiters": actor_sets([waiters for _, _, waiters in tasks]),
        "geometry": Geometry(
            incidence=Incidence(
                indptr=np.cumsum([0, *(len(row) for row in links)]),
                link=np.array([link for row in links for link in row], dtype=np.int32),
                coef=np.array([coef for row in links for coef in row.values()], dtype=float),
            ),
            cap=np.broadcast_to(np.array(cap, dtype=float), len(tasks)),
            weight=np.broadcast_to(np.array(weight, dtype=float), len(tasks)),
        ),
    }


def program(stages, transfers, capacity, *, num_replicas=1, slowdown=None):
    """Stages as lists of operations; actors are numbered stage by stage, replica by replica."""
    num_actors = len(stages) * num_replicas
    return Program(
        roles=tuple(
            Role(name=f"stage {stage}", first_actor=stage * num_replicas, num_actors=num_replicas, ops=tuple(ops))
            for stage, ops in enumerate(stages)
        ),
        transfers=tuple(Transfer(**(record | {"geometry": index})) for index, record in enumerate(transfers)),
        geometries=tuple(record["geometry"] for record in transfers),
        capacity=np.array(capacity, dtype=float),
        can_bind=np.ones(len(capacity), dtype=bool),
        slowdown=np.ones(num_actors) if slowdown is None else np.array(slowdown, dtype=float),
    )


def actor_sets(rows):
    return ActorSets(
        indptr=np.cumsum([0, *(len(row) for row in rows)]),
        actor=np.array([actor for row in rows for actor in row], dtype=np.int64),
    )
