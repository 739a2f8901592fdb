"""JSON Schema of aion.yaml for editors: `make schema` writes infra/aion-yaml.schema.json from the pydantic models.

The docstrings below the fields of the models become the descriptions of the keys.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from aion_core.loading.aion_yaml.file import ConfigFile
from aion_tools.template.stacks import SCHEMA

PATH = Path(__file__).parents[1] / SCHEMA
Schema = dict[str, Any]


def build_schema() -> Schema:
    """Return the JSON Schema of aion.yaml. It is in draft 7, which editors' YAML extensions support best.

    The schema rejects unknown keys, values of a wrong type, and names that do not match their pattern.
    """
    schema = ConfigFile.model_json_schema(schema_generator=_Generator)
    for part in _schemas(schema):
        part.pop("title", None)
        # Remove the default `null`, because it means an omitted section and authors do not write it.
        if part.get("default", ...) is None:
            del part["default"]
        if "patternProperties" in part:
            part.setdefault("additionalProperties", False)
        for reference in part.pop("discriminator", {}).get("mapping", {}).values():
            # Require a scheme's `type`, because aion.yaml must contain it, although it has a default in the model.
            scheme = schema["$defs"][reference.removeprefix("#/$defs/")]
            scheme["required"] = sorted({"type", *scheme.get("required", [])})
            scheme["properties"]["type"]["description"] = scheme["description"]
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "aion.yaml of aion-lambda", **schema}


class _Generator(GenerateJsonSchema):
    """Generator of JSON Schemas. It adds the docstring below a field as the description of its key."""

    def model_schema(self, schema: Any) -> Schema:
        """Return the schema of a model, with the descriptions of its keys."""
        generated = super().model_schema(schema)
        for name, text in _docstrings(schema["cls"]).items():
            if name in generated.get("properties", {}):
                generated["properties"][name]["description"] = text
        return generated


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a model and of its base classes, in one line each."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            source = ast.parse(textwrap.dedent(inspect.getsource(base)))
            (body,) = (definition.body for definition in source.body if isinstance(definition, ast.ClassDef))
            for field, below in pairwise(body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.split())
    return found


def _schemas(node: Any) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it. The values of `default` and `enum` are not schemas."""
    if isinstance(node, list):
        for inner in node:
            yield from _schemas(inner)
    elif isinstance(node, dict):
        yield node
        for key, inner in node.items():
            if key in ("properties", "patternProperties", "$defs"):
                for schema in inner.values():
                    yield from _schemas(schema)
            elif key in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties", "propertyNames"):
                yield from _schemas(inner)


def rendered() -> str:
    """Return the schema as JSON text."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="utf-8")
