"""DynamoDB's JSON: values both ways, and the expression of each condition and change."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from boto3.dynamodb.types import TypeDeserializer
from hypothesis import given, settings
from hypothesis import strategies as st

from aion_core.aws.dynamodb_expressions import Placeholders, write_parameters
from aion_core.aws.dynamodb_json import decoded, decoded_item, encoded, encoded_item
from aion_core.engine.agent_options import PushEvents
from aion_core.errors import StoreCorrupt
from aion_core.table.conditions import (
    Absent,
    AtMost,
    Both,
    Condition,
    Either,
    Equals,
    Exists,
    MoreThan,
    NotEmpty,
    OneOf,
    ShorterThan,
)
from aion_core.table.item import Key
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update
from tests.support.rows import each_row

KEY = Key("p", "s")
KEY_JSON = {"pk": {"S": "p"}, "sk": {"S": "s"}}

# Draw numbers of at most 38 digits and no empty sets, because DynamoDB accepts no others.
scalars = st.text() | st.integers(-(10**38) + 1, 10**38 - 1) | st.booleans() | st.binary()
values = st.recursive(
    scalars | st.frozensets(st.text(min_size=1), min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(values)
def test_value_is_unchanged_after_dynamodb_encoding_and_decoding(value: Any) -> None:
    def plain(found: Any) -> Any:
        match found:
            case list():
                return [plain(member) for member in found]
            case dict():
                return {name: plain(member) for name, member in found.items()}
            case set():
                return frozenset(found)
        return found.value if hasattr(found, "value") else found

    assert decoded(encoded(value)) == value
    assert plain(TypeDeserializer().deserialize(cast("Any", encoded(value)))) == value


def test_item_is_unchanged_after_dynamodb_encoding_and_decoding() -> None:
    item = {"a": 1, "b": {"c": [b"d"]}}
    assert decoded_item(encoded_item(item)) == item


def test_enum_is_stored_in_dynamodb_as_its_value() -> None:
    assert encoded(PushEvents.ALL) == {"S": PushEvents.ALL.value}


@each_row(
    ("value", "attribute"),
    [
        ("text", {"S": "text"}),
        (True, {"BOOL": True}),
        (1, {"N": "1"}),
        (b"\0", {"B": b"\0"}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ({"a": {}}, {"M": {"a": {"M": {}}}}),
        (frozenset("ba"), {"SS": ["a", "b"]}),
    ],
)
def test_value_has_expected_dynamodb_type(value: Any, attribute: dict[str, Any]) -> None:
    assert encoded(value) == attribute
    assert decoded(attribute) == value
    assert type(decoded(attribute)) is type(value)


@each_row("value", [None, 1.5, ("a",), {"a"}, [None]])
def test_dynamodb_encoding_refuses_unsupported_types(value: Any) -> None:
    with pytest.raises(TypeError):
        encoded(value)


@pytest.mark.parametrize("attribute", [{"NULL": True}, {"NS": ["1"]}, {"N": "1.5"}])
def test_dynamodb_decoding_refuses_unsupported_types(attribute: dict[str, Any]) -> None:
    with pytest.raises(StoreCorrupt):
        decoded(attribute)


@each_row(
    ("condition", "expression", "used"),
    [
        (Exists(), "attribute_exists(#0)", ()),
        (Absent("a"), "attribute_not_exists(#0)", ()),
        (Equals("a", True), "#0 = :0", (True,)),
        (AtMost("a", 7), "#0 <= :0", (7,)),
        (MoreThan("a", 7), "#0 > :0", (7,)),
        (OneOf("a", ("x", "y")), "#0 IN (:0, :1)", ("x", "y")),
        (ShorterThan("a", 3), "attribute_not_exists(#0) OR size(#0) < :0", (3,)),
        (NotEmpty("a"), "attribute_exists(#0) AND size(#0) > :0", (0,)),
        (Both((Exists("a"), Equals("b", 1))), "attribute_exists(#0) AND #1 = :0", (1,)),
        (
            Both((Either((Absent("a"), AtMost("a", 1))), Equals("a", "x"))),
            "(attribute_not_exists(#0) OR #0 <= :0) AND #0 = :1",
            (1, "x"),
        ),
        (
            Both((ShorterThan("a", 1), Both((Exists("b"), Exists("c"))))),
            "(attribute_not_exists(#0) OR size(#0) < :0) AND attribute_exists(#1) AND attribute_exists(#2)",
            (1,),
        ),
        (
            Either((Exists("a"), NotEmpty("b"))),
            "attribute_exists(#0) OR attribute_exists(#1) AND size(#1) > :0",
            (0,),
        ),
        (Both((Either((Exists("a"),)),)), "attribute_exists(#0)", ()),
        (Both((Both((ShorterThan("a", 1),)),)), "attribute_not_exists(#0) OR size(#0) < :0", (1,)),
        (
            Both((Either((ShorterThan("a", 1),)), Exists("b"))),
            "(attribute_not_exists(#0) OR size(#0) < :0) AND attribute_exists(#1)",
            (1,),
        ),
    ],
)
def test_condition_becomes_dynamodb_expression(condition: Condition, expression: str, used: tuple[Any, ...]) -> None:
    placeholders = Placeholders()
    assert placeholders.condition(condition) == expression
    assert _values(placeholders.parameters()) == used


@each_row(
    ("change", "expression", "used"),
    [
        (Change(values={"a": 1, "b": "x"}), "SET #0 = :0, #1 = :1", (1, "x")),
        (Change(defaults={"a": 1}), "SET #0 = if_not_exists(#0, :0)", (1,)),
        (Change(add={"a": 2}), "SET #0 = if_not_exists(#0, :0) + :1", (0, 2)),
        (Change(append={"a": ("x",)}), "SET #0 = list_append(if_not_exists(#0, :0), :1)", ([], ["x"])),
        (Change(drop_first=("a",), remove=("b",)), "REMOVE #0[0], #1", ()),
        (Change(add_members={"a": frozenset("x")}), "ADD #0 :0", (frozenset("x"),)),
        (Change(remove_members={"a": frozenset("x")}), "DELETE #0 :0", (frozenset("x"),)),
        (Change(values={"a": 1}, remove=("b",)), "SET #0 = :0 REMOVE #1", (1,)),
    ],
)
def test_change_becomes_dynamodb_update_expression(change: Change, expression: str, used: tuple[Any, ...]) -> None:
    placeholders = Placeholders()
    assert placeholders.change(change) == expression
    assert _values(placeholders.parameters()) == used


def test_empty_change_adds_no_update_expression() -> None:
    assert write_parameters("T", Update(KEY, Change())) == ("Update", {"TableName": "T", "Key": KEY_JSON})


def test_condition_and_update_share_placeholder_of_attribute_name() -> None:
    assert write_parameters("T", Update(KEY, Change(values={"a": 2}, only_if=Equals("a", 1)))) == (
        "Update",
        {
            "TableName": "T",
            "Key": KEY_JSON,
            "UpdateExpression": "SET #0 = :0",
            "ConditionExpression": "#0 = :1",
            "ExpressionAttributeNames": {"#0": "a"},
            "ExpressionAttributeValues": {":0": {"N": "2"}, ":1": {"N": "1"}},
        },
    )


def test_update_of_hundred_attributes_fits_dynamodb_expression() -> None:
    slots = {f"w{number}": b"x" for number in range(100)}
    _, parameters = write_parameters("T", Update(KEY, Change(values={"task_path": "", "expires": 1}, defaults=slots)))
    assert len(parameters["UpdateExpression"]) <= 4096


def test_dynamodb_put_request_contains_item_key() -> None:
    assert write_parameters("T", Put(KEY, {"a": 1})) == (
        "Put",
        {"TableName": "T", "Item": {**KEY_JSON, "a": {"N": "1"}}},
    )


def test_dynamodb_delete_and_condition_check_contain_condition() -> None:
    conditional = {
        "TableName": "T",
        "Key": KEY_JSON,
        "ConditionExpression": "attribute_exists(#0)",
        "ExpressionAttributeNames": {"#0": "pk"},
    }
    assert write_parameters("T", Delete(KEY, Exists())) == ("Delete", conditional)
    assert write_parameters("T", ConditionCheck(KEY, Exists())) == ("ConditionCheck", conditional)


def _values(parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(map(decoded, parameters.get("ExpressionAttributeValues", {}).values()))
