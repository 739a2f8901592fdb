"""JSON of protobuf messages and v0.3 models: numbers, and data parts that are not objects."""

import json
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions
from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message as AnyMessage
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from aion_core.protocol.message_json import prepare_event, to_json, with_integers
from aion_core.protocol.text import utf8
from aion_core.protocol.types import (
    Artifact,
    Event,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
    stream_response,
    stream_response_bytes,
)
from aion_core.protocol.v03_json import v03_json
from tests.support.rows import each_row

NUMBERS: dict[str, Any] = {"ids": [1, 2], "deep": {"page": 0, "half": 0.5, "below": -7, "large": 1e300, "text": "1.0"}}


@each_row(
    "event",
    [
        Task(id="t", artifacts=[Artifact(artifact_id="a" * 20_000)]),
        Message(message_id="m" * 127),
        Message(message_id="m" * 126),
        TaskStatusUpdateEvent(task_id="t"),
        TaskArtifactUpdateEvent(),
    ],
)
def test_bytes_of_event_are_those_of_its_stream_response(event: Event) -> None:
    assert stream_response_bytes(event) == stream_response(event).SerializeToString()


def artifact(data: Any) -> Artifact:
    made = Artifact(artifact_id="a", parts=[ParseDict({"data": data, "metadata": {"row": 3}}, Part())])
    made.metadata.update({"version": 2})
    return made


def kinds() -> Iterator[Descriptor]:
    """Yield the types of all messages of A2A."""
    for file in (a2a_pb2.DESCRIPTOR, a2a_v0_3_pb2.DESCRIPTOR):
        yield from file.message_types_by_name.values()


def filled(message: AnyMessage, chance: Random, depth: int = 0) -> AnyMessage:
    """Fill some fields of a message, and some of the messages in it."""
    for field in message.DESCRIPTOR.fields if depth < 5 else ():
        if chance.random() < 0.3:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            members, member = getattr(message, field.name), field.message_type.fields_by_name["value"]
            for key in ("a", "aKey"):
                if member.message_type is not None:
                    filled(members[key], chance, depth + 1)
                else:
                    members[key] = value_of(member, chance)
        elif field.message_type is not None:
            held = getattr(message, field.name)
            for each in [held.add(), held.add()] if field.is_repeated else [held]:
                each.SetInParent()
                filled(each, chance, depth + 1)
        elif field.is_repeated:
            getattr(message, field.name).extend([value_of(field, chance), value_of(field, chance)])
        else:
            setattr(message, field.name, value_of(field, chance))
    return message


def value_of(field: Any, chance: Random) -> Any:
    """Return a value of the field. Fails for a type that A2A does not have."""
    if field.enum_type is not None:
        return chance.choice([0, *field.enum_type.values_by_number, *([] if field.enum_type.is_closed else [77])])
    return {
        FieldDescriptor.TYPE_STRING: chance.choice(["", "é😀"]),
        FieldDescriptor.TYPE_BYTES: chance.randbytes(5),
        FieldDescriptor.TYPE_BOOL: chance.choice([True, False]),
        FieldDescriptor.TYPE_INT32: chance.choice([0, 7]),
        FieldDescriptor.TYPE_INT64: chance.choice([0, 1_700_000_000]),  # seconds of a timestamp
        FieldDescriptor.TYPE_DOUBLE: chance.choice([0.0, -0.0, 2.0, 0.5, 1e300]),
    }[field.type]


@pytest.mark.parametrize("kind", [*kinds()], ids=lambda kind: kind.full_name)
def test_json_of_every_message_is_that_of_protobuf(kind: Descriptor) -> None:
    for seed in range(20):
        message = filled(GetMessageClass(kind)(), Random(seed))
        assert json.dumps(to_json(message)) == json.dumps(with_integers(MessageToDict(message)))


def test_whole_numbers_are_rendered_as_integers() -> None:
    expected = {
        "artifactId": "a",
        "parts": [{"data": NUMBERS, "metadata": {"row": 3}}],
        "metadata": {"version": 2},
    }
    # Compare JSON texts, because 1 == 1.0 in Python but not in JSON text.
    assert json.dumps(to_json(artifact(NUMBERS)), sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_v03_whole_numbers_are_rendered_as_integers() -> None:
    written = v03_json(conversions.to_compat_artifact(artifact(NUMBERS)))
    part = {"kind": "data", "data": NUMBERS, "metadata": {"row": 3}}
    expected = {"artifactId": "a", "parts": [part], "metadata": {"version": 2}}
    assert json.dumps(written, sort_keys=True) == json.dumps(expected, sort_keys=True)


@each_row("data", [[1, 2], "text", 7, True, None])
def test_conversion_to_v03_wraps_data_that_is_no_object(data: Any) -> None:
    """Convert data such as a list to v0.3: only the author's metadata remains, without the SDK's marker."""
    (part,) = v03_json(conversions.to_compat_artifact(artifact(data)))["parts"]
    assert part == {"kind": "data", "data": {"value": data}, "metadata": {"row": 3}}
    alone = Artifact(artifact_id="a", parts=[ParseDict({"data": data}, Part())])
    assert v03_json(conversions.to_compat_artifact(alone))["parts"] == [{"kind": "data", "data": {"value": data}}]


@each_row("number", [math.nan, math.inf])
@each_row("place", ["data", "metadata", "metadata of a part"])
def test_infinite_or_nan_number_is_refused(number: float, place: str) -> None:
    made = artifact(NUMBERS)
    prepare_event(made)
    part = made.parts[0]
    places = {"data": part.data.struct_value, "metadata": made.metadata, "metadata of a part": part.metadata}
    places[place].update({"deep": [{"page": number}]})
    with pytest.raises(ValueError, match="serialize"):
        prepare_event(made)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_number_in_data_part_keeps_its_value(number: float) -> None:
    (part,) = to_json(artifact(number))["parts"]
    assert part["data"] == number
    assert str(part["data"]) == "-0.0" if str(number) == "-0.0" else True
    is_whole = number == int(number) and abs(number) < 2**53 and str(number) != "-0.0"
    assert isinstance(part["data"], int) == is_whole


@each_row(
    ("text", "expected"),
    [("é 😀", "é 😀"), ("\ud83d\ude00", "😀"), ("cut \ud83d", "cut ?"), ("\ude00\ud83d\ud83d\ude00", "??😀")],
)
def test_surrogate_pairs_are_joined_and_unpaired_surrogates_replaced(text: str, expected: str) -> None:
    assert utf8(text) == expected
