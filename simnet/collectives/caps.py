"""Limits of algorithms and protocols on the rate, and the bytes that fill their pipelines."""

from __future__ import annotations

import math

import numpy as np

from simnet.collectives import names
from simnet.collectives.groups import Float64
from simnet.collectives.machine import Machine
from simnet.spec.base import Constant
from simnet.spec.collectives import CollectiveConstants, Protocol, Table

_SMALL_DOMAIN = 8
_LARGE_DOMAIN = 72


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
    at most a rate per channel; a tree has its rates per channel, less for LL, and the size table
    of its protocol; in-switch reduction has its own link efficiency, calibrated.
    """
    if algorithm == names.TREE:
        return _tree_cap(protocol, machine, size_bytes, wire_bytes_per_s, constants)
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return np.full(size_bytes.shape, _nvls_cap(algorithm, machine, constants))
    cap = math.inf
    if protocol != "simple":
        cap = wire_bytes_per_s * constants.protocols.payload_fraction.si(protocol)
    if protocol == "ll":
        cap = min(cap, constants.gpu.ll_max.si(machine.num_nodes) * _per_bus(op, algorithm, machine))
    elif protocol == "ll128":
        limit = num_channels(machine, constants) * constants.gpu.ring_ll128_max.si(machine.num_nodes)
        cap = min(cap, limit * _per_bus(op, algorithm, machine))
    if algorithm in (names.PAIRWISE, names.PAIRWISE_NO_PXN):
        cap = min(cap, wire_bytes_per_s * constants.gpu.all_to_all_efficiency.si)
    return np.full(size_bytes.shape, cap)


def num_channels(machine: Machine, constants: CollectiveConstants) -> int:
    """Return the channels over which a ring or tree spreads."""
    return int(constants.gpu.ring_channels.si) if machine.num_nodes == 1 else machine.num_channels


def nvls_link_efficiency(num_ranks: int, constants: CollectiveConstants) -> float:
    """Return the payload per NVLink wire byte of in-switch reduction among *num_ranks* GPUs of one domain."""
    small = _need(constants.gpu.nvls_link_efficiency)
    if constants.gpu.nvls_large_domain_efficiency is None or num_ranks <= _SMALL_DOMAIN:
        return small
    large = constants.gpu.nvls_large_domain_efficiency.si
    share = math.log(num_ranks / _SMALL_DOMAIN) / math.log(_LARGE_DOMAIN / _SMALL_DOMAIN)
    return small + (large - small) * min(1.0, share)


def tree_correction(table: Table, start_bytes: float, size_bytes: Float64, *, smooth: bool) -> Float64:
    """Return the share of a tree's bandwidth that each size reaches.

    The tuner takes the entry of the next smaller power of two; *smooth* goes between entries along
    the logarithm of the size, so that time never falls as size grows.
    """
    values = np.array(table.si())
    at = np.log2(np.maximum(size_bytes, start_bytes) / start_bytes)
    if not smooth:
        stepped: Float64 = values[np.minimum(at.astype(np.int64), len(values) - 1)]
        return stepped
    smoothed: Float64 = np.exp2(np.interp(at, np.arange(len(values)), np.log2(values)))
    return smoothed


def correction_table(protocol: Protocol, constants: CollectiveConstants) -> Table:
    """Return the size table of a protocol's tree."""
    table: Table = getattr(constants.protocols, f"tree_correction_{protocol}")
    return table


def fill_bytes(
    op: str,
    algorithm: str,
    protocol: Protocol,
    machine: Machine,
    size_bytes: Float64,
    constants: CollectiveConstants,
) -> Float64:
    """Return the task bytes that pass before a Simple pipeline is full.

    Notes
    -----
    Ring: the last slice of every channel still has to be copied out; a slice is at most 1 MiB and
    half of a channel's share of the size. In-switch: one round of chunks over all channels and
    heads for each stage of the pipeline. LL and LL128 pass on lines and have no such pieces.
    """
    del op
    if protocol != "simple" or machine.num_ranks == 1:
        return np.zeros(size_bytes.shape)
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return _nvls_fill(machine, size_bytes, constants)
    channels = num_channels(machine, constants)
    slice_bytes = constants.protocols.slice_size.si(protocol)
    return np.minimum(slice_bytes * channels, size_bytes / (2 * machine.num_ranks))


def _nvls_fill(machine: Machine, size_bytes: Float64, constants: CollectiveConstants) -> Float64:
    chunks = constants.protocols.nvls_chunk.si()
    pieces = constants.gpu.nvls_channels.si * machine.max_local
    round_bytes = np.full(size_bytes.shape, chunks[-1] * pieces)
    rounds = constants.protocols.nvls_chunk_rounds.si()
    for smaller, larger, needed in zip(reversed(chunks[:-1]), reversed(chunks[1:]), reversed(rounds), strict=True):
        round_bytes = np.where(size_bytes < needed * larger * pieces, smaller * pieces, round_bytes)
    fill: Float64 = np.minimum(round_bytes, size_bytes)
    return fill


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
        limit = min(limit * constants.protocols.tree_ll_fraction.si, constants.gpu.ll_max.si(machine.num_nodes) / 2)
    else:
        share = constants.protocols.tree_ll128_fraction.si(machine.num_nodes)
        limit = min(limit * share, channels * constants.gpu.tree_ll128_max.si(machine.num_nodes) / 2)
    table = correction_table(protocol, constants)
    start_bytes = constants.protocols.tree_correction_start.si
    cap: Float64 = limit * tree_correction(table, start_bytes, size_bytes, smooth=True)
    return cap


def _nvls_cap(algorithm: str, machine: Machine, constants: CollectiveConstants) -> float:
    inside = machine.nvlink_bytes_per_s * nvls_link_efficiency(machine.max_local, constants)
    cap = inside / (1 + 1 / machine.max_local)
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
