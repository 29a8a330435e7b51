"""The answer for one case: a frozen value that goes to JSON, CSV, plots and the report."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

from simnet.analysis.result_parts import (
    EngineUse,
    HottestLink,
    KnownError,
    LinkClassUse,
    MemoryUse,
    Provenance,
    Span,
)
from simnet.errors import PhysicsError, Problem

__all__ = [
    "BREAKDOWN_PARTS",
    "EngineUse",
    "HottestLink",
    "JsonValue",
    "KnownError",
    "LinkClassUse",
    "MemoryUse",
    "Provenance",
    "Result",
    "Scalar",
    "Span",
    "to_csv",
    "to_plain",
]

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
Scalar: TypeAlias = "str | int | float"

BREAKDOWN_PARTS = (
    "compute",
    "exposed_tp",
    "exposed_cp",
    "exposed_pp",
    "exposed_dp",
    "bubble",
    "optimizer",
)
"""The parts of a step, in the order in which tables and figures show them."""

BREAKDOWN_TOLERANCE = 1e-6
"""Largest relative difference between the step time and the sum of its parts."""

SHARE_TOLERANCE = 1e-9
"""How far rounding may lift a share (utilisation, MFU) above one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Everything that one case answers.

    Parameters
    ----------
    values : varied path to the value that this case took.
    tokens_per_s_per_gpu, tokens_per_s : training throughput [tokens/s].
    mfu, hfu : model and executed FLOPs over the dense peak (fractions).
    breakdown_s : seconds of the step by ``BREAKDOWN_PARTS``; they sum to ``step_time_s``.
    fidelity : ``simulate`` for the engine, ``screen`` for the closed forms, which load no link.
    attention_s : seconds of the part "compute" in the attention core, NaN if unknown.
    steps_to_target, minutes_to_target : to the scenario's target, NaN without one.
    census : counts of the machine, as ``simnet show --json`` prints them.
    bottleneck : what dominates the step, as a sentence.

    Raises
    ------
    PhysicsError
        If the parts do not sum to the step, or a share exceeds one.
    """

    name: str
    variant: str
    values: Mapping[str, Scalar]
    num_gpus: int
    gpu: str
    step_time_s: float
    tokens_per_s_per_gpu: float
    tokens_per_s: float
    mfu: float
    hfu: float
    breakdown_s: Mapping[str, float]
    hottest_link: HottestLink
    link_classes: tuple[LinkClassUse, ...]
    census: Mapping[str, JsonValue]
    memory: MemoryUse
    engine: EngineUse
    bottleneck: str
    assumptions: tuple[str, ...]
    known_error: KnownError
    provenance: Provenance
    timeline: tuple[Span, ...] = ()
    fidelity: str = "simulate"
    attention_s: float = math.nan
    steps_to_target: float = math.nan
    minutes_to_target: float = math.nan

    def __post_init__(self) -> None:
        problems = _physics_problems(self)
        if problems:
            raise PhysicsError(*problems)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result as JSON text; NaN becomes ``null``."""
        return json.dumps(to_plain(self), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Return the result that ``to_json`` wrote."""
        return _from_plain(json.loads(text))

    def to_record(self) -> dict[str, Scalar]:
        """Return the result as one flat row for pandas, polars or CSV (units end the keys)."""
        row: dict[str, Scalar] = {key: getattr(self, key) for key in _SCALAR_FIELDS}
        row |= {f"values.{path}": value for path, value in self.values.items()}
        row |= {f"breakdown_s.{part}": self.breakdown_s[part] for part in BREAKDOWN_PARTS}
        row |= _flatten("hottest_link", asdict(self.hottest_link))
        for use in self.link_classes:
            row[f"link_bytes.{use.link_class}"] = use.bytes
            row[f"link_utilisation.{use.link_class}"] = use.mean_utilisation
        row |= {
            "memory.peak_bytes": self.memory.peak_bytes,
            "memory.limit_bytes": self.memory.limit_bytes,
        }
        row |= _flatten("census", self.census)
        row |= _flatten("provenance", asdict(self.provenance))
        return row

    def to_records(self) -> list[dict[str, Scalar]]:
        """Return ``[to_record()]``: the shape that ``pandas.DataFrame`` takes."""
        return [self.to_record()]


def _physics_problems(result: Result) -> list[Problem]:
    return [
        Problem(message=message, path=f"{result.name}.{path}", found=f"{found!r}", allowed=allowed)
        for path, found, allowed, message in (*_time_faults(result), *_share_faults(result))
    ]


def _time_faults(result: Result) -> list[tuple[str, float, str, str]]:
    step_s = result.step_time_s
    if not (step_s > 0 and math.isfinite(step_s)):
        return [("step_time_s", step_s, "a positive time", "a step takes time")]
    if set(result.breakdown_s) != set(BREAKDOWN_PARTS):
        message = f"the parts are {sorted(result.breakdown_s)}"
        return [("breakdown_s", math.nan, ", ".join(BREAKDOWN_PARTS), message)]
    faults = [
        (f"breakdown_s.{part}", seconds, ">= 0", "a part of the step is negative")
        for part, seconds in result.breakdown_s.items()
        if not seconds >= -BREAKDOWN_TOLERANCE * step_s
    ]
    total_s = math.fsum(result.breakdown_s.values())
    if not abs(total_s - step_s) <= BREAKDOWN_TOLERANCE * step_s:
        message = "the parts of the step do not sum to the step"
        faults.append(("breakdown_s", total_s, f"{step_s!r}", message))
    return faults


def _share_faults(result: Result) -> list[tuple[str, float, str, str]]:
    hottest = result.hottest_link
    shares = {
        "mfu": result.mfu,
        "hfu": result.hfu,
        "hottest_link.mean_utilisation": hottest.mean_utilisation,
        "hottest_link.peak_utilisation": hottest.peak_utilisation,
    }
    for use in result.link_classes:
        shares[f"link_classes.{use.link_class}.mean_utilisation"] = use.mean_utilisation
        shares[f"link_classes.{use.link_class}.peak_utilisation"] = use.peak_utilisation
    return [
        (path, share, "0 to 1", "more than the wire or the roofline allows")
        for path, share in shares.items()
        if not 0 <= share <= 1 + SHARE_TOLERANCE
    ]


def to_plain(value: object) -> JsonValue:
    """Return ``value`` (a dataclass, mapping, sequence or scalar) as plain JSON data."""
    if hasattr(value, "__dataclass_fields__"):
        return {key: to_plain(getattr(value, key)) for key in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return cast("JsonValue", value)


def to_csv(results: Iterable[Result]) -> str:
    """Return a CSV table, one row per result; columns are the union of all records' keys."""
    records = [result.to_record() for result in results]
    columns = list(dict.fromkeys(key for record in records for key in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _flatten(prefix: str, value: JsonValue) -> dict[str, Scalar]:
    if isinstance(value, Mapping):
        return {
            path: scalar for key, item in value.items() for path, scalar in _flatten(f"{prefix}.{key}", item).items()
        }
    return {prefix: value} if isinstance(value, str | int | float) else {}


def _from_plain(data: dict[str, Any]) -> Result:
    """Return the result behind plain JSON data; ``null`` becomes NaN again."""
    fields = dict(data)
    for key, part in _PARTS.items():
        fields[key] = part(**_with_nan(fields[key]))
    for key, member in _LISTS.items():
        fields[key] = tuple(member(**item) for item in fields[key])
    fields["assumptions"] = tuple(fields["assumptions"])
    return Result(**{**fields, **_with_nan({key: fields[key] for key in _MAY_BE_NAN if key in fields})})


def _with_nan(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value is None else value for key, value in fields.items()}


_PARTS: Mapping[str, Callable[..., object]] = {
    "hottest_link": HottestLink,
    "memory": MemoryUse,
    "engine": EngineUse,
    "known_error": KnownError,
    "provenance": Provenance,
}
_LISTS: Mapping[str, Callable[..., object]] = {"link_classes": LinkClassUse, "timeline": Span}
_SCALAR_FIELDS = (
    "name",
    "variant",
    "fidelity",
    "num_gpus",
    "gpu",
    "step_time_s",
    "tokens_per_s_per_gpu",
    "tokens_per_s",
    "mfu",
    "hfu",
    "attention_s",
    "steps_to_target",
    "minutes_to_target",
    "bottleneck",
)
_MAY_BE_NAN = ("attention_s", "steps_to_target", "minutes_to_target")
