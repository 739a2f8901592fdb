"""Domain types: the protobuf types of the official SDK (A2A v1.0), their JSON in v1.0 and v0.3, and strict JSON. Pure.

All other modules of aion import the types from here, so that a change in the SDK affects only this file.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from math import copysign, isinf
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
from a2a.utils.errors import InvalidParamsError, InvalidRequestError, JSONParseError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import Struct, Value

if TYPE_CHECKING:
    from pydantic import BaseModel

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from aion_core.protocol.errors import MAX_TEXT, invalid_params

for _enum in (Role, TaskState):
    for _name, _number in _enum.items():
        # Store the number as an attribute. Otherwise protobuf searches the enum's descriptor at each access.
        setattr(_enum, _name, _number)

Event = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""Event of a stream (A2A 3.2.3), also stored in the event log of a task."""

STREAM_DELTA_ID = "aion:stream-delta"
"""Id of the transient artifact with text chunks of the model."""

STREAM_DELTA_IDS = (STREAM_DELTA_ID, "aion:streamDelta")
"""Current and older id of the stream delta artifact in requests."""

STREAM_DELTA_NAME = "Stream Delta"
"""Name of the stream delta artifact."""

__all__ = [
    "STREAM_DELTA_ID",
    "STREAM_DELTA_IDS",
    "STREAM_DELTA_NAME",
    "AgentCapabilities",
    "AgentCard",
    "AgentCardSignature",
    "AgentExtension",
    "AgentInterface",
    "AgentProvider",
    "AgentSkill",
    "Artifact",
    "Event",
    "GetTaskRequest",
    "ListTasksRequest",
    "ListTasksResponse",
    "Message",
    "Part",
    "Role",
    "SecurityRequirement",
    "SecurityScheme",
    "SendMessageConfiguration",
    "SendMessageRequest",
    "StreamResponse",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskState",
    "TaskStatus",
    "TaskStatusUpdateEvent",
    "stream_response",
    "unwrap",
]


def stream_response(event: Event) -> StreamResponse:
    """Wrap an event in the StreamResponse message."""
    match event:
        case Task():
            return StreamResponse(task=event)
        case Message():
            return StreamResponse(message=event)
        case TaskStatusUpdateEvent():
            return StreamResponse(status_update=event)
        case TaskArtifactUpdateEvent():
            return StreamResponse(artifact_update=event)


def unwrap(response: StreamResponse) -> Event:
    """Return the event in a StreamResponse message. Raises ValueError for an empty message."""
    match response.WhichOneof("payload"):
        case "task":
            return response.task
        case "message":
            return response.message
        case "status_update":
            return response.status_update
        case "artifact_update":
            return response.artifact_update
        case _:
            raise ValueError("the stream response is empty")


# ── Streamed events outside of the log: text chunks and the typing indicator ──────────────────────────────────────────


def delta_event(
    *,
    task_id: str,
    context_id: str,
    text: str,
    append: bool,
    last: bool,
    reason: str,
    speaker: Mapping[str, str] | None = None,
) -> TaskArtifactUpdateEvent:
    """Return the artifact update event for a text chunk. The artifact is never part of the task.

    In the first and the last chunk, the artifact's metadata contain the state of the stream, for Aion's clients. In the
    first chunk they also contain the speaker: `messageId` and, if known, `node`, `agent` and `branch`.
    """
    event = TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=STREAM_DELTA_ID, name=STREAM_DELTA_NAME, parts=[Part(text=text)]),
        append=append,
        last_chunk=last,
    )
    if last:
        event.artifact.metadata.update({"status": "finalized", "status_reason": reason})
    elif not append:
        event.artifact.metadata.update({"status": "active", "status_reason": "chunk_streaming", **(speaker or {})})
    return event


def typing_event(*, task_id: str, context_id: str) -> TaskArtifactUpdateEvent:
    """Return the artifact update event for the typing indicator. Its text is empty."""
    return TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=EPHEMERAL_ID, name=EPHEMERAL_NAME, parts=[Part(text="")]),
        last_chunk=True,
    )


EPHEMERAL_ID, EPHEMERAL_NAME = "aion:ephemeral-message", "Ephemeral Message"
"""Id and name of an artifact that Aion's clients display briefly and do not store."""


# ── Text ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def utf8(text: str) -> str:
    """Join the halves of surrogate pairs, and replace lone halves by question marks, because UTF-8 cannot encode them.

    A model may split a pair between two chunks, or end its text with half a pair.
    """
    if text.isascii():
        return text
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

M = TypeVar("M", bound="BaseModel")

MAX_EXACT = 2**53
"""Limit below which a double has every integer exactly. Protobuf's JSON values store all numbers as doubles."""


def to_json(message: AnyMessage) -> Any:
    """Return a protobuf message as JSON. Whole numbers in its data and metadata become integers."""
    return with_integers(MessageToDict(message))


def prepare_event(message: AnyMessage) -> None:
    """Prepare an agent's event for clients: give each part without content an empty text, as v0.3 has no such part.

    Raises ValueError if the event contains a number that JSON cannot express, such as NaN.
    """
    if isinstance(message, Part) and message.WhichOneof("content") is None:
        message.text = ""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                # Check data and metadata, because only they can contain a number such as NaN.
                if isinstance(each, Struct | Value):
                    MessageToDict(each)
                else:
                    prepare_event(each)


def with_integers(value: Any) -> Any:
    """Return a JSON value with whole numbers below MAX_EXACT as integers. Protobuf has read them as doubles.

    Negative zero stays a float, because integers have no negative zero.
    """
    match value:
        # Test the most frequent types first, and Mapping last, because its check takes the longest.
        case str() | None | int():
            return value
        case float():
            is_whole = value.is_integer() and abs(value) < MAX_EXACT and (value != 0 or copysign(1, value) > 0)
            return int(value) if is_whole else value
        case list():
            return [item if type(item) is str else with_integers(item) for item in value]
        case dict() | Mapping():
            return {key: item if type(item) is str else with_integers(item) for key, item in value.items()}
    return value


DATA_PART_MARKER = "data_part_compat"
"""Metadata key that the SDK adds to a v0.3 data part if its data is not an object in v1.0."""


def v03_json(model: "BaseModel") -> Any:
    """Return a v0.3 model of the SDK as JSON, with whole numbers as integers.

    In v0.3 the data of a part must be an object. Other v1.0 data is in its field `value`. The SDK marks such
    data in the part's metadata. The marker is removed.
    """
    return with_integers(without_marker(model).model_dump(mode="json", by_alias=True, exclude_none=True))


def without_marker(model: M) -> M:
    """Remove the key DATA_PART_MARKER, which the SDK adds, from the data parts of a v0.3 model. Return the model."""
    _remove_marker(model)
    return model


def _remove_marker(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _remove_marker(item)
        return
    for name in getattr(type(value), "model_fields", ()):
        field = getattr(value, name)
        if name == "metadata" and getattr(value, "kind", "") == "data" and field:
            field.pop(DATA_PART_MARKER, None)
            value.metadata = field or None
        else:
            _remove_marker(field)


# ── Strict JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────

MAX_DEPTH = 32
"""Maximum nesting of a client's JSON. Protobuf can parse about 31 levels of JSON in a message: each level takes three
of its 100 nested messages. Python has no setting for this limit. A stored message must be parseable."""
MAX_VALUES = 5_000
"""Maximum number of values in a client's JSON. Members, items, objects and lists count. Parsers need a hundred times
the memory of a text with many small values; counting the values in the bytes takes about ten milliseconds."""


class _Unusable(msgspec.Struct, frozen=True):
    """Placeholder for an invalid JSON number. `check_json` refuses it, so that the other values are known before."""

    problem: str


class _Repeated(dict[str, Any]):
    """Placeholder for an object with a repeated key, without that key. It is refused as for `_Unusable`."""


def strict_json(text: bytes, name: str, *, most_values: int = MAX_VALUES) -> Any:
    """Return a client's JSON after all checks. Raises the errors of `parse_json` and `check_json`."""
    parsed = parse_json(text, name, most_values=most_values, parse_int=int)
    check_json(parsed, name)
    return parsed


def parse_json(
    text: bytes,
    name: str,
    *,
    remedy: str = "send fewer.",
    most_values: int = MAX_VALUES,
    parse_int: Callable[[str], Any] | None = None,
) -> Any:
    """Parse a client's JSON, such as a request body; `check_json` completes the checks.

    Errors contain the `name` of the text, and for a text with too many values the `remedy`. `parse_int` converts the
    digits of an integer; by default, integers above 2^53 are refused, because doubles cannot represent them. Raises
    JSONParseError, or InvalidParamsError for a text with too many values or levels.
    """
    if not text:
        raise JSONParseError(f"The {name} is empty: send a JSON object.")
    check_values(text, name, remedy, most_values)
    try:
        return json.loads(
            text.decode("utf-8"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
            parse_int=parse_int or _integer,
            parse_float=_float,
        )
    except UnicodeDecodeError as error:
        raise JSONParseError(f"The {name} is not UTF-8: see byte {error.start}.") from error
    except json.JSONDecodeError as error:
        raise JSONParseError(
            f"The {name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except ValueError as error:
        raise JSONParseError(f"The {name} is not JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep(name) from error


def check_values(text: bytes, name: str, remedy: str, most: int = MAX_VALUES) -> None:
    """Raise InvalidParamsError for JSON with too many values. The text may otherwise be invalid JSON."""
    # Remove the escapes, so that each quotation mark is the beginning or the end of a text.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    # Refuse a text with too many quotation marks: each value follows a comma or a bracket and has at most two texts
    # (its key and itself), with two quotation marks each.
    if plain.count(b'"') <= 4 * most + 4:
        outside = b"".join(plain.split(b'"')[::2])
        if sum(map(outside.count, (b",", b"{", b"["))) <= most:
            return
    raise InvalidParamsError(f"The {name} has more than {most} values: {remedy}")


def check_json(parsed: Any, name: str) -> None:
    """Check JSON from `parse_json`. Raises InvalidRequestError if an object repeats a key.

    Raises InvalidParamsError if it is nested too deeply, or has a number beyond a double or a lone surrogate.
    """
    level = [parsed]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            match value:
                case _Repeated():
                    raise InvalidRequestError(f"An object of the {name} has the same key twice.")
                case dict():
                    below.extend(value)
                    below.extend(value.values())
                case list():
                    below.extend(value)
                case str() if not value.isascii() and not is_text(value):
                    message = f"A text of the {name} has half a surrogate pair (\\ud800 to \\udfff)."
                    raise invalid_params(message, _path_of(value, parsed))
                case _Unusable():
                    raise invalid_params(f"The {name} has {value.problem}", _path_of(value, parsed))
        if not below:
            return
        level = below
    raise _too_deep(name)


def is_text(text: str) -> bool:
    """Return True if UTF-8 can encode the text. It cannot encode a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _too_deep(name: str) -> InvalidParamsError:
    return InvalidParamsError(f"The {name} is nested more than {MAX_DEPTH} levels deep.")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    times = Counter(key for key, _ in pairs)
    return _Repeated({key: value for key, value in pairs if times[key] == 1})


def _float(digits: str) -> float | _Unusable:
    number = float(digits)
    return _Unusable("a number too large for JSON's doubles: send it as a string.") if isinf(number) else number


def _integer(digits: str) -> int | _Unusable:
    # Check the length first, because Python raises ValueError above 4300 digits.
    if len(digits) > 17 or abs(number := int(digits)) > MAX_EXACT:
        return _Unusable("an integer above 2^53: send it as a string.")
    return number


def _path_of(found: Any, parsed: Any) -> str:
    """Return the path of a value in the parsed JSON, within JSON-RPC's params. A key has the path of its object."""
    # Search level by level like `check_json`: Python may use one object for equal texts, and the first is meant.
    level = [(parsed, "")]
    for value, path in level:
        if value is found:
            is_rpc = isinstance(parsed, dict) and "jsonrpc" in parsed
            return path.removeprefix(".").removeprefix("params." if is_rpc else "")
        if isinstance(value, dict):
            level += [(key, path) for key in value]
            level += [(item, f"{path}.{key}"[: 2 * MAX_TEXT]) for key, item in value.items()]
        elif isinstance(value, list):
            level += [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return ""
