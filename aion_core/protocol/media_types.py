"""Which media types an agent takes and gives, against those of a request (spec 5.5.3, 8). Pure.

Parameters (`; charset=…`) and case make no difference; `*/*` and `text/*` stand for what they stand for in HTTP.
"""

import mimetypes
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from aion_core.errors import ContentTypeNotSupported, InvalidMessage
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.extensions import REQUESTED_EXTENSIONS
from aion_core.protocol.types import AgentCard, Part, SendMessageRequest

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
    """What an agent takes and gives; one that declares nothing takes, or gives, everything."""

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
