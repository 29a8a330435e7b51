"""How far off step-time predictions were on published runs: ``topologies/parts/known_error.yaml``."""

from __future__ import annotations

from functools import cache

from pydantic import Field

from simnet.library import find
from simnet.spec.base import SpecModel
from simnet.spec.load import build, read_yaml


class KnownErrorRecord(SpecModel):
    """Errors of one kind of prediction, as ``simnet validate`` found them."""

    gpu: str
    """GPU part; empty for all GPUs."""
    precision: str
    """Precision of the linear layers; empty for all."""
    median: float = Field(ge=0)
    """Median of |predicted / measured - 1|."""
    p90: float = Field(ge=0)
    """90th percentile of it."""
    rows: int = Field(ge=1)
    """Published runs behind the figures."""
    source: str = Field(min_length=1)
    """Command and date that gave them."""


class KnownErrorPart(SpecModel):
    """The whole file."""

    records: tuple[KnownErrorRecord, ...] = Field(min_length=1)
    """Most specific first; the first that matches counts."""


def known_error(gpu: str, precision: str) -> KnownErrorRecord:
    """Errors that predictions for this GPU and precision have shown, or those of all."""
    for record in _load().records:
        if record.gpu in ("", gpu) and record.precision in ("", precision):
            return record
    return _load().records[-1]


@cache
def _load() -> KnownErrorPart:
    return build(read_yaml(find("part", "known_error")), KnownErrorPart)
