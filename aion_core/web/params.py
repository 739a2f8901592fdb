"""A request's params as the domain's types: read by protobuf, once each field is seen to be of its type.

Protobuf's own reader takes a text for an object, reads past what is no base64, and leaves out an enum's name that it
does not know; and it does not say which item of a list it could not read. It is the same for every binding:
JSON-RPC's params, a REST body, a REST query.
"""

import re
from typing import Any, NoReturn, TypeVar

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message as AnyMessage
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.datastructures import QueryParams

from aion_core.protocol.errors import invalid_params

M = TypeVar("M", bound=AnyMessage)

BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?")
"""What is base64, of either alphabet, padded or not."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_STRUCT, _TIMESTAMP, _VALUE = (f"google.protobuf.{name}" for name in ("Struct", "Timestamp", "Value"))


def read_params(params: Any, model: type[M]) -> M:
    """Return the params as the model; unknown fields are ignored (spec 5.7).

    Raises InvalidParamsError that names the field, by its path in the client's own words.
    """
    _check_object(params, model.DESCRIPTOR, "")
    try:
        return ParseDict(params, model(), ignore_unknown_fields=True)
    except ParseError as error:
        place = re.search(r' at "?[A-Z]\w*\.([\w.\[\]]+)', str(error))
        field = place[1].rstrip(".") if place else ""
        raise invalid_params(f"{field or 'The request'} cannot be used: {_words(error)}.", field) from error


def read_query(query: QueryParams, model: type[AnyMessage]) -> dict[str, Any]:
    """Return a query's parameters as params of the model (spec 11.5); those that it does not know are ignored.

    Raises InvalidParamsError for a value that is none of its field's type, and for a parameter given twice, of which
    only one could be meant.
    """
    fields: dict[str, Any] = {field.json_name: field for field in model.DESCRIPTOR.fields}
    params: dict[str, Any] = {}
    for name in query:
        if name not in fields:
            continue
        values = query.getlist(name)
        if len(values) > 1:
            raise invalid_params(f"{name} is given {len(values)} times: give it once.", name)
        params[name] = _from_text(values[0], fields[name])
    return params


def _from_text(text: str, field: Any) -> Any:
    """Return a query's text as the JSON value that it stands for; others than these are texts in JSON too."""
    if field.type == field.TYPE_BOOL:
        return {"true": True, "false": False}.get(text, text)
    if field.cpp_type == field.CPPTYPE_INT32 and _WHOLE.fullmatch(text):
        return int(text)
    return text


def _check_object(given: Any, descriptor: Any, path: str) -> None:
    if not isinstance(given, dict):
        _refuse(path, "an object", given)
    for field in descriptor.fields:
        names = [name for name in dict.fromkeys((field.json_name, field.name)) if name in given]
        if not names or given[names[0]] is None:
            continue
        where = f"{path}.{names[0]}" if path else names[0]
        if len(names) > 1:
            raise invalid_params(f"{where} is given twice, as {names[1]} too: give it once.", where)
        if not field.is_repeated:
            _check_value(given[names[0]], field, where)
            continue
        if not isinstance(given[names[0]], list):
            _refuse(where, "a list", given[names[0]])
        for index, item in enumerate(given[names[0]]):
            _check_value(item, field, f"{where}[{index}]")


def _check_value(value: Any, field: Any, where: str) -> None:
    if field.type == field.TYPE_MESSAGE:
        name = field.message_type.full_name
        if name == _STRUCT:
            if not isinstance(value, dict):
                _refuse(where, "an object", value)
        elif name == _TIMESTAMP:
            _check_timestamp(value, where)
        elif name != _VALUE:  # which may be anything
            _check_object(value, field.message_type, where)
    elif field.type == field.TYPE_ENUM:
        _check_enum(value, field, where)
    elif field.type == field.TYPE_BOOL:
        if not isinstance(value, bool):
            _refuse(where, "true or false", value)
    elif field.cpp_type == field.CPPTYPE_INT32:
        _check_int32(value, where)
    elif not isinstance(value, str):
        _refuse(where, "a text", value)
    elif field.type == field.TYPE_BYTES and not BASE64.fullmatch(value):
        raise invalid_params(f"{where} is no base64.", where)


def _check_enum(value: Any, field: Any, where: str) -> None:
    names = field.enum_type.values_by_name
    if isinstance(value, int) and not isinstance(value, bool) and value in field.enum_type.values_by_number:
        return  # protobuf takes numbers too
    if not isinstance(value, str) or value not in names:
        known = ", ".join(name for name, member in names.items() if member.number)
        raise invalid_params(f"{where} is {_kind(value)} that is none of {known}.", where)


def _check_timestamp(value: Any, where: str) -> None:
    try:
        if isinstance(value, str):
            Timestamp().FromJsonString(value)
            return
    except ValueError:
        pass
    _refuse(where, "a timestamp such as 2026-01-31T12:00:00.000Z", value)


def _check_int32(value: Any, where: str) -> None:
    # JSON has one kind of number: 1.0 is a whole one. Protobuf's JSON may put it as a text.
    is_whole = (isinstance(value, int) and not isinstance(value, bool)) or (
        value.is_integer() if isinstance(value, float) else isinstance(value, str) and _WHOLE.fullmatch(value)
    )
    if not is_whole or not -(2**31) <= int(value) < 2**31:
        _refuse(where, "a whole number below 2^31", value)


def _refuse(where: str, expected: str, given: Any) -> NoReturn:
    raise invalid_params(f"{where or 'The request'} has to be {expected}, and is {_kind(given)}.", where)


def _kind(given: Any) -> str:
    """Return what kind of value it is, a number as it is; no text, for a refusal is kept where a message is not."""
    kinds = {dict: "an object", list: "a list", type(None): "null", str: "a text"}
    return kinds.get(type(given)) or repr(given)[:60]


def _words(error: ParseError) -> str:
    """Return what protobuf says of the field, without the names of its own types."""
    said = str(error).rpartition(" field: ")[2].strip()
    if several := re.search(r'multiple "(\w+)" oneof', said):
        return f"it has more than one {several[1]}, and may have one"
    said = re.sub(r' at "?[A-Z]\w*\.[\w.\[\]]+"?', "", said).rstrip(".")
    return re.sub(r'^Message type "[\w.]+"', "it", said)[:200]
