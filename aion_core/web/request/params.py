"""Params of a request, parsed strictly into protobuf messages.

Protobuf's parser accepts a text in place of an object, ignores invalid base64, drops unknown enum names, and does not
name the invalid item of a list.
"""

import re
from functools import cache
from typing import Any, NoReturn, TypeVar

from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message as AnyMessage
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.datastructures import QueryParams

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.message_rules import MAX_PARTS, MAX_TEXT_BYTES, TEXT_REMEDY

M = TypeVar("M", bound=AnyMessage)

_BASE64 = re.compile(r"([A-Za-z0-9+/_-]*+)(={0,2})")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_STRUCT, _TIMESTAMP, _VALUE = (f"google.protobuf.{name}" for name in ("Struct", "Timestamp", "Value"))


def read_params(params: Any, model: type[M]) -> M:
    """Parse JSON params into a protobuf message. Ignore unknown fields (A2A 5.7).

    An empty text leaves a field out, also if the field is no text: `status: ""` is as good as `pageToken: ""`. Raises InvalidParamsError with the path of the invalid field, as the client has spelled it.
    """
    if isinstance(params, dict) and "" in params.values():
        scalars = {name for field, names in _fields(model.DESCRIPTOR) if _is_scalar(field) for name in names}
        params = {name: value for name, value in params.items() if value != "" or name not in scalars}
    texts: list[str] = []
    _check_object(params, model.DESCRIPTOR, "", texts)
    # Limit the sum of all texts, including ids and media types: protobuf's parser searches each for lone surrogates,
    # which takes 25 ms per MB.
    if sum(map(len, texts)) > 2 * MAX_TEXT_BYTES:
        raise InvalidParamsError(f"The request has more than {2 * MAX_TEXT_BYTES} characters of text: {TEXT_REMEDY}")
    try:
        return ParseDict(params, model(), ignore_unknown_fields=True)
    except ParseError as error:
        place = re.search(r' at "?[A-Z]\w*\.([\w.\[\]]+)', str(error))
        field = place[1].rstrip(".") if place else ""
        raise invalid_params(f"{field or 'The request'} cannot be used: {_words(error)}.", field) from error


def check_list(values: list[Any], field: str) -> None:
    """Raise InvalidParamsError for a list with too many items. `field` is the list's path in the request."""
    if len(values) > MAX_PARTS:
        name = "parts" if field.rpartition(".")[2] == "parts" else "items"
        raise invalid_params(f"{field} has more than {MAX_PARTS} {name}: send fewer.", field)


def is_base64(text: str) -> bool:
    """Return True if the text is base64 in the standard or the URL-safe alphabet, with or without padding."""
    found = _BASE64.fullmatch(text)
    # Check the length by arithmetic, because a regular expression for groups of four would need much memory.
    left = len(found[1]) % 4 if found else 1
    return found is not None and (left > 1 or (left == 0 and not found[2]))


def read_query(query: QueryParams, model: type[AnyMessage]) -> dict[str, Any]:
    """Return the parameters of a URL query as JSON params for `read_params` (A2A 11.5). Ignore unknown parameters.

    Raises InvalidParamsError for a repeated parameter, and for a text that is not the boolean or number that its field
    requires. `read_params` checks the other values.
    """
    fields: dict[str, Any] = {field.json_name: field for field in model.DESCRIPTOR.fields}
    params: dict[str, Any] = {}
    for name in query:
        if name not in fields:
            continue
        values = query.getlist(name)
        if len(values) > 1:
            raise invalid_params(f"{name} is given {len(values)} times: give it once.", name)
        if values[0]:
            params[name] = _from_text(name, values[0], fields[name])
    return params


def _from_text(name: str, text: str, field: Any) -> Any:
    """Convert a query parameter to the JSON value of its protobuf field: a boolean, a number or a text."""
    if field.type == field.TYPE_BOOL:
        if text not in ("true", "false"):
            raise invalid_params(f"{name} has to be true or false, in lower case.", name)
        return text == "true"
    if field.cpp_type == field.CPPTYPE_INT32:
        if not _WHOLE.fullmatch(text):
            raise invalid_params(f"{name} has to be a whole number below 2^31, in digits.", name)
        return int(text)
    return text


def _check_object(given: Any, descriptor: Any, path: str, texts: list[str]) -> None:
    """Check the types of an object's known fields. Append their texts to `texts`, except those in free JSON values."""
    if not isinstance(given, dict):
        _refuse(path, "an object", given)
    for field, spellings in _fields(descriptor):
        names = [name for name in spellings if name in given]
        if not names or given[names[0]] is None:
            continue
        where = f"{path}.{names[0]}" if path else names[0]
        if len(names) > 1:
            raise invalid_params(f"{where} is given twice, as {names[1]} too: give it once.", where)
        if not field.is_repeated:
            _check_value(given[names[0]], field, where, texts)
            continue
        if not isinstance(given[names[0]], list):
            _refuse(where, "a list", given[names[0]])
        check_list(given[names[0]], where)
        for index, item in enumerate(given[names[0]]):
            _check_value(item, field, f"{where}[{index}]", texts)


@cache
def _fields(descriptor: Any) -> list[tuple[Any, tuple[str, ...]]]:
    """Return the fields of a protobuf message, each with the possible spellings of its name in JSON."""
    return [(field, tuple(dict.fromkeys((field.json_name, field.name)))) for field in descriptor.fields]


def _is_scalar(field: Any) -> bool:
    """Return True for a single value that JSON writes as a text, a number or a boolean."""
    return not field.is_repeated and (field.type != field.TYPE_MESSAGE or field.message_type.full_name == _TIMESTAMP)


def _check_value(value: Any, field: Any, where: str, texts: list[str]) -> None:
    if field.type == field.TYPE_MESSAGE:
        name = field.message_type.full_name
        if name == _STRUCT:
            if not isinstance(value, dict):
                _refuse(where, "an object", value)
        elif name == _TIMESTAMP:
            _check_timestamp(value, where)
        elif name != _VALUE:  # google.protobuf.Value may be any JSON
            _check_object(value, field.message_type, where, texts)
    elif field.type == field.TYPE_ENUM:
        _check_enum(value, field, where)
    elif field.type == field.TYPE_BOOL:
        if not isinstance(value, bool):
            _refuse(where, "true or false", value)
    elif field.cpp_type == field.CPPTYPE_INT32:
        _check_int32(value, where)
    elif not isinstance(value, str):
        _refuse(where, "a text", value)
    elif field.type != field.TYPE_BYTES:
        texts.append(value)
    elif not is_base64(value):
        raise invalid_params(f"{where} is not valid base64.", where)


def _check_enum(value: Any, field: Any, where: str) -> None:
    names = field.enum_type.values_by_name
    if isinstance(value, int) and not isinstance(value, bool) and value in field.enum_type.values_by_number:
        return  # accept an enum's number, as protobuf's JSON does
    if not isinstance(value, str) or value not in names:
        known = ", ".join(name for name, member in names.items() if member.number)
        _refuse(where, f"one of {known}", value, is_text=True)


def _check_timestamp(value: Any, where: str) -> None:
    try:
        if isinstance(value, str):
            Timestamp().FromJsonString(value)
            return
    except ValueError:
        pass
    _refuse(where, "a timestamp such as 2026-01-31T12:00:00.000Z", value, is_text=True)


def _check_int32(value: Any, where: str) -> None:
    # Accept 1.0 and "1" for 1, as protobuf's JSON parser does.
    is_whole = (isinstance(value, int) and not isinstance(value, bool)) or (
        value.is_integer() if isinstance(value, float) else isinstance(value, str) and _WHOLE.fullmatch(value)
    )
    if not is_whole or not -(2**31) <= int(value) < 2**31:
        _refuse(where, "a whole number below 2^31", value)


def _refuse(where: str, expected: str, given: Any, *, is_text: bool = False) -> NoReturn:
    """Raise InvalidParamsError, which describes the expected value and the given value.

    Set `is_text` if the expected value is a text.
    """
    kind = "another text" if is_text and isinstance(given, str) else _kind(given)
    raise invalid_params(f"{where or 'The request'} has to be {expected}, and is {kind}.", where)


def _kind(given: Any) -> str:
    """Describe a refused JSON value by its type, or a number by its digits. Omit texts, because refusals are logged."""
    kinds = {dict: "an object", list: "a list", type(None): "null", str: "a text"}
    return kinds.get(type(given)) or repr(given)[:60]


def _words(error: ParseError) -> str:
    """Return the text of protobuf's parse error, without the names of protobuf types."""
    text = str(error).rpartition(" field: ")[2].strip()
    if several := re.search(r'multiple "(\w+)" oneof', text):
        return f"it has more than one {several[1]}, and may have one"
    text = re.sub(r' at "?[A-Z]\w*\.[\w.\[\]]+"?', "", text).rstrip(".")
    return re.sub(r'^Message type "[\w.]+"', "it", text)[:200]
