"""Data that knows where it was written, so that a fault found late still names its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from simnet.errors import Problem, SpecError

KeyPath: TypeAlias = "tuple[str | int, ...]"
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"

FROM = "from"
"""Key that names the record on which a mapping builds: ``{from: h100-sxm, power: 650 W}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A value of a file, its children, and where it and its key stand."""

    value: bool | int | float | str | list[Located] | dict[str, Located] | None
    origin: str
    """File as shown to the user, or the option that gave the value."""
    spot: tuple[int, int] | None = None
    """Line and column of the value, from 1; ``None`` if *origin* is no file."""
    key_spot: tuple[int, int] | None = None
    """Line and column of its key; ``None`` for list items and the root."""

    @property
    def where(self) -> str:
        """Return ``file:line:column`` of the value."""
        return _where(self.origin, self.spot)

    @property
    def where_key(self) -> str:
        """Return ``file:line:column`` of the key, or of the value where there is no key."""
        return _where(self.origin, self.key_spot or self.spot)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the file, from which references in it are looked up."""
        return Path(self.origin).parent if self.spot else None

    def plain(self) -> Plain:
        """Return the bare data."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def child(self, key: str | int) -> Located | None:
        """Return the value under *key*, or ``None``."""
        if isinstance(self.value, dict) and isinstance(key, str):
            return self.value.get(key)
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            return self.value[key]
        return None

    def nearest(self, path: KeyPath) -> Located:
        """Return the value at *path*, or the deepest one on the way there."""
        node = self
        for key in path:
            child = node.child(key)
            if child is None:
                break
            node = child
        return node


def _where(origin: str, spot: tuple[int, int] | None) -> str:
    return f"{origin}:{spot[0]}:{spot[1]}" if spot else origin


def located(data: object, origin: str) -> Located:
    """Return plain *data* as a tree whose every value comes from *origin*, an option or a call.

    Raises
    ------
    SpecError
        If *data* holds something that no file could hold.
    """
    if isinstance(data, Mapping):
        return Located(value={str(key): located(item, origin) for key, item in data.items()}, origin=origin)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return Located(value=[located(item, origin) for item in data], origin=origin)
    if data is None or isinstance(data, bool | int | float | str):
        return Located(value=data, origin=origin)
    raise SpecError(
        Problem(
            where=origin,
            message="not a value that a file could hold",
            found=type(data).__name__,
            allowed="text, number, true or false, list, mapping",
        )
    )


def merge(base: Located, patch: Located) -> Located:
    """Return *base* changed by *patch*: mappings key by key, everything else replaced.

    A patch that starts with ``from`` replaces, since it names its own base.
    """
    if not isinstance(base.value, dict) or not isinstance(patch.value, dict) or FROM in patch.value:
        return patch
    children = dict(base.value)
    for key, child in patch.value.items():
        children[key] = merge(children[key], child) if key in children else child
    return replace(base, value=children)


def put(base: Located, path: KeyPath, patch: Located) -> Located:
    """Return *base* with *patch* merged in at *path*; missing mappings on the way are made.

    Raises
    ------
    SpecError
        If the path runs through a plain value or past the end of a list.
    """
    if not path:
        return merge(base, patch)
    key, rest = path[0], path[1:]
    if isinstance(base.value, list):
        return _put_item(base, base.value, key, rest, patch)
    if base.value is not None and not isinstance(base.value, dict):
        raise SpecError(
            Problem(
                where=patch.where_key,
                message=f'the path has "{key}" below a plain value',
                found=repr(base.value),
                hint=f"the value stands at {base.where}",
            )
        )
    children = dict(base.value or {})
    empty = Located(value={}, origin=patch.origin, spot=patch.spot, key_spot=patch.key_spot)
    name = str(key)
    if rest or name in children:
        children[name] = put(children.get(name, empty), rest, patch)
    else:
        children[name] = patch
    return replace(base, value=children)


def _put_item(base: Located, items: list[Located], key: str | int, rest: KeyPath, patch: Located) -> Located:
    index = int(key) if str(key).isdecimal() else -1
    if not 0 <= index < len(items):
        raise SpecError(
            Problem(
                where=patch.where_key,
                message="no such item in the list",
                found=str(key),
                allowed=f"0 to {len(items) - 1}",
                hint=f"the list stands at {base.where}",
            )
        )
    return replace(base, value=[*items[:index], put(items[index], rest, patch), *items[index + 1 :]])
