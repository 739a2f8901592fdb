"""Media types of messages and agents (A2A 5.5.3, 8). Pure."""

import mimetypes
import re
import sys
from collections.abc import Collection, Iterable

import msgspec

from aion_core.errors import ContentTypeNotSupported, InvalidMessage
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.reserved_keys import ACCEPTED_OUTPUT_MODES, REQUESTED_EXTENSIONS
from aion_core.protocol.types import AgentCard, Part, SendMessageRequest

ANY_FILE = "application/octet-stream"
"""Media type of a file of unknown type. An agent with this input mode accepts files of every type."""

JSON = "application/json"
"""Media type of data. An agent with this input mode also accepts data of a type based on JSON (RFC 6839 3.1)."""

MAX_STORED = 32
"""Maximum number of output modes in a request's metadata. The same maximum applies to extensions."""

MAX_NAME = 255
"""Number of characters at the end of a file name from which its media type is guessed."""

_WORDS = {
    "text": "text/plain",
    "data": JSON,
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
    """Check a request against the media types of every message. Store its accepted modes and extensions in its metadata.

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
            f"configuration.acceptedOutputModes contains none of this agent's output modes: {', '.join(gives)}. "
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
            return JSON
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
    declared, content = [_essence(mode) for mode in takes], part.WhichOneof("content")
    is_any_file = content in ("raw", "url") and ANY_FILE in declared
    is_json = content == "data" and given.endswith("+json") and JSON in declared
    return is_any_file or is_json or any(_matches(given, mode) for mode in declared)


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
