"""A located tree against a spec model: the value, or every fault with its line, what is allowed and a hint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from simnet.errors import Problem, SpecError, did_you_mean, listed
from simnet.spec import wording
from simnet.spec.base import Rule, SpecModel
from simnet.spec.fields import Shape, all_paths, at, fields
from simnet.spec.located import KeyPath, Located, Plain

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Spec = TypeVar("Spec", bound=SpecModel)
_MAX_FOUND = 60


def validate(node: Located, model: type[Spec], *, path: KeyPath = (), broken: tuple[KeyPath, ...] = ()) -> Spec:
    """Return *node* as a *model*.

    Parameters
    ----------
    path
        Where the node stands in what the user wrote; prefixed to the key paths of faults.

    Raises
    ------
    SpecError
        With all faults of the tree.

    Notes
    -----
    The tree goes through JSON text, since strict mode then fills tuples from lists and enums from
    words, and still refuses ``"8"`` for an integer.
    """
    if not isinstance(node.value, dict):
        problem = Problem(
            where=node.where,
            path=dotted(path),
            message="a mapping of keys is needed here",
            found=shown(node.plain()),
            allowed=", ".join(model.model_fields),
        )
        raise SpecError(problem)
    try:
        return model.model_validate_json(json.dumps(node.plain()))
    except ValidationError as error:
        raise SpecError(*_problems(error, node, model, path, broken)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """A pydantic error with its place in the data; *branch* tells the union alternative it belongs to."""

    error: ErrorDetails
    path: KeyPath
    union: KeyPath | None
    branch: str


def dotted(path: KeyPath) -> str:
    """Return a path as it is written, ``topology.modules.0.racks``."""
    return ".".join(str(key) for key in path)


def shown(value: Plain) -> str:
    """Return a found value, short enough for one line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_FOUND else text[: _MAX_FOUND - 1] + "…"


def _problems(
    error: ValidationError, node: Located, model: type[SpecModel], path: KeyPath, broken: tuple[KeyPath, ...]
) -> list[Problem]:
    faults = [_place(details, node) for details in error.errors(include_url=False)]
    faults = [fault for fault in faults if not any((*path, *fault.path)[: len(part)] == part for part in broken)]
    placed = [(group[0], problem) for group in _merge_branches(faults) for problem in _told(group, node, model, path)]
    placed = [item for item in placed if not _is_told(item[0], placed)]
    placed.sort(key=lambda item: _order(node.nearest(item[0].path)))
    return list(dict.fromkeys(problem for _, problem in placed))


def _is_told(fault: _Fault, placed: list[tuple[_Fault, Problem]]) -> bool:
    """Return whether another fault tells this one: the missing key misspelt, or what a list that is short has wrong."""
    if fault.error["type"] == "too_short":
        return any(other is not fault and other.path[: len(fault.path)] == fault.path for other, _ in placed)
    if fault.error["type"] != "missing":
        return False
    hint = f'did you mean "{fault.path[-1]}"?'
    return any(other.path[:-1] == fault.path[:-1] and problem.hint == hint for other, problem in placed)


def _order(node: Located) -> tuple[str, tuple[int, int]]:
    return node.origin, node.key_spot or node.spot or (0, 0)


def _place(details: ErrorDetails, node: Located) -> _Fault:
    """Return the error with the part of its location that exists in the data; the rest names union branches."""
    path: list[str | int] = []
    union: KeyPath | None = None
    branch = ""
    here: Located | None = node
    *ways, last = details["loc"] or ("",)
    for key in (*ways, last):
        child = here.child(key) if here is not None else None
        is_missing = details["type"] == "missing" and key is last
        if child is not None or is_missing:
            path.append(key)
            here = child
        elif union is None and details["loc"]:
            union, branch = tuple(path), str(key)
    return _Fault(error=details, path=tuple(path), union=union, branch=branch)


def _merge_branches(faults: list[_Fault]) -> list[list[_Fault]]:
    """Return groups of faults, each one problem: of a union only the alternative that the user meant."""
    groups: list[list[_Fault]] = []
    unions: dict[KeyPath, list[_Fault]] = {}
    for fault in faults:
        if fault.union is None:
            groups.append([fault])
            continue
        if fault.union not in unions:
            unions[fault.union] = []
            groups.append(unions[fault.union])
        unions[fault.union].append(fault)
    return [part for group in groups for part in _meant(group)]


def _meant(group: list[_Fault]) -> list[list[_Fault]]:
    """Return the faults of the alternative whose shape the value has; all in one if no shape fits."""
    if group[0].union is None:
        return [group]
    deeper: dict[str, list[_Fault]] = {}
    for fault in group:
        if fault.path != fault.union:
            deeper.setdefault(fault.branch, []).append(fault)
    at_union = {fault.branch for fault in group if fault.path == fault.union and fault.error["type"] in _WRONG_SHAPE}
    meant = {branch: found for branch, found in deeper.items() if branch not in at_union}
    if meant:
        return [[fault] for fault in min(meant.values(), key=len)]
    right_shape = [fault for fault in group if fault.error["type"] not in _WRONG_SHAPE]
    return [right_shape[:1]] if right_shape else [group]


_WRONG_SHAPE = frozenset(
    (
        "model_type", "model_attributes_type", "dict_type", "list_type", "tuple_type", "string_type", "int_type",
        "float_type", "bool_type", "none_required", "literal_error", "int_from_float", "enum", "dataclass_type",
    )
)  # fmt: skip


def _told(group: list[_Fault], node: Located, model: type[SpecModel], prefix: KeyPath) -> list[Problem]:
    """Return the problems of one group: one, unless a record breaks several rules over its keys."""
    rules = group[0].error.get("ctx", {}).get("rules", ())
    if not rules:
        return [_problem(group, node, model, prefix)]
    return [_broken_rule(rule, group[0].path, node, prefix) for rule in rules]


def _broken_rule(rule: Rule, path: KeyPath, node: Located, prefix: KeyPath) -> Problem:
    """Return a rule over several keys as a problem, at the key that the user is the likeliest to have changed."""
    record = node.nearest(path)
    written = [(keys, found) for keys in map(_keys, rule.keys) if (found := _child(record, keys)) is not None]
    keys, at_key = min(written, key=lambda one: _distance(one[1], record, node), default=((), record))
    shows = not rule.found and bool(keys) and not isinstance(at_key.value, list | dict)
    return Problem(
        where=at_key.where_key,
        path=dotted((*prefix, *path, *keys)),
        message=rule.message,
        found=rule.found or (shown(at_key.plain()) if shows else ""),
        allowed=rule.allowed,
        hint=rule.hint,
    )


def _keys(path: str) -> KeyPath:
    return tuple(int(key) if key.isdecimal() else key for key in path.split("."))


def _child(node: Located, path: KeyPath) -> Located | None:
    found: Located | None = node
    for key in path:
        found = found.child(key) if found is not None else None
    return found


def _distance(value: Located, record: Located, root: Located) -> int:
    """Return how far a value is from the user's hand: an option, the file, the file of the record, one it builds on."""
    if value.spot is None:
        return 0
    files = (root.origin, record.origin)
    return 1 + files.index(value.origin) if value.origin in files else 1 + len(files)


def _problem(group: list[_Fault], node: Located, model: type[SpecModel], prefix: KeyPath) -> Problem:
    fault = group[0]
    kind, context = fault.error["type"], fault.error.get("ctx", {})
    full = dotted((*prefix, *fault.path))
    value = node.nearest(fault.path)
    if kind == "extra_forbidden":
        return _unknown_key(fault.path, value, model, full)
    if kind == "missing":
        known = node.nearest(fault.path[:-1])
        message = "entry missing" if isinstance(fault.path[-1], int) else "key missing"
        return Problem(where=known.where_key, path=full, message=message, hint=_missing_hint(fault.path, model))
    errors = [one.error for one in group]
    found = str(context.get("found", "")) or ("" if _is_about_whole(fault, value) else shown(value.plain()))
    allowed = str(context.get("allowed", "")) or wording.allowed(errors)
    hint = str(context.get("hint", ""))
    if not hint and isinstance(value.value, str):
        hint = did_you_mean(value.value, wording.expected_words(errors))
    return Problem(
        where=value.where, path=full, message=wording.message(errors), found=found, allowed=allowed, hint=hint
    )


def _is_about_whole(fault: _Fault, value: Located) -> bool:
    """Return whether a rule over several keys was broken, which showing the whole mapping would not explain."""
    return isinstance(value.value, dict) and fault.error["type"] not in _WRONG_SHAPE


def _unknown_key(path: KeyPath, value: Located, model: type[SpecModel], full: str) -> Problem:
    key = str(path[-1])
    root = (Shape(model),)
    known = fields(at(root, path[:-1]))
    hint = ""
    if "." in key:
        hint = "write the keys of a dotted path one below the other; only vary and --set take dots"
    hint = hint or did_you_mean(key, known)
    elsewhere = [other for other in all_paths(root) if other.rsplit(".", 1)[-1] == key]
    if not hint and elsewhere:
        hint = f'"{key}" stands under {elsewhere[0].rpartition(".")[0] or "the top level"}'
    return Problem(where=value.where_key, path=full, message="unknown key", allowed=listed(known, near=key), hint=hint)


def _missing_hint(path: KeyPath, model: type[SpecModel]) -> str:
    parents = at((Shape(model),), path[:-1])
    for shape in parents:
        info = getattr(shape.type, "model_fields", {}).get(path[-1])
        if info is not None and info.description:
            return str(info.description).splitlines()[0]
    return ""
