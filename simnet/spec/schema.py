"""JSON schemas of the file kinds, for editors: completion, and faults while typing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

from simnet.spec.base import SpecModel
from simnet.spec.located import Plain

KINDS = ("scenario", "topology", "model")
"""Kinds of file that have a schema."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Plain]


def json_schema(kind: str) -> str:
    """Return the JSON schema of a kind of file as text, the same bytes each time."""
    makers: dict[str, Callable[[], Schema]] = {
        "scenario": _scenario_schema,
        "topology": _topology_schema,
        "model": _model_schema,
    }
    return json.dumps({"$schema": _DRAFT} | makers[kind](), indent=1, ensure_ascii=False) + "\n"


def _topology_schema() -> Schema:
    from simnet.spec.topology import TopologySpec

    return _of(TopologySpec)


def _model_schema() -> Schema:
    from simnet.spec.model import ModelSpec

    return _of(ModelSpec)


def _scenario_schema() -> Schema:
    """Return the scenario's schema with the parts of a case typed; in it they need not be whole."""
    from simnet.spec.scenario import CaseBody, ScenarioSpec

    schema, body = _of(ScenarioSpec), _of(CaseBody)
    parts = _mapping(body["properties"])
    definitions: Schema = {name: _partial(_mapping(part)) for name, part in _mapping(body["$defs"]).items()}
    for owner in (schema, _mapping(_mapping(schema["$defs"])["VariantSpec"])):
        _mapping(owner["properties"]).update(parts)
    schema["$defs"] = _mapping(schema["$defs"]) | definitions
    return schema


def _of(model: type[SpecModel]) -> Schema:
    schema = cast("Schema", model.model_json_schema(mode="validation"))
    schema.pop("title", None)
    return schema


def _partial(definition: Schema) -> Schema:
    """Return a definition none of whose keys is required, since a patch gives only some."""
    return {key: value for key, value in definition.items() if key != "required"}


def _mapping(value: Plain) -> Schema:
    assert isinstance(value, dict)
    return value
