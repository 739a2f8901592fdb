"""A message or a task, in any form an author may give it, as the protocol's own type (D16). Pure.

Those forms are the SDK's protobuf types, v1 JSON, v0.3 JSON, and the SDK's pydantic models of v0.3. An id that is
missing is no mistake: ids are the server's (R75).
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from google.protobuf.json_format import Error, MessageToDict, ParseDict

from aion_core.authoring.json_values import MAX_DEPTH, as_json, bytes_of, first_line, is_too_deep
from aion_core.protocol.types import Message, Task

Kind = Literal["message", "task"]

_V03_MODELS = "a2a.compat.v0_3.types"
_ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_FILE = {"bytes": "raw", "uri": "url", "mimeType": "mediaType", "mime_type": "mediaType", "name": "filename"}

T = TypeVar("T", Message, Task)


def message_of(given: Any) -> Message:
    """Return the message; raises ValueError, with a sentence, where this is none."""
    return _read(given, Message, "message")


def task_of(given: Any) -> Task:
    """Return the task; raises ValueError, with a sentence, where this is none."""
    return _read(given, Task, "task")


def json_of(given: Message | Task) -> dict[str, Any]:
    """Return the message or task as v1 JSON, which `message_of` and `task_of` read back."""
    return MessageToDict(given)


def kind_of(given: Any) -> Kind | None:
    """Return which of the two is given, None where it is neither, or cannot be told."""
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
            raise ValueError(f"This is no A2A {name}: {first_line(error)}.") from error
    try:
        # NaN in metadata, say, is welcome to protobuf: it would be recorded, and then no client could be told.
        written = MessageToDict(found)
    except (Error, ValueError, RecursionError) as error:
        raise ValueError(f"The {name} cannot be written as JSON: {first_line(error)}.") from error
    if is_too_deep(written):
        raise ValueError(f"The {name} nests more than {MAX_DEPTH} levels deep: make it flatter, or send a file.")
    return found


def _plain(given: Any) -> Mapping[str, Any] | None:
    # By its module's name: whoever has such a model has imported that module, nobody else need.
    if any(base.__module__ == _V03_MODELS for base in type(given).__mro__):
        dumped = given.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped if isinstance(dumped, Mapping) else None
    return given if isinstance(given, Mapping) else None


# ── v0.3 JSON → v1 JSON; what is v1 already stays as it is, and what is neither is the parser's to refuse ────────────


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
        # How the SDK puts a v1 value that is no object into v0.3, whose data parts hold objects only.
        part["data"] = part["data"].get("value")
        part["metadata"] = _but(metadata, "data_part_compat") or None
    if isinstance(raw := part.get("raw"), str):
        # Checked before protobuf's reader, which drops what it cannot read; what JSON's mapping allows is no padding.
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
