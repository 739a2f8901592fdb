"""Messages and tasks of an author as A2A objects.

A message or a task may be an SDK protobuf object, v1 JSON, v0.3 JSON, or a pydantic model of the SDK's v0.3. A missing
id is valid: the server sets ids.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from google.protobuf.json_format import Error, ParseDict

from aion_core.authoring.json_values import MAX_DEPTH, as_json, first_line, is_too_deep
from aion_core.authoring.v03_json import v1_message, v1_task
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Task

Kind = Literal["message", "task"]

_V03_MODELS = "a2a.compat.v0_3.types"

T = TypeVar("T", Message, Task)


def message_of(given: Any) -> Message:
    """Convert an author's value to an A2A Message. Raises ValueError if it is not a message."""
    return _read(given, Message, "message")


def task_of(given: Any) -> Task:
    """Convert an author's value to an A2A Task. Raises ValueError if it is not a task."""
    return _read(given, Task, "task")


def json_of(given: Message | Task) -> dict[str, Any]:
    """Return the message or task as v1 JSON, the input of `message_of` and `task_of`."""
    written: dict[str, Any] = to_json(given)
    return written


def kind_of(given: Any) -> Kind | None:
    """Return "message" or "task" for an author's value, or None if it is neither."""
    if isinstance(given, Message):
        return "message"
    if isinstance(given, Task):
        return "task"
    plain = _plain(given)
    if plain is None:
        return None
    named = plain.get("kind")
    if named == "message" or (named is None and {"parts", "role", "messageId", "message_id"} & plain.keys()):
        return "message"
    if named == "task" or (named is None and {"status", "history", "artifacts", "id"} & plain.keys()):
        return "task"
    return None


def _read(given: Any, wanted: type[T], kind: Kind) -> T:
    name = wanted.DESCRIPTOR.name
    if isinstance(given, wanted):
        found = given
    else:
        plain = _plain(given)
        if plain is None or plain.get("kind", kind) != kind:
            what = type(given).__name__ if plain is None else plain["kind"]
            raise ValueError(f"An A2A {name} is wanted, and a {what} is given.")
        copied = as_json(dict(plain), name)
        upgraded = v1_message(copied) if kind == "message" else v1_task(copied)
        try:
            found = ParseDict(upgraded, wanted())
        except (Error, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"This is not an A2A {name}: {first_line(error)}.") from error
    try:
        # Refuse NaN, because JSON for clients cannot contain NaN, although protobuf accepts it in metadata.
        written = to_json(found)
    except (Error, ValueError, RecursionError) as error:
        raise ValueError(f"The {name} cannot be written as JSON: {first_line(error)}.") from error
    if is_too_deep(written):
        raise ValueError(f"The {name} nests more than {MAX_DEPTH} levels deep: make it flatter, or send a file.")
    return found


def _plain(given: Any) -> Mapping[str, Any] | None:
    # Recognise the SDK's v0.3 models by their module name, because importing them only for this check would be slow.
    if any(base.__module__ == _V03_MODELS for base in type(given).__mro__):
        dumped = given.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped if isinstance(dumped, Mapping) else None
    return given if isinstance(given, Mapping) else None
