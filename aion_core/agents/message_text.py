"""Texts of a client's message for the agent's model."""

from aion_core.engine.agent import TurnRequest
from aion_core.protocol.media_types import ANY_FILE, type_of
from aion_core.protocol.types import Part


def text_of(request: TurnRequest) -> str:
    """Return the text parts of the turn's message, joined in order."""
    return "".join(part.text for part in request.message.parts if part.WhichOneof("content") == "text")


def empty_file_text(part: Part) -> str:
    """Return a text for the model about a file of zero bytes, "" for other parts: models refuse an empty file."""
    is_empty = part.WhichOneof("content") == "raw" and not part.raw
    return f"[empty file: {part.filename or type_of(part) or ANY_FILE}]" if is_empty else ""
