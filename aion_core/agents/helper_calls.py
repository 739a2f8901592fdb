"""Calls of the author's helpers, such as `thread.reply`, as events of a turn."""

from msgspec import Struct

from aion_core.protocol.types import Message


class ReplyChunk(Struct, frozen=True):
    """Text chunk of a reply that a helper of the author's code streams."""

    text: str
    message_id: str
    site: str = ""
    """Call site: name of the running code, such as LangGraph's `running_node`. Code that runs again has the same name.
    "" if the framework knows none."""
    agent: str = ""
    """Name of the ADK agent."""
    branch: str = ""
    """Branch of the ADK agent."""


class StreamAborted(Struct, frozen=True):
    """Notice that a streamed reply or model message was aborted and stays incomplete."""

    message_id: str


class DurableReply(Struct, frozen=True):
    """Complete reply from a helper of the author's code. It is recorded in the task's event log."""

    message: Message
    site: str
    """Call site. See `ReplyChunk`."""
    agent: str = ""
    """Name of the ADK agent."""


class Reaction(Struct, frozen=True):
    """Reaction of the agent to a message, such as an emoji."""

    key: str
    message_id: str
    site: str
    """Call site. See `ReplyChunk`."""


class TypingSignal(Struct, frozen=True):
    """Request to show a typing indicator to clients."""


HelperCall = ReplyChunk | StreamAborted | DurableReply | Reaction | TypingSignal
"""Any call of a helper."""
