"""The cables of a fabric one by one and upwards: what a tree of switches may be grown on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from simnet.spec.parts import SwitchPart
from simnet.topology.links import Nodes, section_starts
from simnet.topology.resources import Resources
from simnet.topology.wiring import GPU_NIC, NIC_LEAF, Floats, Ints, Wiring

_FIRST_TIER = 3  # sections of links: NVLink, GPU to NIC, NIC to leaf, then the tiers of switch cables
_NUM_LADDER_TIERS = 3  # pairwise links between modules lead sideways, not up


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One cable from a switch, or from a GPU's NIC, to a switch above it."""

    upper: int
    """Switch at its upper end."""
    port: tuple[int, int]
    """What it is called in a book of ports in use: a tier and a number."""
    up: tuple[int, ...]
    """Resources that traffic upwards loads; a GPU's own link to its NIC first."""
    down: tuple[int, ...]
    """The same downwards, from above."""
    bytes_per_s: float
    """Rate of the narrower direction [bytes/s]."""
    up_s: float
    """Latency upwards, the switch at the upper end included [s]."""
    down_s: float
    """Latency downwards, the switch or NIC at the lower end included [s]."""


class Ladder(Protocol):
    """What reduction trees ask of a fabric."""

    def port(self, gpu: int) -> Rung | None:
        """Return the way from a GPU over its NIC to a leaf, nothing if it has none or several."""
        ...

    def rungs(self, switch: int) -> tuple[Rung, ...]:
        """Return the live cables from a switch upwards."""
        ...

    def part(self, switch: int) -> SwitchPart:
        """Return what a switch is."""
        ...

    def name(self, switch: int) -> str:
        """Return the name of a switch."""
        ...

    def gpu_name(self, gpu: int) -> str:
        """Return the name of a GPU."""
        ...


@dataclass(kw_only=True)
class BuiltLadder:
    """The ladder of a fabric as it was wired, with the bandwidths that its links have now."""

    wiring: Wiring
    resources: Resources
    up: Floats
    """Bandwidth of each row of links upwards [bytes/s]."""
    down: Floats
    """The same downwards."""
    join_switch: SwitchPart | None = None
    """Switch of the core that joins modules, where there is one of its own."""
    _known: dict[int, tuple[Rung, ...]] = field(default_factory=dict)

    @cached_property
    def _starts(self) -> Ints:
        return section_starts(self.wiring)

    @cached_property
    def _nodes(self) -> Nodes:
        return Nodes(wiring=self.wiring)

    @cached_property
    def _elements(self) -> tuple[tuple[Ints, Ints], ...]:
        """Return for each tier the first lower switch of its elements in rising order, and which elements these are."""
        found = []
        for tier in self.wiring.tiers[:_NUM_LADDER_TIERS]:
            number = np.flatnonzero(tier.cables > 0)
            order = np.argsort(tier.lower_first[number], kind="stable")
            found.append((tier.lower_first[number][order], number[order]))
        return tuple(found)

    def port(self, gpu: int) -> Rung | None:
        """Return the way from a GPU over its NIC to a leaf, nothing if it has none or several."""
        wiring = self.wiring
        nic = int(wiring.gpu_nic[gpu])
        if wiring.num_planes != 1 or int(wiring.nic_leaf[0, nic]) < 0:
            return None
        rows = int(self._starts[GPU_NIC]) + gpu, int(self._starts[NIC_LEAF]) + nic
        base = self.resources.base
        host_s = float(wiring.gpu_nic_latency[gpu])
        return Rung(
            upper=int(wiring.nic_leaf[0, nic]),
            port=(NIC_LEAF, nic),
            up=(gpu + base(GPU_NIC, 0), nic + base(NIC_LEAF, 0)),
            down=(nic + base(NIC_LEAF, 1), gpu + base(GPU_NIC, 1)),
            bytes_per_s=float(min(self.up[list(rows)].min(), self.down[list(rows)].min())),
            up_s=host_s + float(wiring.nic_up_latency[nic]),
            down_s=host_s + float(wiring.nic_down_latency[nic]),
        )

    def rungs(self, switch: int) -> tuple[Rung, ...]:
        """Return the live cables from a switch upwards."""
        known = self._known.get(switch)
        if known is None:
            tiers = range(_NUM_LADDER_TIERS)
            known = self._known[switch] = tuple(rung for tier in tiers for rung in self._of_tier(tier, switch))
        return known

    def part(self, switch: int) -> SwitchPart:
        """Return what a switch is."""
        nodes = self._nodes
        module = max(0, nodes.module(nodes.first["leaf"] + switch))
        scale_out = self.wiring.plans[module].scale_out
        assert scale_out is not None  # a switch belongs to a network
        is_join = switch >= int(self.wiring.switch_first["join"][0])
        return self.join_switch if is_join and self.join_switch is not None else scale_out.switch

    def name(self, switch: int) -> str:
        """Return the name of a switch."""
        return self._nodes.name(self._nodes.first["leaf"] + switch)

    def gpu_name(self, gpu: int) -> str:
        """Return the name of a GPU."""
        return self._nodes.name(gpu)

    def _of_tier(self, number: int, switch: int) -> list[Rung]:
        """Return the live cables that a switch has in one tier, each on its own."""
        tier = self.wiring.tiers[number]
        starts, elements = self._elements[number]
        place = int(np.searchsorted(starts, switch, side="right")) - 1
        if place < 0:
            return []
        element = int(elements[place])
        lower = switch - int(tier.lower_first[element])
        if lower >= int(tier.lower_count[element]):
            return []
        found = []
        for cable in range(lower, int(tier.cables[element]), int(tier.lower_count[element])):
            pair = int(tier.first_pair[element]) + cable % int(tier.period[element])
            row = int(self._starts[_FIRST_TIER + number]) + pair
            rate = float(min(self.up[row], self.down[row])) / int(tier.multiplicity[pair])
            if rate <= 0:
                continue
            at = (
                int(self.resources.bundle[number][element])
                if self.resources.is_bundled
                else (int(tier.first_cable[element]) + cable)
            )
            found.append(
                Rung(
                    upper=int(tier.upper_first[element]) + cable % int(tier.upper_count[element]),
                    port=(_FIRST_TIER + number, int(tier.first_cable[element]) + cable),
                    up=(at + self.resources.tier_base(number, 0),),
                    down=(at + self.resources.tier_base(number, 1),),
                    bytes_per_s=rate,
                    up_s=float(tier.up_latency[element]),
                    down_s=float(tier.down_latency[element]),
                )
            )
        return found
