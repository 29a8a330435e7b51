"""Names in files put in place: ``gpu: h100-sxm`` becomes the record of that part."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from simnet import library
from simnet.errors import Problem, SpecError, did_you_mean, listed
from simnet.spec.fields import Shape, below, literals
from simnet.spec.hugging_face import card, is_config
from simnet.spec.located import FROM, KeyPath, Located, merge
from simnet.spec.read import read_yaml
from simnet.spec.validate import dotted, shown

_MAX_CHAIN = 8
"""Files that may build on one another in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A tree with its names put in place, and the faults of those that lead nowhere."""

    tree: Located
    problems: tuple[Problem, ...]
    broken: tuple[KeyPath, ...]
    """Where the names stand that lead nowhere; nothing below is worth checking."""


def resolve(node: Located, candidates: tuple[Shape, ...], *, path: KeyPath = ()) -> Resolved:
    """Return *node* with every name at a :class:`~simnet.spec.base.Ref` field replaced by its record."""
    work = _Resolver()
    tree = work.resolve(node, candidates, path, 0)
    return Resolved(tree=tree, problems=tuple(dict.fromkeys(work.problems)), broken=tuple(work.broken))


def record(kind: str, ref: str, *, near: Path | None = None) -> Located:
    """Return the unresolved record that *ref* names; parts are looked up by name in the part files.

    Raises
    ------
    SpecError
        If there is no such record.
    """
    if kind in library.FOLDERS or ref.endswith((".yaml", ".yml", ".json")):
        tree = read_yaml(library.find(kind if kind in library.FOLDERS else "part", ref, near=near))
        return card(tree) if kind == "model" and is_config(tree) else tree
    known: dict[str, Located] = {}
    for path in library.part_files():
        if not _mentions(path, kind):
            continue
        group = read_yaml(path).child(kind)
        if group is not None and isinstance(group.value, dict):
            known |= {name: child for name, child in group.value.items() if name not in known}
    if ref not in known:
        raise SpecError(
            Problem(
                message=f"no {kind} of that name",
                found=f'"{ref}"',
                allowed=listed(known, near=ref) or f"a {kind} in topologies/parts/",
                hint=did_you_mean(ref, known),
            )
        )
    return known[ref]


def _mentions(path: Path, kind: str) -> bool:
    """Return whether the file may have the key *kind*; spares parsing those that cannot."""
    try:
        return re.search(rf"(?<![\w-]){re.escape(kind)}[\"']?\s*:", path.read_text(encoding="utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return True  # reading it tells what is wrong


@dataclass(slots=True)
class _Resolver:
    """One walk over a tree; collects the names that lead nowhere."""

    problems: list[Problem] = field(default_factory=list)
    broken: list[KeyPath] = field(default_factory=list)

    def resolve(self, node: Located, candidates: tuple[Shape, ...], path: KeyPath, chain: int) -> Located:
        marked = next((shape for shape in candidates if shape.ref is not None), None)
        if marked is not None and marked.ref is not None:
            node = self._filled(node, candidates, marked.ref.kind, path, chain)
        if isinstance(node.value, dict):
            children = {
                key: self.resolve(child, below(candidates, key), (*path, key), chain)
                for key, child in node.value.items()
            }
            return replace(node, value=children)
        if isinstance(node.value, list):
            items = [
                self.resolve(item, below(candidates, index), (*path, index), chain)
                for index, item in enumerate(node.value)
            ]
            return replace(node, value=items)
        return node

    def _filled(self, node: Located, candidates: tuple[Shape, ...], kind: str, path: KeyPath, chain: int) -> Located:
        """Return the record that the node names, changed by the node's own keys."""
        keys = node.value if isinstance(node.value, dict) else {FROM: node}
        if FROM not in keys:
            return node
        name = keys[FROM]
        changes = {key: child for key, child in keys.items() if key != FROM}
        if not isinstance(name.value, str):
            if changes or name is not node:
                self._add(name, path, f"{FROM} takes the name of a {kind}", found=shown(name.plain()))
            return replace(node, value=changes) if changes else node
        if name.value in literals(candidates):
            return node
        if chain >= _MAX_CHAIN:
            self._add(name, path, f"this {kind} builds on itself, or on too many others", found=f'"{name.value}"')
            return replace(node, value={})
        try:
            base = self.resolve(record(kind, name.value, near=name.folder), candidates, path, chain + 1)
        except SpecError as error:
            self.problems += [
                problem if problem.where else replace(problem, where=name.where, path=dotted(path))
                for problem in error.problems
            ]
            self.broken.append(path)
            return replace(node, value={})
        return _changed(base, replace(node, value=changes))

    def _add(self, node: Located, path: KeyPath, message: str, *, found: str) -> None:
        self.broken.append(path)
        self.problems.append(Problem(where=node.where, path=dotted(path), message=message, found=found))


def _changed(base: Located, patch: Located) -> Located:
    """Return *base* with the changes that a file makes to it; the whole then stands where the changes do."""
    if not patch.value:
        return base
    return replace(merge(base, patch), origin=patch.origin, spot=patch.spot, key_spot=patch.key_spot)
