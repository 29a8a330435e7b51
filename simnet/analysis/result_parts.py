"""The parts of a result: links, memory, spans of time, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HottestLink:
    """The link whose utilisation over the step is highest.

    Parameters
    ----------
    name : resource name, as ``Fabric.resource_name`` spells it.
    link_class : one of ``topology.LINK_CLASSES``.
    mean_utilisation, peak_utilisation : share of the usable rate, over the step and at its busiest.
    bytes : payload in the busier direction [bytes].
    """

    name: str
    link_class: str
    mean_utilisation: float
    peak_utilisation: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClassUse:
    """What one class of links carried in one step, and how full its busiest member was.

    Parameters
    ----------
    bytes : payload over all links of the class, both directions [bytes].
    mean_utilisation, peak_utilisation : of the busiest link of the class.
    busiest : name of that link.
    traffic_bytes : payload by category, e.g. ``{"dp": 1e12}`` [bytes]; empty when not recorded.
    """

    link_class: str
    bytes: float
    mean_utilisation: float
    peak_utilisation: float
    busiest: str
    traffic_bytes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Memory of the fullest pipeline stage, by class, against the limit of the GPU [bytes]."""

    peak_bytes: float
    limit_bytes: float
    stage: int
    classes_bytes: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUse:
    """How the number was made: rung of the ladder of reductions, and the work that it took."""

    rung: str
    classes: int
    solves: int
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownError:
    """How far off such predictions were on published measurements (fractions)."""

    median: float
    p90: float
    rows: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of time of one pipeline stage [s from the start of the step]."""

    stage: int
    label: str
    category: str
    micro_batch: int
    chunk: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What has to be the same for the same bytes to come out."""

    spec_hash: str
    version: str
    seed: int
