"""A hand-made fabric: domains of equal size, one leaf a rail, one spine bundle a leaf, all by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

GB_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyRoutes:
    indptr: NDArray[np.int64]
    resource: NDArray[np.int32]
    weight: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    src_port: NDArray[np.int32]
    dst_port: NDArray[np.int32]


class TinyFabric:
    """Resources in rows of one per NVLink port, NIC or rail and direction."""

    routing = "adaptive"

    def __init__(self, domains: int, gpus: int, nics: int, nvlink: float, nic: float, latency_s: float) -> None:
        self.reduction = None
        self.num_gpus = domains * gpus
        self.gpu_domain = np.repeat(np.arange(domains, dtype=np.int32), gpus)
        self.gpu_slot = np.tile(np.arange(gpus, dtype=np.int32), domains)
        self.gpu_module = np.zeros(self.num_gpus, dtype=np.int32)
        self.nics = nics
        self.gpu_rail = (self.gpu_slot * nics // gpus if nics else self.gpu_slot * 0).astype(np.int32)
        self.latency_s = latency_s
        ports, cards = self.num_gpus, domains * nics
        self.first = np.cumsum([0, ports, ports, cards, cards, nics])
        self.capacity_bytes_per_s = np.concatenate(
            (np.full(2 * ports, nvlink), np.full(2 * cards, nic), np.full(2 * nics, nic * domains))
        )
        self.link_class = np.repeat(np.array([0, 2, 3], dtype=np.int8), (2 * ports, 2 * cards, 2 * nics))

    def card(self, gpu: NDArray[np.int32]) -> NDArray[np.int32]:
        return self.gpu_domain[gpu] * self.nics + self.gpu_rail[gpu]

    def routes(
        self,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        *,
        flow_id: NDArray[np.int64] | None = None,
        relay: str = "auto",
    ) -> TinyRoutes:
        del flow_id, relay  # nothing is hashed here, and switches join all rails
        near = self.gpu_domain[src] == self.gpu_domain[dst]
        cross = ~near & (self.gpu_rail[src] != self.gpu_rail[dst])
        enter = np.where(near, src, self.first[2] + self.card(src))
        leave = np.where(near, self.first[1] + dst, self.first[3] + self.card(dst))
        number = np.where(cross, 4, 2)
        indptr = np.concatenate(([0], np.cumsum(number)))
        resource = np.empty(indptr[-1], dtype=np.int32)
        resource[indptr[:-1]] = enter
        resource[indptr[1:] - 1] = leave
        resource[indptr[:-1][cross] + 1] = self.first[4] + self.gpu_rail[src][cross]
        resource[indptr[:-1][cross] + 2] = self.first[5] + self.gpu_rail[dst][cross]
        return TinyRoutes(
            indptr=indptr,
            resource=resource,
            weight=np.ones(indptr[-1]),
            latency_s=np.where(near, 0.0, self.latency_s),
            src_port=enter.astype(np.int32),
            dst_port=leave.astype(np.int32),
        )


@pytest.fixture(scope="session")
def make_fabric() -> Callable[..., TinyFabric]:
    def make(
        *,
        domains: int = 1,
        gpus: int = 8,
        nics: int = 8,
        nvlink: float = 450 * GB_PER_S,
        nic: float = 50 * GB_PER_S,
        latency_s: float = 0.0,
    ) -> TinyFabric:
        return TinyFabric(domains, gpus, nics, nvlink, nic, latency_s)

    return make
