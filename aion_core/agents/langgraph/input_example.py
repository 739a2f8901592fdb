"""JSON Schema of a graph's input, and an example that fits it. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from aion_core.agents.langgraph.input_types import InputCheck, problem_of

MAX_SCHEMA_BYTES = 16 * 1024
"""Maximum size of a schema in a card, which clients download before each conversation."""

_DEPTH = 6
"""Maximum depth of objects and lists in an example. A type may contain itself."""

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}


def json_schema(check: InputCheck) -> dict[str, Any] | None:
    """Return the JSON Schema of the values that the check accepts; None if they have none, or it is too large."""
    try:
        schema: dict[str, Any] = json.loads(json.dumps(check.json_schema(), allow_nan=False))
    except (PydanticInvalidForJsonSchema, PydanticUserError, RecursionError, TypeError, ValueError):
        return None
    # Leave out the titles that pydantic derives from names, because they say nothing else.
    schema = _without_titles(schema)
    return schema if len(json.dumps(schema)) <= MAX_SCHEMA_BYTES else None


def example_of(check: InputCheck, schema: Mapping[str, Any]) -> Any:
    """Return a value that the check accepts, with all required fields; None if none was found."""
    value = _value(schema, schema.get("$defs", {}), "", _DEPTH)
    return value if value is not None and not problem_of(check, value) else None


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(each) for name, each in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else value
        if key in _VALUES
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


_VALUES = ("default", "examples", "example", "enum", "const")
"""Keywords whose values are instances, not schemas."""


def _value(schema: Any, defs: Mapping[str, Any], name: str, depth: int) -> Any:
    """Return an instance of the schema. A text is the name of its field."""
    if not isinstance(schema, Mapping) or not depth:
        return None
    if "$ref" in schema:
        return _value(defs.get(str(schema["$ref"]).rpartition("/")[2]), defs, name, depth - 1)
    if (stated := [*schema.get("examples", ()), *schema.get("enum", ())] or [schema.get("const")])[0] is not None:
        return stated[0]
    for alternatives in (schema.get("anyOf"), schema.get("oneOf"), schema.get("allOf")):
        found = (_value(each, defs, name, depth) for each in alternatives or ())
        if (first := next((each for each in found if each is not None), None)) is not None:
            return first
    match schema.get("type"):
        case "object":
            properties, required = schema.get("properties", {}), schema.get("required", ())
            return {each: _value(properties[each], defs, each, depth - 1) for each in properties if each in required}
        case "array":
            return _list(schema, defs, name, depth)
        case "string":
            text = _FORMATS.get(str(schema.get("format")), name or "text")
            return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
    return None


def _list(schema: Mapping[str, Any], defs: Mapping[str, Any], name: str, depth: int) -> list[Any]:
    if "prefixItems" in schema:
        return [_value(each, defs, name, depth - 1) for each in schema["prefixItems"]]
    item = _value(schema.get("items"), defs, name, depth - 1)
    return [item] * max(1, schema.get("minItems", 0)) if item is not None else []


def _number(schema: Mapping[str, Any]) -> Any:
    lowest = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1 if "exclusiveMinimum" in schema else None)
    highest = schema.get("maximum", schema.get("exclusiveMaximum", 2) - 1 if "exclusiveMaximum" in schema else None)
    number = 1 if lowest is None else lowest
    number = min(number, highest) if highest is not None else number
    step = schema.get("multipleOf")
    return step * max(1, -(-number // step)) if step else number
