"""A request's params as the domain's types: read by protobuf, and refused where protobuf would let pass what is none.

The same for every binding: JSON-RPC's params, a REST body, a REST query.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message as AnyMessage
from google.protobuf.message_factory import GetMessageClass
from starlette.datastructures import QueryParams

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.types import ListTasksRequest, TaskState
from aion_core.tasks.listing import unknown_status

M = TypeVar("M", bound=AnyMessage)

_PARSER_WORDS = 300
"""How much of what a parser says of the client's own input is passed on."""

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?")


def read_params(params: dict[str, Any], model: type[M]) -> M:
    """Return the params as the model; unknown fields are ignored (spec 5.7).

    Raises InvalidParamsError that names the field, by its path in the client's own words.
    """
    _check_raw(params)
    if model is ListTasksRequest:
        _check_status(params)
    try:
        return ParseDict(params, model(), ignore_unknown_fields=True)
    except ParseError as error:
        field = _field(params, model, str(error))
        raise invalid_params(f"{field or 'The request'} cannot be used: {_words(error)}.", field) from error
    except RecursionError as error:
        raise invalid_params("The request is nested too deeply.", "") from error


def read_query(query: QueryParams, model: type[M]) -> dict[str, Any]:
    """Return a query's parameters as params of the model (spec 11.5); those that it does not know are ignored.

    Raises InvalidParamsError for a value that is none of its field's type, and for a parameter given twice, of which
    only one could be meant.
    """
    fields = {field.json_name: field for field in model.DESCRIPTOR.fields}
    params: dict[str, Any] = {}
    for name in query:
        field = fields.get(name)
        if field is None:
            continue
        values = query.getlist(name)
        if field.is_repeated:
            params[name] = [item for value in values for item in value.split(",") if item]
            continue
        if len(values) > 1:
            raise invalid_params(f"{name} is given {len(values)} times: give it once.", name)
        params[name] = _from_text(values[0], field)
    return params


def _from_text(value: str, field: Any) -> Any:
    """Return a query's text as the JSON value that it stands for; others than these are texts in JSON too."""
    name = field.json_name
    if field.type == field.TYPE_BOOL:
        if value not in ("true", "false"):
            raise invalid_params(f"{name} is {value[:40]!r}: give true or false.", name)
        return value == "true"
    if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise invalid_params(f"{name} is {value[:40]!r}: give a whole number.", name)
        return int(value)
    return value


def _check_raw(params: Mapping[str, Any]) -> None:
    """Refuse bytes that are no base64: protobuf's own parser reads past what it does not know."""
    message = params.get("message")
    if not isinstance(message, dict):
        return
    for name in ("parts", "content"):
        parts = message.get(name)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if not isinstance(part, dict):
                continue
            # In v0.3's REST binding the bytes are one level down.
            file = part.get("file")
            held = file if isinstance(file, dict) else part
            for key in ("raw", "fileWithBytes", "file_with_bytes"):
                raw = held.get(key)
                if isinstance(raw, str) and not _BASE64.fullmatch(raw):
                    field = f"message.{name}[{index}].{'' if held is part else 'file.'}{key}"
                    raise invalid_params(f"{field} is no base64.", field)


def _check_status(params: Mapping[str, Any]) -> None:
    """Refuse to list by a status that is none: protobuf's parser leaves it out, and everything would be listed."""
    status = params.get("status")
    if isinstance(status, int) and not isinstance(status, bool):
        return  # protobuf takes numbers too, and passes on those that mean nothing
    if status is not None and status not in TaskState.keys():  # noqa: SIM118  # no mapping
        raise invalid_params(unknown_status(str(status)), "status")


def _words(error: ParseError) -> str:
    """Return what protobuf says of the innermost field, without the names of its own types."""
    said = str(error).rpartition(" field: ")[2].strip()
    said = re.sub(r' at "?[A-Z]\w*\.[\w.\[\]]+"?', "", said).rstrip(".")
    said = said.replace("expected string or bytes-like object, got", "a text is expected, and this is")
    return re.sub(r'^Message type "[\w.]+"', "it", said)[:_PARSER_WORDS]


def _field(given: Any, model: Any, said: str) -> str:
    """Return the path of the field that protobuf could not read; of a list's items it does not say which it was."""
    steps = re.findall(r"Failed to parse (\w+) field", said)
    path = ""
    descriptor = getattr(model, "DESCRIPTOR", None)
    for step in steps:
        path = f"{path}.{step}" if path else step
        given = given.get(step) if isinstance(given, dict) else None
        fields = {field.json_name: field for field in descriptor.fields} if descriptor is not None else {}
        descriptor = fields[step].message_type if step in fields else None
        if isinstance(given, list) and descriptor is not None:
            index = _bad_item(given, GetMessageClass(descriptor))
            if index is None:
                return path
            path, given = f"{path}[{index}]", given[index]
    return path


def _bad_item(items: list[Any], model: Any) -> int | None:
    for index, item in enumerate(items):
        try:
            ParseDict(item, model(), ignore_unknown_fields=True)
        except ParseError:
            return index
    return None
