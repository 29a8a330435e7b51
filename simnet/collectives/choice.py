"""Which algorithm and protocol NCCL's tuner takes: the least of its own predicted times.

Source: NCCL 2.30.7, src/graph/tuning.cc. The tuner's prediction is not simnet's: it lacks
pipeline fill and measured efficiencies, and NCCL lives with its mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from simnet.collectives import names
from simnet.collectives.caps import MAX_NVLS_HEADS, ll_bus_bytes_per_s, num_channels, symmetric_bytes_per_s
from simnet.collectives.latency import tuner_latency_s
from simnet.collectives.machine import REDUCTION_OFF, Machine
from simnet.errors import Problem, SpecError
from simnet.spec.collectives import PROTOCOLS, CollectiveConstants, Protocol, Table
from simnet.units import format_time

_SIMPLE_ONLY = (names.NVLS, names.NVLS_TREE, names.COLLNET, names.COLLNET_CHAIN)
_IN_NETWORK = (names.COLLNET, names.COLLNET_CHAIN)
_GATHERS = (names.PAT, names.COLLNET)
_PLAIN_BUFFERS = "the buffers are not registered as symmetric memory"
_SYMMETRIC_LL_BELOW_BYTES = 2**31  # their counters have 32 bits (src/sym_kernels.cc)
_RING_PLATEAU_BYTES = 64  # per channel and rank; from here on the tuner charges a ring of several nodes more latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An algorithm with its protocol, and why."""

    algorithm: str
    """Name of the algorithm."""
    protocol: Protocol
    """Wire protocol."""
    channels: int
    """Channels over which it spreads."""
    why: str
    """Reason, in words."""


def choose(
    op: str,
    machine: Machine,
    size_bytes: float,
    constants: CollectiveConstants,
    *,
    algorithm: str = names.AUTO,
    excluded: Collection[str] = (),
    buffers: str = names.PLAIN,
) -> Choice:
    """Return what NCCL runs for one collective.

    Parameters
    ----------
    op
        Canonical operation.
    machine
        The communicator.
    size_bytes
        Whole buffer [bytes].
    constants
        Constants of the GPU generation.
    algorithm
        ``auto``, or one that is set; then only the protocol is chosen.
    excluded
        Algorithms and protocols that are switched off, as by ``NCCL_NVLS_ENABLE=0`` or ``NCCL_PROTO``.
    buffers
        One of :data:`simnet.collectives.names.BUFFERS`; symmetric ones go to the symmetric-memory kernels
        wherever these can run, and the tuner is not asked.

    Raises
    ------
    SpecError
        If the algorithm does not exist for the operation or cannot run on the machine.
    """
    algorithm = names.algorithm(algorithm)
    names.check_algorithm(op, algorithm)
    names.check_buffers(buffers)
    if machine.num_ranks == 1:
        return Choice(algorithm=names.RING, protocol="simple", channels=0, why="one rank: nothing to move")
    possible = [pair for pair in candidates(op, machine, constants) if not set(pair) & set(excluded)]
    refused = _refused(op, machine, constants, buffers, excluded)
    if algorithm != names.AUTO:
        _check_can_run(op, algorithm, machine, constants, refused if algorithm == names.SYMMETRIC else "")
        possible = [pair for pair in possible if pair[0] == algorithm] or _set_pairs(algorithm, size_bytes, excluded)
    elif not refused:
        possible = _set_pairs(names.SYMMETRIC, size_bytes, excluded)
    times = {pair: tuner_time_s(op, *pair, machine, size_bytes, constants) for pair in possible}
    ranked = sorted(possible, key=lambda pair: times[pair])
    best = ranked[0]
    return Choice(
        algorithm=best[0],
        protocol=best[1],
        channels=channels_of(best[0], machine, constants),
        why=_reason(algorithm, ranked, times) + _left_out(op, algorithm, machine, refused),
    )


def candidates(op: str, machine: Machine, constants: CollectiveConstants) -> list[tuple[str, Protocol]]:
    """Return the pairs of algorithm and protocol among which the tuner chooses."""
    if op == names.ALL_TO_ALL or op in names.EXCHANGES:
        return [(names.PAIRWISE, "simple")]
    found: list[tuple[str, Protocol]] = [(names.RING, protocol) for protocol in PROTOCOLS]
    if op == names.ALL_REDUCE:
        found += [(names.TREE, protocol) for protocol in PROTOCOLS]
        found += [(name, "simple") for name in _SIMPLE_ONLY if not _obstacle(op, name, machine, constants)]
    if op in (names.ALL_GATHER, names.REDUCE_SCATTER):
        found += [(name, "simple") for name in _GATHERS if not _obstacle(op, name, machine, constants)]
    return found


def _set_pairs(algorithm: str, size_bytes: float, excluded: Collection[str]) -> list[tuple[str, Protocol]]:
    """Return the pairs of an algorithm that the tuner itself does not weigh."""
    simple: list[tuple[str, Protocol]] = [(algorithm, "simple")]
    has_ll = algorithm == names.SYMMETRIC and size_bytes < _SYMMETRIC_LL_BELOW_BYTES and "ll" not in excluded
    return [(algorithm, "ll"), *simple] if has_ll else simple


def _refused(op: str, machine: Machine, constants: CollectiveConstants, buffers: str, excluded: Collection[str]) -> str:
    """Return why the symmetric-memory kernels do not take an operation; empty if they do."""
    if buffers != names.SYMMETRIC:
        return _PLAIN_BUFFERS
    if names.SYMMETRIC not in names.ALGORITHMS[op]:
        return f"NCCL has none for {op}"
    if names.SYMMETRIC in excluded:
        return "they are switched off"
    return _symmetric_obstacle(machine, constants)


def channels_of(algorithm: str, machine: Machine, constants: CollectiveConstants) -> int:
    """Return the channels over which an algorithm spreads."""
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return int(constants.gpu.nvls_channels.si)
    return num_channels(machine, constants)


def tuner_time_s(
    op: str, algorithm: str, protocol: Protocol, machine: Machine, size_bytes: float, constants: CollectiveConstants
) -> float:
    """Return the time that the tuner predicts [s]."""
    latency = tuner_latency_s(op, algorithm, protocol, machine, constants)
    if algorithm == names.RING and protocol == "simple" and op == names.ALL_REDUCE and machine.num_nodes > 1:
        share = size_bytes / (num_channels(machine, constants) * machine.num_ranks)
        if share >= _RING_PLATEAU_BYTES:
            latency *= constants.protocols.ring_many_nodes_latency.si
    bandwidth = _tuner_algbw(op, algorithm, protocol, machine, constants)
    if algorithm == names.TREE:
        bandwidth *= _tree_correction(protocol, size_bytes, constants)
    return latency + size_bytes / bandwidth


def _tree_correction(protocol: Protocol, size_bytes: float, constants: CollectiveConstants) -> float:
    """Return the share of a tree's bandwidth that the tuner grants to a size."""
    table: Table = getattr(constants.protocols, f"tree_correction_{protocol}")
    start = constants.protocols.tree_correction_start.si
    entry = int(math.log2(max(size_bytes, start) / start))
    return table.si()[min(entry, len(table.values) - 1)]


def _tuner_algbw(
    op: str, algorithm: str, protocol: Protocol, machine: Machine, constants: CollectiveConstants
) -> float:
    if algorithm == names.TREE:
        return _tree_bus(protocol, machine, constants) / 2
    if algorithm in _IN_NETWORK:
        return _collnet_algbw(op, algorithm, machine, constants)
    if algorithm == names.SYMMETRIC:
        return symmetric_bytes_per_s(op, protocol, machine, constants)
    bus = math.inf
    if algorithm == names.RING:
        bus = _ring_bus(protocol, machine, constants)
    elif algorithm in (names.NVLS, names.NVLS_TREE):
        bus = _nvls_bus(algorithm, machine, constants)
    elif algorithm == names.PAT:
        bus = _network_bus(machine, constants) * constants.protocols.pat_efficiency.si
    return bus / names.bus_factor(op, machine.num_ranks)


def _collnet_algbw(op: str, algorithm: str, machine: Machine, constants: CollectiveConstants) -> float:
    if op != names.ALL_REDUCE:
        between = _network_bus(machine, constants) * constants.in_network.tuner_gather_share.si
        return min(_collnet_bus(machine, constants), between)
    if algorithm == names.COLLNET_CHAIN:
        return _collnet_bus(machine, constants) / 2
    share = machine.max_local / machine.num_heads  # ranks for each NIC, of which the tuner counts half beyond one
    return _collnet_bus(machine, constants) / 2 / ((share + 1) / 2) * constants.gpu.tuner_collnet_efficiency.si


def _nvlink_bus(machine: Machine, constants: CollectiveConstants) -> float:
    return machine.nvlink_bytes_per_s * constants.gpu.tuner_nvlink_fraction.si


def _collnet_bus(machine: Machine, constants: CollectiveConstants) -> float:
    """Return what the tuner counts inside a node; it leaves the network out unless a node has nothing else."""
    return _nvlink_bus(machine, constants) if machine.max_local > 1 else _network_bus(machine, constants)


def _network_bus(machine: Machine, constants: CollectiveConstants) -> float:
    return machine.num_heads * machine.nic_bytes_per_s * constants.gpu.link_efficiency.network.si


def _ring_bus(protocol: Protocol, machine: Machine, constants: CollectiveConstants) -> float:
    bus = _nvlink_bus(machine, constants)
    if machine.num_nodes > 1:
        bus = min(bus, _network_bus(machine, constants))
    if protocol == "ll":
        return min(bus * constants.protocols.payload_fraction.ll, ll_bus_bytes_per_s(machine, constants))
    if protocol == "ll128":
        limit = num_channels(machine, constants) * constants.gpu.ring_ll128_max.si(machine.num_nodes)
        return min(bus * constants.protocols.tuner_margin.si, limit)
    return bus


def _tree_bus(protocol: Protocol, machine: Machine, constants: CollectiveConstants) -> float:
    bus = _nvlink_bus(machine, constants)
    if machine.num_nodes > 2 or not math.isfinite(bus):
        bus = min(bus, _network_bus(machine, constants))
    channels = num_channels(machine, constants)
    bus = min(bus * constants.protocols.tuner_margin.si, channels * constants.gpu.tree_max.si(machine.num_nodes))
    if protocol == "ll":
        return min(bus * constants.protocols.tree_ll_fraction.si, ll_bus_bytes_per_s(machine, constants))
    if protocol == "ll128":
        share = constants.protocols.tree_ll128_fraction.si(machine.num_nodes)
        return min(bus * share, channels * constants.gpu.tree_ll128_max.si(machine.num_nodes))
    return bus


def _nvls_bus(algorithm: str, machine: Machine, constants: CollectiveConstants) -> float:
    efficiency, tree_max = constants.gpu.tuner_nvls_efficiency, constants.gpu.nvls_tree_max
    assert efficiency is not None  # candidates() and _check_can_run() keep other machines out
    heads = min(MAX_NVLS_HEADS, machine.max_local)
    speed = min(constants.gpu.tuner_head_speed_max.si, _nvlink_bus(machine, constants) / heads)
    inside = 2 * speed * efficiency.si * (heads - 1) / heads
    if machine.num_nodes == 1:
        return heads * inside
    between = machine.nic_bytes_per_s * constants.gpu.link_efficiency.network.si
    if algorithm == names.NVLS:
        return machine.num_heads * min(inside, between)
    between *= 2 if machine.num_nodes == 2 else 1
    limit = math.inf if tree_max is None else tree_max.si(machine.num_nodes)
    return machine.num_heads * min(inside, between, limit)


def _obstacle(op: str, algorithm: str, machine: Machine, constants: CollectiveConstants) -> str:
    """Return why an algorithm cannot run on a machine; empty if it can."""
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return _nvls_obstacle(algorithm, machine, constants)
    if algorithm in _IN_NETWORK:
        return _network_obstacle(op, machine)
    if algorithm == names.SYMMETRIC:
        return _symmetric_obstacle(machine, constants)
    return _shape_obstacle(algorithm, machine)


def _network_obstacle(op: str, machine: Machine) -> str:
    if machine.num_nodes == 1:
        return "all ranks lie in one node"
    if op != names.ALL_REDUCE and not machine.num_heads == machine.max_local == machine.min_local:
        return f"NCCL wants a NIC for each rank, and nodes of {machine.max_local} ranks use {machine.num_heads}"
    return machine.no_reduction


def _shape_obstacle(algorithm: str, machine: Machine) -> str:
    """Return why an algorithm cannot run on ranks that lie as they do; empty if it can."""
    if algorithm == names.PAT and (machine.num_nodes == 1 or machine.max_local > 1):
        return "NCCL runs it with one rank in each node"
    if algorithm == names.HIERARCHICAL_3 and machine.num_modules == 1:
        return "its outer level are subclusters of equally many nodes, and the ranks do not lie in several"
    if algorithm in (names.HIERARCHICAL, names.HIERARCHICAL_3) and machine.min_local != machine.max_local:
        return f"nodes hold {machine.min_local} to {machine.max_local} ranks, and shards need equal nodes"
    return ""


def _symmetric_obstacle(machine: Machine, constants: CollectiveConstants) -> str:
    if constants.gpu.symmetric is None:
        return f"NCCL has no symmetric-memory kernels for the {constants.generation} generation"
    return "" if machine.num_nodes == 1 else "the ranks lie in several NVLink domains"


def _nvls_obstacle(algorithm: str, machine: Machine, constants: CollectiveConstants) -> str:
    if constants.gpu.tuner_nvls_efficiency is None:
        return f"the NVSwitches of the {constants.generation} generation cannot reduce"
    if machine.min_local == 1:
        return "a node holds a single rank"
    if algorithm == names.NVLS and machine.num_nodes > 1 and machine.no_reduction:
        ends = f"in-switch reduction ends at the node, and the ranks lie in {machine.num_nodes} nodes"
        return f"{ends}; {machine.no_reduction}"
    if algorithm == names.NVLS_TREE and machine.num_nodes == 1:
        return "all ranks lie in one node; nvls is the algorithm there"
    return ""


def _check_can_run(op: str, algorithm: str, machine: Machine, constants: CollectiveConstants, refused: str) -> None:
    obstacle = _obstacle(op, algorithm, machine, constants) or refused
    if obstacle:
        able = [
            name for name in names.ALGORITHMS[op] if name != algorithm and not _obstacle(op, name, machine, constants)
        ]
        raise SpecError(
            Problem(
                message=f"{algorithm} cannot run {op} here: {obstacle}",
                found=f'"{algorithm}"',
                allowed=", ".join((names.AUTO, *able)),
                hint="say --buffers symmetric" if obstacle == _PLAIN_BUFFERS else "",
            )
        )


def _left_out(op: str, algorithm: str, machine: Machine, refused: str) -> str:
    """Return why switches between nodes that could reduce do not, or kernels for the buffers do not run."""
    if algorithm != names.AUTO:
        return ""
    found = "" if refused in ("", _PLAIN_BUFFERS) else f"; no symmetric-memory kernels: {refused}"
    is_silent = machine.no_reduction in ("", REDUCTION_OFF) or machine.num_nodes == 1
    if is_silent or names.COLLNET not in names.ALGORITHMS[op]:
        return found
    return f"{found}; no reduction in the network: {machine.no_reduction}"


def _reason(algorithm: str, ranked: list[tuple[str, Protocol]], times: dict[tuple[str, Protocol], float]) -> str:
    best = ranked[0]
    head = f"{best[0]}/{best[1]}"
    if algorithm != names.AUTO:
        return f"{head}: the algorithm is set" + ("" if len(ranked) == 1 else ", the protocol is the tuner's quickest")
    if best[0] == names.SYMMETRIC:
        return f"{head}: the buffers are symmetric memory, so the tuner is not asked"
    if len(ranked) == 1:
        return f"{head}: the only candidate"
    other = next((pair for pair in ranked if pair[0] != best[0]), ranked[1])
    return (
        f"{head}: the tuner's quickest by its own estimates, {format_time(times[best])} "
        f"before {other[0]}/{other[1]} with {format_time(times[other])}"
    )
