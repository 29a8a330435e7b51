"""How far healthy nccl-tests tables lie from their predictions: the measure of every other table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from simnet.validation.collectives import size_class, validate_collectives

Float64 = NDArray[np.float64]
_NORMAL = 1.4826
"""Standard deviation over median absolute deviation, for normal errors."""
_QUANTILE = 0.9
"""Share of the healthy tables that count as predicted: one in ten may fail for reasons of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Spread of log(predicted / measured) over healthy tables."""

    level: Mapping[str, float]
    """Between tables: of a table's mean in a class of sizes."""
    shape: Mapping[str, float]
    """Inside a table: of its rows about that mean."""
    limit: float = np.inf
    """Distance within which nine of ten healthy tables lie."""

    def covariance(self, classes: Sequence[str], groups: Sequence[Hashable]) -> Float64:
        """Return the covariance of rows, ``(num_rows, num_rows)``: rows of one group share their level."""
        shape = np.array([self.shape[name] for name in classes])
        level = np.array([self.level[name] for name in classes])
        number = {key: index for index, key in enumerate(dict.fromkeys(groups))}
        group = np.array([number[key] for key in groups])
        together = group[:, None] == group[None, :]
        result: Float64 = np.diag(shape**2) + np.outer(level, level) * together
        return result

    def distance(self, residual: Float64, classes: Sequence[str], groups: Sequence[Hashable]) -> float:
        """Return how many spreads rows lie off, in the worst group: its level, or its shape.

        Notes
        -----
        Level: magnitude of the mean over sqrt(level² + shape² / n). Shape: standard deviation over shape.
        """
        worst = 0.0
        for key in dict.fromkeys(groups):
            chosen = [index for index, own in enumerate(groups) if own == key]
            rows = residual[chosen]
            level, shape = self.level[classes[chosen[0]]], self.shape[classes[chosen[0]]]
            worst = max(worst, abs(float(rows.mean())) / np.sqrt(level**2 + shape**2 / len(rows)))
            if len(rows) > 1:
                worst = max(worst, float(rows.std(ddof=1)) / shape)
        return float(worst)


@cache
def healthy_spread() -> Spread:
    """Return the spread over the healthy rows of the shipped table of measured collectives."""
    tables: dict[tuple[str, str, str], list[float]] = {}
    for row in validate_collectives():
        if row.measured.health == "yes" and row.error is not None:
            key = (row.measured.id, row.measured.op, size_class(row.measured.size_bytes))
            tables.setdefault(key, []).append(float(np.log1p(row.error)))
    level: dict[str, float] = {}
    shape: dict[str, float] = {}
    for name in dict.fromkeys(key[2] for key in tables):
        parts = [np.array(rows) for key, rows in tables.items() if key[2] == name]
        inside = np.concatenate([part - part.mean() for part in parts if len(part) > 1])
        freedom = sum(len(part) - 1 for part in parts)
        level[name] = _robust(np.array([part.mean() for part in parts]))
        shape[name] = _robust(inside) * float(np.sqrt(len(inside) / freedom))
    found = Spread(level=level, shape=shape)
    distances = []
    for series in dict.fromkeys(key[0] for key in tables):
        own = [(key, residual) for key, rows in tables.items() if key[0] == series for residual in rows]
        residuals = np.array([residual for _, residual in own])
        distances.append(found.distance(residuals, [key[2] for key, _ in own], [key[1:] for key, _ in own]))
    return Spread(level=level, shape=shape, limit=float(np.quantile(distances, _QUANTILE)))


def _robust(values: Float64) -> float:
    return _NORMAL * float(np.median(np.abs(values)))
