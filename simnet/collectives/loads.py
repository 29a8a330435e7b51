"""Traffic of each algorithm: bytes on the busiest NVLink port and NIC per byte of the fluid task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simnet.collectives import names
from simnet.collectives.latency import ring_passes
from simnet.collectives.machine import Machine
from simnet.collectives.trees import most_edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """One algorithm's traffic."""

    size_factor: float
    """Task bytes per byte of the collective's size; the ring's task counts bytes of one edge."""
    nvlink: float
    """Bytes that the busiest GPU sends over NVLink per task byte."""
    nic: float
    """Bytes that the busiest NIC sends per task byte."""


def loads(op: str, algorithm: str, machine: Machine) -> Loads:
    """Return the traffic of an algorithm; sources in ``docs/model/collectives.md``."""
    if machine.num_ranks == 1:
        return Loads(size_factor=0.0, nvlink=0.0, nic=0.0)
    if op == names.SENDRECV:
        return _sendrecv(machine)
    return _FORMS[algorithm](op, machine)


def chain_share(machine: Machine) -> float:
    """Return the part of a node's ranks that send inside the node when a ring or chain runs through all of it."""
    return (machine.max_local - 1) / machine.max_local if machine.num_nodes > 1 else 1.0


def _per_nic(machine: Machine, node_bytes: float) -> float:
    return node_bytes / machine.num_heads if machine.num_nodes > 1 else 0.0


def _ring(op: str, machine: Machine) -> Loads:
    size_factor = ring_passes(op) * (machine.num_ranks - 1) / machine.num_ranks
    if op == names.BROADCAST:
        size_factor = 1.0
    return Loads(size_factor=size_factor, nvlink=chain_share(machine), nic=_per_nic(machine, 1.0))


def _tree(op: str, machine: Machine) -> Loads:
    del op
    inside = 2 * (machine.max_local - 1) / machine.max_local
    return Loads(size_factor=1.0, nvlink=inside, nic=_tree_nic(machine))


def _tree_nic(machine: Machine) -> float:
    """Each tree carries half of the bytes; the busiest node has 2, 3 or 4 tree edges and sends over each once."""
    return _per_nic(machine, most_edges(machine.num_nodes) / 2) if machine.num_nodes > 1 else 0.0


def _nvls(op: str, machine: Machine) -> Loads:
    """Over several nodes, count each NIC's share of the bytes once: it goes into a reduction tree."""
    del op
    return Loads(size_factor=1.0, nvlink=1 + 1 / machine.max_local, nic=_per_nic(machine, 1.0))


def _nvls_tree(op: str, machine: Machine) -> Loads:
    del op
    return Loads(size_factor=1.0, nvlink=1 + 1 / machine.max_local, nic=_tree_nic(machine))


def _collnet(op: str, machine: Machine) -> Loads:
    """Count the GPU beside a NIC: it sends its reduced part to all others, and the other heads' parts to these."""
    others = machine.max_local - 1
    if op != names.ALL_REDUCE:  # one half of the exchange, and NCCL wants a NIC for each rank
        return Loads(size_factor=1.0, nvlink=others / machine.max_local, nic=_per_nic(machine, 1.0))
    nvlink = (others + max(0, min(others, machine.num_heads - 1))) / machine.num_heads if others else 0.0
    return Loads(size_factor=1.0, nvlink=nvlink, nic=_per_nic(machine, 1.0))


def _collnet_chain(op: str, machine: Machine) -> Loads:
    del op
    inside = 2 * (machine.max_local - 1) / machine.max_local
    return Loads(size_factor=1.0, nvlink=inside, nic=_per_nic(machine, 1.0))


def _hierarchical(op: str, machine: Machine) -> Loads:
    passes = ring_passes(op)
    nvlink = passes * (machine.max_local - 1) / machine.max_local
    return Loads(
        size_factor=1.0,
        nvlink=nvlink,
        nic=_per_nic(machine, passes * (machine.num_nodes - 1) / machine.num_nodes),
    )


def _hierarchical_3(op: str, machine: Machine) -> Loads:
    passes, per_module = ring_passes(op), machine.num_nodes // machine.num_modules
    inside = (per_module - 1) / per_module
    across = (machine.num_modules - 1) / machine.num_modules / per_module
    return Loads(
        size_factor=1.0,
        nvlink=passes * (machine.max_local - 1) / machine.max_local,
        nic=_per_nic(machine, passes * (inside + across)),
    )


def _pat(op: str, machine: Machine) -> Loads:
    del op
    return Loads(size_factor=1.0, nvlink=0.0, nic=(machine.num_ranks - 1) / machine.num_ranks)


def _symmetric(op: str, machine: Machine) -> Loads:
    """Switches reduce and multicast an all-reduce; else every rank reads or writes the parts of all others."""
    return _nvls(op, machine) if op == names.ALL_REDUCE else _direct(op, machine)


def _direct(op: str, machine: Machine) -> Loads:
    passes, others = ring_passes(op), machine.num_ranks - machine.min_local
    return Loads(
        size_factor=1.0,
        nvlink=passes * (machine.max_local - 1) / machine.num_ranks,
        nic=_per_nic(machine, passes * others * machine.max_local / machine.num_ranks),
    )


def _sendrecv(machine: Machine) -> Loads:
    """Each rank sends its buffer to the next; one message leaves a node, over one NIC."""
    return Loads(size_factor=1.0, nvlink=float(machine.max_local > 1), nic=float(machine.num_nodes > 1))


def _pairwise(op: str, machine: Machine) -> Loads:
    """Every message to another node first goes to the local GPU on the receiver's rail."""
    plain = _direct(op, machine)
    others = machine.num_ranks - machine.min_local
    relayed = others / machine.num_ranks * (machine.max_local - 1) / machine.max_local
    return Loads(size_factor=1.0, nvlink=plain.nvlink + (relayed if machine.num_nodes > 1 else 0.0), nic=plain.nic)


_FORMS: dict[str, Callable[[str, Machine], Loads]] = {
    names.RING: _ring,
    names.TREE: _tree,
    names.NVLS: _nvls,
    names.NVLS_TREE: _nvls_tree,
    names.COLLNET: _collnet,
    names.COLLNET_CHAIN: _collnet_chain,
    names.HIERARCHICAL: _hierarchical,
    names.HIERARCHICAL_3: _hierarchical_3,
    names.PAT: _pat,
    names.SYMMETRIC: _symmetric,
    names.DIRECT: _direct,
    names.PAIRWISE: _pairwise,
    names.PAIRWISE_NO_PXN: _direct,
}
