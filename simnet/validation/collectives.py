"""Predicted against measured times of nccl-tests tables, row by row and summed up.

The machine of each row is the one that its columns state; the prediction is the closed form,
which equals the task on the built fabric for a communicator alone on healthy links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from simnet.validation.group_error import GroupError, group_error

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
    groups = list(_errors("health", [row.measured.health for row in known], known))
    for by, keys in (
        ("size", [size_class(row.measured.size_bytes) for row in healthy]),
        ("op", [row.measured.op for row in healthy]),
        ("gpu_model", [row.measured.gpu_model for row in healthy]),
        ("id", [row.measured.id for row in healthy]),
    ):
        groups += _errors(by, keys, healthy)
    large = [row for row in healthy if row.measured.size_bytes >= _MIB]
    groups += _errors(FROM_1_MIB, [row.measured.id for row in large], large)
    return tuple(groups)


def size_class(size_bytes: float) -> str:
    """Return the range of sizes in which errors are summed up."""
    return next(name for name, bound in SIZE_BOUNDS_BYTES.items() if size_bytes < bound)


def _errors(by: str, keys: Sequence[str], rows: Sequence[ComparedCollective]) -> Iterator[GroupError]:
    """Yield the errors of rows that share a key, in the order of the keys' first rows."""
    found: dict[str, list[float]] = {}
    for key, row in zip(keys, rows, strict=True):
        if row.error is not None:
            found.setdefault(key, []).append(row.error)
    for key, errors in found.items():
        yield group_error(by, key, errors)


def _send_s(size_bytes: float, machine: Machine, constants: CollectiveConstants) -> float:
    table = constants.latency
    is_near = machine.num_nodes == 1
    rate = usable_nvlink_bytes_per_s(machine, constants) if is_near else usable_nic_bytes_per_s(machine, constants)
    hop = table.ring_nvlink_hop if is_near else table.ring_network_hop
    return table.ring_base.si("simple") + hop.si("simple") + size_bytes / rate


def _without(row: MeasuredCollective, reason: str) -> ComparedCollective:
    return ComparedCollective(measured=row, predicted_s=float("nan"), algorithm="", reason=reason)
