"""How far off collectives were, and up to how many GPUs that is known: ``topologies/parts/collective_error.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pydantic import Field

from simnet.library import find
from simnet.spec.base import SpecModel
from simnet.spec.load import build, read_yaml


class SizeError(SpecModel):
    """Errors in a range of sizes, healthy systems only."""

    name: str
    """The range, in words."""
    from_bytes: int = Field(ge=0)
    """Smallest size; the next range begins where it ends."""
    median: float = Field(ge=0)
    """Median of |predicted / measured - 1|."""
    p90: float = Field(ge=0)
    """90th percentile of it."""
    rows: int = Field(ge=1)
    """Measured calls behind the figures."""


class CollectiveError(SpecModel):
    """The whole file."""

    source: str = Field(min_length=1)
    """Command and date that gave the figures."""
    sizes: tuple[SizeError, ...] = Field(min_length=1)
    """By size, ascending."""
    largest: Mapping[str, int]
    """GPUs of the largest healthy system with a measured table, by generation of GPU."""

    def of(self, size_bytes: float) -> SizeError:
        """Return the errors of predictions for a size."""
        return next((one for one in reversed(self.sizes) if size_bytes >= one.from_bytes), self.sizes[0])


@cache
def collective_error() -> CollectiveError:
    """Return the shipped errors."""
    return build(read_yaml(find("part", "collective_error")), CollectiveError)
