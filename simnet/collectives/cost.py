"""Closed alpha-beta forms: time, algorithm and bus bandwidth of a collective alone on a healthy fabric."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simnet.collectives import names
from simnet.collectives.caps import cap_bytes_per_s
from simnet.collectives.fabric_like import Float64
from simnet.collectives.latency import latency_s, ring_passes
from simnet.collectives.loads import Loads, loads
from simnet.collectives.machine import Machine, extra_path_s, usable_nic_bytes_per_s, usable_nvlink_bytes_per_s
from simnet.collectives.pipeline import fill_s
from simnet.errors import PhysicsError, Problem
from simnet.spec.collectives import CollectiveConstants, Protocol

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parts of a collective's time: ``latency_s + path_s + task_bytes / rate_bytes_per_s``."""

    latency_s: Float64
    """Steps, hops and pipeline fill [s]."""
    path_s: Float64
    """What long cables and more switches add [s]."""
    task_bytes: Float64
    """Size of the fluid task."""
    rate_bytes_per_s: Float64
    """Rate of the task alone on the fabric."""
    cap_bytes_per_s: Float64
    """Limit of algorithm and protocol on that rate, whatever the links."""
    loads: Loads
    """Traffic per task byte."""

    @property
    def time_s(self) -> Float64:
        """Time of the collective [s]."""
        return self.latency_s + self.path_s + self.task_bytes / self.rate_bytes_per_s


def terms(
    op: str,
    algorithm: str,
    protocol: Protocol,
    machine: Machine,
    size_bytes: ArrayLike,
    constants: CollectiveConstants,
    *,
    registered: bool = False,
    traffic: Loads | None = None,
) -> Terms:
    """Return the parts of the time of a collective.

    Parameters
    ----------
    op, algorithm, protocol
        Names of :mod:`simnet.collectives.names` and a protocol.
    machine
        The communicator.
    size_bytes
        Whole buffer, as nccl-tests counts it [bytes]; any shape.
    constants
        Constants of the GPU generation.
    registered
        Whether the buffers are registered with NCCL (``-R 1`` of nccl-tests).
    traffic
        What the links carry where the machine does not tell: messages of unequal size.
    """
    size = np.asarray(size_bytes, dtype=np.float64)
    traffic = loads(op, algorithm, machine) if traffic is None else traffic
    wire = wire_rate_bytes_per_s(traffic, machine, constants)
    cap = cap_bytes_per_s(op, algorithm, protocol, machine, size, wire, constants)
    rate = np.minimum(wire, cap)
    steps = latency_s(op, algorithm, protocol, machine, constants)
    fill = np.zeros(size.shape)
    if op != names.SENDRECV:  # a message of its own, which no other rank waits for
        fill = fill_s(algorithm, protocol, machine, size, rate, constants, registered=registered)
    way_s = machine.network_latency_s
    if names.reduces_in_network(algorithm, machine.num_nodes):
        way_s = machine.reduction_path_s
    path = path_factor(op, algorithm, machine) * extra_path_s(way_s, constants)
    return Terms(
        latency_s=steps + fill,
        path_s=np.full(size.shape, path),
        task_bytes=size * traffic.size_factor,
        rate_bytes_per_s=rate,
        cap_bytes_per_s=cap,
        loads=traffic,
    )


def time_s(
    op: str,
    algorithm: str,
    protocol: Protocol,
    machine: Machine,
    size_bytes: ArrayLike,
    constants: CollectiveConstants,
    *,
    registered: bool = False,
) -> Float64:
    """Return the time of a collective alone on a healthy fabric [s], never less than the wire allows.

    Raises
    ------
    PhysicsError
        If the result beats the wire: a bug.
    """
    result = terms(op, algorithm, protocol, machine, size_bytes, constants, registered=registered).time_s
    bound = wire_bound_s(op, machine, size_bytes, algorithm=algorithm)
    check_bound(result, bound, f"{op} by {algorithm}/{protocol} on {machine.num_ranks} ranks")
    return result


def wire_rate_bytes_per_s(traffic: Loads, machine: Machine, constants: CollectiveConstants) -> float:
    """Return the rate at which the first link is full [task bytes/s]."""
    rates = [np.inf]
    if traffic.nvlink:
        rates.append(usable_nvlink_bytes_per_s(machine, constants) / traffic.nvlink)
    if traffic.nic:
        rates.append(usable_nic_bytes_per_s(machine, constants) / traffic.nic)
    return float(min(rates))


def path_factor(op: str, algorithm: str, machine: Machine) -> float:
    """Return how many ways between nodes follow each other, for what a long way adds."""
    if machine.num_nodes == 1:
        return 0.0
    rings = {
        names.RING: machine.num_nodes - 1,
        names.HIERARCHICAL: machine.num_nodes - 1,
        names.HIERARCHICAL_3: machine.num_nodes // machine.num_modules + machine.num_modules - 2,
    }
    if algorithm in rings:
        return float(ring_passes(op) * rings[algorithm])
    if names.reduces_in_network(algorithm, machine.num_nodes):
        return 1.0
    if algorithm == names.PAT:
        return float((machine.num_nodes - 1).bit_length())
    if algorithm in (names.TREE, names.NVLS_TREE):
        return 2.0 * math.ceil(math.log2(machine.num_nodes))
    return float(ring_passes(op))


def wire_bound_s(op: str, machine: Machine, size_bytes: ArrayLike, *, algorithm: str) -> Float64:
    """Return the least time that the wires allow an algorithm [s].

    Notes
    -----
    A rank's NVLink and NIC together send what the operation cannot do without: 2(n-1)/n of the
    size for an all-reduce (once the size where switches reduce), (n-1)/n for all-gather,
    reduce-scatter and all-to-all, the whole for a broadcast. A node's NICs send (N-1)/N in place
    of (n-1)/n, the whole where the switches between nodes reduce; for an all-to-all every byte for
    another node.
    """
    size = np.asarray(size_bytes, dtype=np.float64)
    if machine.num_ranks == 1:
        return np.zeros_like(size)
    num_ranks, num_nodes = machine.num_ranks, machine.num_nodes
    in_network = names.reduces_in_network(algorithm, num_nodes)
    in_switch = in_network or algorithm in (names.NVLS, names.NVLS_TREE, names.SYMMETRIC)
    rank_share = 1.0 if in_switch else names.bus_factor(op, num_ranks)
    rank_rate = (machine.nvlink_bytes_per_s if machine.max_local > 1 else 0.0) + (
        machine.nic_bytes_per_s if num_nodes > 1 else 0.0
    )
    bound = size * rank_share / rank_rate
    if num_nodes > 1:
        node_share = names.bus_factor(op, num_nodes)
        if op in (names.ALL_TO_ALL, names.ALL_TO_ALL_V):
            node_share = machine.min_local * (num_ranks - machine.max_local) / num_ranks
        elif in_network and op == names.ALL_REDUCE:
            node_share = 1.0
        elif op not in (names.BROADCAST, names.SENDRECV) and machine.min_local != machine.max_local:
            node_share = 1 - machine.max_local / num_ranks
        bound = np.maximum(bound, size * node_share / (machine.num_heads * machine.nic_bytes_per_s))
    return bound


def check_bound(time_s: Float64, bound_s: Float64, what: str) -> None:
    """Raise a PhysicsError if any time lies below its bound."""
    below = np.atleast_1d(time_s < bound_s * (1 - _TOLERANCE))
    if below.any():
        index = int(np.argmax(below))
        raise PhysicsError(
            Problem(
                message=f"{what} beats the wire",
                found=f"{np.atleast_1d(time_s)[index]:.6g} s",
                allowed=f"at least {np.atleast_1d(bound_s)[index]:.6g} s",
            )
        )


def algbw_bytes_per_s(size_bytes: ArrayLike, time_s: ArrayLike) -> Float64:
    """Return the algorithm bandwidth [bytes/s]: size over time."""
    return np.asarray(size_bytes, dtype=np.float64) / np.asarray(time_s, dtype=np.float64)


def busbw_bytes_per_s(op: str, num_ranks: int, size_bytes: ArrayLike, time_s: ArrayLike) -> Float64:
    """Return the bus bandwidth [bytes/s]; see :func:`simnet.collectives.names.bus_factor`."""
    return algbw_bytes_per_s(size_bytes, time_s) * names.bus_factor(op, num_ranks)
