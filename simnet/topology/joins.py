"""What joins the modules of a cluster: a tapered core, and cables straight from one module to another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simnet.errors import Problem, TopologyError
from simnet.spec.parts import CablePart, SwitchPart
from simnet.spec.topology import PairLinkSpec, TopologySpec, module_specs
from simnet.topology.dealing import deal_round_robin
from simnet.topology.plan import ModulePlan
from simnet.topology.wiring import JOIN, Floats, Ints, Tier


def pair_cables(spec: TopologySpec, named: tuple[tuple[str, TopologySpec], ...]) -> list[int]:
    """Return the cables of pairwise links that each module must find ports for."""
    names = [name for name, _ in named]
    total = [0] * len(names)
    for link in spec.links:
        for name in link.between:
            if name not in names:
                raise TopologyError(
                    Problem(message="a link to an unknown module", found=f'"{name}"', allowed=", ".join(names))
                )
        for name in link.between:
            total[names.index(name)] += _count(link, dict(named)[link.between[0]])
    return total


def _count(link: PairLinkSpec, part: TopologySpec) -> int:
    """Return the cables of a pairwise link that starts at module *part*; a bandwidth rounds up to whole ones."""
    if link.cables is not None:
        return link.cables
    assert part.scale_out is not None
    assert link.bandwidth is not None
    rate = part.scale_out.link_bandwidth or part.scale_out.switch.port_bandwidth
    return max(1, math.ceil(link.bandwidth / rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tops:
    """Top elements of all modules (sets of cores, groups of spines or leaves): where their cables to others start."""

    of_leaf: Ints
    cables: Ints
    rail: Ints
    module: Ints
    plane: Ints
    first: Ints
    """First switch."""
    count: Ints
    """Switches."""


def top_elements(plans: tuple[ModulePlan, ...], first: dict[str, Ints]) -> Tops:
    """Return the top elements; *first* has the first switch of each kind and module."""
    counts = [len(plan.top_cables) for plan in plans]
    starts = [_switches(index, plan, first) for index, plan in enumerate(plans)]
    return Tops(
        of_leaf=numbered(plans, lambda plan: plan.leaf_top, lambda plan: len(plan.top_cables)),
        cables=tiled(plans, lambda plan: plan.top_cables),
        rail=tiled(plans, lambda plan: plan.top_rail),
        module=np.repeat(np.arange(len(plans)), [p.num_planes * n for p, n in zip(plans, counts, strict=True)]),
        plane=np.concatenate([np.repeat(np.arange(p.num_planes), n) for p, n in zip(plans, counts, strict=True)]),
        first=np.concatenate([start for start, _ in starts]).astype(np.int64),
        count=np.concatenate([count for _, count in starts]).astype(np.int64),
    )


def _switches(index: int, plan: ModulePlan, first: dict[str, Ints]) -> tuple[Ints, Ints]:
    tops = plan.num_planes * len(plan.top_cables)
    if plan.num_core_sets:
        start, size = first["core"][index], plan.cores_per_set
    elif plan.num_groups:
        start, size = first["spine"][index], plan.spines_per_group
    else:
        start, size = first["leaf"][index], 1
    return start + np.arange(tops) * size, np.full(tops, size)


def core_join(spec: TopologySpec, plans: tuple[ModulePlan, ...], tops: Tops, start: int) -> tuple[Tier, int]:
    """Return the cables from the top elements of all modules to the core that joins them, and its switches.

    *start* is the number of its first switch. A single module has nothing to be joined with, hence no core.
    """
    num = len(tops.cables)
    none = np.zeros(num, dtype=np.int64)
    if spec.join is None or len(plans) == 1 or plans[0].scale_out is None:
        return _join_tier(tops, none, none - 1, none, none, np.zeros(num), np.zeros(num), np.zeros(num)), 0
    switch: SwitchPart = spec.join.switch or plans[0].scale_out.switch
    cable: CablePart = spec.join.cable or plans[0].scale_out.switch_cable
    delay = cable.delay_s if spec.join.distance is None else cable.delay_per_km * spec.join.distance / _M_PER_KM
    sets, per_set = _join_sets(spec, tops, switch)
    down = np.concatenate(
        [
            np.full(int((tops.module == index).sum()), plan.scale_out.switch.latency if plan.scale_out else 0.0)
            for index, plan in enumerate(plans)
        ]
    )
    tier = _join_tier(
        tops,
        tops.cables,
        sets,
        start + sets * per_set,
        np.full(num, per_set),
        np.full(num, min(switch.port_bandwidth, *(plan.link_bandwidth for plan in plans if plan.scale_out))),
        np.full(num, delay + switch.latency),
        delay + down,
    )
    return tier, (int(sets.max()) + 1) * per_set


_M_PER_KM = 1000.0  # a length is in metres, a delay is per kilometre


def _join_tier(
    tops: Tops, cables: Ints, block: Ints, upper_first: Ints, upper_count: Ints,
    bandwidth: Floats, up_latency: Floats, down_latency: Floats,
) -> Tier:  # fmt: skip
    return Tier(
        link_class=JOIN, lower_first=tops.first, lower_count=tops.count, upper_first=upper_first,
        upper_count=upper_count, cables=cables, block=block, bandwidth=bandwidth,
        up_latency=up_latency, down_latency=down_latency,
    )  # fmt: skip


def _join_sets(spec: TopologySpec, tops: Tops, switch: SwitchPart) -> tuple[Ints, int]:
    """Return the set of join switches of each top element, and the switches of a set."""
    assert spec.join is not None
    rails = np.maximum(tops.rail, 0)
    num_rails = int(rails.max()) + 1
    ways = {"joined": [1], "separate": [num_rails], "auto": [1, num_rails]}[spec.join.rails]
    for number in ways:
        sets = tops.plane * number + (rails if number > 1 else 0)
        counts = [
            deal_round_robin(tops.cables[sets == index].tolist(), ports=switch.ports)
            for index in range(int(sets.max()) + 1)
        ]
        found = [count for count in counts if count is not None]
        if len(found) == len(counts):
            return sets.astype(np.int64), max(found)
    raise TopologyError(
        Problem(
            message=f"{len(tops.cables)} rail groups of the modules do not meet on one {switch.ports}-port switch",
            path="join.switch",
            found=switch.name,
            hint="modules with a core of their own, fewer modules, or a switch with more ports",
        )
    )


def pair_links(spec: TopologySpec, plans: tuple[ModulePlan, ...], tops: Tops) -> tuple[Tier, Ints]:
    """Return the cables of pairwise links: those of a link are dealt over the rails of its two modules."""
    named = module_specs(spec)
    names = [name for name, _ in named]
    rows: list[tuple[int, int, int, float, float]] = []
    for number, link in enumerate(spec.links):
        one, two = (names.index(name) for name in link.between)
        cables = _count(link, named[one][1])
        latency = _pair_latency(spec, plans[one], number)
        for plane in range(plans[one].num_planes):
            ends = [np.flatnonzero((tops.module == side) & (tops.plane == plane)) for side in (one, two)]
            width = int(max(len(end) for end in ends))
            share, extra = divmod(cables, width)
            for index in range(width):
                count = share + (index < extra)
                if count:
                    bandwidth = min(plans[one].link_bandwidth, plans[two].link_bandwidth)
                    rows.append((int(ends[0][index % len(ends[0])]), int(ends[1][index % len(ends[1])]), count,
                                 bandwidth, latency))  # fmt: skip
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    low, high, cables_of = (table[:, column].astype(np.int64) for column in range(3))
    switch = np.array([plan.scale_out.switch.latency if plan.scale_out else 0.0 for plan in plans])
    tier = Tier(
        link_class=JOIN, lower_first=tops.first[low], lower_count=tops.count[low], upper_first=tops.first[high],
        upper_count=tops.count[high], cables=cables_of, block=high, bandwidth=table[:, 3],
        up_latency=table[:, 4] + switch[tops.module[high]], down_latency=table[:, 4] + switch[tops.module[low]],
    )  # fmt: skip
    return tier, low


def _pair_latency(spec: TopologySpec, plan: ModulePlan, number: int) -> float:
    link = spec.links[number]
    if plan.scale_out is None:
        raise TopologyError(Problem(message=f'module "{plan.name}" has no network to link', path="links"))
    cable = link.cable or plan.scale_out.switch_cable
    delay = cable.delay_s if link.distance is None else cable.delay_per_km * link.distance / _M_PER_KM
    return delay + link.extra_latency


def tiled(plans: tuple[ModulePlan, ...], field: Callable[[ModulePlan], Ints]) -> Ints:
    """Return a per-plane array of every module, repeated for each plane, one after the other."""
    return np.concatenate([np.tile(field(plan), plan.num_planes) for plan in plans]).astype(np.int64)


def numbered(
    plans: tuple[ModulePlan, ...], field: Callable[[ModulePlan], Ints], count: Callable[[ModulePlan], int]
) -> Ints:
    """Return an array of numbers inside a plane as numbers inside the cluster; -1 stays."""
    parts, base = [], 0
    for plan in plans:
        for _ in range(plan.num_planes):
            inside = field(plan)
            parts.append(np.where(inside < 0, -1, inside + base))
            base += count(plan)
    return np.concatenate(parts).astype(np.int64)
