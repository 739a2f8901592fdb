"""v0.3's own request types as the domain's, and a sentence for what is none of them."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from a2a.compat.v0_3 import conversions
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InvalidParamsError
from pydantic import BaseModel, ValidationError

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.limits import check_history_length
from aion_core.web.params import BASE64
from aion_core.web.request_handler import wire_errors

M = TypeVar("M", bound=BaseModel)


def read_v03(given: Mapping[str, Any], model: type[M]) -> M:
    """Return what is given as one of v0.3's types; raises InvalidParamsError that names each field that is wrong."""
    params = given.get("params", given)
    _check_files(params.get("message") if isinstance(params, dict) else None)
    if isinstance(params, dict) and not isinstance(params.get("pushNotificationConfigId", ""), str):
        # The SDK's model reads past it, and takes the task's config to be asked for.
        raise invalid_params("pushNotificationConfigId has to be a text.", "pushNotificationConfigId")
    try:
        read = model.model_validate(given)
    except ValidationError as error:
        raise _bad_params(error) from error
    asked = getattr(read, "params", read)
    for holder, before in ((asked, ""), (getattr(asked, "configuration", None), "configuration.")):
        length = getattr(holder, "history_length", None)
        if length is not None:
            with wire_errors():
                check_history_length(length, f"{before}historyLength")
    return read


def core_request(request: Any) -> pb.SendMessageRequest:
    """Return the v0.3 request in the domain's types.

    Raises InvalidParamsError where a part cannot be read, such as bad base64, which the SDK lets fail as internal.
    """
    try:
        return conversions.to_core_send_message_request(request)
    except A2AError:
        raise
    except Exception as error:  # binascii, protobuf and the SDK each raise their own
        raise InvalidParamsError(f"A part of message cannot be read: {error}.") from error


def _check_files(message: Any) -> None:
    """Refuse a file of a v0.3 message that the SDK's models read as another one than was sent.

    They take what is no base64 for less than it is, and one of bytes and uri where both are given. Raises
    InvalidParamsError; whatever else may be wrong with the message is theirs to say.
    """
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        file = part.get("file") if isinstance(part, dict) else None
        given = file if isinstance(file, dict) else {}
        where = f"message.parts[{index}].file"
        if given.get("bytes") is not None and given.get("uri") is not None:
            raise invalid_params(f"{where} has both bytes and uri: give it one of them.", where)
        if isinstance(given.get("bytes"), str) and not BASE64.fullmatch(given["bytes"]):
            raise invalid_params(f"{where}.bytes is no base64.", f"{where}.bytes")


def _bad_params(error: ValidationError) -> InvalidParamsError:
    """Return the refusal of params that are not as v0.3 has them, with each field that is wrong."""
    problems: dict[str, str] = {}
    for problem in error.errors():
        field, message = _field(problem["loc"]), problem["msg"]
        if part := _PART.match(field):
            # A part is a union: each of its branches complains, and none of the complaints says what is the matter.
            field, message = part[0], _PART_RULE
        where = field or "params"
        is_missing = problem["type"] == "missing" and message is not _PART_RULE
        said = "is missing: it has to be given." if is_missing else f"cannot be used: {_small(message)}."
        problems.setdefault(where, f"{where} {said}")
    return InvalidParamsError(
        next(iter(problems.values())),
        data={"errors": [{"field": field, "message": sentence} for field, sentence in problems.items()]},
    )


def _small(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}"


_PART = re.compile(r"message\.parts\[\d+\]")
_PART_RULE = (
    'this is no part: send {"kind": "text", "text": …}, {"kind": "file", "file": {"uri" or "bytes": …}} '
    'or {"kind": "data", "data": {…}}'
)


def _field(path: tuple[int | str, ...]) -> str:
    """Return the path in the client's words; a union's branches, which begin with a capital, are pydantic's."""
    steps = [step for step in path if isinstance(step, int) or not step[:1].isupper()]
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return field.removeprefix(".").removeprefix("params.")
