"""What a message may hold: the size of its parts, the alphabet of its ids, the things it must not leave out. Pure.

The numbers bound what one request may cost before an agent has seen it.
"""

import re

from google.protobuf.struct_pb2 import Struct

from aion_core.errors import InvalidMessage
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest

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
