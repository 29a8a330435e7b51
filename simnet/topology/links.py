"""Every bundle of parallel cables as a row, and the names of the nodes that it joins."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.topology.wiring import GPU_NIC, LINK_CLASSES, NIC_LEAF, NVLINK, Floats, Ints, Wiring, offsets

KINDS = ("gpu", "nvswitch", "nic", "leaf", "spine", "core", "join")
"""Kinds of nodes in the order in which nodes are numbered; join switches are of kind core in the graph."""
_NAME = re.compile(r"(?:m(\d+)/)?(?:d(\d+)/)?(gpu|nvswitch|nic|leaf|spine|core|join)(\d+)")


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Numbers and names of nodes: GPUs, NVSwitches, NICs, then switches as in the wiring."""

    wiring: Wiring

    @cached_property
    def first(self) -> dict[str, int]:
        """Return the number of the first node of each kind, and of the end."""
        wiring = self.wiring
        gpus, nics = wiring.num_gpus, wiring.num_nics
        switches = gpus + int(wiring.num_nvswitches.sum()) + nics
        starts = {kind: switches + int(wiring.switch_first[kind][0]) for kind in ("leaf", "spine", "core", "join")}
        end = switches + wiring.num_switches
        return {"gpu": 0, "nvswitch": gpus, "nic": switches - nics, **starts, "end": end}

    @cached_property
    def nvswitch_first(self) -> Ints:
        """Return the first NVSwitch of each domain, counted from 0."""
        return offsets(self.wiring.num_nvswitches)

    @cached_property
    def _domain_first_gpu(self) -> Ints:
        return np.searchsorted(self.wiring.gpu_domain, np.arange(len(self.wiring.domain_module) + 1))

    @cached_property
    def _domain_first_nic(self) -> Ints:
        return np.searchsorted(self.wiring.nic_domain, np.arange(len(self.wiring.domain_module) + 1))

    def kind(self, node: int) -> str:
        """Return the kind of a node, a word of :data:`KINDS`."""
        return next(kind for kind in reversed(KINDS) if node >= self.first[kind])

    def module(self, node: int) -> int:
        """Return the module of a node, -1 for a switch that joins modules."""
        kind, number = self.kind(node), node - self.first[self.kind(node)]
        wiring = self.wiring
        if kind == "join":
            return -1
        if kind in {"leaf", "spine", "core"}:
            starts = wiring.switch_first[kind] - wiring.switch_first[kind][0]
            return int(np.searchsorted(starts, number, side="right")) - 1
        return int(wiring.domain_module[self.domain(node)])

    def domain(self, node: int) -> int:
        """Return the domain of a GPU, NVSwitch or NIC, -1 for a switch of the network."""
        kind, number = self.kind(node), node - self.first[self.kind(node)]
        if kind == "gpu":
            return int(self.wiring.gpu_domain[number])
        if kind == "nic":
            return int(self.wiring.nic_domain[number])
        if kind == "nvswitch":
            return int(np.searchsorted(self.nvswitch_first, number, side="right")) - 1
        return -1

    def name(self, node: int) -> str:
        """Return the name of a node, ``d3/gpu5``, ``leaf12``, in modular clusters after ``m0/``."""
        kind, number = self.kind(node), node - self.first[self.kind(node)]
        if kind == "join":
            return f"join{number}"
        module = self.module(node)
        prefix = f"m{module}/" if self.wiring.is_modular else ""
        if kind in {"leaf", "spine", "core"}:
            starts = self.wiring.switch_first[kind]
            return f"{prefix}{kind}{number - int(starts[module] - starts[0])}"
        domain = self.domain(node)
        index = {
            "gpu": lambda: self.wiring.gpu_slot[number],
            "nic": lambda: self.wiring.nic_index[number],
            "nvswitch": lambda: number - self.nvswitch_first[domain],
        }[kind]()
        return f"{prefix}d{int(self.wiring.domain_index[domain])}/{kind}{int(index)}"

    def number(self, name: str) -> int:
        """Return the node of that name.

        Raises
        ------
        TopologyError
            If the cluster has none.
        """
        match = _NAME.fullmatch(name)
        node = -1 if match is None else self._number(match)
        if node < 0 or self.name(node) != name:
            raise TopologyError(
                Problem(
                    message="the cluster has no node of that name",
                    found=f'"{name}"',
                    allowed="names such as " + ", ".join(f'"{self.name(self.first[kind])}"' for kind in self._present),
                )
            )
        return node

    @property
    def _present(self) -> list[str]:
        ends = [self.first[kind] for kind in KINDS[1:]] + [self.first["end"]]
        return [kind for kind, end in zip(KINDS, ends, strict=True) if end > self.first[kind]]

    def _number(self, match: re.Match[str]) -> int:
        module, index, kind = int(match[1] or 0), int(match[4]), match[3]
        modules = len(self.wiring.plans)
        if module >= modules:
            return -1
        node = self.first[kind] + index
        if kind in {"leaf", "spine", "core"}:
            starts = self.wiring.switch_first[kind]
            node += int(starts[module] - starts[0])
        elif kind != "join":
            domain = int(np.searchsorted(self.wiring.domain_module, module)) + int(match[2] or 0)
            if domain >= len(self.wiring.domain_module):
                return -1
            starts = {
                "gpu": self._domain_first_gpu, "nic": self._domain_first_nic, "nvswitch": self.nvswitch_first,
            }[kind]  # fmt: skip
            node += int(starts[domain])
        return node if node < self.first["end"] else -1


@dataclass(frozen=True, kw_only=True)
class Links:
    """One row for each pair of nodes with cables between them; *up* is from *low* to *high*."""

    low: Ints
    high: Ints
    link_class: Ints
    multiplicity: Ints
    up_latency: Floats
    down_latency: Floats


def section_starts(wiring: Wiring) -> Ints:
    """Return where the rows of NVLink, GPU–NIC, NIC–leaf and the four tiers of switch cables start, and the end."""
    counts = [len(wiring.nvlink_bandwidth), wiring.num_gpus, wiring.num_planes * wiring.num_nics]
    return offsets(np.array(counts + [tier.num_pairs for tier in wiring.tiers]))


def link_bandwidths(wiring: Wiring) -> Floats:
    """Return the bandwidth of every row and direction [bytes/s], before any edit."""
    ports = np.where(wiring.nic_leaf >= 0, wiring.nic_bandwidth[None, :], 0.0)
    parts = [wiring.nvlink_bandwidth, wiring.gpu_nic_bandwidth, ports.ravel()]
    parts += [tier.multiplicity * tier.bandwidth[tier.pair_element] for tier in wiring.tiers]
    return np.concatenate(parts)


def link_rows(wiring: Wiring, nodes: Nodes) -> Links:
    """Return the ends, latencies and multiplicities of every row."""
    planes = np.diff(wiring.nvlink_first)
    gpus = np.repeat(np.arange(wiring.num_gpus), planes)
    plane = np.arange(len(gpus)) - wiring.nvlink_first[gpus]
    nvswitch = nodes.first["nvswitch"] + nodes.nvswitch_first[wiring.gpu_domain[gpus]] + plane
    nics = nodes.first["nic"] + np.arange(wiring.num_nics)
    leaf0 = nodes.first["leaf"]
    ends = [tier.ends() for tier in wiring.tiers]
    elements = [tier.pair_element for tier in wiring.tiers]
    tiers = list(zip(wiring.tiers, elements, strict=True))
    per_gpu = _nvlink_multiplicity(wiring)
    half = wiring.nvlink_latency[gpus] / 2
    one = np.ones(wiring.num_gpus, dtype=np.int64)
    ports = wiring.num_planes * wiring.num_nics
    return Links(
        low=np.concatenate([gpus, np.arange(wiring.num_gpus), np.tile(nics, wiring.num_planes)]
                           + [leaf0 + low for low, _ in ends]),
        high=np.concatenate([nvswitch, nodes.first["nic"] + wiring.gpu_nic, leaf0 + wiring.nic_leaf.ravel()]
                            + [leaf0 + high for _, high in ends]),
        link_class=np.concatenate([np.full(len(gpus), NVLINK), np.full(wiring.num_gpus, GPU_NIC),
                                   np.full(ports, NIC_LEAF)]
                                  + [np.full(tier.num_pairs, tier.link_class) for tier in wiring.tiers]),
        multiplicity=np.concatenate([per_gpu, one, np.ones(ports, dtype=np.int64)]
                                    + [tier.multiplicity for tier in wiring.tiers]),
        up_latency=np.concatenate([half, wiring.gpu_nic_latency, np.tile(wiring.nic_up_latency, wiring.num_planes)]
                                  + [tier.up_latency[element] for tier, element in tiers]),
        down_latency=np.concatenate([half, wiring.gpu_nic_latency,
                                     np.tile(wiring.nic_down_latency, wiring.num_planes)]
                                    + [tier.down_latency[element] for tier, element in tiers]),
    )  # fmt: skip


def chosen_rows(
    wiring: Wiring,
    rows: Links,
    nodes: Nodes,
    link_class: str,
    rails: Collection[int] | None,
    domains: Collection[int] | None,
) -> Ints:
    """Return the rows of a class of links, of some rails and domains only if they are given.

    Raises
    ------
    TopologyError
        If there is no such class.
    """
    if link_class not in LINK_CLASSES:
        raise TopologyError(
            Problem(message="no such class of links", found=f'"{link_class}"', allowed=", ".join(LINK_CLASSES))
        )
    number = LINK_CLASSES.index(link_class)
    found = np.flatnonzero(rows.link_class == number)
    if rails is None and domains is None:
        return found
    if number > NIC_LEAF:
        return found[:0]
    if number == NVLINK:
        rail, domain = wiring.gpu_rail[rows.low[found]], wiring.gpu_domain[rows.low[found]]
    else:
        nic = (rows.high if number == GPU_NIC else rows.low)[found] - nodes.first["nic"]
        rail, domain = wiring.nic_rail[nic], wiring.nic_domain[nic]
    keep = np.ones(len(found), dtype=bool)
    for own, wanted in ((rail, rails), (domain, domains)):
        if wanted is not None:
            keep &= np.isin(own, list(wanted))
    return found[keep]


def _nvlink_multiplicity(wiring: Wiring) -> Ints:
    """Return the NVLink links from each GPU to each plane."""
    parts = []
    for module, plan in enumerate(wiring.plans):
        count = int((wiring.gpu_module == module).sum())
        parts.append(np.tile(np.array(plan.node.nvlink_links_per_switch, dtype=np.int64), count))
    return np.concatenate(parts)


def medium_of(wiring: Wiring, link_class: int) -> str:
    """Return what the links of a class run in."""
    scale_out = wiring.plans[0].scale_out
    if link_class == NVLINK or scale_out is None:
        return "copper"
    if link_class == GPU_NIC:
        return "pcie"
    return scale_out.node_cable.medium if link_class == NIC_LEAF else scale_out.switch_cable.medium
