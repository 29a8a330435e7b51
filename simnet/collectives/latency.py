"""Latency of each algorithm: steps times hops, as NCCL's tuner counts them (2.30.7, src/graph/tuning.cc)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from simnet.collectives import names
from simnet.collectives.machine import Machine
from simnet.spec.collectives import CollectiveConstants, LatencyConstants, Protocol, SymmetricLatency


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Measured over tuner latency."""

    inside: float = 1.0
    """Of base and hops inside a node."""
    between: float = 1.0
    """Of hops between nodes."""
    gather: float = 1.0
    """Of hops inside a node, for the operation."""


def latency_s(op: str, algorithm: str, protocol: Protocol, machine: Machine, constants: CollectiveConstants) -> float:
    """Return the latency of one collective [s], without launch, pipeline fill and long cables.

    Notes
    -----
    Ring: base + steps inside nodes x hop + steps between nodes x network hop, with 2(n-1) steps
    for all-reduce and n-1 else, of which 2(N-1) and N-1 lie between nodes. Tree: base + 2 ((g-1)
    hop + floor(log2 N) network hop). In-switch: one NVLS step, and 2 floor(log2 N) network hops
    over several nodes, or one through a reduction tree. Collnet: 2 (hop + (g-1) x what a peer
    adds) and one reduction in the network; its chain takes 2 (g-1) hops instead. PAT: base +
    log2(N) x 4 us + n x 2.8 us. Symmetric-memory kernels: one number for each operation. The
    hierarchical forms (of three levels with a ring inside subclusters and one across them), direct
    and pairwise compose the ring's constants.
    """
    if machine.num_ranks == 1:
        return 0.0
    if algorithm == names.SYMMETRIC:
        return symmetric_latency_s(op, protocol, constants)
    scale = Scale(
        inside=constants.gpu.latency_scale.si(protocol),
        between=constants.gpu.network_latency_scale.si(protocol),
        gather=1.0 if op == names.ALL_REDUCE else constants.gpu.gather_hop_scale.si(protocol),
    )
    return _FORMS[algorithm](op, protocol, machine, constants.latency, scale)


def tuner_latency_s(
    op: str, algorithm: str, protocol: Protocol, machine: Machine, constants: CollectiveConstants
) -> float:
    """Return the latency that NCCL's tuner itself assumes [s], before what is measured on a generation."""
    if algorithm == names.SYMMETRIC:
        return symmetric_latency_s(op, protocol, constants)
    return _FORMS[algorithm](op, protocol, machine, constants.latency, Scale())


def symmetric_latency_s(op: str, protocol: Protocol, constants: CollectiveConstants) -> float:
    """Return the base latency of NCCL's symmetric-memory kernels [s] (2.30.7, src/sym_kernels.cc)."""
    table = constants.gpu.symmetric
    assert table is not None  # the choice keeps other generations out
    record: SymmetricLatency = getattr(table, op)
    return record.ll.si if protocol == "ll" else record.simple.si


def ring_passes(op: str) -> int:
    """Return how often a ring goes round: twice for an all-reduce."""
    return 2 if op == names.ALL_REDUCE else 1


def tree_hops(machine: Machine) -> int:
    """Return the hops of a tree, up and down."""
    return 2 * (machine.max_local - 1 + math.floor(math.log2(machine.num_nodes)))


def _hops(protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> tuple[float, float]:
    """Return the ring's step inside a node and between nodes [s]."""
    inside = table.ring_nvlink_hop.si(protocol) * scale.inside * scale.gather
    if machine.num_nodes > 1:
        inside = max(inside, table.network_post.si(protocol))
    between = table.tree_network_hop if machine.max_local == 1 else table.ring_network_hop
    return inside, between.si(protocol) * scale.between


def _ring(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    passes = ring_passes(op)
    inside, between = _hops(protocol, machine, table, scale)
    num_between = passes * (machine.num_nodes - 1)
    num_inside = passes * (machine.num_ranks - 1) - num_between
    return table.ring_base.si(protocol) * scale.inside + num_inside * inside + num_between * between


def _tree(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    del op
    levels = math.floor(math.log2(machine.num_nodes))
    chain = (machine.max_local - 1) * table.tree_nvlink_hop.si(protocol) * scale.inside
    network = levels * table.tree_network_hop.si(protocol) * scale.between
    return table.tree_base.si(protocol) * scale.inside + 2 * (chain + network)


def _nvls(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    del op, protocol
    levels = math.floor(math.log2(machine.num_nodes))
    network = levels * table.nvls_tree_network_hop.si * scale.between
    return table.nvls.si * scale.inside + 2 * network


def _nvls_over_nodes(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    if machine.num_nodes == 1:
        return _nvls(op, protocol, machine, table, scale)
    return table.nvls.si * scale.inside + table.nvls_reduction_hop.si * scale.between


def _collnet(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    del op, protocol
    others = machine.max_local - 1
    exchange = min(1, others) * table.collnet_nvlink_hop.si + others * table.collnet_arity.si
    return 2 * exchange * scale.inside + table.collnet_reduction_hop.si * scale.between


def _collnet_chain(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    del op, protocol
    chain = (machine.max_local - 1) * table.collnet_chain_nvlink_hop.si
    return 2 * chain * scale.inside + table.collnet_chain_reduction_hop.si * scale.between


def _hierarchical(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    passes = ring_passes(op)
    inside, between = _hops(protocol, machine, table, scale)
    steps = (machine.max_local - 1) * inside + (machine.num_nodes - 1) * between
    return table.ring_base.si(protocol) * scale.inside + passes * steps


def _hierarchical_3(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    inside, between = _hops(protocol, machine, table, scale)
    across = machine.num_nodes // machine.num_modules - 1 + machine.num_modules - 1
    steps = (machine.max_local - 1) * inside + across * between
    return table.ring_base.si(protocol) * scale.inside + ring_passes(op) * steps


def _pat(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    del op, protocol
    hops = math.log2(machine.num_nodes) * table.pat_network_hop.si * scale.between
    return table.pat_base.si * scale.inside + hops + machine.num_ranks * table.pat_rank.si


def _direct(op: str, protocol: Protocol, machine: Machine, table: LatencyConstants, scale: Scale) -> float:
    inside, between = _hops(protocol, machine, table, scale)
    step = between if machine.num_nodes > 1 else inside
    return table.ring_base.si(protocol) * scale.inside + ring_passes(op) * step


_FORMS: dict[str, Callable[[str, Protocol, Machine, LatencyConstants, Scale], float]] = {
    names.RING: _ring,
    names.TREE: _tree,
    names.NVLS: _nvls_over_nodes,
    names.NVLS_TREE: _nvls,
    names.COLLNET: _collnet,
    names.COLLNET_CHAIN: _collnet_chain,
    names.HIERARCHICAL: _hierarchical,
    names.HIERARCHICAL_3: _hierarchical_3,
    names.PAT: _pat,
    names.DIRECT: _direct,
    names.PAIRWISE: _direct,
    names.PAIRWISE_NO_PXN: _direct,
}
