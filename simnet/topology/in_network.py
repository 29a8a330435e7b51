"""Whether the switches of a cluster reduce, and the ladder on which their trees grow."""

from __future__ import annotations

from dataclasses import replace

from simnet.spec.parts import SwitchPart
from simnet.spec.topology import TopologySpec
from simnet.topology.fabric import Fabric
from simnet.topology.ladder import BuiltLadder
from simnet.topology.ladder_searched import SearchedLadder
from simnet.topology.reduction import Reduction
from simnet.topology.resources import Resources
from simnet.topology.search import SearchRouter
from simnet.topology.wiring import Floats, Wiring


def switch_that_reduces(wiring: Wiring) -> SwitchPart | None:
    """Return the switch of the first module; a cluster has reduction on where all its modules do."""
    parts = [plan.scale_out for plan in wiring.plans]
    first = parts[0]
    if first is None or not all(part is not None and part.in_network_reduction for part in parts):
        return None
    return first.switch


def built_reduction(
    spec: TopologySpec, wiring: Wiring, resources: Resources, up: Floats, down: Floats
) -> Reduction | None:
    """Return the reduction of a fabric as it was wired, nothing where it is off."""
    if switch_that_reduces(wiring) is None:
        return None
    join = spec.join.switch if spec.join else None
    return Reduction(ladder=BuiltLadder(wiring=wiring, resources=resources, up=up, down=down, join_switch=join))


def with_searched_reduction(fabric: Fabric, wiring: Wiring) -> Fabric:
    """Return a fabric of an edited graph with the reduction of its switches."""
    switch = switch_that_reduces(wiring)
    if switch is None or not isinstance(fabric.router, SearchRouter):
        return fabric
    return replace(fabric, reduction=Reduction(ladder=SearchedLadder(router=fabric.router, switch=switch)))
