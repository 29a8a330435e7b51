"""The noise floor of a table of runs: rows that agree in every input yet not in the step time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from simnet.validation.run_errors import CALIBRATION_QUALITIES
from simnet.validation.run_table import RunRow

INPUT_COLUMNS = (
    "base_model_id", "layers_override", "stack", "gpu", "gpus", "nic_gbps_per_gpu", "precision", "seq", "tp", "pp",
    "vp", "cp", "ep", "etp", "dp", "sharding", "fsdp_group", "placement", "micro_batch", "global_batch", "recompute",
    "attention_kernel", "overlap_tp", "overlap_dp_grad", "overlap_dp_param", "overlap_pp", "cuda_graphs",
)  # fmt: skip
"""Columns that a prediction reads, but for the software."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """Two rows of equal inputs."""

    one: str
    other: str
    gap: float
    """Longer over shorter step, less 1; a model that does not know the software misses one of the two by half of it."""
    is_same_software: bool


def twins(rows: Iterable[RunRow]) -> tuple[Twins, ...]:
    """Return all pairs of rows of quality a and b, not doubted, whose inputs are equal; widest gap first."""
    groups: dict[tuple[str, ...], list[tuple[RunRow, float]]] = {}
    for row in rows:
        seconds = row.measured_s
        if seconds and row.text("quality") in CALIBRATION_QUALITIES and not row.is_suspect:
            groups.setdefault(tuple(row.text(column) for column in INPUT_COLUMNS), []).append((row, seconds))
    found = [
        Twins(
            one=one.run_id,
            other=other.run_id,
            gap=math.exp(abs(math.log(fast / slow))) - 1,
            is_same_software=one.text("software") == other.text("software"),
        )
        for members in groups.values()
        for (one, fast), (other, slow) in combinations(members, 2)
    ]
    return tuple(sorted(found, key=lambda pair: -pair.gap))
