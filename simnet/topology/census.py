"""What a cluster is made of: counts, cables, oversubscription, bisection, power and price."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np

from simnet.spec.topology import TopologySpec
from simnet.topology.bill import assumptions, power_and_price
from simnet.topology.plan import ModulePlan
from simnet.topology.printed import known_status
from simnet.topology.wiring import Wiring

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCensus:
    """What joins the modules."""

    taper: float
    """Taper asked for; 0 without a core."""
    effective_taper: float
    """Injection over join bandwidth as cabled, of the module that has least; 0 without a core."""
    cables: int
    """Cables of the core join and of pairwise links."""
    cables_per_rail: int
    """Cables that the module with the fewest has for each rail (and plane) into the core; 0 without one."""
    is_at_one_cable_per_rail: bool
    """Whether no further taper can take cables away."""
    bytes_per_s: float
    """Bandwidth of the join, all modules together, per direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Counts and figures of a cluster; ``to_json`` gives what ``show --json`` prints."""

    name: str
    status: str
    source: str
    nodes: int
    """Hosts whose GPUs are ranks: nodes, or compute trays of racks."""
    domains: int
    gpus: int
    """GPUs that are ranks."""
    gpus_installed: int
    gpu_parts: tuple[str, ...]
    modules: int
    tiers: int
    switches: dict[str, int]
    cables: dict[str, int]
    oversubscription: dict[str, float]
    """Down-links over up-links of the fullest leaf, group and module."""
    bisection_bytes_per_s: float
    """Least bandwidth across an even cut that keeps domains whole, per direction."""
    injection_bytes_per_s: float
    """All NICs together, per direction."""
    power_w: float
    price_usd: dict[str, float]
    join: JoinCensus
    reduction: str
    """What the switches reduce and whether it is switched on; empty where they cannot."""
    assumptions: tuple[str, ...]
    """Estimates behind power and price."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the census as plain data."""
        data: dict[str, JsonValue] = json.loads(json.dumps(asdict(self)))
        return data

    to_dict = to_json


def take_census(spec: TopologySpec, wiring: Wiring) -> Census:
    """Return the census of a cluster as it was wired."""
    plans = wiring.plans
    switches = {
        kind: int(wiring.switch_first[kind][-1] - wiring.switch_first[kind][0])
        for kind in ("leaf", "spine", "core", "join")
    }
    power, price = power_and_price(spec, wiring, switches)
    low, use, high = price
    return Census(
        name=spec.name,
        status=known_status(spec),
        source=spec.source,
        nodes=sum(plan.num_domains * (plan.spec.used_hosts or plan.node.hosts) for plan in plans),
        domains=len(wiring.domain_module),
        gpus=wiring.num_gpus,
        gpus_installed=sum(plan.num_domains * plan.node.gpus for plan in plans),
        gpu_parts=tuple(dict.fromkeys(plan.node.gpu.name for plan in plans)),
        modules=len(plans),
        tiers=max(plan.num_tiers for plan in plans) + (switches["join"] > 0),
        switches=switches | {"total": sum(switches.values())},
        cables=_cables(wiring),
        oversubscription=_oversubscription(wiring),
        bisection_bytes_per_s=_bisection(wiring),
        injection_bytes_per_s=float(wiring.nic_bandwidth.sum()) * wiring.num_planes,
        power_w=power,
        price_usd={"low": low, "use": use, "high": high},
        join=_join(spec, wiring),
        reduction=_reduction(plans),
        assumptions=assumptions(plans),
    )


def _reduction(plans: tuple[ModulePlan, ...]) -> str:
    """Return how many reduction trees the switches of the first module hold, and whether they do reduce."""
    scale_out = plans[0].scale_out
    limits = scale_out.switch.reduction if scale_out is not None else None
    if scale_out is None or limits is None:
        return ""
    place = (
        f"{limits.trees_per_switch} in a switch" if limits.trees_per_switch else f"{limits.trees_per_port} on a port"
    )
    state = "on" if all(plan.scale_out and plan.scale_out.in_network_reduction for plan in plans) else "off"
    return (
        f"{state} (scale_out.in_network_reduction); trees at a time: {place}, {limits.trees_per_subnet} in the network"
    )


def _cables(wiring: Wiring) -> dict[str, int]:
    """Return whole cables per tier; a twin-port cable carries two links."""
    node_leaf = leaf_spine = spine_core = 0
    for plan in wiring.plans:
        if plan.scale_out is None:
            continue
        node, between = plan.scale_out.node_cable.links, plan.scale_out.switch_cable.links
        node_leaf += -(-plan.num_domains * plan.node.nics * plan.num_planes // node) + plan.management_cables
        leaf_spine += -(-int(plan.leaf_cables.sum()) * plan.num_planes // between)
        spine_core += -(-int(plan.group_cables.sum()) * plan.num_planes // between)
    return {
        "node_leaf": node_leaf,
        "leaf_spine": leaf_spine,
        "spine_core": spine_core,
        "join": int(wiring.join.cables.sum() if _has_join(wiring) else 0) + int(wiring.pairs.cables.sum()),
    }


def _has_join(wiring: Wiring) -> bool:
    return bool((wiring.join.block >= 0).any())


def _oversubscription(wiring: Wiring) -> dict[str, float]:
    """Return the worst of each tier, 0 where there is no such tier."""
    worst = {"leaf": 0.0, "spine": 0.0, "join": 0.0}
    for plan in wiring.plans:
        if plan.leaf_cables.any():
            worst["leaf"] = max(worst["leaf"], float((plan.leaf_wired / np.maximum(plan.leaf_cables, 1)).max()))
        if plan.group_cables.any():
            below = np.bincount(plan.leaf_group, weights=plan.leaf_wired)
            worst["spine"] = max(worst["spine"], float((below / np.maximum(plan.group_cables, 1)).max()))
        if plan.top_cables.any():
            worst["join"] = max(worst["join"], _taper(plan))
    return worst


def _taper(plan: ModulePlan) -> float:
    """Return the injection of a module over its cables into the join."""
    cables = int(plan.top_cables.sum())
    return float(plan.leaf_wired.sum()) / cables if cables else 0.0


def _join(spec: TopologySpec, wiring: Wiring) -> JoinCensus:
    has_core = _has_join(wiring)
    cables = int(wiring.join.cables.sum()) if has_core else 0
    rate = float((wiring.join.cables * wiring.join.bandwidth).sum()) if has_core else 0.0
    rate += float((wiring.pairs.cables * wiring.pairs.bandwidth).sum())
    per_rail = min((_per_rail(plan) for plan in wiring.plans), default=0) if has_core else 0
    return JoinCensus(
        taper=spec.join.taper if spec.join else 0.0,
        effective_taper=max(_taper(plan) for plan in wiring.plans) if has_core else 0.0,
        cables=cables + int(wiring.pairs.cables.sum()),
        cables_per_rail=per_rail,
        is_at_one_cable_per_rail=has_core and all(_per_rail(plan) == 1 for plan in wiring.plans),
        bytes_per_s=rate,
    )


def _per_rail(plan: ModulePlan) -> int:
    rails_inside = np.where(plan.top_rail < 0, plan.leaf_rails, 1)
    return int((plan.top_cables // rails_inside).min()) if len(plan.top_cables) else 0


def _bisection(wiring: Wiring) -> float:
    """Return the bandwidth across the worst even cut that keeps domains whole.

    Of a fat tree it is half of what its narrowest tier carries; of joined modules, half of the join.
    """
    inside = [_fabric_bisection(plan) for plan in wiring.plans]
    if len(wiring.plans) == 1:
        return inside[0]
    if _has_join(wiring):
        return float((wiring.join.cables * wiring.join.bandwidth).sum()) / 2
    return _pair_cut(wiring)


def _fabric_bisection(plan: ModulePlan) -> float:
    if plan.scale_out is None or not plan.num_leaves:
        return 0.0
    rate = plan.link_bandwidth * plan.num_planes
    if not plan.num_groups:
        return float(plan.leaf_wired.sum()) * rate / 2 if plan.num_leaves == plan.leaf_rails else 0.0
    if plan.num_groups > 1 and not plan.num_core_sets:
        return float(np.minimum(plan.leaf_wired, plan.leaf_cables).sum()) * rate / 2
    tiers = [np.minimum(plan.leaf_wired, plan.leaf_cables).sum()]
    if plan.num_core_sets:
        tiers.append(plan.group_cables.sum())
    return float(min(tiers)) * rate / 2


def _pair_cut(wiring: Wiring) -> float:
    """Return the least bandwidth between two halves of the modules, over all halves of up to 16 modules."""
    modules = len(wiring.plans)
    if not wiring.pairs.num_elements or modules > _MAX_ENUMERATED:
        return 0.0
    low, high = wiring.top_module[wiring.pair_first_top], wiring.top_module[wiring.pairs.block]
    rate = wiring.pairs.cables * wiring.pairs.bandwidth
    halves = range(1, 2 ** (modules - 1))
    cuts = [
        float(rate[((half >> low) & 1) != ((half >> high) & 1)].sum())
        for half in halves
        if half.bit_count() in {modules // 2, modules - modules // 2}
    ]
    return min(cuts, default=0.0)


_MAX_ENUMERATED = 16
