"""What the links carried in a step, by class and by kind of traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simnet.analysis.result_parts import HottestLink, LinkClassUse
from simnet.engine.program import Program
from simnet.engine.trace import StepTrace, spread_bytes
from simnet.errors import PhysicsError, Problem
from simnet.topology.fabric import Fabric
from simnet.topology.wiring import LINK_CLASSES

FloatArray = NDArray[np.float64]
FULL = 1 + 1e-9
"""A link cannot carry more than its rate times the step, but for rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUse:
    """Links of a step: the busiest, and each class."""

    hottest: HottestLink
    classes: tuple[LinkClassUse, ...]


def link_use(fabric: Fabric, program: Program, trace: StepTrace) -> LinkUse:
    """Bytes and utilisation by link class, and the link that is busiest over the step.

    Utilisation is payload over the usable rate (what is left of the wire rate after protocol
    overhead) times the step.

    Raises
    ------
    PhysicsError
        When a link carried more than its rate allows in the step.
    """
    room = program.capacity * trace.step_time_s
    mean = np.divide(trace.resource_bytes, room, out=np.zeros_like(room), where=room > 0)
    busiest = int(np.argmax(mean))
    if mean[busiest] > FULL:
        raise PhysicsError(
            Problem(
                message="a link carried more than its rate allows in the step",
                found=f"{fabric.resource_name(busiest)}: {mean[busiest]:.9f} of its rate",
                allowed="1",
            )
        )
    traffic = bytes_by_category(program, trace)
    return LinkUse(
        hottest=HottestLink(
            name=fabric.resource_name(busiest),
            link_class=LINK_CLASSES[int(fabric.link_class[busiest])],
            mean_utilisation=min(float(mean[busiest]), 1.0),
            peak_utilisation=min(float(trace.peak_share[busiest]), 1.0),
            bytes=float(trace.resource_bytes[busiest]),
        ),
        classes=tuple(
            _class_use(index, name, fabric, trace, mean, traffic)
            for index, name in enumerate(LINK_CLASSES)
            if np.any(fabric.link_class == index)
        ),
    )


def bytes_by_category(program: Program, trace: StepTrace) -> dict[str, FloatArray]:
    """Payload on each resource by kind of traffic, arrays of shape (num_resources,) [bytes]."""
    nothing = np.zeros(0)
    kinds = dict.fromkeys(
        t.category for t, m in zip(program.transfers, trace.bytes_by_transfer, strict=True) if m.any()
    )
    return {
        kind.value: spread_bytes(
            program,
            [
                moved if transfer.category is kind else nothing
                for transfer, moved in zip(program.transfers, trace.bytes_by_transfer, strict=True)
            ],
        )
        for kind in kinds
    }


def _class_use(
    index: int,
    name: str,
    fabric: Fabric,
    trace: StepTrace,
    mean: FloatArray,
    traffic: Mapping[str, FloatArray],
) -> LinkClassUse:
    members: Sequence[int] = np.flatnonzero(fabric.link_class == index)  # type: ignore[assignment]
    busiest = int(members[int(np.argmax(mean[members]))])
    return LinkClassUse(
        link_class=name,
        bytes=float(trace.resource_bytes[members].sum()),
        mean_utilisation=min(float(mean[busiest]), 1.0),
        peak_utilisation=min(float(trace.peak_share[members].max()), 1.0),
        busiest=fabric.resource_name(busiest),
        traffic_bytes={
            category: carried for category, part in traffic.items() if (carried := float(part[members].sum())) > 0
        },
    )
