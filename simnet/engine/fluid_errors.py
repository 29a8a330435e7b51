"""Why flows can never end, in words: numbers that do not exist, dead links, circles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simnet.errors import Problem, SimnetError, SpecError, TopologyError

if TYPE_CHECKING:
    from simnet.engine.fluid import FlowSet

MAX_NAMED = 8
"""Flows that an error names."""


def check_flows(flows: FlowSet, capacity: NDArray[np.float64]) -> None:
    """Refuse flows that name links or flows that do not exist.

    Raises
    ------
    SpecError
        With the smallest and largest number found, and what is allowed.
    """
    problems = [
        Problem(
            message=f"{what} that does not exist",
            found=f"numbers from {named.min()} to {named.max()}",
            allowed=f"0 to {count - 1}",
        )
        for what, named, count in (
            ("a route over a link", flows.routes.link, len(capacity)),
            ("a wait for a flow", flows.after, flows.routes.num_flows),
        )
        if len(named) and (named.min() < 0 or named.max() >= count)
    ]
    if problems:
        raise SpecError(*problems)


def why_stuck(flows: FlowSet, capacity: NDArray[np.float64], finish_s: NDArray[np.float64]) -> SimnetError:
    """Error to raise when flows (those whose ``finish_s`` is nan) never end."""
    is_stuck = np.isnan(finish_s)
    # A flow whose predecessors have all ended was started, so its own path holds it back.
    waits = np.add.reduceat(np.append(is_stuck[flows.after], False), flows.after_indptr[:-1])
    waits[np.diff(flows.after_indptr) == 0] = 0
    dead = np.flatnonzero(is_stuck & (waits == 0))
    if len(dead) == 0:
        return SpecError(
            Problem(
                message="flows wait for one another in a circle",
                found=" after ".join(f"flow {flow}" for flow in _circle(flows, is_stuck)),
                allowed="a flow comes after flows that end before it starts",
            )
        )
    named = "; ".join(_why_dead(flows, capacity, flow) for flow in dead[:MAX_NAMED].tolist())
    more = f"; and {len(dead) - MAX_NAMED} more" if len(dead) > MAX_NAMED else ""
    num_waiting = int(is_stuck.sum()) - len(dead)
    return TopologyError(
        Problem(
            message="flows never end",
            found=f"{named}{more}; {num_waiting} flows wait for them",
            hint="give the link capacity, or route around it",
        )
    )


def _why_dead(flows: FlowSet, capacity: NDArray[np.float64], flow: int) -> str:
    low, high = flows.routes.indptr[flow], flows.routes.indptr[flow + 1]
    links = flows.routes.link[low:high]
    dead = links[capacity[links] == 0]
    if len(dead):
        return f"flow {flow} crosses link {dead[0]}, which carries nothing"
    return f"flow {flow} has a cap of 0"


def _circle(flows: FlowSet, is_stuck: NDArray[np.bool_]) -> list[int]:
    """Flows that each come after the next, the first one again at the end."""
    flow = int(np.flatnonzero(is_stuck)[0])
    seen: dict[int, int] = {}
    while flow not in seen:
        seen[flow] = len(seen)
        before = flows.after[flows.after_indptr[flow] : flows.after_indptr[flow + 1]]
        flow = int(before[is_stuck[before]][0])
    path = list(seen)[seen[flow] :]
    return [*path[:MAX_NAMED], *([flow] if len(path) <= MAX_NAMED else [])]
