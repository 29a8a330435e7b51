"""How many connections a task holds: its weight where links are shared by connections instead of tasks.

A switch or NIC divides a link among the connections that send through it, and a collective has one for each of
its channels. A task's weight therefore is such that on its busiest port it gets a share for each connection there.
Queue pairs of a connection (NCCL_IB_QPS_PER_CONNECTION) are set for a whole job and cancel among its transfers.
"""

from __future__ import annotations

from simnet.collectives import names
from simnet.collectives.batches import CONNECTIONS
from simnet.collectives.caps import num_channels
from simnet.collectives.loads import Loads
from simnet.collectives.machine import Machine
from simnet.collectives.trees import most_edges
from simnet.spec.collectives import CollectiveConstants

BY_CONNECTIONS = "connections"
_DOUBLED = 2
"""Channels that NCCL connects for each one of its graph search over several nodes (2.30.7, src/graph/connect.cc)."""
_BATCH = 8
"""Peers that an exchange has in work at a time. Source: NCCL 2.30.7 src/enqueue.cc."""


def task_weight(algorithm: str, channels: int, machine: Machine, loads: Loads, constants: CollectiveConstants) -> float:
    """Return the weight of a collective's task in sharing by connections.

    Notes
    -----
    Weight x load is the number of connections on the busiest port: of a NIC over several nodes, else of a GPU's
    NVLink. A ring has one for each of its channels, a double tree half of its channels on each tree edge of a node,
    nvls_tree all channels at each NIC; an exchange two to each of at most eight peers at a time.

    Parameters
    ----------
    channels
        Channels that the algorithm uses.
    loads
        Bytes per task byte on the ports.
    """
    if machine.num_nodes == 1:
        return channels / loads.nvlink if loads.nvlink else 1.0
    return _on_nic(algorithm, channels, machine, constants) / loads.nic if loads.nic else 1.0


def message_weight(constants: CollectiveConstants, *, is_near: bool) -> float:
    """Return the weight of one message: two channels over the network, as many as a ring has over NVLink."""
    return constants.gpu.ring_channels.si if is_near else float(CONNECTIONS)


def _on_nic(algorithm: str, channels: int, machine: Machine, constants: CollectiveConstants) -> float:
    """Return the connections that send through the busiest NIC."""
    each = _DOUBLED * num_channels(machine, constants) / machine.num_heads
    if algorithm == names.TREE:
        return each * most_edges(machine.num_nodes) / 2
    if algorithm == names.NVLS_TREE:
        return channels * most_edges(machine.num_nodes) / 2
    if algorithm in (names.PAIRWISE, names.PAIRWISE_NO_PXN, names.DIRECT):
        peers = min(_BATCH, machine.num_ranks - machine.max_local)
        return CONNECTIONS * peers * machine.max_local / machine.num_heads
    return each
