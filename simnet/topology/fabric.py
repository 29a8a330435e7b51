"""What the simulation loads: resources with capacities, and the routes of flows over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from simnet.topology.reduction import Reduction
from simnet.topology.wiring import LINK_CLASSES, Floats, Ids, Ints

Bytes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The paths of many flows; those of flow *i* are the entries ``indptr[i]`` to ``indptr[i + 1]``."""

    indptr: Ints
    resource: Ids
    """Resources that a flow loads, in the order of its path (planes one after another)."""
    weight: Floats
    """Share of the flow's rate on each of them."""
    latency_s: Floats
    """Links and switches along the path, one way [s]."""
    num_nvlink_hops: Ids
    """Transfers over NVLink: one inside a domain, or the relay to a GPU of the right rail."""
    num_switch_hops: Ids
    """Switches of the scale-out network on the path."""
    crosses: Bytes
    """Outermost link class used, an index into ``LINK_CLASSES``; -1 for a flow to itself."""
    src_port: Ids
    """Narrow port through which the flow leaves: NIC, or NVLink inside a domain; -1 for a flow to itself."""
    dst_port: Ids
    """The same where it enters."""


class Router(Protocol):
    """Finds routes; one for built fabrics (arithmetic), one for edited graphs (search)."""

    def routes(self, src: Ints, dst: Ints, flow_id: Ints, relay: str) -> Routes:
        """Return the routes of all flows."""
        ...

    def name(self, resource: int) -> str:
        """Return the name of a resource."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A compiled cluster: a resource is one bundle (adaptive routing) or one cable (static, ECMP) and direction."""

    num_gpus: int
    gpu_domain: Ids
    gpu_slot: Ids
    gpu_rail: Ids
    gpu_module: Ids
    capacity_bytes_per_s: Floats
    """Wire rate of each resource, ``(num_resources,)`` [bytes/s]."""
    link_class: Bytes
    """Index into ``LINK_CLASSES``, ``(num_resources,)``."""
    direction: Bytes
    """0 away from the GPU, 1 towards it."""
    routing: str
    """Mode that was compiled."""
    is_searched: bool
    """Whether routes come from a search of an edited graph."""
    router: Router
    reduction: Reduction | None = None
    """Reduction in the switches, where the topology has it on."""

    @property
    def num_resources(self) -> int:
        """Return the number of resources."""
        return len(self.capacity_bytes_per_s)

    def resource_name(self, resource: int) -> str:
        """Return a name for tables, such as ``leaf12 -> spines``."""
        return self.router.name(int(resource))

    def class_name(self, resource: int) -> str:
        """Return the link class of a resource."""
        return LINK_CLASSES[self.link_class[resource]]

    def routes(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        *,
        flow_id: npt.ArrayLike | None = None,
        relay: str = "auto",
    ) -> Routes:
        """Return the routes of flows between GPUs.

        Parameters
        ----------
        src, dst
            GPU numbers, ``(num_flows,)``.
        flow_id
            Numbers that ECMP hashes beside the end points, so that queue pairs of one connection
            take ways of their own; 0 unless given.
        relay
            When a flow first moves over NVLink to the GPU of its host that sits on the rail of its
            target: ``auto`` where no switch joins the rails, ``always`` (NCCL's PXN), ``never``.

        Raises
        ------
        NoPathError
            If two GPUs have no path; the message names both.
        """
        source, target = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        ids = np.zeros(len(source), dtype=np.int64) if flow_id is None else np.asarray(flow_id, dtype=np.int64)
        return self.router.routes(source, target, ids, relay)
