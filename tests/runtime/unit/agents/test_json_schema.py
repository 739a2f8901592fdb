"""Check of an answer by a JSON Schema: each keyword with a value that fits and one that does not."""

from typing import Any

from aion_core.agents.json_schema import is_json_schema, misfit
from tests.support.rows import each_row

NODE = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}}}},
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@each_row(
    ("schema", "good", "bad", "reason"),
    [
        ({"type": "string"}, "a", 1, ": It must be a text"),
        ({"type": "integer"}, 2.0, 2.5, ": It must be a whole number"),
        ({"type": "number"}, 2.5, True, ": It must be a number"),
        ({"type": "boolean"}, False, 0, ": It must be true or false"),
        ({"type": "null"}, None, 0, ": It must be null"),
        ({"type": ["string", "null"]}, None, 0, ": It must be a text or null"),
        ({"enum": ["a", 1]}, 1, True, ": It must be one of a, 1"),
        ({"const": {"a": 1}}, {"a": 1}, {"a": 2}, ': It must be one of {"a": 1}'),
        (CITY, {"city": "Oslo", "more": 1}, {}, ": city is missing"),
        (CITY, {"city": "Oslo"}, {"city": 1}, ", in city: It must be a text"),
        (
            {**CITY, "additionalProperties": False},
            {"city": "a"},
            {"city": "a", "b": 1},
            ", in b: This value is not allowed",
        ),
        ({"additionalProperties": {"type": "string"}}, {"a": "b"}, {"a": 1}, ", in a: It must be a text"),
        ({"items": {"type": "string"}}, ["a"], ["a", 1], ", in 1: It must be a text"),
        ({"type": "array", "minItems": 1, "maxItems": 2}, ["a"], [], ": It must have at least 1 items"),
        ({"maxItems": 2}, ["a"], [1, 2, 3], ": It must have at most 2 items"),
        ({"minLength": 2}, "ab", "a", ": It must have at least 2 characters"),
        ({"maxLength": 2}, "ab", "abc", ": It must have at most 2 characters"),
        ({"minimum": 1}, 1, 0, ": It must be at least 1"),
        ({"maximum": 1}, 1, 2, ": It must be at most 1"),
        ({"exclusiveMinimum": 1}, 2, 1, ": It must be more than 1"),
        ({"exclusiveMaximum": 1}, 0, 1, ": It must be less than 1"),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3, ": It must be at most 2"),
        ({"anyOf": [CITY, {"type": "null"}]}, None, {"city": 1}, ", in city: It must be a text"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 1, [], ": It must be a text"),
        (
            NODE,
            {"next": {"next": {"n": 1}}},
            {"next": {"next": {"n": "a"}}},
            ", in next.next.n: It must be a whole number",
        ),
    ],
)
def test_value_fits_schema_or_reason_names_place(schema: Any, good: Any, bad: Any, reason: str) -> None:
    assert misfit(good, schema) is None
    found = misfit(bad, schema)
    assert found is not None
    assert found.text() == reason


@each_row(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/none"},
        {"type": "unknown", "required": "a", "enum": 1, "properties": [], "items": 1, "anyOf": [], "minimum": "1"},
        {},
        True,
    ],
)
@each_row("value", ["a", 1, {"a": 1}, [1], None])
def test_unknown_or_endless_schema_accepts_any_value(schema: Any, value: Any) -> None:
    assert misfit(value, schema) is None


@each_row(
    ("value", "expected"),
    [
        ({"type": "object"}, True),
        ({"type": ["string", "null"]}, True),
        ({"properties": {}}, True),
        ({"enum": ["a"]}, True),
        ({"$ref": "#/$defs/A"}, True),
        ({"type": "postgres", "tables": []}, False),
        ({"users": ["id", "name"]}, False),
        ({"type": 1}, False),
        ({}, False),
        ("schema", False),
        (None, False),
    ],
)
def test_json_schema_differs_from_other_data(value: Any, expected: bool) -> None:
    assert is_json_schema(value) is expected
