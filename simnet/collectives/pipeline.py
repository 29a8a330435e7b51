"""Time that passes before a pipeline of chunks is full, and what its rounds cost."""

from __future__ import annotations

import math

import numpy as np

from simnet.collectives import names
from simnet.collectives.caps import MAX_NVLS_HEADS, SMALL_DOMAIN, channels_in_use, num_channels
from simnet.collectives.fabric_like import Float64
from simnet.collectives.latency import tree_hops
from simnet.collectives.machine import Machine, usable_nic_bytes_per_s, usable_nvlink_bytes_per_s
from simnet.spec.collectives import CollectiveConstants, Protocol, Table


def fill_s(
    algorithm: str,
    protocol: Protocol,
    machine: Machine,
    size_bytes: Float64,
    rate_bytes_per_s: Float64,
    constants: CollectiveConstants,
    *,
    registered: bool = False,
) -> Float64:
    """Return the time that chunks add to latency and bandwidth [s].

    Parameters
    ----------
    registered
        Whether the buffers are registered with NCCL: switches then reduce in them, and nothing is
        copied in and out beside the first and last round.

    Notes
    -----
    Ring, Simple: the last slice of every channel is still to be copied out; a slice is at most
    1 MiB and half of a channel's share of the size. Tree, Simple: a chunk of 512 KiB, or half of a
    channel's share, passes all hops up and down. Tree, LL: each hop holds one batch of lines
    before it passes on. In-switch: a round of chunks over all channels and heads for each stage
    of the pipeline, whose number grows with the logarithm of a domain of more than eight, and a
    synchronisation for each round. Reduction in the network: a round of chunks for each of four
    stages (scatter, up, down, gather), or a chain's chunk on all its hops. Calibrated forms, see
    the model page.
    """
    filled: Float64 = np.zeros(size_bytes.shape)
    if machine.num_ranks == 1 or algorithm == names.SYMMETRIC:
        return filled
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return _in_switch_s(algorithm, machine, size_bytes, rate_bytes_per_s, constants, registered=registered)
    if algorithm == names.COLLNET:
        return _collnet_s(machine, size_bytes, rate_bytes_per_s, constants)
    if protocol == "simple" and algorithm in (names.TREE, names.COLLNET_CHAIN):
        return _tree_s(algorithm, machine, size_bytes, constants)
    if protocol == "simple":
        return _ring_s(machine, size_bytes, rate_bytes_per_s, constants)
    if protocol == "ll" and algorithm == names.TREE:
        share = size_bytes / channels_in_use(algorithm, protocol, machine, size_bytes, constants)
        batch = np.minimum(share, constants.protocols.line_batch.si(protocol))
        filled = tree_hops(machine) * batch / constants.gpu.ll_channel_rate.si
    return filled


def _ring_s(
    machine: Machine, size_bytes: Float64, rate_bytes_per_s: Float64, constants: CollectiveConstants
) -> Float64:
    """Return the time in which the last slice of every channel of a Simple ring is copied out [s]."""
    slices = constants.protocols.slice_size.si("simple") * num_channels(machine, constants)
    fill: Float64 = np.minimum(slices, size_bytes / (2 * machine.num_ranks)) / rate_bytes_per_s
    return fill


def _collnet_s(
    machine: Machine, size_bytes: Float64, rate_bytes_per_s: Float64, constants: CollectiveConstants
) -> Float64:
    """Return what the stages of an exchange around a reduction tree hold before the last one starts [s]."""
    table = constants.in_network
    round_bytes, _ = _pieces(table.chunk, table.chunk_rounds, machine.num_channels * machine.num_heads, size_bytes)
    filled = np.minimum(round_bytes, size_bytes * constants.protocols.nvls_fill_share.si)
    held: Float64 = table.stages.si * filled / rate_bytes_per_s
    return held


def _tree_s(algorithm: str, machine: Machine, size_bytes: Float64, constants: CollectiveConstants) -> Float64:
    """Return what a chunk takes on all hops of a Simple tree, up and down, at its channel's share of each link [s].

    Under a chain around a reduction tree, the network is one level, whatever the number of nodes.
    """
    channels = num_channels(machine, constants)
    most, levels = constants.protocols.tree_chunk.si("simple"), math.floor(math.log2(machine.num_nodes))
    if algorithm == names.COLLNET_CHAIN:
        most, levels = constants.in_network.chain_chunk.si, 1
    chunk = np.minimum(most, size_bytes / (2 * channels))
    inside = 2 * (machine.max_local - 1) / usable_nvlink_bytes_per_s(machine, constants)
    between = 2 * levels / (machine.num_heads * usable_nic_bytes_per_s(machine, constants)) if levels else 0.0
    held: Float64 = channels * chunk * (inside + between)
    return held


def _in_switch_s(
    algorithm: str,
    machine: Machine,
    size_bytes: Float64,
    rate_bytes_per_s: Float64,
    constants: CollectiveConstants,
    *,
    registered: bool,
) -> Float64:
    round_bytes, rounds = _rounds(algorithm, machine, size_bytes, constants)
    filled = np.minimum(round_bytes, size_bytes * constants.protocols.nvls_fill_share.si)
    if machine.num_nodes > 1:
        sync = 0.0 if algorithm == names.NVLS_TREE else rounds * constants.gpu.nvls_round_latency.si
        tree: Float64 = constants.protocols.nvls_tree_stages.si * filled / rate_bytes_per_s + sync
        return tree
    stages = constants.protocols.nvls_stages.si * max(1.0, math.log(machine.max_local, SMALL_DOMAIN))
    fill = 0.0 if registered else stages * filled / rate_bytes_per_s
    total: Float64 = fill + rounds * constants.gpu.nvls_round_latency.si
    return total


def _rounds(
    algorithm: str, machine: Machine, size_bytes: Float64, constants: CollectiveConstants
) -> tuple[Float64, Float64]:
    """Return the bytes of one round of chunks and the number of rounds."""
    table, channels = constants.protocols.nvls_chunk, constants.gpu.nvls_channels
    if algorithm == names.NVLS_TREE and constants.gpu.nvls_tree_chunk is not None:
        table, channels = constants.gpu.nvls_tree_chunk, constants.gpu.nvls_tree_channels
    heads = machine.num_heads if algorithm == names.NVLS_TREE else min(machine.max_local, MAX_NVLS_HEADS)
    return _pieces(table, constants.protocols.nvls_chunk_rounds, channels.si * heads, size_bytes)


def _pieces(chunk: Table, chunk_rounds: Table, loop: float, size_bytes: Float64) -> tuple[Float64, Float64]:
    """Return the bytes of one round of *loop* chunks and the number of rounds.

    NCCL takes the next larger chunk once 2, 8, 64 rounds of it remain. The number of rounds is
    exact at these sizes and goes between them along the logarithm, so that time never falls.
    """
    chunks = np.array(chunk.si()) * loop
    needed = np.array(chunk_rounds.si()[: len(chunks) - 1])
    if not len(needed):
        return np.full(size_bytes.shape, chunks[0]), size_bytes / chunks[0]
    start = needed * chunks[1:]
    round_bytes = chunks[np.searchsorted(start, size_bytes, side="right")]
    between = np.exp2(np.interp(np.log2(np.maximum(size_bytes, 1.0)), np.log2(start), np.log2(needed)))
    rounds = np.where(size_bytes < start[0], size_bytes / start[0] * needed[0], between)
    return round_bytes, np.where(size_bytes > start[-1], size_bytes / chunks[-1], rounds)
