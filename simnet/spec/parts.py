"""Parts that a cluster is made of: GPUs, NVSwitches, NICs, switches, cables, and nodes or racks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simnet.errors import Problem, SpecError
from simnet.spec.base import (
    Bandwidth,
    Count,
    FlopsRate,
    Money,
    Power,
    Ref,
    Rule,
    Size,
    SpecModel,
    Time,
    broken,
)
from simnet.spec.bounds import MAX_KM, MAX_PORTS

Precision = Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]


class PartModel(SpecModel):
    """What every part carries: its name, and where its figures come from."""

    name: str
    """Name of the part, the same as its key in the file."""
    source: str = Field(min_length=1)
    """Where the figures were read."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    """Date of the source, ``2025``, ``2025-06`` or ``2025-06-30``."""
    unverified: tuple[str, ...] = ()
    """Fields that are estimates or derivations; reports show them as assumptions."""
    note: str = ""
    """What a reader should know before trusting the figures."""


class PriceRange(SpecModel):
    """A price assumption with the spread of its sources."""

    low: Money
    """Low end of published figures."""
    use: Money
    """What simnet takes unless told otherwise."""
    high: Money
    """High end of published figures."""
    basis: Literal["quoted", "analyst", "derived", "assumed"]
    """How the figure is known: listed, estimated by an analyst, our arithmetic, or no source found."""
    source: str = Field(min_length=1)
    """Where the figures were read."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    """Date of the source."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low <= self.use <= self.high:
            raise broken(Rule(message="low <= use <= high must hold", keys=("use", "low", "high")))
        return self


class PeakFlops(SpecModel):
    """Dense peak of one GPU per precision of the matrix units, without 2:4 sparsity; absent means unsupported."""

    bf16: FlopsRate
    """bfloat16 with fp32 accumulation."""
    fp16: FlopsRate
    """IEEE half; the same units as bf16."""
    fp8: FlopsRate | None = None
    """E4M3 and E5M2, scaled per tensor or per block in software."""
    mxfp8: FlopsRate | None = None
    """E4M3 with a hardware scale per 32 elements; the fp8 units."""
    nvfp4: FlopsRate | None = None
    """E2M1 with a hardware scale per 16 elements."""


class GpuPart(PartModel):
    """One GPU: compute, memory and its share of NVLink."""

    generation: Literal["volta", "ampere", "hopper", "blackwell"]
    """Architecture; collective and kernel constants are kept per generation."""
    peak_flops: PeakFlops
    """Dense peaks."""
    hbm_size: Size
    """Memory that a job may use."""
    hbm_bandwidth: Bandwidth
    """Memory bandwidth, reads and writes together."""
    nvlink_links: Count
    """NVLink links of the GPU."""
    nvlink_link_bandwidth: Bandwidth
    """Bandwidth of one link and direction."""
    tdp: Annotated[Power, Field(gt=0)]
    """Board power limit."""

    @property
    def nvlink_bandwidth(self) -> float:
        """Return the bandwidth of all links together [bytes/s per direction]."""
        return self.nvlink_links * self.nvlink_link_bandwidth

    def peak_flops_per_s(self, precision: Precision) -> float:
        """Return the dense peak at *precision* [FLOP/s].

        Raises
        ------
        SpecError
            If the matrix units do not know the precision.
        """
        peak: float | None = getattr(self.peak_flops, precision)
        if peak is None:
            known = [name for name in PeakFlops.model_fields if getattr(self.peak_flops, name) is not None]
            raise SpecError(
                Problem(message=f"{self.name} has no {precision} units", found=precision, allowed=", ".join(known))
            )
        return peak


class NvSwitchPart(PartModel):
    """One NVSwitch chip, a plane of a scale-up domain."""

    ports: int = Field(ge=1, le=MAX_PORTS)
    """NVLink ports."""
    port_bandwidth: Bandwidth
    """Bandwidth of one port and direction."""
    has_reduction: bool
    """Whether the chip reduces and multicasts (NVLink SHARP)."""


class NicPart(PartModel):
    """One network adapter."""

    bandwidth: Bandwidth
    """All ports together, per direction."""
    latency: Time
    """From GPU memory to the wire or back, the host bus included, one way."""
    power: Power = 0.0
    """Power, already inside the figure of the node that holds it."""


class ReductionPart(SpecModel):
    """What a switch reduces on its way (SHARP), and how many reduction trees it holds at a time."""

    has_streaming: bool
    """Whether large messages are reduced as they stream through; NCCL needs it."""
    trees_per_switch: Count | None = None
    """Streaming trees that are active in one switch at a time; only its ports limit them unless given."""
    trees_per_port: Count = 1
    """Streaming trees that are active on one port at a time."""
    trees_per_subnet: Count
    """Streaming trees of the whole network at a time."""
    radix: Count
    """Most children of a switch in a tree."""
    is_estimate: bool = False
    """Whether the limits stand in for ones that nobody has published."""
    source: str = Field(min_length=1)
    """Where the limits were read."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    """Date of the source."""
    note: str = ""
    """What a reader should know before trusting them."""


class SwitchPart(PartModel):
    """One switch of the scale-out network."""

    ports: int = Field(ge=2, le=MAX_PORTS)
    """Ports as wired, after breakout."""
    port_bandwidth: Bandwidth
    """Bandwidth of one port and direction."""
    latency: Time
    """From port to port, one way."""
    latency_low: Time
    """Low end of published figures."""
    latency_high: Time
    """High end of published figures."""
    power: Power
    """Power with all cages in use, optics included."""
    price: PriceRange
    """Price without optics."""
    reduction: ReductionPart | None = None
    """Reduction in the switch; absent where it cannot."""


class CablePart(PartModel):
    """One link of the scale-out network with its optics: a cable may carry several links."""

    medium: Literal["copper", "fibre"]
    """What the signal runs in."""
    links: Count = 1
    """Links that one cable carries; two for a twin-port cable that counts once in a bill of materials."""
    length_km: float = Field(ge=0, le=MAX_KM)
    """Usual length [km]."""
    delay_per_km: Time
    """Propagation delay of one kilometre, one way."""
    power_per_link: Power = 0.0
    """Power of both ends that no switch figure holds."""
    price: PriceRange
    """Price of one link: optics at both ends and the fibre or copper."""

    @property
    def delay_s(self) -> float:
        """Return the propagation delay of the usual length, one way [s]."""
        return self.length_km * self.delay_per_km


class NodePart(PartModel):
    """A scale-up domain as it is bought: an 8-GPU node or a rack, with its NVSwitch planes and NICs."""

    unit: Literal["node", "rack"]
    """What it is counted as: clusters of nodes take ``nodes:``, of racks ``racks:``."""
    gpu: Annotated[GpuPart, Ref("gpu")]
    """GPU part."""
    gpus: Count
    """GPUs of the domain."""
    hosts: Count = 1
    """Hosts of the domain: 1 in a node, compute trays in a rack."""
    nvswitch: Annotated[NvSwitchPart, Ref("nvswitch")]
    """NVSwitch part."""
    nvlink_links_per_switch: tuple[Count, ...] = Field(min_length=1)
    """Links from one GPU to each NVSwitch chip; one entry a chip, and planes add up."""
    nvlink_latency: Time
    """From GPU to GPU through one NVSwitch, one way."""
    nic: Annotated[NicPart, Ref("nic")]
    """NIC part of the compute network."""
    nics: Count
    """Compute NICs of the domain, shared evenly by its GPUs."""
    gpu_nic_bandwidth: Bandwidth
    """Between one GPU and its NIC, per direction."""
    power: Power
    """Power of the whole domain at full load."""
    price: PriceRange
    """Price of the whole domain, NICs and NVSwitches included."""

    @property
    def rails(self) -> int:
        """Return the number of NICs of one host: NIC *r* of every host belongs to rail *r*."""
        return self.nics // self.hosts

    @model_validator(mode="after")
    def _check(self) -> Self:
        rules = [
            Rule(message=message, keys=keys)
            for message, keys in (*self._uneven(), *self._links_that_do_not_add_up(), *self._too_few_ports())
        ]
        if rules:
            raise broken(*rules)
        return self

    def _uneven(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        if self.gpus % self.hosts or self.nics % self.hosts:
            message = f"{self.gpus} GPUs and {self.nics} NICs do not divide over {self.hosts} hosts"
            yield message, ("gpus", "nics", "hosts")
        elif self.gpus % self.nics:
            yield f"{self.gpus} GPUs do not share {self.nics} NICs evenly", ("gpus", "nics")

    def _links_that_do_not_add_up(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        total, links = sum(self.nvlink_links_per_switch), self.gpu.nvlink_links
        if total != links:
            message = f"the links to the NVSwitches add up to {total}, but the GPU has {links}"
            yield message, ("nvlink_links_per_switch", "gpu.nvlink_links", "gpu")

    def _too_few_ports(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        links, ports = max(self.nvlink_links_per_switch), self.nvswitch.ports
        if links * self.gpus > ports:
            yield (
                (
                    f"{links} links from each of {self.gpus} GPUs need {links * self.gpus} ports, "
                    f"but {self.nvswitch.name} has {ports}"
                ),
                ("gpus", "nvlink_links_per_switch", "nvswitch.ports", "nvswitch"),
            )
