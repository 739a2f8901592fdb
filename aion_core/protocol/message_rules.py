"""Rules for a message: limits, ids, media types (A2A 5.5.3, 8), ids of interrupts, and reserved names. Pure.

The limits bound the cost of a request before it reaches an agent.
"""

import mimetypes
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

import msgspec
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from aion_core.errors import ContentTypeNotSupported, InputNotRequired, InvalidMessage
from aion_core.protocol.types import AgentCard, Message, Part, Role, SendMessageRequest

# ── Answers to interrupts ─────────────────────────────────────────────────────────────────────────────────────────────

INTERRUPT_ID = "interruptId"
"""Key in the metadata of a message or part. Its value is the id of the interrupt that it asks or answers."""


def interrupt_id_of(named: Message | Part) -> str:
    """Return the interrupt id from the metadata of a message or part; "" if it is missing or null."""
    name = named.metadata[INTERRUPT_ID] if INTERRUPT_ID in named.metadata.fields else None
    return "" if name is None else str(name)


def names_interrupt(message: Message) -> bool:
    """Return True if the message or one of its parts has an interrupt id: it answers a question."""
    return bool(interrupt_id_of(message)) or any(map(interrupt_id_of, message.parts))


def input_not_required() -> InputNotRequired:
    """Return the error for a message that names an interrupt, although none waits for an answer."""
    return InputNotRequired(
        f"No question waits for an answer now: it may have been answered already. GetTask returns the task's state. Send "
        f"the message without metadata.{INTERRUPT_ID} if it answers no question."
    )


# ── Reserved names ────────────────────────────────────────────────────────────────────────────────────────────────────

RESERVED = "aion:"

REQUESTED_EXTENSIONS = "aion:requestedExtensions"
"""Key in a request's metadata. Its value is the extensions in the `A2A-Extensions` header, for the agent's turn."""

ALLOWED_SKILLS = "aion:allowedSkills"
"""Key in a request's metadata. Its value is the ids of the restricted skills permitted to the caller.

The agent has to check them, since a message names no skill.
"""

NO_AION_EXTENSIONS = "aion:noAionExtensions"
"""Key in a request's metadata. True for an agent without Aion's extensions: its turn reads no Aion payloads."""

TENANT = "aion:tenant"
"""Key in a request's metadata. Its value is the tenant of the request, for the agent's turn."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Mn", "Me", "Zs", "Zl", "Zp"})
"""Unicode categories of characters that a reader cannot see in a name."""
_BLANK = "\N{HANGUL CHOSEONG FILLER}\N{HANGUL JUNGSEONG FILLER}\N{BRAILLE PATTERN BLANK}"
"""Characters that a reader cannot see either, although their Unicode categories are not in _INVISIBLE."""

MAX_INVISIBLE = 16
"""Maximum number of invisible characters at the start of a metadata key. `is_reserved` is True for a key with more."""

M = TypeVar("M", bound=AnyMessage)


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


# ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────

MAX_PARTS = 256
MAX_TEXT_BYTES = 1024 * 1024
"""Maximum size of the texts, file names, media types and URLs of a message's parts together."""
TEXT_REMEDY = "send a part with the url of a file instead."
MAX_METADATA_BYTES = 64 * 1024

MAX_ID_BYTES = 512
"""Maximum length of an id in UTF-8. A key of the table has at most 1024 bytes in its sort key (DynamoDB)."""
ID_RULE = f"a text of 1 to {MAX_ID_BYTES} bytes in UTF-8, without the character NUL"
"""Rule that `is_id` checks, as text for error messages."""

_CONTENTS = "one of text, raw, url or data"


def check_request(request: SendMessageRequest, idempotency_key: str = "") -> None:
    """Check the fields of a SendMessage request. Raises InvalidMessage for the first invalid field, with a remedy."""
    if idempotency_key and not is_id(idempotency_key):
        # Refuse an invalid Idempotency-Key. A corrected key could equal the key of another request.
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
    """Raise InvalidMessage if a requested history length is not between 0 and 2^31 - 1 (A2A 3.2.4)."""
    if not 0 <= length < 2**31:
        raise InvalidMessage(
            f"{field} is {length}: leave it out for the whole history, or give 0 or more, below 2^31.", field=field
        )


def is_id(value: str) -> bool:
    """Return True if the text is a valid id: any text (A2A 4.1.4) up to a maximum length."""
    # Refuse NUL, which separates ids in keys and hashes. `surrogatepass` encodes lone surrogates, which UTF-8 cannot.
    return "\0" not in value and 0 < len(value.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES


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
            "message.parts is empty: give it at least one part, such as a text.", field="message.parts"
        )
    if len(message.parts) > MAX_PARTS:
        raise InvalidMessage(f"message.parts has more than {MAX_PARTS} parts: send fewer.", field="message.parts")
    for index, part in enumerate(message.parts):
        _check_part(part, f"message.parts[{index}]")
    texts = (text for part in message.parts for text in (part.text, part.filename, part.media_type, part.url))
    text_bytes = sum(len(text.encode()) for text in texts)
    if text_bytes > MAX_TEXT_BYTES:
        raise InvalidMessage(
            f"message.parts hold {text_bytes} bytes of text and may hold {MAX_TEXT_BYTES}: {TEXT_REMEDY}",
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
"""Key in a request's metadata. Its value is the configuration's `acceptedOutputModes`, for the agent's turn."""

ANY_FILE = "application/octet-stream"
"""Media type of a file of unknown type. An agent with this input mode accepts files of every type."""

MAX_STORED = 32
"""Maximum number of output modes in a request's metadata. The same maximum applies to extensions."""

MAX_NAME = 255
"""Number of characters at the end of a file name from which its media type is guessed."""

_WORDS = {
    "text": "text/plain",
    "data": "application/json",
    "file": ANY_FILE,
    "image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "image/jpg": "image/jpeg",
}
"""Media types by their other names: short names, which samples, and cards and clients of the first protocol versions
use, and names of browsers and of Python, which models refuse."""

_TYPE = re.compile(r"[a-z0-9!#$&^_.+*-]{1,127}/[a-z0-9!#$&^_.+*-]{1,127}")
"""Matches a media type, or a wildcard such as `text/*` (RFC 6838 4.2)."""

_URL = re.compile(r"data:(?P<type>[^;,*]*)[;,]|[a-z][a-z0-9+.-]*://[^/?#]*(?P<path>[^?#]*)", re.IGNORECASE)
"""Matches the media type of a data URL, or the path of another URL."""


class Modes(msgspec.Struct, frozen=True):
    """Media types of an agent's input and output. An empty tuple allows all types.

    Parameters (`; charset=…`) and letter case are ignored. `*/*` and `text/*` are wildcards as in HTTP. Markdown and
    HTML are text: `text/plain` includes them.
    """

    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()


def modes_of(card: AgentCard) -> Modes:
    """Return the default media types of a card and those of all its skills, because a message names no skill."""
    return Modes(
        tuple(_each_once([*card.default_input_modes, *(mode for skill in card.skills for mode in skill.input_modes)])),
        tuple(
            _each_once([*card.default_output_modes, *(mode for skill in card.skills for mode in skill.output_modes)])
        ),
    )


def negotiate(request: SendMessageRequest, modes: Modes, extensions: Collection[str] = ()) -> None:
    """Check a request against the agent's media types. Store its accepted modes and extensions in its metadata.

    The agent's turn may run in another process, which reads them from the metadata. Raises InvalidMessage or
    ContentTypeNotSupported.
    """
    check_parts(request.message.parts, modes.takes)
    accepted = list(request.configuration.accepted_output_modes)
    check_accepted(accepted, modes.gives)
    for key, values in ((ACCEPTED_OUTPUT_MODES, accepted), (REQUESTED_EXTENSIONS, sorted(extensions))):
        if values:
            request.metadata.update({key: values[:MAX_STORED]})
        elif key in request.metadata.fields:
            del request.metadata.fields[key]


def check_parts(parts: Iterable[Part], takes: Collection[str]) -> None:
    """Check the media types of message parts against the agent's input types.

    Raises ContentTypeNotSupported for an unsupported part, and InvalidMessage for an invalid media type.
    """
    # Import here, because PushFunction uses this file to check ids, but must not load pydantic.
    from aion_core.protocol.aion.extensions import is_payload

    for index, part in enumerate(parts):
        field = f"message.parts[{index}]"
        given = type_of(part)
        if given is None:
            raise InvalidMessage(
                f'{field}.mediaType is not a media type: write it like "text/plain" or "image/png".',
                field=f"{field}.mediaType",
            )
        # Do not check the media type of an Aion event's payload, because it is not content for the agent.
        if takes and not is_payload(part) and not _is_taken(part, given, takes):
            raise ContentTypeNotSupported(f"{field} is {given}; this agent accepts {', '.join(takes)}.")


def check_accepted(accepted: Collection[str], gives: Collection[str]) -> None:
    """Raise ContentTypeNotSupported if a client accepts none of the agent's output types. An empty list accepts all."""
    if (
        accepted
        and gives
        and not any(_matches(_essence(wanted), _essence(given)) for wanted in accepted for given in gives)
    ):
        raise ContentTypeNotSupported(
            f"configuration.acceptedOutputModes has no output mode of this agent: {', '.join(gives)}. "
            "Add one of them, or omit the field."
        )


def type_of(part: Part) -> str | None:
    """Return a message part's media type in lower case, without parameters; None if it is invalid.

    A wildcard is invalid. Without a stated type, the type is derived from the content, or from the name or URL of a
    file.
    """
    if part.media_type:
        stated = _essence(part.media_type)
        return None if stated is None or "*" in stated else stated
    match part.WhichOneof("content"):
        case "text":
            return "text/plain"
        case "data":
            return "application/json"
    return _guessed_type(part) or ANY_FILE


def _guessed_type(part: Part) -> str | None:
    """Guess a file's media type from its data URL, or from the extension of its name or of its URL's path."""
    url = _URL.match(part.url)
    if url and url["type"]:
        return _essence(url["type"])
    # Use only the end of the name, because Python is slow for a long name that begins with many dots.
    name = (part.filename or (url["path"] if url else None) or "")[-MAX_NAME:]
    if sys.version_info >= (3, 13):
        # Do not use `guess_type`: from Python 3.13 on it parses names as URLs, and urllib caches them, so that file
        # names would stay in memory.
        guessed, encoding = mimetypes.guess_file_type(name)
    else:
        guessed, encoding = mimetypes.guess_type(name)
    # Ignore the guess for a file with an encoding: `report.csv.gz` is not a CSV file.
    return _essence(guessed) if guessed and not encoding else None


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
    if {one, other} in ({"text/plain", "text/markdown"}, {"text/plain", "text/html"}):
        # Accept these pairs, because a model reads and writes Markdown and HTML as plain text.
        return True
    return all(a == b or "*" in (a, b) for a, b in zip(one.split("/"), other.split("/"), strict=True))


def _each_once(modes: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(modes)
