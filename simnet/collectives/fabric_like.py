"""What collectives need of a fabric, and the array types that they exchange with it."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simnet.topology.reduction import Reduction

Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]
Float64: TypeAlias = NDArray[np.float64]


class RoutesLike(Protocol):
    """What a fabric says about a list of source and destination pairs."""

    @property
    def indptr(self) -> Int64:
        """Where each pair's resources start, ``(n + 1,)``."""

    @property
    def resource(self) -> Int32:
        """Resource of each entry."""

    @property
    def weight(self) -> Float64:
        """Share of the pair's rate on the resource."""

    @property
    def latency_s(self) -> Float64:
        """Latency of switches and cables [s], ``(n,)``."""

    @property
    def src_port(self) -> Int32:
        """First narrow port, ``(n,)``."""

    @property
    def dst_port(self) -> Int32:
        """Last narrow port, ``(n,)``."""


class FabricLike(Protocol):
    """What collectives need of a fabric."""

    @property
    def num_gpus(self) -> int:
        """Number of GPUs."""

    @property
    def gpu_domain(self) -> Int32:
        """NVLink domain of each GPU."""

    @property
    def gpu_slot(self) -> Int32:
        """Place of each GPU in its domain."""

    @property
    def gpu_rail(self) -> Int32:
        """Rail of each GPU's NIC."""

    @property
    def gpu_module(self) -> Int32:
        """Subcluster of each GPU."""

    @property
    def capacity_bytes_per_s(self) -> Float64:
        """Wire rate of each resource and direction [bytes/s]."""

    @property
    def link_class(self) -> NDArray[np.int8]:
        """Class of each resource."""

    @property
    def routing(self) -> str:
        """How traffic picks among equal-cost paths: adaptive, static or ecmp."""

    @property
    def reduction(self) -> Reduction | None:
        """Reduction in the switches between nodes, nothing where it is off."""

    def routes(self, src: Int32, dst: Int32, *, flow_id: Int64 | None = None, relay: str = "auto") -> RoutesLike:
        """Return the routes of the pairs.

        *flow_id* tells connections of one pair apart for the hash; *relay* says when a message first goes over NVLink
        to the rail of its target: auto where no switch joins the rails, always or never.
        """
