"""JSON form of any value, for A2A to transport."""

import math
from collections.abc import Callable, Mapping, Sequence
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


def json_part(value: Any, *, strict: bool = False) -> Part:
    """Return a data part with the value as JSON. See `plain_json`.

    Raises AgentFailed for a value nested too deep, one that contains itself, or, with `strict`, one that has no JSON
    form. The error names its keys.
    """
    try:
        return ParseDict({"data": plain_json(value, strict=strict)}, Part())
    except NoJsonForm as error:
        keys = [str(key) for key, item in value.items() if not _has_form(item)] if isinstance(value, Mapping) else []
        raise AgentFailed(f"The agent's data cannot be sent: {_named(keys)} has no JSON form ({error}).") from error
    except (ParseError, ValueError, RecursionError) as error:
        keys = [str(key) for key, item in value.items() if not _fits(item)] if isinstance(value, Mapping) else []
        repeats = "id repeated" in str(error)
        problem = "contains itself" if repeats else f"has more than {MAX_LEVELS} levels of objects and lists"
        raise AgentFailed(f"The agent's data cannot be sent: {_named(keys)} {problem}.") from error


def _named(keys: Sequence[str]) -> str:
    return f"the value of {', '.join(f'`{key}`' for key in keys)}" if keys else "a value"


def _has_form(value: Any) -> bool:
    try:
        plain_json(value, strict=True)
    except NoJsonForm:
        return False
    except (ValueError, RecursionError):
        return True
    return True


def _fits(value: Any) -> bool:
    try:
        # Put the value into a list for the check of its depth, because the data part of a message adds one level to it.
        ParseDict({"data": [plain_json(value)]}, Part())
    except (ParseError, ValueError, RecursionError):
        return False
    return True


class NoJsonForm(TypeError):
    """An object has no JSON form. The error's text is the name of its class."""


def plain_json(value: Any, *, strict: bool = False) -> Any:
    """Return the value as JSON that A2A can transport.

    Pydantic models, dataclasses, enums, dates, sets and arrays have their JSON forms, and bytes are base64. NaN and
    infinity become None, because JSON has neither. An object without a JSON form becomes its `str`; with `strict` it
    raises NoJsonForm. Raises ValueError for a circular reference.
    """
    fallback = _strict if strict else _as_text
    try:
        return _portable(_jsonable(value, fallback))
    except UnicodeDecodeError:
        # Convert pydantic models first, because a model ignores `bytes_mode` and decodes its bytes as UTF-8.
        return _portable(_jsonable(_without_models(value), fallback))


def _jsonable(value: Any, fallback: Callable[[Any], Any]) -> Any:
    return to_jsonable_python(value, by_alias=False, bytes_mode="base64", fallback=fallback)


def _as_text(value: Any) -> Any:
    try:
        return _strict(value)
    except NoJsonForm:
        return str(value)


def _strict(value: Any) -> Any:
    if isinstance(value, ProtoMessage):
        return to_json(value)
    # Convert arrays and numbers of NumPy and similar libraries, because these objects have a method `tolist`.
    to_list = None if isinstance(value, type) else getattr(value, "tolist", None)
    if not callable(to_list):
        raise NoJsonForm(type(value).__name__)
    return to_list()


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
