"""JSON form of any value, for A2A to transport."""

import math
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from aion_core.errors import AgentFailed
from aion_core.protocol.message_json import to_json
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Part

MAX_LEVELS = 49
"""Maximum number of nested objects and lists in data. protobuf nests at most 100 messages, two for each of them."""


def json_part(value: Any) -> Part:
    """Return a data part with the value as JSON. See `plain_json`.

    Raises AgentFailed for a value nested too deep or one that contains itself. The error names its keys.
    """
    try:
        return ParseDict({"data": plain_json(value)}, Part())
    except (ParseError, ValueError, RecursionError) as error:
        keys = [str(key) for key, item in value.items() if not _fits(item)] if isinstance(value, Mapping) else []
        where = f"the value of {', '.join(f'`{key}`' for key in keys)}" if keys else "a value"
        repeats = "id repeated" in str(error)
        problem = "contains itself" if repeats else f"has more than {MAX_LEVELS} levels of objects and lists"
        raise AgentFailed(f"The agent's data cannot be sent: {where} {problem}.") from error


def _fits(value: Any) -> bool:
    try:
        # Put the value into a list for the check of its depth, because the data part of a message adds one level to it.
        ParseDict({"data": [plain_json(value)]}, Part())
    except (ParseError, ValueError, RecursionError):
        return False
    return True


def plain_json(value: Any) -> Any:
    """Return the value as JSON that A2A can transport.

    Pydantic models, dataclasses, enums, dates, sets and arrays have their JSON forms, and bytes are base64. NaN and
    infinity become None, because JSON has neither. An object without a JSON form becomes its `str`. Raises ValueError
    for a circular reference.
    """
    try:
        return _portable(_jsonable(value))
    except UnicodeDecodeError:
        # Convert pydantic models first, because a model ignores `bytes_mode` and decodes its bytes as UTF-8.
        return _portable(_jsonable(_without_models(value)))


def _jsonable(value: Any) -> Any:
    return to_jsonable_python(value, by_alias=False, bytes_mode="base64", fallback=_fallback)


def _fallback(value: Any) -> Any:
    if isinstance(value, ProtoMessage):
        return to_json(value)
    # Convert arrays and numbers of NumPy and similar libraries, because these objects have a method `tolist`.
    to_list = None if isinstance(value, type) else getattr(value, "tolist", None)
    return to_list() if callable(to_list) else str(value)


def _without_models(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _without_models(value.model_dump())
    if isinstance(value, Mapping):
        return {key: _without_models(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_models(item) for item in value]
    return value


def _portable(value: Any) -> Any:
    """Return the JSON without infinite numbers and NaN, and without halves of surrogate pairs."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, dict):
        return {_portable(key): _portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    return value
