"""Parse and write the types of A2A v0.3 in JSON-RPC and HTTP+JSON, with readable errors.

HTTP+JSON has two forms. The SDKs of v0.3 use the JSON of v0.3's proto file. The text of the v0.3 specification uses the
types of JSON-RPC, with their `kind`. A response has the form of its request (`prefers_kinds`). In the proto file's
configuration, a missing `blocking` means false. A message without a configuration is blocking.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.utils.errors import A2AError, InvalidParamsError
from pydantic import BaseModel, ValidationError

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.message_rules import check_history_length
from aion_core.protocol.types import SendMessageRequest, v03_json
from aion_core.web.request_body import JSON, StrictRequest, check_list, is_base64, read_params
from aion_core.web.v03_proto import from_proto

# ── JSON-RPC ──────────────────────────────────────────────────────────────────────────────────────────────────────────

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


# ── HTTP+JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def read_message(request: StrictRequest) -> SendMessageRequest:
    """Parse a v0.3 HTTP+JSON body into v1.0's SendMessage request. Raises InvalidParamsError with the invalid field."""
    return await request.convert(_message_request, await request.json_object(), decodes_files_twice(request))


def _message_request(body: dict[str, Any], encodes_files_twice: bool) -> SendMessageRequest:
    if _has_kinds(body.get("message")):
        params = read_v03(body, v03.MessageSendParams)
    else:
        read = read_params(body, pb03.SendMessageRequest)
        if read.request.message_id and not read.request.content:
            field = "message.content"
            raise invalid_params(f"{field} is empty: give it at least one part, such as a text.", field)
        for index, part in enumerate(read.request.content):
            if part.WhichOneof("part") is None:
                field = f"message.content[{index}]"
                raise invalid_params(f"{field} has no content: give it one of text, file or data.", field)
            if part.HasField("file") and part.file.WhichOneof("file") is None:
                field = f"message.content[{index}].file"
                raise invalid_params(f"{field} has no content: give it fileWithBytes or fileWithUri.", field)
            content = part.file.file_with_bytes
            if content and not (encodes_files_twice and _is_base64(content)):
                part.file.file_with_bytes = base64.b64encode(content)
        return from_proto(read, _core_request_of)
    return _core_request_of(params)


def _core_request_of(params: v03.MessageSendParams) -> SendMessageRequest:
    return core_request(v03.SendMessageRequest(id="", params=params))


def prefers_kinds(request: StrictRequest) -> bool:
    """Return True if the response to a v0.3 HTTP+JSON request has JSON-RPC's types, not the proto file's JSON.

    The response to a message has the message's form, and a push config in the proto file's JSON gets that form. For any
    other request, the media type `application/json` in the Accept header selects the types of JSON-RPC. The SDKs expect
    the proto file's JSON: the Python SDK of v0.3 does not send this media type, the JavaScript SDK of v0.3 sends a
    Content-Type even without a body, and SDKs of v1.0 in their v0.3 mode send the header A2A-Version, which v0.3 did
    not have.
    """
    body = request.read
    if isinstance(body, dict) and "message" in body:
        return _has_kinds(body["message"])
    if (
        "a2a-version" in request.headers
        or _has_proto_form(body)
        or (body is None and "content-type" in request.headers)
    ):
        return False
    accepted = request.headers.get("accept", "").lower()
    return any(media.partition(";")[0].strip() == JSON for media in accepted.split(","))


def decodes_files_twice(request: StrictRequest) -> bool:
    """Return True if the client encodes and decodes files in the proto file's JSON twice, as only the Python SDK does.

    That SDK sends the Accept header `*/*`, or requests a stream with the header Cache-Control. No other SDK does so.
    """
    accepted = request.headers.get("accept", "").lower()
    return accepted == "*/*" or (accepted == "text/event-stream" and "cache-control" in request.headers)


def reads_kinds_of_card(request: StrictRequest) -> bool:
    """Return True if a client of v0.3's HTTP+JSON reads the card in JSON-RPC's types, not the proto file's JSON.

    The Python SDK of v0.3 does so, although it reads the proto file's JSON in all other responses.
    """
    return prefers_kinds(request) or ("a2a-version" not in request.headers and "content-type" not in request.headers)


def _has_proto_form(body: Any) -> bool:
    """Return True if the body is a push config in the proto file's JSON: it has a `name` or a `config` field."""
    return isinstance(body, dict) and ("name" in body or "config" in body)


def _has_kinds(message: Any) -> bool:
    return isinstance(message, dict) and ("kind" in message or "parts" in message)


def _is_base64(content: bytes) -> bool:
    """Return True if the decoded bytes of a file are base64 again, so that the Python SDK may have encoded them.

    Other clients, such as curl, send the same headers, and encode files once.
    """
    try:
        return base64.b64encode(base64.b64decode(content, validate=True)) == content
    except ValueError:
        return False
