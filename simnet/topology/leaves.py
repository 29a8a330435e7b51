"""The leaves of a module: how many, of which unit and rail, and how many of their ports are wired."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simnet.errors import Problem, TopologyError
from simnet.spec.parts import NodePart
from simnet.spec.topology import ScaleOutSpec, TopologySpec

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """Leaves of one plane, in the order of unit, rail and number."""

    num_domains: int
    num_units: int
    rails: int
    down: int
    management_cables: int
    unit: Ints
    rail: Ints
    index: Ints
    wired: Ints


def plan_leaves(spec: TopologySpec, node: NodePart) -> Leaves:
    """Return the leaves: a rail of a unit has ``leaves_per_rail`` of them, filled one after the other."""
    scale_out = spec.scale_out
    if scale_out is None:
        none = np.zeros(0, dtype=np.int64)
        num_domains = spec.num_domains_asked
        assert num_domains is not None
        return Leaves(
            num_domains=num_domains, num_units=0, rails=1, down=1, management_cables=0,
            unit=none, rail=none, index=none, wired=none,
        )  # fmt: skip
    num_domains, slots, cables = _slots(spec, scale_out)
    rails = node.rails if scale_out.rail_optimised else 1
    per_rail = scale_out.leaves_per_rail * (1 if scale_out.rail_optimised else node.rails)
    endpoints = node.nics // rails
    down, rest = divmod(scale_out.unit * endpoints, per_rail)
    if rest:
        raise TopologyError(
            Problem(
                message=f"{scale_out.unit * endpoints} NICs of one rail of a unit do not divide over {per_rail} leaves",
                path="scale_out.leaves_per_rail",
            )
        )
    if down > scale_out.switch.ports:
        raise TopologyError(
            Problem(
                message=f"a leaf would have {down} down-links, but {scale_out.switch.name} has "
                f"{scale_out.switch.ports} ports",
                path="scale_out.unit",
                hint="more leaves_per_rail, or fewer domains in a unit",
            )
        )
    num_units = -(-slots // scale_out.unit)
    filled = np.clip(slots - np.arange(num_units) * scale_out.unit, 0, scale_out.unit) * endpoints
    wired = np.clip(filled[:, None, None] - np.arange(per_rail)[None, None, :] * down, 0, down)
    wired = np.broadcast_to(wired, (num_units, rails, per_rail))
    unit, rail, index = (axis.astype(np.int64) for axis in np.nonzero(wired))
    return Leaves(
        num_domains=num_domains, num_units=num_units, rails=rails, down=down, management_cables=cables,
        unit=unit, rail=rail, index=index, wired=wired[unit, rail, index].astype(np.int64),
    )  # fmt: skip


def _slots(spec: TopologySpec, scale_out: ScaleOutSpec) -> tuple[int, int, int]:
    """Return domains, slots that are wired, and management cables."""
    asked, reserved = spec.num_domains_asked, scale_out.reserved
    if spec.scalable_units is None:
        assert asked is not None
        is_reserved = reserved.slots > 0 and -(-asked // scale_out.unit) <= reserved.up_to_units
        return asked, asked + reserved.slots * is_reserved, reserved.cables * is_reserved
    slots = spec.scalable_units * scale_out.unit
    if asked is not None and asked > slots:
        raise TopologyError(
            Problem(
                message=f"{asked} domains do not fit into {spec.scalable_units} units of {scale_out.unit}",
                path="scalable_units",
                found=str(asked),
                allowed=f"at most {slots}",
                hint=f"scalable_units={-(-asked // scale_out.unit)} is large enough, scalable_units=null follows",
            )
        )
    free = slots - reserved.slots
    is_reserved = spec.scalable_units <= reserved.up_to_units and (asked is None or asked <= free)
    num_domains = asked if asked is not None else (free if is_reserved else slots)
    if num_domains < 1:
        raise TopologyError(
            Problem(
                message=f"{reserved.slots} reserved slots leave none of {slots} to compute",
                path="scale_out.reserved.slots",
                found=str(reserved.slots),
                allowed=f"at most {slots - 1}",
            )
        )
    return num_domains, slots, reserved.cables * (is_reserved and reserved.slots > 0)
