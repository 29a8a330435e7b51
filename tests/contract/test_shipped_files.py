"""Everything that ships is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simnet import library
from simnet.spec.check import check_file
from simnet.spec.schema import KINDS, json_schema

ROOT = Path(__file__).parents[2]
FILES = [
    path for kind in ("topology", "part", "scenario", "model", "collective") for path in library.list_shipped(kind)
]
SCHEMAS = {
    "scenario": "scenarios",
    "topology": "topologies",
    "model": "scenarios/models",
    "collective": "scenarios/collectives",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_file_is_valid(path):
    assert check_file(path)


@pytest.mark.parametrize("path", library.list_shipped("topology"), ids=lambda path: path.stem)
def test_a_topology_bears_the_name_of_its_file(path):
    from simnet.spec.load import load_topology

    assert load_topology(path).name in {"", path.stem}


@pytest.mark.parametrize(
    "path", library.list_shipped("scenario") + library.list_shipped("collective"), ids=lambda path: path.stem
)
def test_a_scenario_bears_the_name_of_its_file_and_opens_with_its_question(path):
    from simnet.spec.load import load_collective_question, load_scenario

    load = load_collective_question if path.parent.name == "collectives" else load_scenario
    assert load(path).name == path.stem
    head = path.read_text(encoding="utf-8").splitlines()[:4]
    assert head[0] == "# yaml-language-server: $schema=schema.json"
    assert any(line.startswith("# Question:") for line in head)


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_json_schema_is_fresh(kind):
    committed = ROOT / SCHEMAS[kind] / "schema.json"
    assert committed.read_text(encoding="utf-8") == json_schema(kind), f"run: simnet schema {kind} > {committed}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_schema_accepts_the_shipped_files(kind):
    import jsonschema

    from simnet.spec.read import read_yaml

    validator = jsonschema.Draft202012Validator(json.loads(json_schema(kind)))
    for path in library.list_shipped(kind):
        faults = [
            f"{path.name}: {fault.json_path} {fault.message[:80]}"
            for fault in validator.iter_errors(read_yaml(path).plain())
        ]
        assert not faults
