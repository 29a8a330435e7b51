"""From a scenario's file to its cases: base, variant, varied values and ``--set``, in this order."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from simnet.errors import Problem, SpecError, listed
from simnet.spec.base import SpecModel
from simnet.spec.fields import Shape, all_paths
from simnet.spec.load import checked
from simnet.spec.located import FROM, KeyPath, Located, Plain, merge, put
from simnet.spec.overrides import as_located, key_path
from simnet.spec.refs import Resolved, resolve
from simnet.spec.scenario import CaseBody, CaseSpec
from simnet.spec.validate import shown, validate

MAX_CASES = 10_000
"""Cases of one scenario; more is a slip in ``vary``."""
Case = TypeVar("Case", bound=SpecModel)
Body = TypeVar("Body", bound=SpecModel)
Values = Mapping[str, str | int | float]
_EMPTY = Located(value={}, origin="")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseKind(Generic[Body, Case]):
    """What the cases of a kind of file are made of."""

    body: type[Body]
    """Keys that a case has, each of which may stand in the file and again in its variants."""
    needed: frozenset[str]
    """Keys without which there is no case; validation tells why."""
    make: Callable[[Body, str, str, Values], Case]
    """A case from its body, name, variant and varied values."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of a body, for names in it."""
        return (Shape(self.body),)


def _training_case(body: CaseBody, name: str, variant: str, values: Values) -> CaseSpec:
    return CaseSpec(
        name=name,
        variant=variant,
        values=values,
        topology=body.topology,
        workload=body.workload,
        target=body.target,
        routing=body.routing or body.topology.routing,
        seed=body.seed,
    )


TRAINING = CaseKind(body=CaseBody, needed=frozenset({"topology", "workload"}), make=_training_case)
"""Training steps: what a scenario's cases are."""


def all_cases(
    tree: Located, overrides: Mapping[str, object], kind: CaseKind[Body, Case]
) -> tuple[list[Problem], list[Case]]:
    """Return the faults met on the way, and all cases without one.

    Variants stand outermost, the last varied path steps fastest. A path in *overrides* is no
    longer varied. A file without what its kind needs has no cases; validation tells why.
    """
    problems: list[Problem] = []
    if not isinstance(tree.value, dict) or not kind.needed <= tree.value.keys():
        return [], []
    base = resolve(_body_of(tree, kind), kind.shapes)
    problems += base.problems
    cases: list[Case] = []
    for name, variant in _variants(tree):
        axes = _axes(tree, variant, overrides)
        num_cases = math.prod(len(axis) for axis in axes)
        if len(cases) + num_cases > MAX_CASES:
            problems.append(_too_many(axes, len(cases) + num_cases))
            break
        problems += _repeated(axes)
        layered = _layered(base, _body_of(variant, kind), kind)
        for changes in itertools.product(*axes):
            try:
                cases.append(_case(layered, name, changes, overrides, kind))
            except SpecError as error:
                problems += error.problems
    return problems, cases


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One value of one varied path."""

    path: str
    value: Located


def _case(
    layered: Resolved,
    variant: str,
    changes: Sequence[_Change],
    overrides: Mapping[str, object],
    kind: CaseKind[Body, Case],
) -> Case:
    """Return one case.

    Raises
    ------
    SpecError
        With all its faults.
    """
    problems: list[Problem] = list(layered.problems)
    tree = layered.tree
    broken = list(layered.broken)
    for change in (*changes, *(_Change(path=path, value=as_located(path, value)) for path, value in overrides.items())):
        try:
            path = _known_path(change, kind)
            resolved = resolve(put(tree, path, change.value), kind.shapes)
        except SpecError as error:
            problems += error.problems
            continue
        tree = resolved.tree
        problems += resolved.problems
        broken += resolved.broken
    body = checked(tuple(problems), lambda: validate(tree, kind.body, broken=tuple(broken)))
    values = {change.path: _label(change.value.plain()) for change in changes}
    return kind.make(body, _case_name(variant, values), variant, values)


def _known_path(change: _Change, kind: CaseKind[Body, Case]) -> KeyPath:
    """Return the keys of a varied or set path, which must start at a key of a case."""
    path = key_path(change.path, where=change.value.where_key)
    keys = tuple(kind.body.model_fields)
    if path[0] in keys:
        return path
    paths = list(all_paths(kind.shapes))
    near = [known for known in paths if known.endswith(f".{change.path}")]
    near = near or difflib.get_close_matches(change.path, paths, n=1)
    raise SpecError(
        Problem(
            where=change.value.where_key,
            path=change.path,
            message="no such path",
            allowed=f"a path that starts with {listed(keys)}",
            hint=f'did you mean "{near[0]}"?' if near else "",
        )
    )


def _layered(base: Resolved, patch: Located, kind: CaseKind[Body, Case]) -> Resolved:
    """Return the base changed by a variant, with the names that the variant brought put in place."""
    if not patch.value:
        return base
    resolved = resolve(merge(base.tree, patch), kind.shapes)
    return replace(
        resolved,
        problems=(*base.problems, *resolved.problems),
        broken=(*(path for path in base.broken if not _replaces(patch, path)), *resolved.broken),
    )


def _replaces(patch: Located, path: KeyPath) -> bool:
    """Return whether the patch puts something new where *path* leads."""
    node: Located | None = patch
    for key in path:
        node = node.child(key) if node is not None else None
    return node is not None and (not isinstance(node.value, dict) or FROM in node.value)


def _body_of(tree: Located, kind: CaseKind[Body, Case]) -> Located:
    children = tree.value if isinstance(tree.value, dict) else {}
    return replace(tree, value={key: children[key] for key in kind.body.model_fields if key in children})


def _variants(tree: Located) -> Iterator[tuple[str, Located]]:
    variants = tree.child("variants")
    if variants is None or not isinstance(variants.value, dict) or not variants.value:
        yield "", _EMPTY
        return
    for name, variant in variants.value.items():
        yield name, variant if isinstance(variant.value, dict) else _EMPTY


def _axes(tree: Located, variant: Located, overrides: Mapping[str, object]) -> list[list[_Change]]:
    """Return the values of each varied path; a variant's list wins, and an override ends the varying."""
    varied: dict[str, Located] = {}
    for source in (tree.child("vary"), variant.child("vary")):
        if source is not None and isinstance(source.value, dict):
            varied |= source.value
    return [
        [_Change(path=path, value=replace(item, key_spot=values.key_spot)) for item in values.value]
        for path, values in varied.items()
        if isinstance(values.value, list) and path not in overrides
    ]


def _too_many(axes: Sequence[Sequence[_Change]], num_cases: int) -> Problem:
    longest = max(axes, key=len)[0]
    return Problem(
        where=longest.value.where_key,
        path=f"vary.{longest.path}",
        message="too many combinations of varied values",
        found=f"{num_cases:,} cases",
        allowed=f"{MAX_CASES:,} cases",
    )


def _repeated(axes: Sequence[Sequence[_Change]]) -> list[Problem]:
    """Return a problem for each value that stands again in the list of its path, since it would make a case twice."""
    problems = []
    for axis in axes:
        first: dict[str, Located] = {}
        for change in axis:
            label = str(_label(change.value.plain()))
            if label in first:
                problems.append(
                    Problem(
                        where=change.value.where,
                        path=f"vary.{change.path}",
                        message="a value stands twice in a list of vary",
                        found=label,
                        hint=f"the first one is at {first[label].where}",
                    )
                )
            first.setdefault(label, change.value)
    return problems


def _case_name(variant: str, values: Mapping[str, str | int | float]) -> str:
    parts = [f"{path.rpartition('.')[2]}={value}" for path, value in values.items()]
    return " ".join(part for part in (variant, *parts) if part) or "base"


def _label(value: Plain) -> str | int | float:
    """Return a varied value as it is shown; a mapping as its ``key=value`` pairs."""
    if isinstance(value, dict):
        return " ".join(f"{key}={_label(item)}" for key, item in value.items())
    return value if isinstance(value, (str, int, float)) and not isinstance(value, bool) else shown(value)
