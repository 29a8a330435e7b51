"""Files to specs: read, put names in place, apply overrides, validate; all faults of a file at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from simnet import library
from simnet.errors import Problem, SpecError
from simnet.spec.base import Ref, SpecModel
from simnet.spec.fields import Shape
from simnet.spec.located import KeyPath, Located, located
from simnet.spec.overrides import apply_overrides, parse_set
from simnet.spec.read import read_text, read_yaml
from simnet.spec.refs import Resolved, record, resolve
from simnet.spec.validate import validate

if TYPE_CHECKING:
    from simnet.spec.collective_question import CollectiveQuestion
    from simnet.spec.model import ModelSpec
    from simnet.spec.scenario import CaseSpec, ScenarioSpec
    from simnet.spec.topology import TopologySpec

Spec = TypeVar("Spec", bound=SpecModel)

__all__ = [
    "Located",
    "apply_overrides",
    "build",
    "expand",
    "load_collective_question",
    "load_model",
    "load_part",
    "load_scenario",
    "load_topology",
    "located",
    "parse_set",
    "read_text",
    "read_yaml",
    "validate",
]


def load_scenario(ref: str | Path, overrides: Mapping[str, object] | None = None) -> ScenarioSpec:
    """Return the scenario of that name or path, every case of it checked.

    Parameters
    ----------
    overrides
        Dotted path to value, ``{"topology.racks": 8}``; they win over everything in the file, and
        a path that the scenario varies is no longer varied.

    Raises
    ------
    SpecError
        With all faults of the scenario, of the files that it names, and of the overrides.
    """
    from simnet.spec.expand import TRAINING, all_cases
    from simnet.spec.scenario import ScenarioSpec

    tree = read_yaml(library.find("scenario", ref))
    problems, cases = all_cases(tree, overrides or {}, TRAINING)
    scenario = checked(tuple(problems), lambda: validate(tree, ScenarioSpec))
    scenario._cases = tuple(cases)
    return scenario


def expand(scenario: ScenarioSpec) -> tuple[CaseSpec, ...]:
    """Return the cases of a loaded scenario, variants outermost, the last varied path fastest."""
    return scenario._cases


def load_collective_question(ref: str | Path, overrides: Mapping[str, object] | None = None) -> CollectiveQuestion:
    """Return the question about collectives of that name or path; parameters and errors as :func:`load_scenario`."""
    from simnet.spec.collective_question import COLLECTIVE, CollectiveQuestion
    from simnet.spec.expand import all_cases

    tree = read_yaml(library.find("collective", ref))
    problems, cases = all_cases(tree, overrides or {}, COLLECTIVE)
    question = checked(tuple(problems), lambda: validate(tree, CollectiveQuestion))
    question._cases = tuple(cases)
    if question.measured:
        question._measured = library.data_file(question.measured, near=tree.folder)
    return question


def load_topology(ref: str | Path, overrides: Mapping[str, object] | None = None) -> TopologySpec:
    """Return the topology of that name or path.

    Parameters
    ----------
    overrides
        Dotted path to value, ``{"scale_out.oversubscription": 2}``; quantities as in a file.

    Raises
    ------
    SpecError
        With all faults of the file and of the overrides.
    """
    from simnet.spec.topology import TopologySpec

    return _load(read_yaml(library.find("topology", ref)), TopologySpec, overrides, kind="topology")


def load_model(ref: str | Path, overrides: Mapping[str, object] | None = None) -> ModelSpec:
    """Return the model card of that name or path; parameters and errors as :func:`load_topology`."""
    from simnet.spec.model import ModelSpec

    return _load(record("model", str(ref)), ModelSpec, overrides, kind="model")


def load_part(kind: str, name: str, model: type[Spec], *, near: Path | None = None) -> Spec:
    """Return the part *name* as a *model*; *kind* is a top-level key of the part files."""
    return build(record(kind, name, near=near), model, kind=kind)


def build(tree: Located, model: type[Spec], *, path: KeyPath = (), kind: str = "") -> Spec:
    """Return *tree* as a *model*, names put in place.

    Parameters
    ----------
    kind
        Kind of record on which the tree may build by a key ``from`` of its own; none unless given.

    Raises
    ------
    SpecError
        With all names that lead nowhere and all other faults.
    """
    return _validated(resolve(tree, (_root(model, kind),), path=path), model, path=path)


def _root(model: type[SpecModel], kind: str) -> Shape:
    return Shape(model, Ref(kind) if kind else None)


def _validated(resolved: Resolved, model: type[Spec], *, path: KeyPath = ()) -> Spec:
    return checked(resolved.problems, lambda: validate(resolved.tree, model, path=path, broken=resolved.broken))


def checked(problems: tuple[Problem, ...], make: Callable[[], Spec]) -> Spec:
    """Return what *make* returns, unless there are *problems*; its own faults join them."""
    try:
        made = make()
    except SpecError as error:
        raise SpecError(*in_reading_order((*problems, *error.problems))) from None
    if problems:
        raise SpecError(*in_reading_order(problems))
    return made


def in_reading_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems without repetition, by file, line and column."""
    return sorted(dict.fromkeys(problems), key=_order)


def _order(problem: Problem) -> tuple[str, int, int]:
    file, *spot = problem.where.rsplit(":", 2)
    return (file, int(spot[0]), int(spot[1])) if len(spot) > 1 and "".join(spot).isdecimal() else (problem.where, 0, 0)


def _load(tree: Located, model: type[Spec], overrides: Mapping[str, object] | None, *, kind: str) -> Spec:
    """Return the spec of a record; overrides go into the records that its names stand for."""
    written = resolve(tree, (_root(model, kind),))
    if not overrides:
        return _validated(written, model)
    changed = resolve(apply_overrides(written.tree, overrides), (Shape(model),))
    both = replace(
        changed,
        problems=(*written.problems, *changed.problems),
        broken=(*written.broken, *changed.broken),
    )
    return _validated(both, model)
