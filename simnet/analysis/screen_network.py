"""Communicators and collective times of the closed-form step: a scale-up domain and one NIC rate, no graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from simnet.collectives.choice import choose
from simnet.collectives.cost import terms, time_s, wire_rate_bytes_per_s
from simnet.collectives.machine import REDUCTION_OFF, Machine
from simnet.collectives.planted import MAX_COLLNET_LOCAL
from simnet.spec.collectives import load_collectives
from simnet.spec.workload import WorkloadSpec
from simnet.workload.shards import shard_degree

DP_PARTS = ("dp_shard", "dp_replica")
"""Parts of the axis dp, innermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenNetwork:
    """What the closed form knows of a fabric: a scale-up domain and one NIC rate for each GPU."""

    scale_up_domain: int
    """GPUs that NVLink joins and the job uses."""
    nvlink_bytes_per_s: float
    """NVLink wire rate of one GPU and direction."""
    nic_bytes_per_s: float
    """NIC wire rate for each GPU and direction."""
    generation: str
    """GPU generation, for the constants of collectives."""
    reduces: bool = False
    """Whether the switches between domains reduce; every communicator is thought to have its trees."""


def group(workload: WorkloadSpec, axes: tuple[str, ...], dp: int, network: ScreenNetwork) -> Machine:
    """Return the communicator of rank 0 along *axes*, ranks numbered in the rank order."""
    degrees = workload.parallelism
    inside = shard_degree(workload, dp=dp)
    sizes = (degrees.tp, degrees.cp, degrees.pp, inside, dp // inside)
    return _machine(workload.rank_order, sizes, axes, network)


@lru_cache(maxsize=65536)
def _machine(rank_order: str, sizes: tuple[int, ...], axes: tuple[str, ...], network: ScreenNetwork) -> Machine:
    size_of = dict(zip(("tp", "cp", "pp", *DP_PARTS), sizes, strict=True))
    order = [
        (part, size_of[part]) for axis in rank_order.split("-") for part in (DP_PARTS if axis == "dp" else (axis,))
    ]
    axes = (*axes, *DP_PARTS) if "dp" in axes else axes
    offsets = [0]
    stride = 1
    for axis, size in order:
        if axis in axes:
            offsets = [base + index * stride for index in range(size) for base in offsets]
        stride *= size
    domains: dict[int, int] = {}
    for offset in offsets:
        domain = offset // network.scale_up_domain
        domains[domain] = domains.get(domain, 0) + 1
    num_nodes = len(domains)
    local = max(domains.values())
    return Machine(
        num_ranks=len(offsets),
        num_nodes=num_nodes,
        num_heads=local if num_nodes > 1 else 0,
        max_local=local,
        min_local=min(domains.values()),
        nvlink_bytes_per_s=network.nvlink_bytes_per_s if local > 1 else math.inf,
        nic_bytes_per_s=network.nic_bytes_per_s if num_nodes > 1 else math.inf,
        no_reduction="" if network.reduces and num_nodes > 1 and local <= MAX_COLLNET_LOCAL else REDUCTION_OFF,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """How long a communication waits for its first bytes, and how long they then move [s]."""

    latency_s: float
    moving_s: float
    wire_s: float
    """How long the bytes fill the busiest link at its full rate; less than *moving_s* where the protocol is slower."""

    @property
    def total_s(self) -> float:
        """Both [s]."""
        return self.latency_s + self.moving_s


NO_SPELL = Spell(latency_s=0.0, moving_s=0.0, wire_s=0.0)


@lru_cache(maxsize=65536)
def collective_spell(op: str, size_bytes: float, machine: Machine, network: ScreenNetwork) -> Spell:
    """Return the closed-form time of a collective, as :func:`collective_s`, in its two parts."""
    if machine.num_ranks == 1 or size_bytes == 0:
        return NO_SPELL
    constants = load_collectives(network.generation)
    choice = choose(op, machine, size_bytes, constants)
    found = terms(op, choice.algorithm, choice.protocol, machine, size_bytes, constants)
    moving_s = float(found.task_bytes / found.rate_bytes_per_s)
    wire_s = float(found.task_bytes / wire_rate_bytes_per_s(found.loads, machine, constants))
    return Spell(latency_s=float(found.latency_s + found.path_s), moving_s=moving_s, wire_s=wire_s)


@lru_cache(maxsize=65536)
def collective_s(op: str, size_bytes: float, machine: Machine, network: ScreenNetwork) -> float:
    """Return the closed-form time of a collective with NCCL's choice of algorithm [s]."""
    if machine.num_ranks == 1 or size_bytes == 0:
        return 0.0
    constants = load_collectives(network.generation)
    choice = choose(op, machine, size_bytes, constants)
    return float(time_s(op, choice.algorithm, choice.protocol, machine, size_bytes, constants))
