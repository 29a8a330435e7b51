"""Whether a result read from a file holds what its fields are declared to hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import get_args, get_origin, get_type_hints

from simnet.analysis.result import Result
from simnet.topology import Census


def is_whole(result: Result) -> bool:
    """Return whether all fields of a result, and of the census in it, have their types."""
    typed = all(fits(getattr(result, name), hint) for name, hint in _hints(Result).items() if name != "census")
    return typed and fits(result.census, Census)


def fits(value: object, hint: object) -> bool:
    """Return whether a value, or plain data written from one, is of a type.

    Parameters
    ----------
    hint : a scalar, a union of scalars, a dataclass, ``tuple[X, ...]`` or a mapping of names to a type.

    Examples
    --------
    >>> fits({"a": 1.5}, dict[str, float]), fits({"a": "1.5"}, dict[str, float])
    (True, False)
    """
    if isinstance(hint, type) and is_dataclass(hint):
        return _fits_dataclass(value, hint)
    if isinstance(hint, UnionType):
        return any(fits(value, member) for member in get_args(hint))
    origin = get_origin(hint)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(fits(item, get_args(hint)[0]) for item in value)
    if origin is not None:
        return isinstance(value, Mapping) and all(fits(item, get_args(hint)[1]) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is hint


def _fits_dataclass(value: object, hint: type) -> bool:
    hints = _hints(hint)
    if isinstance(value, hint):
        return all(fits(getattr(value, name), of) for name, of in hints.items())
    if not isinstance(value, Mapping) or not _required(hint) <= set(value) <= set(hints):
        return False
    return all(fits(item, hints[name]) for name, item in value.items())


@cache
def _hints(hint: type) -> Mapping[str, object]:
    return get_type_hints(hint)


@cache
def _required(hint: type) -> frozenset[str]:
    return frozenset(
        field.name for field in fields(hint) if field.default is MISSING and field.default_factory is MISSING
    )
