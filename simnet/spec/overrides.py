"""Overrides by dotted path: ``--set topology.racks=8`` and the paths of ``vary``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simnet.errors import Problem, SpecError
from simnet.spec.located import KeyPath, Located, located, put
from simnet.spec.read import read_text

Overrides = Mapping[str, object]


def key_path(dotted: str, *, where: str = "") -> KeyPath:
    """Return the keys of a dotted path that stands at *where*.

    Raises
    ------
    SpecError
        If the path is empty or has an empty key.
    """
    keys = tuple(dotted.split("."))
    if not all(key.strip() for key in keys):
        raise SpecError(
            Problem(
                where=where,
                message="not a dotted path",
                found=f'"{dotted}"',
                allowed="keys joined by dots, topology.racks",
            )
        )
    return keys


def parse_set(texts: Iterable[str]) -> dict[str, object]:
    """Return ``path=value`` texts as overrides; the value is read as YAML.

    Raises
    ------
    SpecError
        With every text that is no assignment or whose value is not YAML.
    """
    overrides: dict[str, object] = {}
    problems: list[Problem] = []
    for text in texts:
        path, equals, value = text.partition("=")
        origin = f"--set {text}"
        if not equals or not path.strip():
            problems.append(Problem(where=origin, message="not an assignment", allowed="--set path=value"))
            continue
        try:
            overrides[path.strip()] = read_text(value, origin, is_file=False)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(*problems)
    return overrides


def as_located(path: str, value: object) -> Located:
    """Return an override's value as a tree; a plain value names its path as its origin."""
    return value if isinstance(value, Located) else located(value, f"override {path}")


def apply_overrides(tree: Located, overrides: Overrides) -> Located:
    """Return *tree* with each override merged in at its dotted path.

    Whether the model knows the path is told by validation, which names the override as the place.

    Raises
    ------
    SpecError
        With every override whose path runs through a plain value or past the end of a list.
    """
    problems: list[Problem] = []
    for path, value in overrides.items():
        try:
            patch = as_located(path, value)
            tree = put(tree, key_path(path, where=patch.where_key), patch)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(*problems)
    return tree
