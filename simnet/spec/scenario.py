"""A scenario: one question as a file, and the concrete cases that it comes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, PrivateAttr, model_validator

from simnet.spec.base import Ref, Rule, SpecModel, Time, broken
from simnet.spec.bounds import MAX_SEED, MAX_TOTAL
from simnet.spec.topology import Routing, TopologySpec
from simnet.spec.workload import WorkloadSpec
from simnet.version import __version__

Fidelity = Literal["screen", "simulate"]
"""How a step is predicted: by closed forms, or by the engine."""
SplitOf = Literal["throughput", "chip_time"]
"""What a split takes apart."""
Values = Annotated[tuple[JsonValue, ...], Field(min_length=1)]
"""What a varied path takes, one after the other."""


class TargetSpec(SpecModel):
    """When training is done, for minutes instead of steps."""

    samples: int = Field(gt=0, le=MAX_TOTAL)
    """Sequences until the target quality is reached; recipes with another global batch need other numbers."""
    evaluation: Time = 0.0
    """Time of all evaluations together."""


class KneeSpec(SpecModel):
    """Which curve to search for the knee: how far a path can be raised before the step slows."""

    path: str
    """Dotted path that ``vary`` steps through, such as ``topology.joins.taper``; small values are the good end."""
    losses: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.01, 0.05)
    """Loss of step time that is still accepted (fractions); one knee is looked for at each."""
    baseline: str | dict[str, str] = ""
    """Variant that the loss is relative to, for all curves or as ``{variant: baseline}``; else a curve's own start."""

    def baselines(self, variants: Iterable[str]) -> dict[str, str]:
        """Return the baseline of each of the *variants* that has one."""
        if isinstance(self.baseline, dict):
            return dict(self.baseline)
        return dict.fromkeys(variants, self.baseline) if self.baseline else {}


class SplitSpec(SpecModel):
    """A ratio to take apart: from one variant through others, each with one more change."""

    of: SplitOf = "throughput"
    """``throughput``: tokens/s of a GPU, more is better; ``chip_time``: GPUs x time to the target, less is better, with
    samples to the target and evaluation as causes of their own."""

    start: str
    """Variant from which the ratio starts."""
    through: Annotated[dict[str, str], Field(min_length=1)]
    """Name of each change, and the variant that has it beside all before, ``{the chip: b200, kernels: b200-tuned}``."""


class CaseBody(SpecModel):
    """What one simulation needs; each of these keys may stand in a scenario and again in its variants."""

    topology: Annotated[TopologySpec, Ref("topology")]
    """The machine: name of a topology, or ``{from: name, key: change}``."""
    workload: Annotated[WorkloadSpec, Ref("workload")]
    """The job, in place or by name."""
    target: TargetSpec | None = None
    """When training is done; leave out for step times only."""
    routing: Routing | None = None
    """How flows pick among equal-cost links; that of the topology unless given."""
    seed: int = Field(default=0, ge=0, le=MAX_SEED)
    """Seed of all randomness (hashed routes, jitter)."""


class VariantSpec(SpecModel):
    """Named changes to a scenario; mappings are merged key by key, everything else is replaced."""

    topology: JsonValue = None
    """Another topology by name, or changes to the scenario's own."""
    workload: JsonValue = None
    """Changes to the job."""
    target: JsonValue = None
    """Changes to the target."""
    routing: JsonValue = None
    """Another routing."""
    seed: JsonValue = None
    """Another seed."""
    vary: dict[str, Values] = Field(default_factory=dict)
    """Dotted path to values, for this variant only; wins over the scenario's own list of that path."""


class ScenarioSpec(SpecModel):
    """One question: a machine, a job, and what changes."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Name of the folder that the results go to."""
    question: str = Field(min_length=1)
    """What the scenario answers, as a buyer would ask it."""
    reading: str = ""
    """How to read the result."""
    topology: JsonValue
    """The machine: name of a topology, or ``{from: name, key: change}``."""
    workload: JsonValue
    """The job."""
    target: JsonValue = None
    """When training is done: ``{samples: 323000, evaluation: 92 s}``."""
    routing: JsonValue = None
    """How flows pick among equal-cost links; that of the topology unless given."""
    seed: JsonValue = 0
    """Seed of all randomness."""
    fidelity: Fidelity = "simulate"
    """``simulate`` moves the traffic over the fabric; ``screen`` answers by closed forms, which know no cables."""
    variants: dict[str, VariantSpec | None] = Field(default_factory=dict)
    """Named changes, each simulated; without any, the scenario itself is."""
    vary: dict[str, Values] = Field(default_factory=dict)
    """Dotted path to the values that it takes; every combination is a case."""
    knee: KneeSpec | None = None
    """Which curve to search for its knee."""

    claims: dict[str, Annotated[float, Field(gt=0, le=MAX_TOTAL)]] = Field(default_factory=dict)
    """Throughput that somebody claims for a variant [tokens/s]; judged as of one GPU and as of one node."""
    split: SplitSpec | None = None
    """Which ratio to take apart, of throughputs or of chip time to the target."""

    _cases: tuple[CaseSpec, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _check(self) -> Self:
        axes = set(self.vary).union(*(variant.vary for variant in self.variants.values() if variant))
        if self.knee is not None and self.knee.path not in axes:
            allowed = ", ".join(sorted(axes)) or "a path under vary"
            raise broken(
                Rule(message="knee.path is not varied", keys=("knee.path",), found=self.knee.path, allowed=allowed)
            )
        self._check_variants()
        baseline = self.knee.baseline if self.knee is not None else ""
        named = {*baseline, *baseline.values()} if isinstance(baseline, dict) else {baseline} - {""}
        strangers = sorted(named - set(self.variants))
        if strangers:
            allowed = ", ".join(self.variants) or "leave it out"
            found = ", ".join(strangers)
            raise broken(
                Rule(message="knee.baseline is no variant", keys=("knee.baseline",), found=found, allowed=allowed)
            )
        return self

    def _check_variants(self) -> None:
        """Refuse claims and splits about variants that there are not."""
        split = {self.split.start, *self.split.through.values()} if self.split is not None else set()
        allowed = ", ".join(self.variants) or "a scenario with variants"
        rules = [
            Rule(message=f"{key} names no variant", keys=(key,), found=", ".join(sorted(strangers)), allowed=allowed)
            for key, named in (("claims", set(self.claims)), ("split", split))
            if (strangers := named - set(self.variants))
        ]
        if rules:
            raise broken(*rules)


class CaseSpec(CaseBody):
    """One simulation, fully resolved: every name replaced by its record."""

    name: str
    """Variant and varied values, unique in the scenario."""
    variant: str
    """Name of the variant; empty if the scenario has none."""
    routing: Routing
    """How flows pick among equal-cost links."""
    values: Mapping[str, str | int | float]
    """Varied path to the value that this case takes."""

    def content_hash(self) -> str:
        """Return a hash of everything that decides the result: the whole case, and simnet's version."""
        content = json.dumps(
            {"version": __version__, "case": self.model_dump(mode="json")}, sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(content.encode()).hexdigest()
