"""Conversion of a message or task in v0.3 JSON to v1 JSON.

v1 JSON stays unchanged. The parser rejects any other JSON.
"""

from typing import Any

from aion_core.authoring.json_values import bytes_of

_ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_FILE = {"bytes": "raw", "uri": "url", "mimeType": "mediaType", "mime_type": "mediaType", "name": "filename"}


def v1_message(given: Any) -> Any:
    """Return a message's JSON in v1's form."""
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


def v1_task(given: Any) -> Any:
    """Return a task's JSON in v1's form."""
    if not isinstance(given, dict):
        return given
    task = _each(_each(_but(given, "kind"), "history", v1_message), "artifacts", _artifact)
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
        status["message"] = v1_message(status["message"])
    return status


def _each(given: dict[str, Any], field: str, upgrade: Any) -> dict[str, Any]:
    held = given.get(field)
    return {**given, field: [upgrade(item) for item in held]} if isinstance(held, list) else given


def _but(given: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: held for key, held in given.items() if key not in keys}
