"""Paths of many flows while they are put together, and the error of those that have none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simnet.errors import NoPathError, Problem
from simnet.topology.fabric import Routes
from simnet.topology.resources import Resources
from simnet.topology.wiring import Floats, Ints, offsets


def no_path(ends: list[tuple[str, str]], count: int) -> NoPathError:
    """Return the error that names the two ends of flows without a path."""
    more = f" ({count} flows in all)" if count > len(ends) else ""
    return NoPathError(
        *(
            Problem(
                message=f"no path from {source} to {target}{more}",
                found=f"{source}, {target}",
                hint="join their modules or rails, or restore a link between them",
            )
            for source, target in ends
        )
    )


class Path:
    """Columns of resources under construction, one entry for each flow."""

    def __init__(self, *, num_flows: int) -> None:
        self.num_flows = num_flows
        self.columns: list[Ints] = []
        self.weights: list[Floats | None] = []
        self.latency = np.zeros(num_flows)
        self.num_nvlink = np.zeros(num_flows, dtype=np.int32)
        self.num_switches = np.zeros(num_flows, dtype=np.int32)
        self.src_port = np.full(num_flows, -1, dtype=np.int32)
        self.dst_port = np.full(num_flows, -1, dtype=np.int32)

    def add(self, column: Ints, weight: Floats | None = None) -> None:
        """Add the resource that each flow loads next (-1 for none), and the share of the flow on it, all unless given.

        A column in which no flow loads anything is left out.
        """
        if (column >= 0).any():
            self.columns.append(column)
            self.weights.append(weight)

    def routes(self, resources: Resources) -> Routes:
        """Return the columns as rows without gaps."""
        shape = (self.num_flows, len(self.columns))
        table = np.stack(self.columns, axis=1) if self.columns else np.zeros(shape, dtype=np.int64)
        used = table >= 0
        return Routes(
            indptr=offsets(used.sum(axis=1)),
            resource=table[used].astype(np.int32),
            weight=self._weights(shape)[used],
            latency_s=self.latency,
            num_nvlink_hops=self.num_nvlink,
            num_switch_hops=self.num_switches,
            crosses=resources.classes_or_none[table].max(axis=1, initial=-1),
            src_port=self.src_port,
            dst_port=self.dst_port,
        )

    def _weights(self, shape: tuple[int, int]) -> Floats:
        weights = np.ones(shape)
        for column, weight in enumerate(self.weights):
            if weight is not None:
                weights[:, column] = weight
        return weights


def woven(parts: Sequence[tuple[Ints, Routes]], num_flows: int) -> Routes:
    """Return the routes of all flows in their order, given those of some: which flows they are, and their routes."""
    counts = np.zeros(num_flows, dtype=np.int64)
    for flow, routes in parts:
        counts[flow] = np.diff(routes.indptr)
    indptr = offsets(counts)
    resource, weight = np.empty(int(indptr[-1]), dtype=np.int32), np.empty(int(indptr[-1]))
    for flow, routes in parts:
        shift = np.repeat(indptr[flow] - routes.indptr[:-1], counts[flow])
        entry = np.arange(len(shift)) + shift
        resource[entry], weight[entry] = routes.resource, routes.weight
    per_flow = {}
    for name in _PER_FLOW:
        per_flow[name] = np.empty(num_flows, dtype=getattr(parts[0][1], name).dtype)
        for flow, routes in parts:
            per_flow[name][flow] = getattr(routes, name)
    return Routes(indptr=indptr, resource=resource, weight=weight, **per_flow)


_PER_FLOW = ("latency_s", "num_nvlink_hops", "num_switch_hops", "crosses", "src_port", "dst_port")
