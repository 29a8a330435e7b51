"""Power and price of a cluster, and the estimates behind them."""

from __future__ import annotations

import numpy as np

from simnet.spec.parts import PartModel, PriceRange, SwitchPart
from simnet.spec.topology import TopologySpec
from simnet.topology.plan import ModulePlan
from simnet.topology.wiring import Floats, Wiring

Price = tuple[float, float, float]
"""Low, use and high [USD]."""


def power_and_price(spec: TopologySpec, wiring: Wiring, switches: dict[str, int]) -> tuple[float, Price]:
    """Return power and price of domains, switches and cables."""
    power, bill = 0.0, np.zeros(3)
    for plan in wiring.plans:
        power += plan.num_domains * plan.node.power
        bill += plan.num_domains * _range(plan.node.price)
        if plan.scale_out is None:
            continue
        count = plan.num_planes * (
            plan.num_leaves + plan.num_groups * plan.spines_per_group + plan.num_core_sets * plan.cores_per_set
        )
        power += count * plan.scale_out.switch.power
        bill += count * _range(plan.scale_out.switch.price)
        nodes = plan.num_domains * plan.node.nics * plan.num_planes + plan.management_cables
        between = int(plan.leaf_cables.sum() + plan.group_cables.sum()) * plan.num_planes
        bill += nodes * _range(plan.scale_out.node_cable.price)
        bill += between * _range(plan.scale_out.switch_cable.price)
        power += nodes * plan.scale_out.node_cable.power_per_link + between * plan.scale_out.switch_cable.power_per_link
    first = wiring.plans[0].scale_out
    if first is not None and switches["join"] and spec.join is not None:
        switch, cable = spec.join.switch or first.switch, spec.join.cable or first.switch_cable
        power += switches["join"] * switch.power + int(wiring.join.cables.sum()) * cable.power_per_link
        bill += switches["join"] * _range(switch.price) + int(wiring.join.cables.sum()) * _range(cable.price)
    power_of_pairs, price_of_pairs = _pairs_bill(spec, wiring)
    low, use, high = (bill + price_of_pairs).tolist()
    return power + power_of_pairs, (low, use, high)


def _pairs_bill(spec: TopologySpec, wiring: Wiring) -> tuple[float, Floats]:
    first = wiring.plans[0].scale_out
    power, bill = 0.0, np.zeros(3)
    if first is None:
        return power, bill
    for link in spec.links:
        cable = link.cable or first.switch_cable
        count = link.cables or max(1, int(np.ceil((link.bandwidth or 0.0) / wiring.plans[0].link_bandwidth)))
        power += count * cable.power_per_link
        bill += count * _range(cable.price)
    return power, bill


def _range(price: PriceRange) -> Floats:
    return np.array([price.low, price.use, price.high])


def _reduction_limits(part: PartModel, plan: ModulePlan) -> list[str]:
    """Return what stands in for limits of reduction that nobody has published, where it is switched on."""
    limits = part.reduction if isinstance(part, SwitchPart) else None
    is_on = plan.scale_out is not None and plan.scale_out.in_network_reduction
    if limits is None or not is_on or not limits.is_estimate:
        return []
    return [f"{part.name}: limits of reduction are estimates ({limits.source})"]


def assumptions(plans: tuple[ModulePlan, ...]) -> tuple[str, ...]:
    """Return the figures of the parts that are estimates, each once."""
    found: list[str] = []
    for plan in plans:
        parts = [plan.node, plan.node.gpu, plan.node.nic]
        if plan.scale_out is not None:
            parts += [plan.scale_out.switch, plan.scale_out.node_cable, plan.scale_out.switch_cable]
        for part in parts:
            found += [f"{part.name}: {name} is an estimate" for name in part.unverified]
            found += _reduction_limits(part, plan)
            price = getattr(part, "price", None)
            if price is not None and price.basis != "quoted":
                found.append(f"{part.name}: price is {price.basis} ({price.source})")
    return tuple(dict.fromkeys(found))
