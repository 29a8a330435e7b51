"""A question about collectives as a file: a machine, a call of nccl-tests, and what changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, JsonValue, PrivateAttr, model_validator

from simnet.spec.base import Ref, Rule, SpecModel, broken
from simnet.spec.bounds import MAX_COUNT, MAX_SEED
from simnet.spec.expand import CaseKind, Values
from simnet.spec.scenario import Values as VariedValues
from simnet.spec.topology import Routing, TopologySpec


class CollectiveCallSpec(SpecModel):
    """A call as nccl-tests make it."""

    op: str = "all_reduce"
    """Operation, as nccl-tests or NCCL spell it."""
    ranks: Annotated[int, Field(ge=2, le=MAX_COUNT)] | str = "all"
    """GPUs that take part: a count, ``0-7,16-23``, ``one-per-node`` or ``all``."""
    split: str = ""
    """How they form communicators that run together, as ``NCCL_TESTS_SPLIT`` says it: ``MOD 8``, ``DIV 8``."""
    sizes: str = "8:16GiB:x2"
    """Whole buffers: ``FIRST:LAST:xFACTOR`` or a list; plain numbers are bytes."""
    algorithm: str = "auto"
    """What runs; ``auto`` takes what NCCL's tuner would."""
    launch: str = "multi_process"
    """How the benchmark starts a call."""
    parts: str = "equal"
    """Parts of an all-to-all-v: ``equal``, ``zipf:EXPONENT``, a number for each rank, or a CSV file."""
    buffers: str = "plain"
    """How a program hands its buffers to NCCL: ``plain``, ``registered`` or ``symmetric``."""


class CollectiveBody(SpecModel):
    """What one table needs; each of these keys may stand in a file and again in its variants."""

    topology: Annotated[TopologySpec, Ref("topology")]
    """The machine: name of a topology, or ``{from: name, key: change}``."""
    collective: CollectiveCallSpec
    """The call."""
    routing: Routing | None = None
    """How flows pick among equal-cost links; that of the topology unless given."""
    seed: int = Field(default=0, ge=0, le=MAX_SEED)
    """Seed of all randomness (hashed routes)."""


class CollectiveVariantSpec(SpecModel):
    """Named changes to a question; mappings are merged key by key, everything else is replaced."""

    topology: JsonValue = None
    """Another topology by name, or changes to the question's own."""
    collective: JsonValue = None
    """Changes to the call."""
    routing: JsonValue = None
    """Another routing."""
    seed: JsonValue = None
    """Another seed."""
    vary: dict[str, VariedValues] = Field(default_factory=dict)
    """Dotted path to values, for this variant only; wins over the question's own list of that path."""


class CollectiveQuestion(SpecModel):
    """One question about collectives."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the folder that the results go to."""
    question: str = Field(min_length=1)
    """What it answers, as an engineer would ask it."""
    reading: str = ""
    """How to read the result."""
    topology: JsonValue
    """The machine, as it should be: name of a topology, or ``{from: name, key: change}``."""
    collective: JsonValue
    """The call of nccl-tests."""
    measured: str = ""
    """CSV table or log of nccl-tests to be explained by a single fault; a path from this file."""
    routing: JsonValue = None
    """How flows pick among equal-cost links; that of the topology unless given."""
    seed: JsonValue = 0
    """Seed of all randomness."""
    variants: dict[str, CollectiveVariantSpec | None] = Field(default_factory=dict)
    """Named changes, each predicted; without any, the question itself is."""
    vary: dict[str, VariedValues] = Field(default_factory=dict)
    """Dotted path to the values that it takes; every combination is a case."""

    _cases: tuple[CollectiveCase, ...] = PrivateAttr(default=())
    _measured: Path | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.measured and (self.variants or self.vary):
            raise broken(
                Rule(
                    message="a measured table is explained on one machine",
                    keys=("variants" if self.variants else "vary",),
                    found="measured, and variants or vary",
                    allowed="one of the two",
                )
            )
        return self

    @property
    def cases(self) -> tuple[CollectiveCase, ...]:
        """Tables to predict, variants outermost, the last varied path fastest."""
        return self._cases

    @property
    def measured_file(self) -> Path | None:
        """The measured table; None without one."""
        return self._measured


class CollectiveCase(CollectiveBody):
    """One table, fully resolved."""

    name: str
    """Variant and varied values, unique in the question."""
    variant: str
    """Name of the variant; empty if there is none."""
    values: Mapping[str, str | int | float]
    """Varied path to the value that this case takes."""


def _case(body: CollectiveBody, name: str, variant: str, values: Values) -> CollectiveCase:
    return CollectiveCase(
        name=name,
        variant=variant,
        values=values,
        topology=body.topology,
        collective=body.collective,
        routing=body.routing or body.topology.routing,
        seed=body.seed,
    )


COLLECTIVE = CaseKind(body=CollectiveBody, needed=frozenset({"topology", "collective"}), make=_case)
"""Tables of nccl-tests: what such a question's cases are."""
