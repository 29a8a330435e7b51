"""The resources of a built fabric: where each kind starts, what it can carry, what it is called."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simnet.topology.links import Nodes, section_starts
from simnet.topology.wiring import GPU_NIC, NIC_LEAF, NVLINK, Floats, Ints, Tier, Wiring, offsets

_ENDPOINT_SECTIONS = 3  # NVLink, GPU–NIC, NIC–leaf


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Numbering: for NVLink, GPU–NIC, NIC–leaf and each tier, first all of direction 0, then all of direction 1."""

    wiring: Wiring
    is_bundled: bool
    """One resource per element (adaptive), or one per cable."""

    @cached_property
    def counts(self) -> Ints:
        """Return the resources of each section and direction."""
        wiring = self.wiring
        tiers = [int((tier.cables > 0).sum() if self.is_bundled else tier.first_cable[-1]) for tier in wiring.tiers]
        ports = wiring.num_planes * wiring.num_nics if len(wiring.leaf_top) else 0
        return np.array([wiring.num_gpus, wiring.num_gpus, ports, *tiers])

    @cached_property
    def bundle(self) -> tuple[Ints, ...]:
        """Return for each tier the number of every element among those with cables."""
        return tuple(np.cumsum(tier.cables > 0) - 1 for tier in self.wiring.tiers)

    @cached_property
    def first(self) -> Ints:
        """Return the first resource of each section and direction, and the end, ``(2 * sections + 1,)``."""
        return offsets(np.repeat(self.counts, 2))

    @cached_property
    def _nodes(self) -> Nodes:
        return Nodes(wiring=self.wiring)

    def base(self, section: int, direction: int) -> int:
        """Return the first resource of a section and direction."""
        return int(self.first[2 * section + direction])

    def tier_base(self, tier: int, direction: int) -> int:
        """Return the first resource of a tier and direction."""
        return self.base(_ENDPOINT_SECTIONS + tier, direction)

    @cached_property
    def classes(self) -> Ints:
        """Return the link class of every resource."""
        classes = [NVLINK, GPU_NIC, NIC_LEAF, *(tier.link_class for tier in self.wiring.tiers)]
        return np.repeat(np.repeat(classes, 2), np.diff(self.first))

    @cached_property
    def classes_or_none(self) -> npt.NDArray[np.int8]:
        """Return the link class of every resource, and -1 at the end, where index -1 finds it."""
        return np.append(self.classes, -1).astype(np.int8)

    @cached_property
    def directions(self) -> Ints:
        """Return the direction of every resource."""
        return np.repeat(np.tile([0, 1], len(self.counts)), np.diff(self.first))

    def capacities(self, up: Floats, down: Floats) -> Floats:
        """Return what every resource carries [bytes/s], from the bandwidths of the link rows."""
        starts = section_starts(self.wiring)
        parts = []
        for rows in (up, down):
            sections = np.split(rows, starts[1:-1])
            nvlink = np.add.reduceat(sections[0], self.wiring.nvlink_first[:-1])
            inner = [nvlink, sections[1], sections[2][: self.counts[NIC_LEAF]]]
            tiers = sections[_ENDPOINT_SECTIONS:]
            parts.append(
                inner + [self._tier(tier, section) for tier, section in zip(self.wiring.tiers, tiers, strict=True)]
            )
        return np.concatenate([part for both in zip(*parts, strict=True) for part in both])

    def _tier(self, tier: Tier, rows: Floats) -> Floats:
        if self.is_bundled:
            total = np.bincount(tier.pair_element, weights=rows, minlength=tier.num_elements)
            return total[tier.cables > 0].astype(np.float64)
        element = np.repeat(np.arange(tier.num_elements), tier.cables)
        cable = np.arange(int(tier.first_cable[-1])) - tier.first_cable[element]
        pair = tier.pair_of_cable(element, cable)
        return rows[pair] / tier.multiplicity[pair]

    def name(self, resource: int) -> str:
        """Return what a resource is called."""
        place = int(np.searchsorted(self.first, resource, side="right")) - 1
        section, direction = divmod(place, 2)
        number = resource - int(self.first[place])
        nodes = self._nodes
        if section < _ENDPOINT_SECTIONS:
            return self._endpoint_name(nodes, section, direction, number)
        tier = self.wiring.tiers[section - _ENDPOINT_SECTIONS]
        low, high = self._ends(nodes, tier, number)
        return f"{low} -> {high}" if direction == 0 else f"{high} -> {low}"

    def _endpoint_name(self, nodes: Nodes, section: int, direction: int, number: int) -> str:
        wiring = self.wiring
        if section == NVLINK:
            low, high = nodes.name(number), "NVSwitches"
        elif section == GPU_NIC:
            low, high = nodes.name(number), nodes.name(nodes.first["nic"] + int(wiring.gpu_nic[number]))
        else:
            plane, nic = divmod(number, wiring.num_nics)
            low = nodes.name(nodes.first["nic"] + nic)
            high = nodes.name(nodes.first["leaf"] + int(wiring.nic_leaf[plane, nic]))
        return f"{low} -> {high}" if direction == 0 else f"{high} -> {low}"

    def _ends(self, nodes: Nodes, tier: Tier, number: int) -> tuple[str, str]:
        leaf0 = nodes.first["leaf"]
        if self.is_bundled:
            number = int(np.flatnonzero(tier.cables > 0)[number])
            low, high = int(tier.lower_first[number]), int(tier.upper_first[number])
            names = [
                nodes.name(leaf0 + first) + (f"…+{count - 1}" if count > 1 else "")
                for first, count in ((low, int(tier.lower_count[number])), (high, int(tier.upper_count[number])))
            ]
            return names[0], names[1]
        element = int(np.searchsorted(tier.first_cable, number, side="right")) - 1
        cable = number - int(tier.first_cable[element])
        low = int(tier.lower_first[element]) + cable % int(tier.lower_count[element])
        high = int(tier.upper_first[element]) + cable % int(tier.upper_count[element])
        return nodes.name(leaf0 + low), f"{nodes.name(leaf0 + high)} (cable {cable})"
