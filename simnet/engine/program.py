"""What the engine runs: the lowered step of a job on one fabric.

Actors are sets of ranks that their own collectives tie together in every operation (the ranks of
one pipeline stage of one replica). A role is the list of operations that its actors share.
Transfers are fluid tasks with a geometry (what they load), a size, and the actors that start
them and wait for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.sharing.max_min import Incidence
from simnet.workload.ops import Category, Compute, Start, Wait

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Op = Compute | Start | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Actors ``first_actor ... first_actor + num_actors - 1`` and what they all do."""

    name: str
    first_actor: int
    num_actors: int
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Geometry:
    """What the tasks of a transfer load, whatever their size."""

    incidence: Incidence
    """Payload bytes put on each resource per byte of a task."""
    cap: FloatArray
    """Largest rate of each task [bytes/s], shape (num_tasks,)."""
    weight: FloatArray
    """Share weight of each task, shape (num_tasks,)."""

    @property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return self.incidence.num_flows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActorSets:
    """The actors behind each task, compressed rows by task."""

    indptr: IntArray
    """Shape (num_tasks + 1,)."""
    actor: IntArray
    """Global actor of each entry."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfer:
    """One communication of the step; it may run many times (instances)."""

    name: str
    category: Category
    geometry: int
    """Index into ``Program.geometries``."""
    size_bytes: FloatArray
    """Bytes of each task, shape (num_tasks,)."""
    latency_s: FloatArray
    """Wait before each task's bytes flow, shape (num_tasks,)."""
    starters: ActorSets
    """A task starts when all of these have started their part."""
    waiters: ActorSets
    """These wait for the task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One step of a job, ready to run."""

    roles: tuple[Role, ...]
    transfers: tuple[Transfer, ...]
    geometries: tuple[Geometry, ...]
    capacity: FloatArray
    """Usable rate of each resource [payload bytes/s], shape (num_resources,)."""
    can_bind: NDArray[np.bool_]
    """False where the resource can hold no flow back, shape (num_resources,)."""
    slowdown: FloatArray
    """Factor on every compute duration of an actor, shape (num_actors,); 1 is nominal."""

    @property
    def num_actors(self) -> int:
        """Number of actors over all roles."""
        return sum(role.num_actors for role in self.roles)
