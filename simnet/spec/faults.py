"""Constants of single faults: what ``topologies/parts/faults.yaml`` may hold, and its loader."""

from __future__ import annotations

from functools import cache

from simnet.library import find
from simnet.spec.base import Constant, SpecModel
from simnet.spec.collectives import ByProtocol
from simnet.spec.load import build, read_yaml


class HostBounceConstants(SpecModel):
    """A NIC that reads and writes host memory, because GPUDirect is off."""

    rate: Constant
    """Payload rate of one NIC and direction."""
    hop: ByProtocol
    """Time between GPU and host memory, at each end of a hop between nodes."""


class RedirectConstants(SpecModel):
    """Traffic between GPU and NIC that goes through the root complex, because ACS redirects it."""

    window: Constant
    """Bytes that NCCL keeps in flight on one connection."""
    completion: Constant
    """Time until that window is complete, where the IOMMU translates too."""
    share: Constant
    """Share of the NIC's rate that is left, where it does not."""


class OutstandingReadsConstants(SpecModel):
    """A NIC that may have only so many reads of GPU memory under way."""

    request: Constant
    """Bytes of one read."""
    round_trip: Constant
    """Time from a read to its last byte."""
    least: Constant
    """Fewest reads that are tried."""
    most: Constant
    """Most reads that are tried."""


class SocketConstants(SpecModel):
    """Traffic over kernel sockets, because the transport plugin is missing."""

    rate_share: Constant
    """Share of the NICs' rate that is left."""
    latency_scale: Constant
    """Factor on hops between nodes."""


class FittedConstants(SpecModel):
    """Ranges of what is fitted on a table, because no source can know it."""

    fraction: Constant
    """Share of its rate at which a part works."""
    oversubscription: Constant
    """Capacity of NICs over that of uplinks."""
    hash_seeds: Constant
    """Number of hashes over which collisions are averaged."""


class FaultConstants(SpecModel):
    """The whole file."""

    host_bounce: HostBounceConstants
    """GPUDirect off."""
    redirect: RedirectConstants
    """ACS redirect, with and without the IOMMU."""
    outstanding_reads: OutstandingReadsConstants
    """Too few reads under way."""
    nics_of_port: Constant
    """Most NICs that share the PCIe port of one GPU."""
    bonded_ports: Constant
    """Ports of a bond, of which one connection uses one."""
    socket: SocketConstants
    """Fallback to sockets."""
    fitted: FittedConstants
    """Ranges of fitted parameters."""


@cache
def load_faults() -> FaultConstants:
    """Return the constants of faults.

    Raises
    ------
    SpecError
        If the file is not valid.
    """
    return build(read_yaml(find("part", "faults")), FaultConstants)
