"""Fields of an answer, and the values that lines stand for."""

import click
import pytest

from aion_core.protocol.interrupts import OpenQuestion
from aion_tools.cli.chat.forms import check_answer, fields_of, object_of


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string"}, "3", "3"),
        ({"type": "integer"}, "3", 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
        ({"enum": [1, 2]}, "2", 2),
        ({}, "yes", "yes"),
        ({"$ref": "https://example.com/schema"}, "any", "any"),
        ({"$ref": "#/$defs/Town"}, "Oslo", "Oslo"),
        ({"type": "no type"}, "any", "any"),
        ({"type": "string", "pattern": "(a+)+$"}, "a" * 100 + "b", "a" * 100 + "b"),
    ],
)
def test_line_becomes_value_that_schema_accepts(schema: dict[str, object], line: str, value: object) -> None:
    defined = {"$defs": {"Town": {"type": "string", "enum": ["Oslo"]}}}
    (field,) = fields_of(OpenQuestion("1", schema={**defined, "properties": {"field": schema}}))
    assert field.value_of(line) == value


def test_line_that_schema_does_not_accept_is_refused() -> None:
    (field,) = fields_of(OpenQuestion("1", schema={"properties": {"seats": {"type": "integer", "minimum": 1}}}))
    for line, reason in (("0", "0 is less than the minimum of 1"), ("", "'' is not of type 'integer'")):
        with pytest.raises(click.ClickException, match=reason):
            field.value_of(line)


def test_nested_and_recursive_objects_have_fields_of_limited_depth() -> None:
    person = {"type": "object", "required": ["name"], "properties": {"name": {}, "child": {"$ref": "#/$defs/Person"}}}
    question = OpenQuestion("1", schema={"$ref": "#/$defs/Person", "$defs": {"Person": person}})
    fields = fields_of(question)
    assert [".".join(field.path) for field in fields] == [
        "name",
        "child.name",
        "child.child.name",
        "child.child.child",
    ]
    assert [field.is_required for field in fields] == [True, False, False, False]
    values = {field.path: "Ada" for field in fields[:2]}
    assert object_of(values) == {"name": "Ada", "child": {"name": "Ada"}}
    check_answer(question, object_of(values))
    with pytest.raises(click.ClickException, match="'name' is a required property"):
        check_answer(question, {"child": {}})
