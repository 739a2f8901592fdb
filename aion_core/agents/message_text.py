"""Text in A2A messages."""

from aion_core.engine.agent import TurnRequest
from aion_core.protocol.media_types import ANY_FILE, type_of
from aion_core.protocol.types import Message, Part


def text_of(request: TurnRequest) -> str:
    """Return the text parts of the turn's message, joined in order."""
    return words_of(request.message)


def words_of(message: Message) -> str:
    """Return the text parts of a message, joined in order."""
    return "".join(part.text for part in message.parts)


def empty_file_text(part: Part) -> str:
    """Return a text for the model about a file of zero bytes, "" for other parts: models refuse an empty file."""
    is_empty = part.WhichOneof("content") == "raw" and not part.raw
    return f"[empty file: {part.filename or type_of(part) or ANY_FILE}]" if is_empty else ""
