"""Which single fault, if any, predicts a measured nccl-tests table.

Every fault is judged by its evidence: the likelihood of the table's log errors under the spread of
healthy tables, averaged over the range of the fault's parameter (uniform in its logarithm). A fault
that may be anything must fit better than one whose range a source has set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from simnet.collectives.faults import HEALTHY, Fault, catalogue
from simnet.collectives.names import AUTO
from simnet.collectives.under_fault import Query, Site, predicted_times_s, site_of
from simnet.spec.collectives import CollectiveConstants
from simnet.spec.faults import load_faults
from simnet.spec.topology import TopologySpec
from simnet.topology import build_cluster
from simnet.validation.collectives import size_class
from simnet.validation.spread import Float64, healthy_spread

NOT_EXPLAINED = "not explained by topology"
_FINE = 20
"""Steps of the likelihood between two values at which times were predicted."""
_SAME = 1e-6
_POINTS_OF_SOURCED, _POINTS_OF_FITTED = 2, 3
"""Points that a fault needs, so that a shape is judged and no lone number; one more where a value is fitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One fault at its best parameter."""

    name: str
    """Key of the fault."""
    title: str
    """What would be wrong, in words."""
    parameter: str
    """What was fitted; empty if nothing."""
    value: float | None
    """Its best value."""
    predicted_s: tuple[float, ...]
    """Predicted time of every row [s]."""
    median_error: float
    """Median absolute error of those, as a fraction."""
    distance: float
    """Distance in spreads of healthy tables, in the worst operation and class of sizes."""
    log_evidence: float
    """Logarithm of the averaged likelihood, less that of the healthy state."""
    num_points_needed: int
    """Different calls that a table must have before the fault can be named."""
    is_fit: bool
    """Whether it predicts the table as well as healthy tables are predicted."""
    tell: str
    """Measurement that tells it from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a table says of a cluster."""

    verdict: str
    """``healthy``, ``explained`` or ``not explained by topology``."""
    reason: str
    """Why, in one sentence."""
    causes: tuple[str, ...]
    """Faults that explain the table; several if it cannot tell them apart."""
    candidates: tuple[Candidate, ...]
    """Every fault that the table could show, best first."""
    unseen: tuple[str, ...]
    """Faults that would leave these rows as they are."""
    limit: float
    """Distance up to which a table counts as predicted."""
    op: tuple[str, ...]
    """Operation of every row."""
    run: tuple[str, ...]
    """Run that every row belongs to: its operation and what sets it apart from other runs."""
    size_bytes: tuple[float, ...]
    """Size of every row [bytes]."""
    measured_s: tuple[float, ...]
    """Measured time of every row [s]."""

    @property
    def verdict_words(self) -> str:
        """The verdict; where faults fit but points are too few to name one, that."""
        if self.verdict == NOT_EXPLAINED and any(one.is_fit for one in self.candidates):
            return "not decided: too few points to tell faults apart"
        return self.verdict


def explain(
    spec: TopologySpec, queries: Sequence[Query], measured_s: Sequence[float], constants: CollectiveConstants
) -> Explanation:
    """Return which single faults explain a measured table.

    Parameters
    ----------
    spec
        Topology, as it should be.
    queries
        Calls that were measured.
    measured_s
        Time of every call, query after query [s], ``(num_calls,)``.
    constants
        Constants of the GPU generation.

    Raises
    ------
    SpecError, LayoutError, NoPathError
        If the topology cannot run the calls.
    """
    site = site_of(spec, queries, constants)
    table = _Table.of(queries, measured_s)
    healthy_log = np.log(predicted_times_s(site))
    zero = table.log_likelihood(healthy_log)
    found, unseen = [_candidate(HEALTHY, None, healthy_log, table, 0.0)], []
    for fault in catalogue(build_cluster(spec), constants, load_faults()):
        if fault is HEALTHY:
            continue
        candidate = _best(site, fault, table, healthy_log, zero)
        if candidate is None:
            unseen.append(fault.name)
        else:
            found.append(candidate)
    ranked = tuple(sorted(found, key=lambda one: -one.log_evidence))
    verdict, reason, causes = _verdict(ranked, table)
    return Explanation(
        verdict=verdict,
        reason=reason,
        causes=causes,
        candidates=ranked,
        unseen=tuple(unseen),
        limit=healthy_spread().limit,
        op=table.op,
        run=_runs(queries),
        size_bytes=table.size_bytes,
        measured_s=tuple(measured_s),
    )


def _runs(queries: Sequence[Query]) -> tuple[str, ...]:
    """Return the name of each row's run."""
    have_ranks = len({query.ranks for query in queries}) > 1
    have_nics = len({query.num_nics for query in queries}) > 1
    names: list[str] = []
    for query in queries:
        parts = [query.op] + ([query.algorithm] if query.algorithm != AUTO else [])
        parts += [f"without {name}" for name in query.excluded]
        parts += [f"{len(query.ranks)} GPUs"] * have_ranks + [f"{query.num_nics} NICs"] * have_nics
        names += [", ".join(parts)] * len(query.sizes_bytes)
    return tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Rows to be explained, with what scores a prediction of them."""

    op: tuple[str, ...]
    size_bytes: tuple[float, ...]
    log_s: Float64
    classes: tuple[str, ...]
    groups: tuple[tuple[str, str], ...]
    precision: Float64
    num_points: int
    """Different calls: two readings of one call are one point."""

    @classmethod
    def of(cls, queries: Sequence[Query], measured_s: Sequence[float]) -> Self:
        calls = [(query, size) for query in queries for size in query.sizes_bytes]
        op = tuple(query.op for query, _ in calls)
        classes = tuple(size_class(size) for _, size in calls)
        groups = tuple(zip(op, classes, strict=True))
        return cls(
            op=op,
            size_bytes=tuple(size for _, size in calls),
            log_s=np.log(np.array(measured_s, dtype=np.float64)),
            classes=classes,
            groups=groups,
            precision=np.linalg.inv(healthy_spread().covariance(classes, groups)).astype(np.float64),
            num_points=len({(query.op, query.ranks, query.num_nics, query.algorithm, size) for query, size in calls}),
        )

    def log_likelihood(self, predicted_log_s: Float64) -> Float64:
        """Return the logarithm of the likelihood of predictions, ``(..., num_rows)``, less a constant."""
        residual = predicted_log_s - self.log_s
        result: Float64 = -np.einsum("...i,ij,...j->...", residual, self.precision, residual) / 2
        return result

    def apart(self, one: Sequence[float], other: Sequence[float]) -> float:
        """Return how many spreads two predictions [s] differ, in the root mean square over rows."""
        gap = np.log(np.array(one)) - np.log(np.array(other))
        return float(np.sqrt(gap @ self.precision @ gap / len(gap)))


def _best(site: Site, fault: Fault, table: _Table, healthy_log: Float64, zero: Float64) -> Candidate | None:
    """Return a fault at its best parameter; nothing if no row would show it."""
    if fault.parameter is None:
        found = np.log(predicted_times_s(site, fault))
        if np.allclose(found, healthy_log, atol=_SAME):
            return None
        return _candidate(fault, None, found, table, float(table.log_likelihood(found) - zero))
    values = fault.parameter.values()
    logs = np.array([np.log(predicted_times_s(site, fault, float(value))) for value in values])
    if np.allclose(logs, healthy_log, atol=_SAME):
        return None
    if not fault.parameter.is_whole:
        values, logs = _finer(values, logs)
    scores = table.log_likelihood(logs)
    best = int(np.argmax(scores))
    evidence = float(scores[best] + np.log(np.mean(np.exp(scores - scores[best]))) - zero)
    value = float(values[best])
    return _candidate(fault, value, np.log(predicted_times_s(site, fault, value)), table, evidence)


def _finer(values: Float64, logs: Float64) -> tuple[Float64, Float64]:
    """Return values in small steps with the times between those that were predicted, both by logarithm."""
    place = np.linspace(0, len(values) - 1, (len(values) - 1) * _FINE + 1)
    coarse = np.arange(len(values))
    columns = [np.interp(place, coarse, column) for column in logs.T]
    return np.exp(np.interp(place, coarse, np.log(values))), np.stack(columns, axis=1)


def _candidate(fault: Fault, value: float | None, log_s: Float64, table: _Table, log_evidence: float) -> Candidate:
    residual = log_s - table.log_s
    spread = healthy_spread()
    distance = spread.distance(residual, table.classes, table.groups)
    shown = "" if value is None else f"{value:.0f}" if fault.parameter and fault.parameter.is_whole else f"{value:.3g}"
    return Candidate(
        name=fault.name,
        title=fault.title.format(shown),
        parameter=fault.parameter.label if fault.parameter else "",
        value=value,
        predicted_s=tuple(np.exp(log_s).tolist()),
        median_error=float(np.median(np.abs(np.expm1(residual)))),
        distance=distance,
        log_evidence=log_evidence,
        num_points_needed=_POINTS_OF_FITTED if fault.is_fitted else _POINTS_OF_SOURCED,
        is_fit=distance <= spread.limit,
        tell=fault.tell,
    )


def _verdict(ranked: Sequence[Candidate], table: _Table) -> tuple[str, str, tuple[str, ...]]:
    healthy = next(one for one in ranked if one.name == HEALTHY.name)
    limit = healthy_spread().limit
    if healthy.is_fit:
        reason = f"the table lies {healthy.distance:.1f} spreads off the healthy prediction; nine of ten healthy tables"
        return "healthy", f"{reason} lie within {limit:.1f}", (HEALTHY.name,)
    fits = [one for one in ranked if one.is_fit]
    able = [one for one in fits if table.num_points >= one.num_points_needed]
    if able:
        same = [one for one in fits if table.apart(one.predicted_s, able[0].predicted_s) < 1]
        reason = f"the table lies {able[0].distance:.1f} spreads off this prediction and {healthy.distance:.1f} off the"
        reason += f" healthy one; nine of ten healthy tables lie within {limit:.1f}"
        causes = [able[0], *(one for one in same if one is not able[0])]  # the named one first, then its twins
        return "explained", reason, tuple(one.name for one in causes)
    if fits:
        needed = min(one.num_points_needed for one in fits)
        points = "one point" if table.num_points == 1 else f"{table.num_points} points"
        reason = f"{points} cannot tell a fault from another: {needed} different sizes or operations are needed; the"
        reason += f" likeliest is {fits[0].title}"
        return NOT_EXPLAINED, reason, ()
    nearest = min(ranked, key=lambda one: one.distance)
    reason = f"the nearest single fault ({nearest.title}) lies {nearest.distance:.1f} spreads off; nine of ten healthy"
    return NOT_EXPLAINED, f"{reason} tables lie within {limit:.1f}", ()
