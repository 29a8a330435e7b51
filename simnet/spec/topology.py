"""A cluster as it is written down: domains, the wiring rules of its network, modules and what joins them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simnet.spec.base import Bandwidth, Count, Length, Ref, Rule, SpecModel, Time, Whole, broken
from simnet.spec.bounds import MAX_DOMAINS, MAX_GPUS, MAX_MODULES, MAX_PLANES, MAX_TAPER
from simnet.spec.parts import CablePart, NodePart, SwitchPart

Routing = Literal["adaptive", "static", "static-no-offset", "ecmp"]
"""How traffic picks among equal-cost links, see :meth:`simnet.topology.Cluster.compile`."""

Taper = Annotated[float, Field(ge=1, le=MAX_TAPER)]
"""Bandwidth below over bandwidth above."""
Domains = Annotated[int, Field(ge=1, le=MAX_DOMAINS)]
"""A number of scale-up domains."""


class TaperSpec(SpecModel):
    """Down-links per up-link of each tier; 1 is non-blocking, and up-links round up to whole cables."""

    leaf: Taper = 1.0
    """Of the leaves, towards the spines."""
    spine: Taper = 1.0
    """Of the rail groups of leaves and spines, towards the core."""


class ReservedSpec(SpecModel):
    """Domain slots given to fabric management (UFM) in place of compute."""

    slots: int = Field(default=0, ge=0, le=MAX_DOMAINS)
    """Domain slots left free at the end of the last unit."""
    cables: Whole = 0
    """Cables from the management hosts to leaves."""
    up_to_units: Whole = 1_000_000
    """Larger clusters keep all slots, as the printed tables of larger scale do."""


class ScaleOutSpec(SpecModel):
    """Wiring rules of a fat tree of leaves, spines and cores; counts follow from them at every size."""

    switch: Annotated[SwitchPart, Ref("switch")]
    """Switch of all tiers."""
    node_cable: Annotated[CablePart, Ref("cable")]
    """Link between a NIC and a leaf."""
    switch_cable: Annotated[CablePart, Ref("cable")]
    """Link between two switches."""
    link_bandwidth: Bandwidth | None = None
    """Bandwidth of one link and direction; the slower of NIC port and switch port unless given."""
    unit: Domains
    """Domains of a scalable unit, the step in which leaves are bought."""
    leaves_per_rail: Count = 1
    """Leaves that one rail has in a unit."""
    rail_optimised: bool = True
    """Whether NIC r of every host goes to a leaf of rail r; else neighbouring NICs share a leaf."""
    rails: Literal["joined", "separate"] = "joined"
    """Whether switches join the rails (at the spine or core), or only NVLink does (rail-only)."""
    tiers: Literal["auto"] | Annotated[int, Field(ge=1, le=3)] = "auto"
    """Tiers of switches: two as long as one spine reaches all leaves, else three."""
    pod_units: Count = 1
    """Units of a pod; in three tiers, the leaves of one rail in one pod form a group with its own spines."""
    core_growth: Literal["pods", "rails"] = "pods"
    """When a core cannot reach all rail groups: double the pods, or give each rail a core of its own."""
    has_single_pod_core: bool = True
    """Whether a core joins the rails of a single pod; without it only NVLink does."""
    planes: int = Field(default=1, ge=1, le=MAX_PLANES)
    """Separate copies of the network; each NIC has one port on every plane."""
    taper: TaperSpec = TaperSpec()
    """Oversubscription of each tier."""
    reserved: ReservedSpec = ReservedSpec()
    """Slots of fabric management."""
    in_network_reduction: bool = False
    """Whether switches reduce for NCCL (SHARP and its plugin), which then has collnet and nvls over several nodes."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.in_network_reduction and self.switch.reduction is None:
            message = f"{self.switch.name} does not reduce"
            keys = ("in_network_reduction", "switch")
            raise broken(Rule(message=message, keys=keys, found="true", hint="take an InfiniBand switch"))
        return self


class CoreJoinSpec(SpecModel):
    """A core that joins all modules, wider or narrower than what the modules can inject."""

    kind: Literal["core"] = "core"
    """The only kind of join; pairwise cables stand under ``links``."""
    taper: Taper = 1.0
    """Injection bandwidth of a module over its bandwidth into the core; 1 is non-blocking.

    The cables of each rail round up to whole ones, and bandwidth follows the cables.
    """
    switch: Annotated[SwitchPart, Ref("switch")] | None = None
    """Switch of the core; that of the first module unless given."""
    cable: Annotated[CablePart, Ref("cable")] | None = None
    """Link from a module to the core; the switch cable of the first module unless given."""
    distance: Length | None = None
    """Length of the links; that of the cable unless given."""
    rails: Literal["auto", "joined", "separate"] = "auto"
    """Whether one set of core switches joins all rails; ``auto`` does as long as the ports reach."""


class PairLinkSpec(SpecModel):
    """Cables from the top switches of one module straight to those of another."""

    between: tuple[str, str]
    """Names of the two modules."""
    cables: Count | None = None
    """Cables, dealt evenly over the rails; give this or ``bandwidth``."""
    bandwidth: Bandwidth | None = None
    """Total bandwidth per direction, rounded up to whole cables."""
    cable: Annotated[CablePart, Ref("cable")] | None = None
    """Kind of cable; the switch cable of the first module unless given."""
    distance: Length | None = None
    """Length of the link; that of the cable unless given."""
    extra_latency: Time = 0.0
    """Latency beyond propagation, one way, such as that of long-haul equipment."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.cables is None) == (self.bandwidth is None):
            raise broken(Rule(message="give cables or bandwidth, one of the two", keys=("bandwidth", "cables")))
        if self.between[0] == self.between[1]:
            message = f'a module is not linked to itself, "{self.between[0]}"'
            raise broken(Rule(message=message, keys=("between",)))
        return self


class ModuleSpec(SpecModel):
    """One module, or several alike, of a modular cluster."""

    name: str = ""
    """Name that links refer to; ``m0``, ``m1`` … in the order of the list unless given."""
    topology: Annotated[TopologySpec, Ref("topology")]
    """A monolithic cluster, by name or with changes: ``{from: gb200-nvl72, racks: 10}``."""
    count: int = Field(default=1, ge=1, le=MAX_MODULES)
    """How many of them; names of several end in ``-0``, ``-1`` …"""


class TopologySpec(SpecModel):
    """A cluster: one fabric (monolithic), or several joined by explicit links (modular)."""

    kind: Literal["monolithic", "modular"]
    """One fabric, or modules with a fabric each."""
    name: str = ""
    """Name for tables."""
    note: str = ""
    """What a reader should know about it."""
    status: Literal["", "verified", "secondary", "derived"] = ""
    """How the counts are known: read in a document, in notes of it, or port arithmetic."""
    printed_units: tuple[Count, ...] = ()
    """Sizes, in scalable units, whose counts the source prints; at any other, ``status`` is derived."""
    source: str = ""
    """Where the wiring was read."""

    node: Annotated[NodePart, Ref("node")] | None = None
    """Node or rack of a monolithic cluster."""
    scalable_units: Domains | None = None
    """Size in units of ``scale_out.unit`` domains, wired in full."""
    nodes: Domains | None = None
    """Size in nodes; of a modular cluster, dealt evenly over ``num_modules``."""
    racks: Domains | None = None
    """Size in racks; of a modular cluster, dealt evenly over ``num_modules``."""
    used_hosts: Count | None = None
    """Hosts (compute trays) of each domain whose GPUs are ranks; all unless given. The rest stay wired."""
    scale_out: ScaleOutSpec | None = None
    """Network of a monolithic cluster; without one its domains are not joined."""
    routing: Routing = "adaptive"
    """How traffic picks among equal-cost links unless the scenario says."""

    modules: tuple[ModuleSpec, ...] = ()
    """Modules of a modular cluster, unequal ones too."""
    module: Annotated[TopologySpec, Ref("topology")] | None = None
    """In place of ``modules``: one kind of module, ``num_modules`` of it, sized by ``nodes`` or ``racks``."""
    num_modules: Annotated[int, Field(ge=1, le=MAX_MODULES)] | None = None
    """Modules over which ``nodes`` or ``racks`` are dealt, as evenly as whole domains allow."""
    join: CoreJoinSpec | None = None
    """Core that joins all modules; without it and without ``links`` they are disconnected."""
    links: tuple[PairLinkSpec, ...] = ()
    """Cables between pairs of modules."""

    @property
    def num_domains_asked(self) -> int | None:
        """Return ``nodes`` or ``racks``, whichever is given."""
        return self.nodes if self.nodes is not None else self.racks

    @model_validator(mode="after")
    def _check(self) -> Self:
        rules = tuple(self._modular_rules() if self.kind == "modular" else self._monolithic_rules())
        rules = rules or tuple(self._too_large())
        if rules:
            raise broken(*rules)
        return self

    def _monolithic_rules(self) -> Iterator[Rule]:
        if self.node is None:
            yield Rule(message="a monolithic topology needs a node", keys=("node", "kind"))
            return
        for key in ("modules", "module", "num_modules", "join", "links"):
            if getattr(self, key):
                yield Rule(message=f"{key} belongs to kind: modular", keys=(key,))
        if self.scalable_units is None and self.num_domains_asked is None:
            unit = f"{self.node.unit}s"
            yield Rule(message=f"no size: give {unit} or scalable_units", keys=(unit, "scalable_units"))
        wrong = "racks" if self.node.unit == "node" else "nodes"
        if getattr(self, wrong) is not None:
            yield Rule(
                message=f"{self.node.name} is counted in {self.node.unit}s, not in {wrong}", keys=(wrong, "node")
            )
        if self.scalable_units is not None and self.scale_out is None:
            message = "scalable_units needs scale_out, which tells what a unit is"
            yield Rule(message=message, keys=("scale_out", "scalable_units"))
        if self.used_hosts is not None and self.used_hosts > self.node.hosts:
            message = f"used_hosts is {self.used_hosts}, but {self.node.name} has {self.node.hosts} hosts"
            yield Rule(message=message, keys=("used_hosts", "node.hosts", "node"))

    def _modular_rules(self) -> Iterator[Rule]:
        for key in ("node", "scale_out", "scalable_units", "used_hosts"):
            if getattr(self, key) is not None:
                yield Rule(message=f"{key} belongs to the modules", keys=(key,))
        yield from self._module_rules()
        pairs = Counter(frozenset(link.between) for link in self.links)
        for one, two in (sorted(pair) for pair, count in pairs.items() if count > 1):
            message = f'two links between "{one}" and "{two}"; give one with the sum of their cables'
            yield Rule(message=message, keys=("links",))
        if self.nodes is not None and self.racks is not None:
            yield Rule(message="give nodes or racks, not both", keys=("racks", "nodes"))
        size = self.num_domains_asked
        if self.module is not None and (self.num_modules is None or size is None):
            keys = ("num_modules",) if self.num_modules is None else ("nodes", "racks")
            yield Rule(message="module needs num_modules and a size, nodes or racks", keys=(*keys, "module"))
        elif self.module is None and (self.num_modules is not None or size is not None):
            message = "num_modules, nodes and racks go with module, not with a list of modules"
            yield Rule(message=message, keys=("num_modules", "nodes", "racks"))
        if self.num_modules is not None and size is not None and size < self.num_modules:
            message = f"{size} domains do not fill {self.num_modules} modules"
            yield Rule(message=message, keys=("num_modules", "nodes", "racks"))

    def _module_rules(self) -> Iterator[Rule]:
        """Yield what is wrong with the modules themselves."""
        if bool(self.modules) == (self.module is not None):
            message = "give modules (a list) or module with num_modules, one of the two"
            yield Rule(message=message, keys=("modules", "module"))
        inner = {f"modules.{index}.topology": entry.topology for index, entry in enumerate(self.modules)}
        if self.module is not None:
            inner["module"] = self.module
        for key, spec in inner.items():
            if spec.kind == "modular":
                yield Rule(message="a module is monolithic; modules of modules are not built", keys=(key,))
        count = sum(entry.count for entry in self.modules)
        if count > MAX_MODULES:
            yield Rule(message=f"{count} modules are too many", keys=("modules",), allowed=f"{MAX_MODULES} at most")
            return
        names = Counter(name for name, _ in _named(self.modules))
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            yield Rule(message="two modules of the same name", keys=("modules",), found=", ".join(twice))

    def _too_large(self) -> Iterator[Rule]:
        """Yield the rule that the cluster is small enough to be held in memory."""
        gpus = sum(_num_gpus_wired(part) for _, part in module_specs(self))
        if gpus > MAX_GPUS:
            keys = ("nodes", "racks", "scalable_units", "scale_out.reserved.slots", "scale_out.unit", "modules")
            yield Rule(message=f"a cluster of {gpus:,} GPUs", keys=keys, allowed=f"{MAX_GPUS:,} GPUs at most")


def module_specs(spec: TopologySpec) -> tuple[tuple[str, TopologySpec], ...]:
    """Return name and monolithic spec of every module; a monolithic cluster is its own only module."""
    if spec.kind == "monolithic":
        return (("", spec),)
    if spec.module is not None and spec.num_modules is not None and spec.num_domains_asked is not None:
        size, extra = divmod(spec.num_domains_asked, spec.num_modules)
        key = "nodes" if spec.nodes is not None else "racks"
        parts = [size + (index < extra) for index in range(spec.num_modules)]
        return tuple(
            (f"m{index}", spec.module.model_copy(update={"scalable_units": None, key: part}))
            for index, part in enumerate(parts)
        )
    return _named(spec.modules)


def _named(modules: tuple[ModuleSpec, ...]) -> tuple[tuple[str, TopologySpec], ...]:
    """Return name and spec of every module of a list."""
    named: list[tuple[str, TopologySpec]] = []
    for entry in modules:
        for copy in range(entry.count):
            base = entry.name or f"m{len(named)}"
            named.append((f"{base}-{copy}" if entry.name and entry.count > 1 else base, entry.topology))
    return tuple(named)


def _num_gpus_wired(spec: TopologySpec) -> int:
    """Return the GPUs for which a monolithic cluster has places, in use or not."""
    assert spec.node is not None
    places = spec.num_domains_asked or 0
    if spec.scale_out is not None:
        units = (spec.scalable_units or 0) * spec.scale_out.unit
        places = max(places + spec.scale_out.reserved.slots, units)
    return places * spec.node.gpus


def gpu_part_names(spec: TopologySpec) -> tuple[str, ...]:
    """Return the names of the GPU parts of the cluster, each once, in the order of its modules."""
    return tuple(dict.fromkeys(part.node.gpu.name for _, part in module_specs(spec) if part.node is not None))
