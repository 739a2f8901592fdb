"""Arguments of an author's reply, checked and converted to A2A: content, target, metadata."""

from collections.abc import AsyncIterable, Mapping
from typing import Any

from google.protobuf.struct_pb2 import Struct
from pydantic import ValidationError

from aion_core.authoring.a2a_objects import message_of
from aion_core.authoring.json_values import as_value
from aion_core.protocol import types as a2a
from aion_core.protocol.aion.payloads import MessageAction
from aion_core.protocol.reserved_keys import without_reserved_keys

Content = str | AsyncIterable[str] | a2a.Message | Mapping[str, Any]
"""Content of a reply: text, an iterator of text chunks, or an A2A Message (the SDK's class, or v1 or v0.3 JSON)."""

Target = str | Mapping[str, Any]
"""Target of a reply: the id of a conversation in the source network, or a whole MessageActionPayload."""


def action_of_target(given: Mapping[str, Any]) -> MessageAction:
    """Convert the target of a post to a MessageAction. Raises ValueError for an invalid one."""
    try:
        return MessageAction.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(step) for step in problem["loc"])
        raise ValueError(f"post's target is not a MessageActionPayload: {where}: {problem['msg']}.") from error


def metadata_of(given: Mapping[str, Any] | None) -> Struct:
    """Convert the metadata of a reply, without reserved keys. Raises TypeError or ValueError for unsuitable values."""
    if not isinstance(given, Mapping | None):
        raise TypeError(f"reply's metadata is {type(given).__name__}: give it as a dict.")
    return as_value(without_reserved_keys(given or {}), "reply's metadata").struct_value


def message_of_content(content: Any) -> a2a.Message:
    """Convert a reply that is no text to an A2A Message. Raises TypeError, or ValueError if it has no parts."""
    try:
        message = message_of(content)
    except ValueError as error:
        raise TypeError(f"reply takes text, an async iterator of text, or an A2A Message. {error}") from error
    if not message.parts:
        raise ValueError("The message given to reply has no parts: give it at least one.")
    return message
