"""The spec models seen as a tree of types: which keys may stand where, and which fields take a name."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from simnet.spec.base import Ref
from simnet.spec.located import KeyPath

_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """One alternative of a field's type, with the mark that lets it be filled by name."""

    type: Any
    ref: Ref | None = None


def shapes(annotation: Any, ref: Ref | None = None) -> tuple[Shape, ...]:
    """Return the alternatives of an annotation, unions and marks unwrapped."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        found = next((mark for mark in marks if isinstance(mark, Ref)), ref)
        return shapes(inner, found)
    if origin in {Union, types.UnionType}:
        return tuple(shape for part in get_args(annotation) for shape in shapes(part, ref))
    return (Shape(annotation, ref),)


@functools.cache
def fields(candidates: tuple[Shape, ...]) -> Mapping[str, tuple[Shape, ...]]:
    """Return the keys that the models among *candidates* know, with the shapes of each."""
    known: dict[str, tuple[Shape, ...]] = {}
    for shape in candidates:
        if isinstance(shape.type, type) and issubclass(shape.type, BaseModel):
            shape.type.model_rebuild()  # a no-op, unless the model names a class that stands below it
            for name, info in shape.type.model_fields.items():
                known[name] = known.get(name, ()) + _field_shapes(info)
    return known


@functools.cache
def below(candidates: tuple[Shape, ...], key: str | int) -> tuple[Shape, ...]:
    """Return the shapes that a value under *key* may have; none if no such key is known."""
    if isinstance(key, str):
        known = fields(candidates).get(key)
        if known is not None:
            return known
    return tuple(
        shape for candidate in candidates for part in _item_types(candidate.type, key) for shape in shapes(part)
    )


def at(candidates: tuple[Shape, ...], path: KeyPath) -> tuple[Shape, ...]:
    """Return the shapes at the end of *path*."""
    for key in path:
        candidates = below(candidates, key)
    return candidates


def leaves(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation is made of, those inside containers included."""
    parts = [shape.type for shape in shapes(annotation)]
    inner = [leaf for part in parts for argument in get_args(part) for leaf in leaves(argument)]
    return (*parts, *inner)


def literals(candidates: tuple[Shape, ...]) -> tuple[str, ...]:
    """Return the words that *candidates* accept as they are."""
    return tuple(
        value
        for shape in candidates
        if get_origin(shape.type) is Literal
        for value in get_args(shape.type)
        if isinstance(value, str)
    )


def all_paths(candidates: tuple[Shape, ...], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Yield every dotted path that the models know, outer keys first."""
    if depth >= _MAX_DEPTH:
        return
    known = fields(candidates)
    yield from (prefix + name for name in known)
    for name, inner in known.items():
        yield from all_paths(inner, f"{prefix}{name}.", depth + 1)


def _field_shapes(info: FieldInfo) -> tuple[Shape, ...]:
    ref = next((mark for mark in info.metadata if isinstance(mark, Ref)), None)
    return shapes(info.annotation, ref)


def _item_types(container: Any, key: str | int) -> tuple[Any, ...]:
    """Return the type of a container's items where *key* fits the container."""
    origin, arguments = get_origin(container), get_args(container)
    if isinstance(key, str):
        is_mapping = isinstance(origin, type) and issubclass(origin, Mapping)
        return arguments[1:2] if is_mapping else ()
    if origin in {list, frozenset, set}:
        return arguments[:1]
    if origin is tuple:
        if arguments[1:] == (...,):
            return arguments[:1]
        return arguments[key : key + 1]
    return ()
