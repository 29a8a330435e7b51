"""Single faults of a cluster, each a physical model: an edit of links, of latencies, or of NCCL's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from simnet.collectives import names
from simnet.collectives.fabric_like import Float64
from simnet.collectives.fault_edits import longer_hops, scaled_hops
from simnet.spec.base import Constant
from simnet.spec.collectives import CollectiveConstants
from simnet.spec.faults import FaultConstants
from simnet.spec.topology import Routing
from simnet.topology import Cluster
from simnet.units import si_factor

_GRID = 13
"""Most values at which a parameter is tried; a continuous one is refined between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What is fitted on the table: one number in a range that is fixed before."""

    label: str
    """Meaning, with unit."""
    low: float
    """Least value, in the unit of the label."""
    high: float
    """Largest value."""
    is_whole: bool = False
    """Whether it counts things."""
    choices: tuple[float, ...] = ()
    """The only values, if there are few."""

    def values(self) -> Float64:
        """Return the values that are tried first, ``(num_values,)``."""
        if self.choices:
            return np.array(self.choices)
        if self.is_whole and self.high - self.low < _GRID:
            return np.arange(self.low, self.high + 1)
        spaced = np.geomspace(self.low, self.high, _GRID)
        return np.unique(np.round(spaced)) if self.is_whole else spaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that may be wrong."""

    name: str
    """Key."""
    title: str
    """What is wrong, in words; ``{}`` stands for the parameter."""
    tell: str
    """Measurement that tells it from faults which predict the same table."""
    parameter: Parameter | None = None
    """What is fitted, nothing if the fault has no freedom."""
    is_fitted: bool = False
    """Whether the range comes from no source, so that the table alone sets the value."""
    links: Callable[[Cluster, float], None] = lambda _cluster, _value: None
    """Edits a cluster."""
    tune: Callable[[CollectiveConstants, float], CollectiveConstants] = lambda constants, _value: constants
    """Changes constants."""
    routing: Routing | None = None
    """Routing in place of the topology's."""
    algorithms: Mapping[str, str] = field(default_factory=dict)
    """Algorithm that runs in place of the tuner's choice, by operation."""
    excluded: tuple[str, ...] = ()
    """Algorithms and protocols that are switched off."""
    is_seen: bool = False
    """Whether NCCL's tuner knows of it; else NCCL chooses as on the healthy machine."""


HEALTHY = Fault(name="healthy", title="healthy", tell="nothing: all is as it should be")


def catalogue(cluster: Cluster, gpu: CollectiveConstants, constants: FaultConstants) -> tuple[Fault, ...]:
    """Return every single fault that is modelled on a cluster, the healthy state first."""
    num_nics = int(cluster.wiring.nic_index.max(initial=0)) + 1
    return (
        HEALTHY,
        *_of_rails(num_nics, constants),
        *_of_hosts(cluster, num_nics, gpu, constants),
        *_of_network(constants),
        *_of_choice(),
    )


def _of_rails(num_nics: int, constants: FaultConstants) -> Iterator[Fault]:
    share = _range("share of its rate", constants.fitted.fraction)
    yield Fault(
        name="slow_rail",
        title="one rail at {} of its rate",
        tell="run each rail alone (NCCL_IB_HCA): one of them is slow",
        parameter=share,
        is_fitted=True,
        links=lambda cluster, value: cluster.limit_links("nic_leaf", factor=value, rails=(0,)),
    )
    yield Fault(
        name="slow_rails",
        title="every rail at {} of its rate",
        tell="run each rail alone (NCCL_IB_HCA): all of them are slow",
        parameter=share,
        is_fitted=True,
        links=lambda cluster, value: cluster.limit_links("nic_leaf", factor=value),
    )
    yield Fault(
        name="slow_node",
        title="one node at {} of its NVLink and NIC rates",
        tell="run without that node, or inside each node alone",
        parameter=share,
        is_fitted=True,
        links=_slow_node,
    )
    if num_nics > 1:
        yield Fault(
            name="nic_missing",
            title="{} of a node's NICs missing",
            tell="count the NICs that NCCL_DEBUG=INFO lists on each node",
            parameter=Parameter(label="NICs", low=1, high=num_nics - 1, is_whole=True),
            is_fitted=True,
            is_seen=True,
            links=lambda cluster, value: cluster.limit_links(
                "nic_leaf", factor=0.0, rails=range(num_nics - int(value), num_nics), domains=(0,)
            ),
        )
        yield Fault(
            name="shared_nic",
            title="two channels on one NIC",
            tell="read NCCL_DEBUG_SUBSYS=GRAPH: two channels name one NIC",
            links=lambda cluster, _value: cluster.limit_links("nic_leaf", factor=1 / 2, rails=(0,)),
        )


def _slow_node(cluster: Cluster, value: float) -> None:
    for link_class in ("nvlink", "nic_leaf"):
        cluster.limit_links(link_class, factor=value, domains=(0,))


def _of_hosts(cluster: Cluster, num_nics: int, gpu: CollectiveConstants, constants: FaultConstants) -> Iterator[Fault]:
    payload = gpu.gpu.link_efficiency.network.si
    bounce, redirect, reads = constants.host_bounce, constants.redirect, constants.outstanding_reads

    def limit(cluster: Cluster, bytes_per_s: float) -> None:
        cluster.limit_links("nic_leaf", most_bytes_per_s=bytes_per_s / payload)

    yield Fault(
        name="no_gpudirect",
        title="GPUDirect off: each NIC bounces {} GB/s through host memory",
        tell="read NCCL_DEBUG=INFO: no connection says GDRDMA",
        parameter=_range("GB/s of a NIC", bounce.rate),
        links=lambda cluster, value: limit(cluster, value * si_factor(bounce.rate.unit)),
        tune=lambda tuned, _value: longer_hops(tuned, bounce.hop, times=2),
    )
    yield Fault(
        name="acs_iommu",
        title="ACS redirect with IOMMU: a window completes in {} us",
        tell="send with deep queues (perftest): full rate; boot with iommu=pt and clear ACS",
        parameter=_range("us for a window", redirect.completion),
        links=lambda cluster, value: limit(cluster, redirect.window.si / (value * si_factor(redirect.completion.unit))),
    )
    yield Fault(
        name="acs_redirect",
        title="ACS redirect: NIC and GPU meet at the root complex, {} of the rate",
        tell="read lspci -vvv: ACSCtl with ReqRedir+ on PCIe switches",
        parameter=_range("share of the rate", redirect.share),
        links=lambda cluster, value: cluster.limit_links("nic_leaf", factor=value),
    )
    port = float(cluster.wiring.gpu_nic_bandwidth.max(initial=0.0)) * gpu.gpu.link_efficiency.gpu_nic.si
    most = min(num_nics, int(constants.nics_of_port.high))
    shares = tuple(float(number) for number in range(2, most + 1) if num_nics % number == 0)
    if shares:
        yield Fault(
            name="shared_port",
            title="{} NICs behind one PCIe port of a GPU",
            tell="read nvidia-smi topo -m: several NICs are nearest to one GPU",
            parameter=Parameter(label="NICs", low=shares[0], high=shares[-1], is_whole=True, choices=shares),
            is_fitted=True,
            links=lambda cluster, value: limit(cluster, port / value),
        )
    yield Fault(
        name="outstanding_reads",
        title="{} reads of GPU memory under way in each NIC",
        tell="send from host memory: full rate; raise MAX_ACC_OUT_READ",
        parameter=Parameter(label="reads", low=reads.least.si, high=reads.most.si, is_whole=True),
        is_fitted=True,
        links=lambda cluster, value: limit(cluster, value * reads.request.si / reads.round_trip.si),
    )
    yield Fault(
        name="bonded_port",
        title=f"one of {constants.bonded_ports.si:.0f} bonded ports in use",
        tell="count bytes of both ports; set NCCL_IB_QPS_PER_CONNECTION=2",
        links=lambda cluster, _value: cluster.limit_links("nic_leaf", factor=1 / constants.bonded_ports.si),
    )


def _of_network(constants: FaultConstants) -> Iterator[Fault]:
    socket = constants.socket
    yield Fault(
        name="oversubscribed",
        title="uplinks oversubscribed {}:1",
        tell="run on nodes of one leaf only: full rate",
        parameter=_range("oversubscription", constants.fitted.oversubscription),
        is_fitted=True,
        links=lambda cluster, value: cluster.limit_links("leaf_spine", factor=1 / value),
    )
    yield Fault(
        name="hash_collisions",
        title="flows hashed onto the same uplinks",
        tell="run twice with other ports or QPs: the rate changes; adaptive routing mends it",
        routing="ecmp",
    )
    yield Fault(
        name="socket",
        title="fallback to sockets, {} of the rate",
        tell="read NCCL_DEBUG=INFO: NET/Socket",
        parameter=_range("share of the rate", socket.rate_share),
        links=lambda cluster, value: cluster.limit_links("nic_leaf", factor=value),
        tune=lambda tuned, _value: scaled_hops(tuned, socket.latency_scale.si),
        is_seen=True,
    )


def _of_choice() -> Iterator[Fault]:
    yield Fault(
        name="ring_forced",
        title="rings where a tree is due",
        tell="unset NCCL_ALGO",
        algorithms={names.ALL_REDUCE: names.RING},
    )
    yield Fault(
        name="nvls_off",
        title="no reduction in the NVSwitches (NVLS off)",
        tell="unset NCCL_NVLS_ENABLE; look for NVLS in NCCL_DEBUG=INFO",
        excluded=(names.NVLS, names.NVLS_TREE),
    )
    yield Fault(
        name="ll_forced",
        title="protocol LL at every size",
        tell="unset NCCL_PROTO",
        excluded=("ll128", "simple"),
    )
    yield Fault(
        name="no_pxn",
        title="PXN off: messages cross rails at the spines",
        tell="unset NCCL_PXN_DISABLE",
        algorithms={names.ALL_TO_ALL: names.PAIRWISE_NO_PXN},
    )


def _range(label: str, constant: Constant) -> Parameter:
    return Parameter(label=label, low=constant.low, high=constant.high)
