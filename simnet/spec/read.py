"""YAML 1.2 text to a located tree, with every fault of the text at once and no way to harm the reader."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simnet.errors import Problem, SpecError
from simnet.spec.located import Located

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_FILE_BYTES = 4 * 2**20
"""A spec is a page or two; a larger file is something else."""
MAX_VALUES = 200_000
"""Values after aliases are put in place; more is a bomb."""
MAX_WRITTEN = 15_000
"""Values as they stand in a file: a sweep of 10,000 cases and its job; reading more takes too long."""
MAX_DEPTH = 40
"""Levels of nesting."""
_TAG = "tag:yaml.org,2002:"
_BASES = {"0o": 2**3, "0x": 2**4}


def read_yaml(path: Path | str) -> Located:
    """Return the content of a YAML (or JSON) file with the position of every key and value.

    Raises
    ------
    SpecError
        If the file cannot be read, or is not YAML; all duplicate keys and values that no spec can
        hold (NaN, infinity, tags) are reported together.
    """
    shown = _shown(Path(path))
    try:
        status = Path(path).stat()
    except OSError as error:
        raise SpecError(Problem(where=shown, message=_os_message(error))) from None
    return _read_file(str(Path(path).absolute()), shown, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=256)
def _read_file(path: str, shown: str, _mtime_ns: int, size: int) -> Located:
    """Return the tree of a file; the modification time in the key forgets a changed file."""
    if Path(path).is_dir():
        raise SpecError(Problem(where=shown, message="this is a folder, not a file"))
    if not Path(path).is_file():
        raise SpecError(Problem(where=shown, message="this is no regular file"))
    if size > MAX_FILE_BYTES:
        raise SpecError(
            Problem(where=shown, message="file too large", found=f"{size} B", allowed=f"{MAX_FILE_BYTES} B at most")
        )
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise SpecError(Problem(where=shown, message=_os_message(error))) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise SpecError(
            Problem(
                where=f"{shown}:{line}:{column}",
                message="not UTF-8 text",
                found=f"byte 0x{raw[error.start]:02x}",
                hint="save the file as UTF-8",
            )
        ) from None
    return read_text(text, shown)


def read_text(text: str, origin: str, *, is_file: bool = True) -> Located:
    """Return YAML *text* as a tree whose positions name *origin*; an option's text has no lines.

    Raises
    ------
    SpecError
        As :func:`read_yaml`.
    """
    from ruamel.yaml.error import YAMLError

    try:
        node = _compose(text, origin, is_file=is_file)
    except YAMLError as error:
        raise SpecError(_syntax_problem(error, text, origin, is_file=is_file)) from None
    except RecursionError:
        raise SpecError(Problem(where=origin, message="nested too deeply", allowed=f"{MAX_DEPTH} levels")) from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError) as error:
        # ruamel leaks these on some malformed directives, tags and escapes
        raise SpecError(Problem(where=origin, message="not YAML", found=str(error))) from None
    if node is None:
        raise SpecError(Problem(where=f"{origin}:1:1" if is_file else origin, message="empty, nothing to read"))
    reader = _Reader(origin=origin, is_file=is_file)
    tree = reader.convert(node, depth=0)
    if reader.problems:
        raise SpecError(*reader.problems)
    return tree


def _compose(text: str, origin: str, *, is_file: bool) -> Node | None:
    """Return the nodes of a text; stops where there are too many, since composing is what takes time."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer

    class Counting(Composer):
        num_nodes = 0

        def compose_node(self, parent: Node | None, index: object) -> Node:
            self.num_nodes += 1
            if self.num_nodes > MAX_WRITTEN:
                mark = self.parser.peek_event().start_mark
                where = f"{origin}:{mark.line + 1}:{mark.column + 1}" if is_file else origin
                raise SpecError(Problem(where=where, message="too many values", allowed=f"{MAX_WRITTEN} at most"))
            node: Node = super().compose_node(parent, index)
            return node

    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = Counting
    found: Node | None = yaml.compose(text)
    return found


@dataclass(slots=True, kw_only=True)
class _Reader:
    """One pass over the composed nodes: counts values, collects faults."""

    origin: str
    is_file: bool
    problems: list[Problem] = field(default_factory=list)
    num_values: int = 0

    def convert(self, node: Node, *, depth: int) -> Located:
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self.num_values += 1
        if self.num_values > MAX_VALUES:
            self._stop(node, "too many values, aliases counted", f"{MAX_VALUES} at most")
        if depth > MAX_DEPTH:
            self._stop(node, "nested too deeply, or an alias inside itself", f"{MAX_DEPTH} levels")
        if isinstance(node, MappingNode):
            return self._located(node, self._mapping(node, depth))
        if isinstance(node, SequenceNode):
            self._check_tag(node, "seq")
            return self._located(node, [self.convert(item, depth=depth + 1) for item in node.value])
        assert isinstance(node, ScalarNode)
        return self._located(node, self._scalar(node))

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Located]:
        self._check_tag(node, "map")
        children: dict[str, Located] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node.value, str):
                self._add(key_node, "a key is text", found="a list or mapping")
                continue
            key = self._text(key_node)
            if str(key_node.tag) == f"{_TAG}merge":
                self._add(key_node, "merge keys are not read", found="<<", hint="write the keys out, or use a variant")
                continue
            if key in children:
                first = children[key].where_key
                self._add(key_node, f'key "{key}" stands twice', hint=f"the first one is at {first}")
                continue
            child = self.convert(value_node, depth=depth + 1)
            spot = self._spot(key_node)
            if child.value is None and value_node.start_mark.index == value_node.end_mark.index:
                child = replace(child, spot=spot)  # nothing stands there; the parser names the next key's place
            children[key] = replace(child, key_spot=spot)
        return children

    def _scalar(self, node: ScalarNode) -> bool | int | float | str | None:
        tag, text = str(node.tag), str(node.value)
        kind = tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in {"true", "yes", "on"}
        if kind in {"int", "float"}:
            return self._number(node, kind, text.replace("_", ""))
        if kind in {"str", "timestamp", "value", "merge"}:
            return self._text(node)
        self._add(node, "tags are not read", found=tag)
        return None

    def _text(self, node: ScalarNode) -> str:
        """Return the text with JSON's surrogate pairs joined; half a pair is a fault."""
        text = str(node.value)
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._add(node, "half a surrogate pair is no text", found=ascii(text))
            return ""

    def _number(self, node: ScalarNode, kind: str, text: str) -> int | float:
        try:
            if kind == "float":
                value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            else:
                value = int(text, _BASES.get(text.lstrip("+-")[:2].lower(), 10))
        except (ValueError, OverflowError):
            self._add(node, "a number that cannot be read", found=text[:20])
            return 0
        if isinstance(value, float) and not math.isfinite(value):
            self._add(node, "a number must be finite", found=text)
            return 0
        return value

    def _check_tag(self, node: MappingNode | SequenceNode, kind: str) -> None:
        if str(node.tag) != _TAG + kind:
            self._add(node, "tags are not read", found=str(node.tag))

    def _located(self, node: Node, value: bool | float | str | list[Located] | dict[str, Located] | None) -> Located:
        return Located(value=value, origin=self.origin, spot=self._spot(node))

    def _spot(self, node: Node) -> tuple[int, int] | None:
        return (node.start_mark.line + 1, node.start_mark.column + 1) if self.is_file else None

    def _problem(self, node: Node, message: str, **more: str) -> Problem:
        return Problem(where=self._located(node, None).where, message=message, **more)

    def _add(self, node: Node, message: str, **more: str) -> None:
        self.problems.append(self._problem(node, message, **more))

    def _stop(self, node: Node, message: str, allowed: str) -> None:
        raise SpecError(*self.problems, self._problem(node, message, allowed=allowed))


def _syntax_problem(error: YAMLError, text: str, origin: str, *, is_file: bool) -> Problem:
    from ruamel.yaml.error import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return _character_problem(error, text, origin)
    mark = error.problem_mark
    where = f"{origin}:{mark.line + 1}:{mark.column + 1}" if is_file else origin
    lines = text.splitlines()
    line = lines[mark.line].strip() if mark.line < len(lines) else ""
    return Problem(
        where=where,
        message=" ".join(part for part in ("not YAML:", error.context, error.problem) if part),
        found=repr(line[:60]) if line else "",
        hint=_syntax_hint(error),
    )


def _syntax_hint(error: MarkedYAMLError) -> str:
    problem = str(error.problem)
    if "'\\t'" in problem:
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in problem:
        return 'quote a value that holds ": ", and indent a nested key'
    if "another document" in problem:
        return "one file holds one document; drop the second ---"
    return ""


def _character_problem(error: YAMLError, text: str, origin: str) -> Problem:
    at = getattr(error, "position", 0) or 0
    line = text.count("\n", 0, at) + 1
    char = text[at : at + 1]
    return Problem(where=f"{origin}:{line}:1", message="not YAML: a character that no text holds", found=ascii(char))


def _os_message(error: OSError) -> str:
    return f"cannot be read: {os.strerror(error.errno).lower()}" if error.errno else "cannot be read"


def _shown(path: Path) -> str:
    """Return the path as a reader would type it: relative to the working directory if it lies there."""
    try:
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else str(path)
    except ValueError:
        return str(path)
