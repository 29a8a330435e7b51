"""What every spec shares: a frozen, strict base model and fields that insist on their unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from simnet import units
from simnet.spec.bounds import MAX_COUNT, RANGES


class SpecModel(BaseModel):
    """Base of all specs: frozen, refuses unknown keys, converts nothing, documents its fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


@dataclass(frozen=True, slots=True)
class Ref:
    """Marks a field that a file may fill by name: ``Annotated[GpuPart, Ref("gpu")]``.

    In YAML the field is then a name (``gpu: h100-sxm``), a name with changes
    (``gpu: {from: h100-sxm, power: 650 W}``), or the record itself. The loader puts the record in
    place before it validates, so the validated value is always whole.

    *kind* is ``topology``, ``model`` or ``workload`` (one record a file), or else a kind of part:
    a top-level key of the files in ``topologies/parts/``, which hold ``kind: {name: record}``.
    """

    kind: str


def _quantity(dimension: str) -> Callable[[object, ValidationInfo], object]:
    """Return a validator of *dimension*; a file must give the unit, Python code gives SI floats."""
    low, high = RANGES[dimension]
    least, most = (units.parse_quantity(end, dimension) for end in (low, high))

    def parse(value: object, info: ValidationInfo) -> object:
        if info.mode == "python" and isinstance(value, (int, float)) and not isinstance(value, bool):
            number = float(value)
        else:
            number = _parsed(value, dimension)
        if not least <= number <= most:
            raise PydanticCustomError(
                "quantity", "out of range", {"found": f'"{value}"', "allowed": f"{low} to {high}"}
            )
        return number

    return parse


def _parsed(value: object, dimension: str) -> float:
    try:
        return units.parse_quantity(value, dimension)
    except units.QuantityError as error:
        found = error.found if value is not None else "null"
        raise PydanticCustomError(
            "quantity",
            "{message}",
            {"message": error.message, "found": found, "allowed": error.allowed, "hint": error.hint},
        ) from None


def _schema(dimension: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*[+]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*("
            + "|".join(sorted(units.UNITS[dimension], key=len, reverse=True))
            + r")\s*$",
            "description": f'A {dimension} with its unit, such as "{units.EXAMPLES[dimension]}".',
        }
    )


Bandwidth = Annotated[float, BeforeValidator(_quantity("bandwidth")), _schema("bandwidth")]
"""Bytes per second and direction; in a file ``400 Gb/s``."""
Size = Annotated[float, BeforeValidator(_quantity("size")), _schema("size")]
"""Bytes; in a file ``80 GB`` or ``80 GiB``."""
Time = Annotated[float, BeforeValidator(_quantity("time")), _schema("time")]
"""Seconds; in a file ``2 us``."""
FlopsRate = Annotated[float, BeforeValidator(_quantity("flops rate")), _schema("flops rate")]
"""FLOP/s; in a file ``989 TFLOP/s``."""
Power = Annotated[float, BeforeValidator(_quantity("power")), _schema("power")]
"""Watts; in a file ``700 W``."""
Money = Annotated[float, BeforeValidator(_quantity("money")), _schema("money")]
"""US dollars; in a file ``36 kUSD``."""
Length = Annotated[float, BeforeValidator(_quantity("length")), _schema("length")]
"""Metres; in a file ``10 km``."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""A number of things, at least one."""
Whole = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""A number of things, perhaps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule over several keys of a record that does not hold."""

    message: str
    keys: tuple[str, ...] = ()
    """Dotted keys that it is about, the likeliest slip first; the fault is told where the user wrote one of them."""
    found: str = ""
    allowed: str = ""
    hint: str = ""


def broken(*rules: Rule) -> PydanticCustomError:
    """Return the error of a record that breaks *rules*, for ``raise`` in a validator; each is told at its keys."""
    message = "; ".join(rule.message for rule in rules)
    return PydanticCustomError("rules", "{message}", {"message": message, "rules": rules})


def require_unit(unit: str) -> None:
    """Raise unless *unit* is one that a constant may have; for use in validators."""
    try:
        units.si_factor(unit)
    except units.QuantityError as error:
        raise PydanticCustomError(
            "quantity",
            "{message}",
            {"message": error.message, "found": error.found, "allowed": error.allowed, "hint": ""},
        ) from None


class Constant(SpecModel):
    """A named constant with its spread, source and date, so that a report can show where a number comes from."""

    value: float
    """The value that is used, in *unit*."""
    low: float
    """Low end of what sources give, in *unit*."""
    high: float
    """High end of what sources give, in *unit*."""
    unit: str
    """Unit of the three numbers; ``"1"`` for a plain number."""
    source: str = Field(min_length=1)
    """Where the number comes from."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    """Date of the source, ``2025``, ``2025-06`` or ``2025-06-30``."""
    note: str = ""
    """What a reader should know before trusting it."""

    @property
    def si(self) -> float:
        """Return the value in SI."""
        return self.value * units.si_factor(self.unit)

    @model_validator(mode="after")
    def _check(self) -> Self:
        require_unit(self.unit)
        if not self.low <= self.value <= self.high:
            found = f"{self.low}, {self.value}, {self.high}"
            raise broken(Rule(message="low <= value <= high must hold", keys=("value", "low", "high"), found=found))
        return self
