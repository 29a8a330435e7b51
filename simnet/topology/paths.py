"""Paths of many flows while they are put together, and the error of those that have none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simnet.errors import NoPathError, Problem
from simnet.topology.fabric import Routes
from simnet.topology.resources import Resources
from simnet.topology.wiring import NVLINK, Floats, Ints, offsets


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
        """Add the resource that each flow loads next (-1 for none), and the share of the flow on it."""
        if (column >= 0).any():
            self.columns.append(column)
            self.weights.append(weight)

    def add_some(self, rows: Ints, column: Ints, weight: Floats | None = None) -> None:
        """Add the resources of the flows *rows*; the others load nothing."""
        full = np.full(self.num_flows, -1, dtype=np.int64)
        full[rows] = column
        share = None
        if weight is not None:
            share = np.ones(self.num_flows)
            share[rows] = weight
        self.add(full, share)

    def close_inside(self, resources: Resources, src: Ints, dst: Ints, is_inside: npt.NDArray[np.bool_]) -> None:
        """Set the ports of flows that stay in their domain."""
        self.src_port[is_inside] = src[is_inside] + resources.base(NVLINK, 0)
        self.dst_port[is_inside] = dst[is_inside] + resources.base(NVLINK, 1)

    def routes(self, resources: Resources) -> Routes:
        """Return the columns as rows without gaps."""
        if not self.columns:
            none = np.zeros(0)
            table, weights = np.zeros((self.num_flows, 0), dtype=np.int64), np.zeros((self.num_flows, 0))
        else:
            table = np.stack(self.columns, axis=1)
            none = np.ones(self.num_flows)
            weights = np.stack([none if weight is None else weight for weight in self.weights], axis=1)
        used = table >= 0
        resource = table[used]
        crosses = np.where(used, resources.classes[np.maximum(table, 0)], -1).max(axis=1, initial=-1)
        return Routes(
            indptr=offsets(used.sum(axis=1)),
            resource=resource.astype(np.int32),
            weight=weights[used],
            latency_s=self.latency,
            num_nvlink_hops=self.num_nvlink,
            num_switch_hops=self.num_switches,
            crosses=crosses.astype(np.int8),
            src_port=self.src_port,
            dst_port=self.dst_port,
        )
