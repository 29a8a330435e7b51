"""Random steps on random small fabrics: what a training job does, with everything that can be uneven.

A fabric has a NIC per GPU, leaves and spines; routes are static (the destination names the spine, so
that flows collide), or spread evenly over the spines. A job has pipeline stages and replicas, and
each actor has lanes (its tensor-parallel ranks). Placement puts either the stages or the replicas
of a job next to one another. Defects, slow actors, latencies, caps and weights come on top.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simnet.engine.program import ActorSets, Geometry, Program, Role, Transfer
from simnet.engine.pruning import PortUse, links_that_can_bind, without_twins
from simnet.sharing.incidence import Incidence
from simnet.workload.ops import Category, Compute, Start, Wait

NIC_BYTES_PER_S = 4.0
NVLINK_BYTES_PER_S = 20.0
PARAMETERS = 1_000
"""Instance numbers from here on are parameter gathers at the begin of the step."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What is random by choice (and shrinks); the seed draws the rest."""

    seed: int
    num_stages: int = 2
    num_replicas: int = 2
    num_lanes: int = 1
    num_micro_batches: int = 2
    num_buckets: int = 1
    num_spines: int = 2
    leaf_size: int = 2
    num_defects: int = 0
    num_slow: int = 0
    num_dead: int = 0
    replicas_outside: bool = False
    """Replicas are the outer axis of the placement: the stages of one replica are neighbours."""
    spreads: bool = False
    """Routes use all spines evenly instead of the one that the destination names."""
    interleaves: bool = True
    """One forward, one backward; otherwise all forwards first."""
    has_subgroups: bool = False
    """Collectives over parts of the replicas."""
    has_embedding: bool = False
    """An all-reduce between the first and the last stage of each replica."""
    has_all_to_all: bool = False
    """Messages from everyone to everyone in a group, as one task that moves at one rate."""
    gathers: bool = False
    """Parameters are gathered at the begin of the step, under the first forwards."""
    sender_waits: bool = False
    relays: bool = False
    """Messages cross the sender's NVLink port on their way to its NIC, beside tensor-parallel traffic."""
    is_round: bool = True
    """Figures on a coarse grid, so that events tie; otherwise none do."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Part of a task: ``load`` of its bytes go from one GPU to another."""

    source: int
    target: int
    load: float = 1.0


@dataclass(kw_only=True)
class Builder:
    """A program in the making."""

    shape: Shape
    rng: np.random.Generator = field(init=False)
    geometries: list[Geometry] = field(default_factory=list)
    uses: list[PortUse] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.shape.seed)
        self.num_gpus = self.shape.num_stages * self.shape.num_replicas * self.shape.num_lanes
        self.num_leaves = -(-self.num_gpus // self.shape.leaf_size)
        self.num_trunks = self.num_leaves * self.shape.num_spines

    # -- fabric: NICs out, NICs in, trunks up, trunks down, NVLink ports ------------------------

    def gpu(self, stage, replica, lane):
        stages, replicas, lanes = self.shape.num_stages, self.shape.num_replicas, self.shape.num_lanes
        outer = replica * stages + stage if self.shape.replicas_outside else stage * replicas + replica
        return outer * lanes + lane

    def actor(self, stage, replica):
        return stage * self.shape.num_replicas + replica

    def capacity(self):
        taper = self.rng.choice([0.5, 1.0, 2.0, 50.0])
        capacity = np.concatenate([
            np.full(2 * self.num_gpus, NIC_BYTES_PER_S),
            np.full(2 * self.num_trunks, NIC_BYTES_PER_S * self.shape.leaf_size / self.shape.num_spines * taper),
            np.full(self.num_gpus, NVLINK_BYTES_PER_S),
        ])  # fmt: skip
        for _ in range(self.shape.num_defects):
            capacity[self.rng.integers(len(capacity))] *= self.value([0.5, 0.9, 0.3], 0.1, 0.95)
        for _ in range(self.shape.num_dead):
            capacity[self.rng.integers(len(capacity))] = 0.0
        return capacity

    def route(self, source, target):
        """Resources and shares from one GPU's NIC to another's."""
        if source == target:
            return [], -1, -1
        ports = source, self.num_gpus + target
        up = 2 * self.num_gpus + source // self.shape.leaf_size * self.shape.num_spines
        down = 2 * self.num_gpus + self.num_trunks + target // self.shape.leaf_size * self.shape.num_spines
        if source // self.shape.leaf_size == target // self.shape.leaf_size:
            trunks = []
        elif self.shape.spreads:
            share = 1 / self.shape.num_spines
            trunks = [(link + s, share) for link in (up, down) for s in range(self.shape.num_spines)]
        else:
            spine = target * 7 % self.shape.num_spines
            trunks = [(up + spine, 1.0), (down + spine, 1.0)]
        relay = [(2 * self.num_gpus + 2 * self.num_trunks + source, 1.0)] if self.shape.relays else []
        return [*relay, (ports[0], 1.0), *trunks, (ports[1], 1.0)], *ports

    # -- transfers ------------------------------------------------------------------------------

    def value(self, grid, low, high):
        return float(self.rng.choice(grid) if self.shape.is_round else self.rng.uniform(low, high))

    def add(self, name, category, tasks, *, cap=np.inf, sizes=None):
        """Add a transfer of tasks, each (edges, starters, waiters); NVLink tasks have a port as edge."""
        count = len(tasks)
        rows = [[entry for edge in edges for entry in self._entries(edge)] for edges, _, _ in tasks]
        indptr = np.cumsum([0, *(len(row) for row in rows)])
        flat = np.array([entry for row in rows for entry in row], dtype=float).reshape(-1, 4)
        link, coef = flat[:, 0].astype(np.int32), flat[:, 1]
        source, target = flat[:, 2].astype(np.int32), flat[:, 3].astype(np.int32)
        self.uses.append(PortUse(indptr=indptr, link=link, coef=coef, source_port=source, target_port=target))
        self.geometries.append(
            Geometry(
                incidence=Incidence(indptr=indptr, link=link, coef=coef),
                cap=np.broadcast_to(cap, (count,)).astype(float),
                weight=np.full(count, self.rng.choice([1.0, 1.0, 1.0, 2.0, 0.5])),
            )
        )
        if sizes is None:
            sizes = np.full(count, self.value([1, 2, 3, 4], 0.5, 5.0))
        even = self.rng.random() < 0.6
        latency = np.full(count, self.rng.choice([0.0, 0.1])) if even else self.rng.choice([0.0, 0.1, 0.25], count)
        self.transfers.append(
            Transfer(
                name=name,
                category=category,
                geometry=len(self.geometries) - 1,
                size_bytes=sizes,
                latency_s=latency,
                starters=actor_sets([starters for _, starters, _ in tasks]),
                waiters=actor_sets([waiters for _, _, waiters in tasks]),
            )
        )
        return len(self.transfers) - 1

    def _entries(self, edge):
        if isinstance(edge, Edge):
            path, source, target = self.route(edge.source, edge.target)
            return [(link, share * edge.load, source, target) for link, share in path]
        return [(edge, 1.0, -1, -1)]

    def send(self, stage, peer):
        tasks = []
        for replica in range(self.shape.num_replicas):
            ends = [self.actor(stage, replica), self.actor(peer, replica)]
            for lane in range(self.shape.num_lanes):
                edge = Edge(source=self.gpu(stage, replica, lane), target=self.gpu(peer, replica, lane))
                tasks.append(([edge], ends[:1], ends if self.shape.sender_waits else ends[1:]))
        return self.add(f"send {stage}>{peer}", Category.PP, tasks)

    def groups(self):
        """Replicas in one group, or cut into several."""
        replicas = list(range(self.shape.num_replicas))
        if not self.shape.has_subgroups:
            return [replicas]
        cuts = sorted(self.rng.choice(len(replicas) + 1, 2).tolist())
        parts = [replicas[: cuts[0]], replicas[cuts[0] : cuts[1]], replicas[cuts[1] :]]
        return [part for part in parts if part]

    def ring(self, stage, bucket):
        """Gradient rings, one task for each group and lane."""
        tasks = []
        for group in self.groups():
            members = [self.actor(stage, replica) for replica in group]
            for lane in range(self.shape.num_lanes):
                gpus = [self.gpu(stage, replica, lane) for replica in group]
                edges = [Edge(source=a, target=b) for a, b in zip(gpus, gpus[1:] + gpus[:1], strict=True)]
                tasks.append((edges, members, members))
        is_empty = np.array([len(edges) == 1 for edges, _, _ in tasks])
        sizes = np.where(is_empty & (self.rng.random() < 0.5), 0.0, self.value([2, 4, 6, 8], 2, 9))
        cap = self.rng.choice([np.inf, 1.5, 0.7], len(tasks), p=[0.6, 0.2, 0.2])
        return self.add(f"dp {stage}.{bucket}", Category.DP, tasks, cap=cap, sizes=sizes)

    def all_to_all(self, stage):
        """Each member sends an equal part of the task's bytes to every member of its group."""
        tasks = []
        for group in self.groups():
            members = [self.actor(stage, replica) for replica in group]
            gpus = [self.gpu(stage, replica, lane) for replica in group for lane in range(self.shape.num_lanes)]
            edges = [Edge(source=a, target=b, load=1 / len(gpus)) for a in gpus for b in gpus if a != b]
            tasks.append((edges, members, members))
        return self.add(f"ep {stage}", Category.EP, tasks, cap=30.0)

    def tensor(self, stage):
        """A collective inside each actor, over its own NVLink port."""
        members = [self.actor(stage, replica) for replica in range(self.shape.num_replicas)]
        port = 2 * self.num_gpus + 2 * self.num_trunks
        tasks = [([port + self.gpu(stage, r, 0)], [actor], [actor]) for r, actor in enumerate(members)]
        return self.add(f"tp {stage}", Category.TP, tasks)

    def embedding(self):
        last = self.shape.num_stages - 1
        tasks = []
        for replica in range(self.shape.num_replicas):
            ends = [self.gpu(0, replica, 0), self.gpu(last, replica, 0)]
            members = [self.actor(0, replica), self.actor(last, replica)]
            edges = [Edge(source=ends[0], target=ends[1]), Edge(source=ends[1], target=ends[0])]
            tasks.append((edges, members, members))
        return self.add("embedding", Category.DP, tasks)

    def can_bind(self, capacity):
        """What the engine's pruning leaves."""
        left = links_that_can_bind(capacity, self.uses)
        return without_twins(capacity, left, [geometry.incidence for geometry in self.geometries])

    # -- what each stage does ---------------------------------------------------------------------

    def program(self, *, prunes):
        shape, last = self.shape, self.shape.num_stages - 1
        capacity = self.capacity()
        comms = Comms(
            forward=[self.send(p, p + 1) for p in range(last)],
            backward=[self.send(p + 1, p) for p in range(last)],
            tensor=[self.tensor(p) for p in range(last + 1)],
            buckets=[[self.ring(p, b) for b in range(shape.num_buckets)] for p in range(last + 1)],
            expert=[self.all_to_all(p) for p in range(last + 1)] if shape.has_all_to_all else [],
            embedding=self.embedding() if shape.has_embedding and last else -1,
        )
        forward_s = self.value([1.0, 1.3], 0.5, 2.0)
        tail_s = [self.value([0.0, 0.5], 0.0, 1.0) for _ in range(last + 1)]
        slowdown = np.ones((last + 1) * shape.num_replicas)
        for _ in range(shape.num_slow):
            slowdown[self.rng.integers(len(slowdown))] = self.value([1.1, 1.25, 1.5], 1.0, 1.5)
        return Program(
            roles=tuple(
                Role(
                    name=f"stage {p}",
                    first_actor=p * shape.num_replicas,
                    num_actors=shape.num_replicas,
                    ops=tuple(stage_ops(shape, comms, p, forward_s, tail_s[p])),
                )
                for p in range(last + 1)
            ),
            transfers=tuple(self.transfers),
            geometries=tuple(self.geometries),
            capacity=capacity,
            can_bind=self.can_bind(capacity) if prunes else np.ones(len(capacity), dtype=bool),
            slowdown=slowdown,
        )


@dataclass(frozen=True, kw_only=True)
class Comms:
    """Indices of the transfers."""

    forward: list[int]
    backward: list[int]
    tensor: list[int]
    buckets: list[list[int]]
    expert: list[int]
    embedding: int


def stage_ops(shape, comms, stage, forward_s, tail_s):
    """Operations of one stage: gathers, passes in order, gradients as buckets complete, optimizer."""
    ops = []
    buckets = comms.buckets[stage]
    if shape.gathers:
        ops += [Start(comm=bucket, instance=PARAMETERS) for bucket in buckets]
    last_backward = shape.num_micro_batches - 1
    for count, (kind, index) in enumerate(pass_order(shape, stage)):
        if count == 0 and shape.gathers:
            ops.append(Wait(comm=buckets[0], instance=PARAMETERS))
        if count == 1 and shape.gathers:
            ops += [Wait(comm=bucket, instance=PARAMETERS) for bucket in buckets[1:]]
        if kind == "F":
            ops += forward_ops(shape, comms, stage, index, forward_s)
        else:
            starts = buckets if index == last_backward else []
            ops += backward_ops(shape, comms, stage, index, 2 * forward_s, starts)
    ops += [Wait(comm=bucket, instance=0) for bucket in buckets]
    if comms.embedding >= 0 and stage in (0, shape.num_stages - 1):
        ops += [Start(comm=comms.embedding, instance=0), Wait(comm=comms.embedding, instance=0)]
    return [*ops, Compute(duration_s=tail_s, category=Category.OPTIMIZER, label="optimizer")]


def pass_order(shape, stage):
    """Forward and backward passes of a stage in order."""
    count = shape.num_micro_batches
    ahead = min(shape.num_stages - 1 - stage, count) if shape.interleaves else count
    order = [("F", index) for index in range(ahead)]
    for index in range(count):
        if ahead + index < count:
            order.append(("F", ahead + index))
        order.append(("B", index))
    return order


def forward_ops(shape, comms, stage, index, duration_s):
    ops = [Wait(comm=comms.forward[stage - 1], instance=index)] if stage else []
    ops.append(Compute(duration_s=duration_s, micro_batch=index))
    ops += [Start(comm=comms.tensor[stage], instance=index), Wait(comm=comms.tensor[stage], instance=index)]
    if comms.expert:
        ops += [Start(comm=comms.expert[stage], instance=index), Wait(comm=comms.expert[stage], instance=index)]
    if stage < shape.num_stages - 1:
        ops += send_ops(shape, comms.forward[stage], index)
    return ops


def backward_ops(shape, comms, stage, index, duration_s, buckets):
    ops = [Wait(comm=comms.backward[stage], instance=index)] if stage < shape.num_stages - 1 else []
    instance = shape.num_micro_batches + index
    ops.append(Start(comm=comms.tensor[stage], instance=instance))
    for bucket in buckets:
        ops += [Compute(duration_s=duration_s / len(buckets), micro_batch=index, label="B")]
        ops += [Start(comm=bucket, instance=0)]
    if not buckets:
        ops.append(Compute(duration_s=duration_s, micro_batch=index, label="B"))
    ops.append(Wait(comm=comms.tensor[stage], instance=instance))
    if stage:
        ops += send_ops(shape, comms.backward[stage - 1], index)
    return ops


def send_ops(shape, comm, index):
    """A send; a sender that waits has its previous message gone first."""
    ops = [Wait(comm=comm, instance=index - 1)] if shape.sender_waits and index else []
    return [*ops, Start(comm=comm, instance=index)]


def actor_sets(rows):
    return ActorSets(
        indptr=np.cumsum([0, *(len(row) for row in rows)]),
        actor=np.array([actor for row in rows for actor in row], dtype=np.int64),
    )


def random_program(shape, *, prunes=False):
    """The program of a shape; ``prunes`` sets ``can_bind`` as the engine's pruning finds it."""
    return Builder(shape=shape).program(prunes=prunes)
