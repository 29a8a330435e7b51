"""JSON schemas of the file kinds, for editors: completion, and faults while typing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import cast

from simnet.spec.base import SpecModel
from simnet.spec.fields import Shape, fields, leaves
from simnet.spec.located import Plain

KINDS = ("scenario", "topology", "model", "collective")
"""Kinds of file that have a schema."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Plain]


def json_schema(kind: str) -> str:
    """Return the JSON schema of a kind of file as text, the same bytes each time."""
    makers: dict[str, Callable[[], Schema]] = {
        "scenario": _scenario_schema,
        "topology": _topology_schema,
        "model": _model_schema,
        "collective": _collective_schema,
    }
    return json.dumps({"$schema": _DRAFT} | makers[kind](), indent=1, ensure_ascii=False) + "\n"


def _topology_schema() -> Schema:
    from simnet.spec.topology import TopologySpec

    return _or_built_on(_of(TopologySpec))


def _model_schema() -> Schema:
    from simnet.spec.model import ModelSpec

    return _or_built_on(_of(ModelSpec))


def _scenario_schema() -> Schema:
    from simnet.spec.scenario import CaseBody, ScenarioSpec

    return _of_cases(ScenarioSpec, CaseBody, "VariantSpec")


def _collective_schema() -> Schema:
    from simnet.spec.collective_question import CollectiveBody, CollectiveQuestion

    return _of_cases(CollectiveQuestion, CollectiveBody, "CollectiveVariantSpec")


def _of_cases(file: type[SpecModel], case: type[SpecModel], variant: str) -> Schema:
    """Return the schema of a file of cases with the parts of a case typed; in it they need not be whole."""
    schema, body = _of(file), _of(case)
    parts = _mapping(body["properties"])
    definitions: Schema = {name: _partial(_mapping(part)) for name, part in _mapping(body["$defs"]).items()}
    for owner in (schema, _mapping(_mapping(schema["$defs"])[variant])):
        _mapping(owner["properties"]).update(parts)
    schema["$defs"] = _mapping(schema["$defs"]) | definitions
    return schema


def _of(model: type[SpecModel]) -> Schema:
    """Return the schema of a model, in which fields that a name may fill take a name too."""
    schema = cast("Schema", model.model_json_schema(mode="validation"))
    schema.pop("title", None)
    definitions = _mapping(schema.setdefault("$defs", {}))
    for inner in _models(model):
        holder = definitions.get(inner.__name__, schema if inner is model else None)
        if holder is not None:
            _name_too(_mapping(_mapping(holder)["properties"]), inner)
    return schema


def _or_built_on(schema: Schema) -> Schema:
    """Return the schema of a file that may also build on another one by ``from`` and then give only some keys."""
    whole = str(schema.pop("$ref", "")).rpartition("/")[2]
    if whole:
        schema |= _mapping(_mapping(schema["$defs"])[whole])
    base: Schema = {"type": "string", "description": "Name or path of the file that this one builds on."}
    properties = _mapping(schema["properties"]) | {"from": base}
    required = schema.pop("required", [])
    return schema | {"properties": properties, "anyOf": [{"required": ["from"]}, {"required": required}]}


def _models(root: type[SpecModel]) -> list[type[SpecModel]]:
    """Return the model and all models below it, each once."""
    found = [root]
    for model in found:
        for shape in itertools.chain.from_iterable(fields((Shape(model),)).values()):
            for part in leaves(shape.type):
                if isinstance(part, type) and issubclass(part, SpecModel) and part not in found:
                    found.append(part)
    return found


def _name_too(properties: Schema, model: type[SpecModel]) -> None:
    for name, candidates in fields((Shape(model),)).items():
        ref = next((shape.ref for shape in candidates if shape.ref is not None), None)
        if ref is None:
            continue
        record = _mapping(properties[name])
        about: Schema = {key: record.pop(key) for key in ("description", "default", "title") if key in record}
        properties[name] = about | {
            "anyOf": [
                {"type": "string", "description": f"Name or path of a {ref.kind}."},
                record,
                {"type": "object", "required": ["from"], "properties": {"from": {"type": "string"}}},
            ]
        }


def _partial(definition: Schema) -> Schema:
    """Return a definition none of whose keys is required, since a patch gives only some."""
    return {key: value for key, value in definition.items() if key != "required"}


def _mapping(value: Plain) -> Schema:
    assert isinstance(value, dict)
    return value
