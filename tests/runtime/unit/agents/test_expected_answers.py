"""Form of an answer: read from the question or from the framework, and the answers that fit it."""

import random
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from pydantic import BaseModel, RootModel

from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.agents.expected_answers import ExpectedAnswer, expected_answer, is_generated
from aion_core.agents.questions import Question, question_message
from aion_core.protocol.interrupts import OpenQuestion, questions_of
from tests.support.rows import each_row

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize("key", ["response_schema", "responseSchema", "schema"])
def test_schema_is_read_from_value_of_question(key: str) -> None:
    form = expected_answer({"prompt": "Where?", key: CITY})
    assert form == ExpectedAnswer(CITY, (), is_checked=key != "schema")


def test_framework_schema_takes_precedence_over_value() -> None:
    other = {"type": "string"}
    assert expected_answer({"schema": CITY, "options": ["a"]}, other, is_checked=True) == ExpectedAnswer(
        other, ["a"], True
    )


@each_row("value", ["Which day?", {"schema": {"users": ["id"]}}, {"options": "a"}, [CITY], None])
def test_question_without_form_accepts_any_answer(value: Any) -> None:
    form = expected_answer(value)
    assert form == ExpectedAnswer()
    assert form.fitted("a") == "a"


def test_choices_are_options_or_enum_of_schema() -> None:
    assert expected_answer({"options": ["a", {"label": "B"}]}).choices == ["a", {"label": "B"}]
    assert expected_answer({"schema": {"enum": ["a", 1]}}).choices == ["a", 1]


@each_row(
    ("schema", "answer", "value"),
    [
        ({"type": "string"}, "42", "42"),
        ({"type": "integer"}, "42", 42),
        ({"type": "boolean"}, "Yes.", True),
        ({"type": "boolean"}, "no", False),
        ({"enum": ["Approve", "reject"]}, " approve! ", "Approve"),
        ({"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
        ({"type": "array", "items": {"type": "string"}}, {"value": ["a"]}, ["a"]),
        ({"type": "integer"}, {"value": 1}, 1),
        (CITY, '{"city": "Oslo"}', {"city": "Oslo"}),
        ({"type": "object", "properties": {"value": {"type": "string"}}}, {"value": "a"}, {"value": "a"}),
    ],
)
def test_answer_gets_form_that_schema_wants(schema: Any, answer: Any, value: Any) -> None:
    assert ExpectedAnswer(schema, is_checked=True).fitted(answer) == value
    assert ExpectedAnswer(schema).fitted(answer) == value


@each_row(
    ("schema", "answer", "reason"),
    [
        (
            CITY,
            "Oslo",
            "The answer does not fit the question: It must be an object. Send data, or JSON text, with an object of these keys: city.",
        ),
        (
            CITY,
            '{"city": 1}',
            "The answer does not fit the question, in city: It must be a text. Send data, or JSON text, with an object of these keys: city.",
        ),
        ({"enum": ["a", "b"]}, "c", "The answer does not fit the question: It must be one of a, b. Send one of a, b."),
        (
            {"type": "integer"},
            "many",
            "The answer does not fit the question: It must be a whole number. Send it as data, or as JSON text.",
        ),
    ],
)
def test_refusal_says_what_is_wrong_and_what_fits(schema: Any, answer: Any, reason: str) -> None:
    with pytest.raises(InvalidResumeInput) as raised:
        ExpectedAnswer(schema, is_checked=True).fitted(answer)
    assert str(raised.value) == reason


def test_unchecked_json_text_is_object_for_class() -> None:
    """Let the framework's class explain what is missing: it gets the object, not its text."""
    assert ExpectedAnswer(CITY).fitted('{"town": "Oslo"}') == {"town": "Oslo"}
    assert ExpectedAnswer(CITY).fitted("Oslo") == "Oslo"


class Window(BaseModel):
    start: str
    end: str


class Trip(BaseModel):
    """Class with fields in an order that is neither alphabetical nor that of the required ones."""

    town: str
    seats: int = 1
    price: float
    note: str = ""
    window: Window
    default: str = ""


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def test_schema_of_class_is_recognised() -> None:
    assert is_generated(Trip.model_json_schema())
    assert not is_generated(RootModel[list[int]].model_json_schema())
    assert not is_generated(CITY)
    assert not is_generated({**CITY, "title": "A city"})


def test_fields_reach_client_in_order_of_author() -> None:
    """Protobuf has no order of keys, and hashes them differently in each process: the schema names the order."""
    sent = question_message([Question("i", "?", schema=expected_answer(None, Trip).schema)])
    (question,) = questions_of(sent)
    assert question.fields() == list(Trip.model_fields)
    assert question.required() == ["town", "price", "window"]
    assert OpenQuestion("i", schema=shuffled(question.schema)).fields() == list(Trip.model_fields)
    window = question.schema["$defs"]["Window"]
    assert OpenQuestion("i", schema=window).fields() == ["start", "end"]


def test_field_named_like_keyword_keeps_its_schema() -> None:
    properties = {"properties": {"type": "object", "properties": {"b": {}, "a": {}}}, "default": {"type": "string"}}
    form = expected_answer(None, {"type": "object", "properties": properties})
    assert form.schema is not None
    assert list(form.schema["properties"]) == ["properties", "default"]
    assert form.schema["properties"]["properties"]["propertyOrdering"] == ["b", "a"]


def test_recursive_class_has_fields() -> None:
    (question,) = questions_of(question_message([Question("i", "?", schema=expected_answer(None, Tree).schema)]))
    assert (question.fields(), question.required()) == (["name", "children"], ["name"])


def shuffled(value: Any) -> Any:
    """Return the JSON value with the keys of each object in another order."""
    if isinstance(value, list):
        return [shuffled(each) for each in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.Random(7).shuffle(keys)  # a fixed order
    return {key: shuffled(value[key]) for key in keys}


def test_question_without_ids_or_form_lists_nothing() -> None:
    message = question_message([Question("i", "Which day?")])
    assert MessageToDict(message.metadata) == {"interruptId": "i"}
    assert questions_of(message) == [OpenQuestion("i")]
