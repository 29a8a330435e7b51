"""What the closed forms know of a machine: ranks, nodes, NICs and two bandwidths."""

from __future__ import annotations

from dataclasses import dataclass

from simnet.spec.collectives import CollectiveConstants

REDUCTION_OFF = "the topology has scale_out.in_network_reduction off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A communicator on a healthy, uncongested fabric; a node is an NVLink domain."""

    num_ranks: int
    """Ranks."""
    num_nodes: int
    """Nodes that hold them."""
    num_heads: int
    """NICs through which each node speaks; 0 in one node."""
    max_local: int
    """Ranks in the fullest node."""
    min_local: int
    """Ranks in the emptiest node."""
    nvlink_bytes_per_s: float
    """NVLink wire rate of one GPU and direction [bytes/s]; infinite where no node holds two ranks."""
    nic_bytes_per_s: float
    """Wire rate of one NIC and direction [bytes/s]; infinite in one node."""
    num_modules: int = 1
    """Subclusters that hold equally many of the nodes; 1 where they do not."""
    network_latency_s: float = 0.0
    """Latency of switches and cables of one way between two nodes [s]."""
    no_reduction: str = REDUCTION_OFF
    """Why the switches between nodes do not reduce; empty where they do."""
    reduction_path_s: float = 0.0
    """Latency up to the root of a reduction tree and down again [s]."""

    @property
    def num_channels(self) -> int:
        """Channels that NCCL's graph search finds over several nodes, on which its per-channel limits act."""
        return max(2, self.num_heads)


def usable_nvlink_bytes_per_s(machine: Machine, constants: CollectiveConstants) -> float:
    """Return the payload rate of one GPU's NVLink [bytes/s]."""
    return machine.nvlink_bytes_per_s * constants.gpu.link_efficiency.nvlink.si


def usable_nic_bytes_per_s(machine: Machine, constants: CollectiveConstants) -> float:
    """Return the payload rate of one NIC [bytes/s]."""
    return machine.nic_bytes_per_s * constants.gpu.link_efficiency.network.si


def extra_path_s(path_s: float, constants: CollectiveConstants) -> float:
    """Return by how much a way between nodes is longer than the one that the tuner's hops hold [s]."""
    return max(0.0, path_s - constants.latency.network_path_included.si)
