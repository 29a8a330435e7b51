"""Limits of algorithms and protocols on the rate."""

from __future__ import annotations

import math

import numpy as np

from simnet.collectives import names
from simnet.collectives.fabric_like import Float64
from simnet.collectives.machine import Machine
from simnet.spec.base import Constant
from simnet.spec.collectives import CollectiveConstants, Protocol

SMALL_DOMAIN = 8
"""GPUs of the domains for which in-switch constants are calibrated."""
_LARGE_DOMAIN = 72
MAX_NVLS_HEADS = 32
"""Heads of an in-switch collective. Source: NCCL 2.30.7 src/transport/nvls.cc."""


def cap_bytes_per_s(
    op: str,
    algorithm: str,
    protocol: Protocol,
    machine: Machine,
    size_bytes: Float64,
    wire_bytes_per_s: float,
    constants: CollectiveConstants,
) -> Float64:
    """Return the limit on the task's rate [bytes/s], infinite where the links alone decide.

    Notes
    -----
    NCCL 2.30.7, src/graph/tuning.cc: LL moves half payload, at most ``ll_max``; LL128 15/16,
    at most a rate per channel; a tree has its rates per channel, less for LL;
    in-switch reduction has its own link efficiency, calibrated, and so have reduction trees.
    """
    if algorithm == names.TREE:
        return _tree_cap(protocol, machine, size_bytes, wire_bytes_per_s, constants)
    own = _own_cap(op, algorithm, protocol, machine, constants)
    if own is not None:
        return np.full(size_bytes.shape, own)
    cap = math.inf
    if protocol != "simple":
        cap = wire_bytes_per_s * constants.protocols.payload_fraction.si(protocol)
    if algorithm == names.PAT:
        cap = wire_bytes_per_s * constants.protocols.pat_efficiency.si
    if algorithm == names.RING and op != names.ALL_REDUCE and machine.num_nodes == 1:
        cap = min(cap, wire_bytes_per_s * constants.gpu.gather_efficiency.si)
    if protocol == "ll":
        cap = min(cap, ll_bus_bytes_per_s(machine, constants) * _per_bus(op, algorithm, machine))
        spread = channels_in_use(algorithm, protocol, machine, size_bytes, constants)
        limited: Float64 = np.minimum(cap, spread * constants.gpu.ll_channel_rate.si * _per_bus(op, algorithm, machine))
        return limited
    if protocol == "ll128":
        limit = num_channels(machine, constants) * constants.gpu.ring_ll128_max.si(machine.num_nodes)
        cap = min(cap, limit * _per_bus(op, algorithm, machine))
    if algorithm in (names.PAIRWISE, names.PAIRWISE_NO_PXN) and op != names.SENDRECV:
        cap = min(cap, wire_bytes_per_s * constants.gpu.all_to_all_efficiency.si)
    return np.full(size_bytes.shape, cap)


def _own_cap(
    op: str, algorithm: str, protocol: Protocol, machine: Machine, constants: CollectiveConstants
) -> float | None:
    """Return the limit of an algorithm that has one of its own [bytes/s]."""
    if algorithm == names.SYMMETRIC:
        return symmetric_bytes_per_s(op, protocol, machine, constants)
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return _nvls_cap(algorithm, machine, constants)
    if algorithm in (names.COLLNET, names.COLLNET_CHAIN):
        return reduction_bytes_per_s(machine, constants)
    return None


def symmetric_bytes_per_s(op: str, protocol: Protocol, machine: Machine, constants: CollectiveConstants) -> float:
    """Return what symmetric-memory kernels move [task bytes/s], their task being the whole buffer."""
    table = constants.gpu.symmetric
    assert table is not None  # the choice keeps other generations out
    peak = table.reducing_peak.si if op == names.ALL_REDUCE else table.peak.si
    share = constants.protocols.payload_fraction.si(protocol) if protocol == "ll" else 1.0
    return peak * share / names.bus_factor(op, machine.num_ranks)


def reduction_bytes_per_s(machine: Machine, constants: CollectiveConstants) -> float:
    """Return what the reduction trees of all NICs of a node move [bytes/s]."""
    return machine.num_heads * machine.nic_bytes_per_s * constants.in_network.efficiency.si


def num_channels(machine: Machine, constants: CollectiveConstants) -> int:
    """Return the channels over which a ring or tree spreads."""
    return int(constants.gpu.ring_channels.si) if machine.num_nodes == 1 else machine.num_channels


def nvls_link_efficiency(num_ranks: int, constants: CollectiveConstants) -> float:
    """Return the payload per NVLink wire byte of in-switch reduction among *num_ranks* GPUs of one domain."""
    small = _need(constants.gpu.nvls_link_efficiency)
    if constants.gpu.nvls_large_domain_efficiency is None or num_ranks <= SMALL_DOMAIN:
        return small
    large = constants.gpu.nvls_large_domain_efficiency.si
    share = math.log(num_ranks / SMALL_DOMAIN) / math.log(_LARGE_DOMAIN / SMALL_DOMAIN)
    return small + (large - small) * min(1.0, share)


def ll_bus_bytes_per_s(machine: Machine, constants: CollectiveConstants) -> float:
    """Return the bus bandwidth of LL, all channels together, as measured [bytes/s]."""
    return constants.gpu.ll_max.si(machine.num_nodes) * constants.gpu.ll_efficiency.si


def channels_in_use(
    algorithm: str, protocol: Protocol, machine: Machine, size_bytes: Float64, constants: CollectiveConstants
) -> Float64:
    """Return over how many channels a small collective spreads; NCCL takes fewer for fewer bytes."""
    needed = constants.protocols.threads.si(protocol) * constants.protocols.bytes_per_thread.si(protocol)
    if protocol == "ll" and algorithm == names.RING:
        needed *= machine.num_ranks
    used: Float64 = np.clip(size_bytes / needed, 1.0, num_channels(machine, constants))
    return used


def _tree_cap(
    protocol: Protocol,
    machine: Machine,
    size_bytes: Float64,
    wire_bytes_per_s: float,
    constants: CollectiveConstants,
) -> Float64:
    channels = num_channels(machine, constants)
    limit = min(wire_bytes_per_s, channels * constants.gpu.tree_max.si(machine.num_nodes) / 2)
    if protocol == "simple":
        return np.full(size_bytes.shape, limit)
    if protocol == "ll":
        limit = min(limit * constants.protocols.tree_ll_fraction.si, ll_bus_bytes_per_s(machine, constants) / 2)
        spread = channels_in_use(names.TREE, protocol, machine, size_bytes, constants)
        cap: Float64 = np.minimum(limit, spread * constants.gpu.ll_channel_rate.si / 2)
        return cap
    share = constants.protocols.tree_ll128_fraction.si(machine.num_nodes)
    limit = min(limit * share, channels * constants.gpu.tree_ll128_max.si(machine.num_nodes) / 2)
    return np.full(size_bytes.shape, limit)


def _nvls_cap(algorithm: str, machine: Machine, constants: CollectiveConstants) -> float:
    inside = machine.nvlink_bytes_per_s * nvls_link_efficiency(machine.max_local, constants)
    cap = inside / (1 + 1 / machine.max_local)
    if names.reduces_in_network(algorithm, machine.num_nodes):
        return min(cap, reduction_bytes_per_s(machine, constants))
    if algorithm == names.NVLS_TREE and constants.gpu.nvls_tree_max is not None:
        bus = machine.num_channels * constants.gpu.nvls_tree_max.si(machine.num_nodes)
        cap = min(cap, bus / names.bus_factor(names.ALL_REDUCE, machine.num_ranks))
    return cap


def _per_bus(op: str, algorithm: str, machine: Machine) -> float:
    """Return task rate over bus bandwidth: a ring's task is the bus itself, other tasks count the size."""
    return 1.0 if algorithm == names.RING else 1 / names.bus_factor(op, machine.num_ranks)


def _need(constant: Constant | None) -> float:
    assert constant is not None  # the choice and the check of algorithms keep in-switch reduction off such machines
    return constant.si
