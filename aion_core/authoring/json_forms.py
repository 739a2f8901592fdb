"""Conversion of an author's values to JSON and to A2A types. The values are checked, and never changed.

A message or a task may be an SDK protobuf object, v1 JSON, v0.3 JSON, or a pydantic model of the SDK's v0.3. A missing
id is valid: the server sets ids.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from google.protobuf.json_format import Error, ParseDict
from google.protobuf.struct_pb2 import Value

from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Task

# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

MAX_DEPTH = 30
"""Maximum depth of nested objects and lists in an author's values.

protobuf reads at most 100 levels, and each object in A2A's data or metadata takes three levels. A deeper value could be
stored but never read again.
"""

_URL_SAFE = str.maketrans("-_", "+/")


def as_json(value: Any, name: str) -> Any:
    """Return a copy of the value as plain JSON. Raises ValueError for values that JSON cannot express."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} has to be plain JSON: {first_line(error)}.") from error


def as_value(value: Any, name: str) -> Value:
    """Convert a JSON value to a protobuf Value. Raises ValueError for a value that A2A cannot carry.

    A2A's numbers are doubles: send an integer beyond 2**53 as text if its last digits matter.
    """
    written = as_json(value, name)
    if is_too_deep(written):
        raise ValueError(f"{name} nests more than {MAX_DEPTH} levels deep: send it flatter, or as a file.")
    try:
        return ParseDict(written, Value())
    except (Error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} cannot be carried by A2A: {first_line(error)}.") from error


def bytes_of(base64: str, name: str) -> bytes:
    """Decode a base64 text in the standard or URL-safe alphabet, with or without line breaks.

    Raises ValueError for anything else, so that no damaged file is sent.
    """
    if not isinstance(base64, str):
        raise ValueError(f"{name} is {type(base64).__name__}: give it as str, `base64.b64encode(content).decode()`.")
    try:
        return b64decode("".join(base64.split()).translate(_URL_SAFE), validate=True)
    except ValueError as error:
        raise ValueError(f"{name} is not base64: {first_line(error)}.") from error


def is_too_deep(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return True if objects and lists in the JSON value nest deeper than `levels`."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(is_too_deep(held, levels - 1) for held in value)


def first_line(error: Exception) -> str:
    """Return an error's first line without its full stop, for use within a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


# ── Messages and tasks ────────────────────────────────────────────────────────────────────────────────────────────────

Kind = Literal["message", "task"]

_V03_MODELS = "a2a.compat.v0_3.types"
_ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_FILE = {"bytes": "raw", "uri": "url", "mimeType": "mediaType", "mime_type": "mediaType", "name": "filename"}

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
        upgraded = _message(copied) if kind == "message" else _task(copied)
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


# ── Conversion of v0.3 JSON to v1 JSON ───────────────────────────────────────────────────────────────────────────────
# v1 JSON stays unchanged. The parser rejects any other JSON.


def _message(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    message = _but(given, "kind")
    role = message.get("role")
    if isinstance(role, str):
        message["role"] = _ROLES.get(role, role)
    return _each(message, "parts", _part)


def _part(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    part = _but(given, "kind", "file")
    file: dict[str, Any] | None = given.get("file")
    if isinstance(file, dict):
        part |= {_FILE.get(key, key): held for key, held in file.items()}
    metadata = part.get("metadata")
    if isinstance(metadata, dict) and metadata.get("data_part_compat") and isinstance(part.get("data"), dict):
        # Unwrap {"value": …}, because the SDK wraps a v1 value that is no object in this way in a data part of v0.3.
        part["data"] = part["data"].get("value")
        part["metadata"] = _but(metadata, "data_part_compat") or None
    if isinstance(raw := part.get("raw"), str):
        # Check the base64 text here, because protobuf's parser silently drops invalid characters. Add missing
        # padding first, since protobuf's JSON mapping allows it.
        bytes_of(raw + "=" * (-len(raw) % 4), "raw")
    return part


def _task(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    task = _each(_each(_but(given, "kind"), "history", _message), "artifacts", _artifact)
    if isinstance(task.get("status"), dict):
        task["status"] = _status(task["status"])
    return task


def _artifact(given: Any) -> Any:
    return _each(given, "parts", _part) if isinstance(given, dict) else given


def _status(given: dict[str, Any]) -> dict[str, Any]:
    status = dict(given)
    state = status.get("state")
    if isinstance(state, str) and state.islower():
        known = "unspecified" if state == "unknown" else state
        status["state"] = f"TASK_STATE_{known.upper().replace('-', '_')}"
    if "message" in status:
        status["message"] = _message(status["message"])
    return status


def _each(given: dict[str, Any], field: str, upgrade: Any) -> dict[str, Any]:
    held = given.get(field)
    return {**given, field: [upgrade(item) for item in held]} if isinstance(held, list) else given


def _but(given: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: held for key, held in given.items() if key not in keys}
