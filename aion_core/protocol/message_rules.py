"""Limits of a message, which bound the cost of a request before it reaches an agent. Pure."""

from google.protobuf.struct_pb2 import Struct

from aion_core.errors import InvalidMessage
from aion_core.protocol.ids import ID_RULE, is_id
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest

MAX_PARTS = 256

MAX_TEXT_BYTES = 1024 * 1024
"""Maximum size of the texts, file names, media types and URLs of a message's parts together."""

TEXT_REMEDY = "send a part with the url of a file instead."
MAX_METADATA_BYTES = 64 * 1024
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


def _check_message(message: Message) -> None:
    if not message.message_id:
        raise InvalidMessage(
            "message.messageId is missing: give each message its own id, such as a UUID.",
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
            f"message.parts has {text_bytes} bytes of text, and may have {MAX_TEXT_BYTES}: {TEXT_REMEDY}",
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
