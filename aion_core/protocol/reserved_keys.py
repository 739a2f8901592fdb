"""Metadata keys that are reserved for Aion. Pure."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value

M = TypeVar("M", bound=AnyMessage)

RESERVED = "aion:"
REQUESTED_EXTENSIONS = "aion:requestedExtensions"
"""Key in a request's metadata. Its value is the extensions in the `A2A-Extensions` header, for the agent's turn."""

ALLOWED_SKILLS = "aion:allowedSkills"
"""Key in a request's metadata. Its value is the ids of the restricted skills permitted to the caller.

The agent has to check them, since a message names no skill.
"""

NO_AION_EXTENSIONS = "aion:noAionExtensions"
"""Key in a request's metadata. True for an agent without Aion's extensions: its turn reads no Aion payloads."""

STREAMS = "aion:streams"
"""Key in a request's metadata. True if the client sent the message with SendStreamingMessage, for the agent's turn."""

TENANT = "aion:tenant"
"""Key in a request's metadata. Its value is the tenant of the request, for the agent's turn."""

WAITS_FOR = "aion:waitsFor"
"""Key in the metadata of a status message that says what a suspended task waits for. Its value is the wait's key."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Mn", "Me", "Zs", "Zl", "Zp"})
"""Unicode categories of characters that a reader cannot see in a name."""

_BLANK = "\N{HANGUL CHOSEONG FILLER}\N{HANGUL JUNGSEONG FILLER}\N{BRAILLE PATTERN BLANK}"
"""Characters that a reader cannot see either, although their Unicode categories are not in _INVISIBLE."""

MAX_INVISIBLE = 16
"""Maximum number of invisible characters at the start of a metadata key. `is_reserved` is True for a key with more."""


def is_reserved(name: object) -> bool:
    """Return True if a metadata key is reserved for Aion: it begins with `aion:`, or with text that looks like it.

    A key that begins with more than MAX_INVISIBLE invisible characters is reserved too, because skipping millions of
    them would take a second.
    """
    if not isinstance(name, str):
        return False
    left, invisible = RESERVED, 0
    for char in name:
        # Normalise by NFKD: it unifies variants, such as a fullwidth colon, and separates accents from their letters.
        for visible in unicodedata.normalize("NFKD", char).casefold():
            if visible in _BLANK or unicodedata.category(visible) in _INVISIBLE:
                invisible += 1
                if invisible > MAX_INVISIBLE:
                    return True
                continue
            if not left.startswith(visible):
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
    """Return a copy of a JSON value without Aion's reserved keys at any depth."""
    if isinstance(value, Mapping):
        return {key: without_reserved_keys(item) for key, item in value.items() if not is_reserved(key)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [without_reserved_keys(item) for item in value]
    return value


def without_reserved_metadata(message: M) -> M:
    """Return a copy of a protobuf message without reserved keys in its metadata and in its fields' metadata.

    The content of data parts is not changed.
    """
    copy = type(message)()
    copy.CopyFrom(message)
    _clean(copy)
    return copy


def _clean(message: AnyMessage) -> None:
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name == Value.DESCRIPTOR.full_name:
            continue
        if isinstance(value, Struct):
            _clean_struct(value)
        elif isinstance(value, AnyMessage):
            _clean(value)
        else:
            for item in value:
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


ACCEPTED_OUTPUT_MODES = "aion:acceptedOutputModes"
"""Key in a request's metadata. Its value is the configuration's `acceptedOutputModes`, for the agent's turn."""
