"""Rules for a message: its size and ids, its media types (spec 5.5.3, 8), and the names that are the server's. Pure.

The numbers bound what one request may cost before an agent has seen it.
"""

import mimetypes
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from aion_core.errors import ContentTypeNotSupported, InvalidMessage
from aion_core.protocol.types import AgentCard, Message, Part, Role, SendMessageRequest

# ── Reserved names ────────────────────────────────────────────────────────────────────────────────────────────────────

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


# ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────

MAX_PARTS = 256
MAX_TEXT_BYTES = 1024 * 1024
MAX_METADATA_BYTES = 64 * 1024

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+=~-]{0,127}")
ID_RULE = "1 to 128 letters, digits or any of _ . : @ / + = ~ - , and begin with a letter or a digit"
"""What `is_id` says yes to."""

_CONTENTS = "one of text, raw, url or data"


def check_request(request: SendMessageRequest, idempotency_key: str = "") -> None:
    """Raise InvalidMessage for the first thing that makes the message unusable, and say how to mend it."""
    if idempotency_key and not is_id(idempotency_key):
        # One that was cut, or made to fit, would make two requests one.
        raise InvalidMessage(f"The header Idempotency-Key has to be {ID_RULE}.", field="Idempotency-Key")
    if not request.HasField("message"):
        raise InvalidMessage(
            'message is missing: send {"message": {"messageId": …, "role": "ROLE_USER", "parts": [{"text": …}]}}.',
            field="message",
        )
    _check_message(request.message)
    _check_metadata(request.metadata, "metadata")
    check_history_length(request.configuration.history_length, "configuration.historyLength")


def check_history_length(length: int, field: str) -> None:
    """Raise InvalidMessage for a length that is none, or that no wire can carry (spec 3.2.4)."""
    if not 0 <= length < 2**31:
        raise InvalidMessage(
            f"{field} is {length}: leave it out for the whole history, or give 0 or more, below 2^31.", field=field
        )


def is_id(value: str) -> bool:
    """Tell whether the text may be an id: 1 to 128 characters of a fixed alphabet."""
    return _ID.fullmatch(value) is not None


def _check_message(message: Message) -> None:
    if not message.message_id:
        raise InvalidMessage(
            "message.messageId is missing: give each message an id of its own, such as a UUID.",
            field="message.messageId",
        )
    for name, value in (
        ("messageId", message.message_id),
        ("contextId", message.context_id),
        ("taskId", message.task_id),
        *(("referenceTaskIds", reference) for reference in message.reference_task_ids),
    ):
        if value and not is_id(value):
            raise InvalidMessage(f"message.{name} has to be {ID_RULE}.", field=f"message.{name}")
    if message.role != Role.ROLE_USER:
        raise InvalidMessage('message.role has to be "ROLE_USER" ("user" in v0.3).', field="message.role")
    if not message.parts:
        raise InvalidMessage(
            f"message.parts is empty: give it at least one part, with {_CONTENTS}.", field="message.parts"
        )
    if len(message.parts) > MAX_PARTS:
        raise InvalidMessage(f"message.parts has more than {MAX_PARTS} parts: send fewer.", field="message.parts")
    for index, part in enumerate(message.parts):
        _check_part(part, f"message.parts[{index}]")
    text_bytes = sum(len(part.text.encode()) for part in message.parts)
    if text_bytes > MAX_TEXT_BYTES:
        raise InvalidMessage(
            f"message.parts hold {text_bytes} bytes of text and may hold {MAX_TEXT_BYTES}: "
            "send a part with the url of a file instead.",
            field="message.parts",
        )
    _check_metadata(message.metadata, "message.metadata")


def _check_part(part: Part, field: str) -> None:
    if part.WhichOneof("content") is None:
        raise InvalidMessage(f"{field} has no content: give it {_CONTENTS}.", field=field)
    if part.WhichOneof("content") == "url" and not part.url:
        raise InvalidMessage(f"{field}.url is empty.", field=f"{field}.url")
    _check_metadata(part.metadata, f"{field}.metadata")


def _check_metadata(metadata: Struct, field: str) -> None:
    if metadata.ByteSize() > MAX_METADATA_BYTES:
        raise InvalidMessage(f"{field} is larger than {MAX_METADATA_BYTES} bytes.", field=field)


# ── Media types ───────────────────────────────────────────────────────────────────────────────────────────────────────

ACCEPTED_OUTPUT_MODES = "aion:acceptedOutputModes"
"""Where a request's metadata holds the `acceptedOutputModes` of its configuration, for the turn to know them."""

ANY_FILE = "application/octet-stream"
"""Declared as an input mode it takes files of every type: bytes are bytes."""

MAX_KEPT = 32
"""How many modes or extensions are kept with a message."""

_WORDS = {
    "text": "text/plain",
    "data": "application/json",
    "file": ANY_FILE,
    "image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
}
"""What cards and clients of the protocol's first versions write, and samples still do."""

_TYPE = re.compile(r"[a-z0-9!#$&^_.+*-]{1,127}/[a-z0-9!#$&^_.+*-]{1,127}")
"""RFC 6838 4.2, and a wildcard."""


@dataclass(frozen=True, slots=True)
class Modes:
    """The media types that an agent takes and gives; an agent without a declaration takes, or gives, all.

    Parameters (`; charset=…`) and case make no difference; `*/*` and `text/*` stand for what they stand for in HTTP.
    """

    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()


def modes_of(card: AgentCard) -> Modes:
    """Return what the card declares: its defaults, and what its skills add to them, for a message names no skill."""
    return Modes(
        tuple(_each_once([*card.default_input_modes, *(mode for skill in card.skills for mode in skill.input_modes)])),
        tuple(
            _each_once([*card.default_output_modes, *(mode for skill in card.skills for mode in skill.output_modes)])
        ),
    )


def negotiate(request: SendMessageRequest, modes: Modes, extensions: Collection[str] = ()) -> None:
    """Refuse a message that the agent does not take, or whose answer it cannot give; keep with it what was asked for.

    The turn may run in another process: what the client accepts, and the extensions that it asks for, go with the
    message's metadata, under keys of the server's. Raises InvalidMessage or ContentTypeNotSupported.
    """
    check_parts(request.message.parts, modes.takes)
    accepted = list(request.configuration.accepted_output_modes)
    check_accepted(accepted, modes.gives)
    for key, asked_for in ((ACCEPTED_OUTPUT_MODES, accepted), (REQUESTED_EXTENSIONS, sorted(extensions))):
        if asked_for:
            request.metadata.update({key: asked_for[:MAX_KEPT]})
        elif key in request.metadata.fields:
            del request.metadata.fields[key]


def check_parts(parts: Iterable[Part], takes: Collection[str]) -> None:
    """Raise ContentTypeNotSupported for the first part of a type that is not taken, InvalidMessage for what is none."""
    # Here: PushFunction checks ids by this file, and loads no pydantic.
    from aion_core.protocol.aion.extensions import is_payload

    for index, part in enumerate(parts):
        field = f"message.parts[{index}]"
        given = type_of(part)
        if given is None:
            raise InvalidMessage(
                f'{field}.mediaType is no media type: write it as in "text/plain" or "image/png".',
                field=f"{field}.mediaType",
            )
        # An event of the Aion extensions is no content: an agent of text takes a command too.
        if takes and not is_payload(part) and not _is_taken(part, given, takes):
            raise ContentTypeNotSupported(f"{field} is {given}; this agent takes {', '.join(takes)}.")


def check_accepted(accepted: Collection[str], gives: Collection[str]) -> None:
    """Raise ContentTypeNotSupported where the agent gives nothing that is accepted; where nothing is said, all is."""
    if (
        accepted
        and gives
        and not any(_matches(_essence(wanted), _essence(given)) for wanted in accepted for given in gives)
    ):
        raise ContentTypeNotSupported(
            f"configuration.acceptedOutputModes holds nothing that this agent gives, which is {', '.join(gives)}. "
            "Add one of these, or leave it out."
        )


def type_of(part: Part) -> str | None:
    """Return the part's media type without parameters, in small letters; None where it states one that is none.

    A part is of one type: a wildcard is none. Where it states none, it follows from the content: of a file, from its
    name (R84).
    """
    if part.media_type:
        stated = _essence(part.media_type)
        return None if stated is None or "*" in stated else stated
    match part.WhichOneof("content"):
        case "text":
            return "text/plain"
        case "data":
            return "application/json"
    guessed, encoding = guessed_type(part.filename)
    # `report.csv.gz` is no CSV.
    return guessed if guessed and not encoding else ANY_FILE


def guessed_type(name: str) -> tuple[str | None, str | None]:
    """Return the media type that a file's name tells, and its encoding, such as gzip; None for what it does not tell."""
    if sys.version_info >= (3, 13):
        # What takes URLs too has them parsed from here on, and urllib remembers what it has parsed: the next caller's
        # process would hold the names of this one's files.
        return mimetypes.guess_file_type(name)
    return mimetypes.guess_type(name)


def _is_taken(part: Part, given: str, takes: Collection[str]) -> bool:
    declared = [_essence(mode) for mode in takes]
    is_file = part.WhichOneof("content") in ("raw", "url")
    return any(_matches(given, mode) for mode in declared) or (is_file and ANY_FILE in declared)


def _essence(given: str) -> str | None:
    essence = given.partition(";")[0].strip().lower()
    essence = _WORDS.get(essence, essence)
    return essence if _TYPE.fullmatch(essence) else None


def _matches(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    return all(a == b or "*" in (a, b) for a, b in zip(one.split("/"), other.split("/"), strict=True))


def _each_once(modes: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(modes)
