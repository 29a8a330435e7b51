"""Finish times of the reference flow cases against the engine's.

The cases hold exact routes, so the comparison needs no routing: it judges fair sharing, arrivals,
dependencies and latencies alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simnet.engine.fluid import FlowSet, run_flows
from simnet.errors import Problem, SpecError
from simnet.sharing.max_min import Incidence

FloatArray = NDArray[np.float64]
Json = Mapping[str, object]
WEIGHTED = "weighted"
"""How ``sharing`` starts where a flow's weight is 1 / (sum of its link latencies)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCase:
    """One reference case."""

    name: str
    flows: FlowSet
    capacity: FloatArray
    finish_s: FloatArray
    """What the reference simulator found, shape (num_flows,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRow:
    """One case compared: ``error`` is the worst relative difference of a finish time."""

    name: str
    num_flows: int
    makespan_s: float
    measured_s: float
    error: float
    num_events: int
    num_solves: int


def validate_flows(paths: Iterable[Path]) -> tuple[FlowRow, ...]:
    """One row per case of the files."""
    return tuple(_compare(case) for path in paths for case in read_flow_cases(path))


def read_flow_cases(path: Path) -> tuple[FlowCase, ...]:
    """Return the cases of one file.

    Raises
    ------
    SpecError
        When the file is no flow case.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        cases = data.get("cases", [data])
        return tuple(_case(record) for record in cases)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as fault:
        raise SpecError(
            Problem(
                message="not a flow case",
                where=str(path),
                found=f"{type(fault).__name__}: {fault}",
                allowed="JSON with flows, link_capacity_Bps, link_latency_s, finish_s",
            )
        ) from fault


def _compare(case: FlowCase) -> FlowRow:
    result = run_flows(case.flows, case.capacity)
    error = np.abs(result.finish_s - case.finish_s) / np.maximum(case.finish_s, np.finfo(float).tiny)
    return FlowRow(
        name=case.name,
        num_flows=len(case.finish_s),
        makespan_s=float(result.finish_s.max()),
        measured_s=float(case.finish_s.max()),
        error=float(error.max()),
        num_events=result.num_events,
        num_solves=result.num_solves,
    )


def _case(record: Json) -> FlowCase:
    columns = {name: i for i, name in enumerate(cast("Sequence[str]", record["flow_columns"]))}
    rows = cast("Sequence[Sequence[object]]", record["flows"])
    links = [cast("list[int]", row[columns["link_ids"]]) for row in rows]
    counts = np.array([len(path) for path in links], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    link = np.array([one for path in links for one in path], dtype=np.int32)
    capacity = _per_link(record["link_capacity_Bps"], 0)
    latency = _per_link(record["link_latency_s"], len(capacity))
    path_latency = np.zeros(len(rows))
    np.add.at(path_latency, np.repeat(np.arange(len(rows)), counts), latency[link])
    after = [cast("list[int]", row[columns["after_flow_ids"]]) if "after_flow_ids" in columns else [] for row in rows]
    is_weighted = str(record["sharing"]).startswith(WEIGHTED)
    return FlowCase(
        name=str(record["name"]),
        flows=FlowSet(
            routes=Incidence(indptr=indptr, link=link, coef=np.ones(len(link))),
            size_bytes=_column(record, rows, columns, "bytes"),
            start_s=_column(record, rows, columns, "start_s"),
            latency_s=path_latency,
            after_indptr=np.cumsum([0, *(len(ids) for ids in after)]).astype(np.int64),
            after=np.array([one for ids in after for one in ids], dtype=np.int64),
            weight=1 / path_latency if is_weighted else None,
        ),
        capacity=capacity,
        finish_s=np.array(record["finish_s"], dtype=np.float64),
    )


def _per_link(value: object, count: int) -> FloatArray:
    if isinstance(value, Mapping):
        return np.full(int(value["count"]), float(value["all"]))
    if isinstance(value, int | float):
        return np.full(count, float(value))
    return np.array(value, dtype=np.float64)


def _column(record: Json, rows: Sequence[Sequence[object]], columns: Mapping[str, int], name: str) -> FloatArray:
    if name in columns:
        return np.array([row[columns[name]] for row in rows], dtype=np.float64)
    return np.full(len(rows), float(cast("float", record[f"{name}_all"])))
