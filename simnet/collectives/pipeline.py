"""Time that passes before a pipeline of chunks is full, and what its rounds cost."""

from __future__ import annotations

import numpy as np

from simnet.collectives import names
from simnet.collectives.caps import MAX_NVLS_HEADS, channels_in_use, num_channels
from simnet.collectives.groups import Float64
from simnet.collectives.latency import tree_hops
from simnet.collectives.machine import Machine
from simnet.spec.collectives import CollectiveConstants, Protocol


def fill_s(
    algorithm: str,
    protocol: Protocol,
    machine: Machine,
    size_bytes: Float64,
    rate_bytes_per_s: Float64,
    constants: CollectiveConstants,
) -> Float64:
    """Return the time that chunks add to latency and bandwidth [s].

    Notes
    -----
    Ring, Simple: the last slice of every channel is still to be copied out; a slice is at most
    1 MiB and half of a channel's share of the size. Tree, LL: each hop holds one batch of lines
    before it passes on. In-switch: a round of chunks over all channels and heads for each stage
    of the pipeline, and a synchronisation for each round. Calibrated forms, see the model page.
    """
    if machine.num_ranks == 1:
        return np.zeros(size_bytes.shape)
    if algorithm in (names.NVLS, names.NVLS_TREE):
        return _in_switch_s(algorithm, machine, size_bytes, rate_bytes_per_s, constants)
    if protocol == "simple":
        slices = constants.protocols.slice_size.si(protocol) * num_channels(machine, constants)
        fill: Float64 = np.minimum(slices, size_bytes / (2 * machine.num_ranks)) / rate_bytes_per_s
        return fill
    if protocol == "ll" and algorithm == names.TREE:
        share = size_bytes / channels_in_use(algorithm, protocol, machine, size_bytes, constants)
        batch = np.minimum(share, constants.protocols.line_batch.si(protocol))
        held: Float64 = tree_hops(machine) * batch / constants.gpu.ll_channel_rate.si
        return held
    return np.zeros(size_bytes.shape)


def _in_switch_s(
    algorithm: str,
    machine: Machine,
    size_bytes: Float64,
    rate_bytes_per_s: Float64,
    constants: CollectiveConstants,
) -> Float64:
    round_bytes = _round_bytes(algorithm, machine, size_bytes, constants)
    filled = np.minimum(round_bytes, size_bytes * constants.protocols.nvls_fill_share.si)
    if algorithm == names.NVLS_TREE:
        tree: Float64 = constants.protocols.nvls_tree_stages.si * filled / rate_bytes_per_s
        return tree
    fill = constants.protocols.nvls_stages.si * filled / rate_bytes_per_s
    rounds: Float64 = size_bytes / round_bytes * constants.gpu.nvls_round_latency.si
    return fill + rounds


def _round_bytes(algorithm: str, machine: Machine, size_bytes: Float64, constants: CollectiveConstants) -> Float64:
    """Return the bytes of one round of chunks; NCCL halves chunks until enough rounds remain."""
    table, channels = constants.protocols.nvls_chunk, constants.gpu.nvls_channels
    if algorithm == names.NVLS_TREE and constants.gpu.nvls_tree_chunk is not None:
        table, channels = constants.gpu.nvls_tree_chunk, constants.gpu.nvls_tree_channels
    heads = machine.num_heads if algorithm == names.NVLS_TREE else min(machine.max_local, MAX_NVLS_HEADS)
    chunks = [chunk * channels.si * heads for chunk in table.si()]
    round_bytes = np.full(size_bytes.shape, chunks[-1])
    needed = constants.protocols.nvls_chunk_rounds.si()[: len(chunks) - 1]
    for smaller, larger, rounds in zip(chunks[-2::-1], chunks[:0:-1], needed[::-1], strict=True):
        round_bytes = np.where(size_bytes < rounds * larger, smaller, round_bytes)
    return round_bytes
