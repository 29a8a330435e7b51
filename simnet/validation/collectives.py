"""Predicted against measured times of nccl-tests tables, row by row and summed up.

The machine of each row is the one that its columns state; the prediction is the closed form,
which equals the task on the built fabric for a communicator alone on healthy links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simnet.collectives.choice import choose
from simnet.collectives.cost import time_s
from simnet.collectives.machine import Machine, usable_nic_bytes_per_s, usable_nvlink_bytes_per_s
from simnet.collectives.table import launch_overhead_s
from simnet.errors import SpecError
from simnet.library import list_shipped
from simnet.spec.collectives import CollectiveConstants
from simnet.validation.collective_rows import (
    MeasuredCollective,
    algorithm_of_row,
    constants_of,
    excluded_of_row,
    has_registered_buffers,
    machine_of_row,
    read_measured,
)

SIZE_BOUNDS_BYTES = {
    "below 64 KiB": 2.0**16,
    "64 KiB to 1 MiB": 2.0**20,
    "1 to 256 MiB": 2.0**28,
    "from 256 MiB": math.inf,
}
"""Ranges of sizes in which errors are summed up, each by the size at which it ends."""
FROM_1_MIB = "id from 1 MiB"
"""Series without their small messages, where how a call is launched hardly counts."""
_MIB = 2.0**20
_SHIPPED = "validation/collectives_measured.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCollective:
    """One row: measured and predicted."""

    measured: MeasuredCollective
    """The row."""
    predicted_s: float
    """Predicted time [s]; not a number where there is a reason."""
    algorithm: str
    """Algorithm and protocol that simnet took."""
    reason: str
    """Why there is no prediction; empty if there is one."""

    @property
    def error(self) -> float | None:
        """Return predicted over measured time less 1; nothing where there is no prediction."""
        return None if self.reason else self.predicted_s / self.measured.time_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupError:
    """Errors of a group of rows, as fractions."""

    by: str
    """What the group shares."""
    key: str
    """Its value."""
    rows: int
    """Rows with a prediction."""
    mape: float
    """Mean absolute error."""
    median_ape: float
    """Median absolute error."""
    p90_ape: float
    """90th percentile of the absolute error."""
    max_ape: float
    """Largest absolute error."""
    bias: float
    """Median signed error."""


def validate_collectives(path: Path | None = None) -> tuple[ComparedCollective, ...]:
    """Return the comparison of every row of a table, the shipped one unless *path* is given."""
    return tuple(compare(row) for row in read_measured(path or shipped_table()))


def shipped_table() -> Path:
    """Return the path of the shipped table of measured collectives."""
    return list_shipped("scenario")[0].parent / _SHIPPED


def compare(row: MeasuredCollective) -> ComparedCollective:
    """Return one row's comparison."""
    if not row.size_bytes or not row.time_s:
        return _without(row, "size or time is not stated")
    constants, machine = constants_of(row), machine_of_row(row)
    if isinstance(machine, str) or constants is None:
        return _without(row, str(machine))
    overhead_s = launch_overhead_s(row.launch, constants)
    if row.op == "sendrecv":
        predicted_s = _send_s(row.size_bytes, machine, constants) + overhead_s
        return ComparedCollective(measured=row, predicted_s=predicted_s, algorithm="send/simple", reason="")
    algorithm = algorithm_of_row(row)
    if not algorithm:
        return _without(row, f"{row.algorithm} is not modelled")
    try:
        choice = choose(row.op, machine, row.size_bytes, constants, algorithm=algorithm, excluded=excluded_of_row(row))
    except SpecError as error:
        return _without(row, error.problems[0].message)
    predicted = time_s(
        row.op,
        choice.algorithm,
        choice.protocol,
        machine,
        row.size_bytes,
        constants,
        registered=has_registered_buffers(row),
    )
    return ComparedCollective(
        measured=row,
        predicted_s=float(predicted) + overhead_s,
        algorithm=f"{choice.algorithm}/{choice.protocol}",
        reason="",
    )


def group_errors(rows: Iterable[ComparedCollective]) -> tuple[GroupError, ...]:
    """Return the errors by health, and of healthy rows by size, operation, GPU and series."""
    known = [row for row in rows if not row.reason]
    healthy = [row for row in known if row.measured.health == "yes"]
    groups = [
        _summary("health", key, known, [row.measured.health for row in known]) for key in ("yes", "no", "unknown")
    ]
    for by, keys in (
        ("size", [size_class(row.measured.size_bytes) for row in healthy]),
        ("op", [row.measured.op for row in healthy]),
        ("gpu_model", [row.measured.gpu_model for row in healthy]),
        ("id", [row.measured.id for row in healthy]),
    ):
        groups += [_summary(by, key, healthy, keys) for key in dict.fromkeys(keys)]
    large = [row for row in healthy if row.measured.size_bytes >= _MIB]
    ids = [row.measured.id for row in large]
    groups += [_summary(FROM_1_MIB, key, large, ids) for key in dict.fromkeys(ids)]
    return tuple(group for group in groups if group.rows)


def size_class(size_bytes: float) -> str:
    """Return the range of sizes in which errors are summed up."""
    return next(name for name, bound in SIZE_BOUNDS_BYTES.items() if size_bytes < bound)


def _summary(by: str, key: str, rows: Sequence[ComparedCollective], keys: Sequence[str]) -> GroupError:
    signed = np.array([row.error for row, own in zip(rows, keys, strict=True) if own == key], dtype=np.float64)
    if not signed.size:
        return GroupError(by=by, key=key, rows=0, mape=0, median_ape=0, p90_ape=0, max_ape=0, bias=0)
    size = np.abs(signed)
    return GroupError(
        by=by,
        key=key,
        rows=signed.size,
        mape=float(size.mean()),
        median_ape=float(np.median(size)),
        p90_ape=float(np.quantile(size, 0.9)),
        max_ape=float(size.max()),
        bias=float(np.median(signed)),
    )


def _send_s(size_bytes: float, machine: Machine, constants: CollectiveConstants) -> float:
    table = constants.latency
    is_near = machine.num_nodes == 1
    rate = usable_nvlink_bytes_per_s(machine, constants) if is_near else usable_nic_bytes_per_s(machine, constants)
    hop = table.ring_nvlink_hop if is_near else table.ring_network_hop
    return table.ring_base.si("simple") + hop.si("simple") + size_bytes / rate


def _without(row: MeasuredCollective, reason: str) -> ComparedCollective:
    return ComparedCollective(measured=row, predicted_s=float("nan"), algorithm="", reason=reason)
