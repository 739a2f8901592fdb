"""Types of v0.3's JSON-RPC, parsed with readable errors."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from a2a.compat.v0_3 import conversions
from a2a.utils.errors import A2AError, InvalidParamsError
from pydantic import BaseModel, ValidationError

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.message_rules import check_history_length
from aion_core.protocol.types import SendMessageRequest
from aion_core.protocol.v03_json import v03_json
from aion_core.web.request.params import check_list, is_base64

M = TypeVar("M", bound=BaseModel)


def read_v03(body: Mapping[str, Any], model: type[M]) -> M:
    """Parse a request's JSON into one of v0.3's types. Raises InvalidParamsError or InvalidMessage."""
    params = body.get("params", body)
    field = model.model_fields.get("params")
    for params_model in _models_in(field.annotation) if field else [model]:
        _check_lists(params, params_model)
    _normalize_files(params.get("message") if isinstance(params, dict) else None)
    if isinstance(params, dict) and not isinstance(params.get("pushNotificationConfigId", ""), str):
        # Check the id here, because the SDK's model ignores an invalid id and selects the task's first config.
        raise invalid_params("pushNotificationConfigId has to be a text.", "pushNotificationConfigId")
    try:
        read = model.model_validate(body)
    except ValidationError as error:
        raise _bad_params(error) from error
    request = getattr(read, "params", read)
    for holder, prefix in ((request, ""), (getattr(request, "configuration", None), "configuration.")):
        length = getattr(holder, "history_length", None)
        if length is not None:
            check_history_length(length, f"{prefix}historyLength")
    return read


def core_request(request: Any) -> SendMessageRequest:
    """Convert a v0.3 SendMessage request to v1.0's type.

    Raises InvalidParamsError for an unreadable part, for example with invalid base64. The SDK would raise an internal
    error.
    """
    try:
        return conversions.to_core_send_message_request(request)
    except A2AError:
        raise
    except Exception as error:  # binascii, protobuf and the SDK raise errors of different classes
        raise InvalidParamsError(f"A part of message cannot be read: {error}.") from error


def dump(value: Any) -> Any:
    """Convert models of the SDK to JSON, also within lists and objects. Return other values unchanged."""
    if isinstance(value, BaseModel):
        return v03_json(value)
    if isinstance(value, dict):
        return {name: dump(item) for name, item in value.items()}
    return [dump(item) for item in value] if isinstance(value, list) else value


def _check_lists(given: Any, model: type[BaseModel], path: str = "") -> None:
    """Raise InvalidParamsError if a list field of the model, or of a model in its fields, has too many items.

    Check this first, because pydantic needs 5 KB of memory for each invalid item. Lists within the items of a list, and
    in unknown members, are not checked.
    """
    for name, field in model.model_fields.items() if isinstance(given, dict) else ():
        for key in dict.fromkeys((field.alias or name, name)):
            value = given.get(key)
            if isinstance(value, list):
                check_list(value, f"{path}{key}")
            for inner in _models_in(field.annotation):
                _check_lists(value, inner, f"{path}{key}.")


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the pydantic models in a field's type, also within an optional type or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def _normalize_files(message: Any) -> None:
    """Write each file in the message as base64 in the standard alphabet with padding, as only this form is decoded.

    Raises InvalidParamsError if a file has invalid base64, or has both bytes and uri. The SDK's models would accept
    these errors: they drop the invalid characters, also those of the URL-safe alphabet, or one of bytes and uri.
    """
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        file = part.get("file") if isinstance(part, dict) else None
        given = file if isinstance(file, dict) else {}
        field = f"message.parts[{index}].file"
        if given.get("bytes") is not None and given.get("uri") is not None:
            raise invalid_params(f"{field} has both bytes and uri: give it one of them.", field)
        if isinstance(given.get("bytes"), str):
            if not is_base64(given["bytes"]):
                raise invalid_params(f"{field}.bytes is not valid base64.", f"{field}.bytes")
            standard = given["bytes"].replace("-", "+").replace("_", "/")
            given["bytes"] = standard + "=" * (-len(standard) % 4)


def _bad_params(error: ValidationError) -> InvalidParamsError:
    """Convert pydantic's validation error to InvalidParamsError, with a message for each invalid field."""
    problems: dict[str, str] = {}
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        field, message = _field(problem["loc"]), problem["msg"]
        if part := _PART.match(field):
            # Use one message for a part, because a part is a union type: pydantic has an error for each branch of the
            # union, which does not help the client.
            field, message = part[0], _PART_RULE
        name = field or "params"
        is_missing = problem["type"] == "missing" and message is not _PART_RULE
        text = "is missing: it has to be given." if is_missing else f"cannot be used: {_decapitalized(message)}."
        problems.setdefault(name, f"{name} {text}")
    return InvalidParamsError(
        next(iter(problems.values())),
        data={"errors": [{"field": field, "message": message} for field, message in problems.items()]},
    )


def _decapitalized(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}"


_PART = re.compile(r"message\.parts\[\d+\]")

_PART_RULE = (
    'this is not a part: send {"kind": "text", "text": …}, {"kind": "file", "file": {"uri" or "bytes": …}} '
    'or {"kind": "data", "data": {…}}'
)


def _field(path: tuple[int | str, ...]) -> str:
    """Convert pydantic's error path to a field name in the client's JSON, without the names of union branches."""
    steps = [step for step in path if isinstance(step, int) or not step[:1].isupper()]
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return field.removeprefix(".").removeprefix("params.")
