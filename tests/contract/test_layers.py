"""Libraries stay at home: each third-party package is imported in one place of simnet only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "simnet").rglob("*.py"))
HOMES = {
    "pydantic": ("simnet.spec",),
    "pydantic_core": ("simnet.spec",),
    "ruamel": ("simnet.spec",),
    "networkx": ("simnet.topology",),
    "simpy": ("simnet.engine",),
    "matplotlib": ("simnet.plot",),
    "typer": ("simnet.cli",),
    "rich": ("simnet.cli",),
    "jinja2": ("simnet.report",),
}
HEAVY = {"matplotlib"}
MAX_LINES = 500


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path, *, top_only=False):
    """Yield the imported root packages; type-checking blocks are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_only else list(ast.walk(tree))
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes:
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_library_is_imported_only_at_home(path):
    strays = {
        package for package in imports(path) if package in HOMES and not module_name(path).startswith(HOMES[package])
    }
    assert not strays


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_heavy_libraries_are_imported_inside_functions(path):
    assert not HEAVY & set(imports(path, top_only=True))


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_no_module_reads_the_environment_or_the_wall_clock_below_the_command_line(path):
    if module_name(path).startswith("simnet.cli"):
        return
    text = path.read_text(encoding="utf-8")
    forbidden = ("os.environ", "os.getenv", "time.time(", "datetime.now", "date.today")
    assert not [word for word in forbidden if word in text]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_file_has_one_idea_and_a_bounded_length(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_annotations_are_postponed(path):
    text = path.read_text(encoding="utf-8")
    has_code = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.walk(ast.parse(text)))
    assert not has_code or "from __future__ import annotations" in text
