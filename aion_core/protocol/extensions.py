"""Names that are the server's own: those that begin with `aion:`, in whatever letters they are written. Pure."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value

RESERVED = "aion:"

REQUESTED_EXTENSIONS = "aion:requestedExtensions"
"""Where a request's metadata holds the extensions that its `A2A-Extensions` header names, for the turn to know them."""

ALLOWED_SKILLS = "aion:allowedSkills"
"""Where a request's metadata holds the ids of those skills that require more than the agent does, and that its caller may
use: a message does not say which skill it asks for, so the agent has to know."""

_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Mn", "Me", "Zs", "Zl", "Zp"})
"""Categories of characters that show nothing of their own: of a name with them a reader sees the name without them."""
_BLANK = "\N{HANGUL CHOSEONG FILLER}\N{HANGUL JUNGSEONG FILLER}\N{BRAILLE PATTERN BLANK}"
"""Letters and signs that show nothing either."""

M = TypeVar("M", bound=AnyMessage)


def is_reserved(name: object) -> bool:
    """Return whether the name is the server's: it begins with `aion:`, or with what reads like it."""
    if not isinstance(name, str):
        return False
    left = RESERVED
    for char in name:
        # NFKD makes one of what Unicode writes in several ways, such as a fullwidth colon, and parts a letter's marks.
        for shown in unicodedata.normalize("NFKD", char).casefold():
            if shown in _BLANK or unicodedata.category(shown) in _UNSEEN:
                continue
            if not left.startswith(shown):
                return False
            left = left[1:]
            if not left:
                return True
    return False


@overload
def without_reserved_keys(value: Mapping[str, Any]) -> dict[str, Any]: ...


@overload
def without_reserved_keys(value: Any) -> Any: ...


def without_reserved_keys(value: Any) -> Any:
    """Return the JSON value without the server's keys, at every depth; what came in stays as it was (R71, R76)."""
    if isinstance(value, Mapping):
        return {key: without_reserved_keys(held) for key, held in value.items() if not is_reserved(key)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [without_reserved_keys(held) for held in value]
    return value


def without_reserved_metadata(message: M) -> M:
    """Return a copy without the server's keys in its metadata, and in that of all it holds.

    What a data part carries is content, and stays whole.
    """
    copy = type(message)()
    copy.CopyFrom(message)
    _clean(copy)
    return copy


def _clean(message: AnyMessage) -> None:
    for field, held in message.ListFields():
        if field.message_type is None or field.message_type.full_name == Value.DESCRIPTOR.full_name:
            continue
        if isinstance(held, Struct):
            _clean_struct(held)
        elif isinstance(held, AnyMessage):
            _clean(held)
        else:
            for item in held:
                _clean(item)


def _clean_struct(struct: Struct) -> None:
    for key in [key for key in struct.fields if is_reserved(key)]:
        del struct.fields[key]
    for value in struct.fields.values():
        _clean_value(value)


def _clean_value(value: Value) -> None:
    if value.HasField("struct_value"):
        _clean_struct(value.struct_value)
    elif value.HasField("list_value"):
        _clean_list(value.list_value)


def _clean_list(values: ListValue) -> None:
    for value in values.values:
        _clean_value(value)
