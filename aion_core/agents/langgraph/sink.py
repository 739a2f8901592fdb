"""What an author's helpers say, put in line with everything else that the graph streams.

The replies travel through LangGraph's own custom stream, from whatever node says them, so that their order is the
graph's, and a node that runs again says them under the same key.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from uuid_utils.compat import uuid7

from aion_core.authoring.context import Message, Thread, User
from aion_core.authoring.emit import hand, running_node
from aion_core.ports import Asked
from aion_core.protocol import types as a2a


@dataclass(frozen=True, slots=True)
class ChunkSaid:
    """A chunk of a reply, as it comes."""

    text: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Replied:
    """A durable reply."""

    message: a2a.Message
    node: str


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction to a message."""

    key: str
    message_id: str
    node: str


@dataclass(frozen=True, slots=True)
class IsTyping:
    """The agent is writing."""


class StreamSink:
    """`authoring.context.ReplySink` of one turn of a graph."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def next_message_id(self) -> str:
        """See `ReplySink.next_message_id`."""
        return str(uuid7())

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """See `ReplySink.chunk`."""
        get_stream_writer()(ChunkSaid(text, message_id))

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """See `ReplySink.streaming`; LangGraph does not stream a model that is called under its `nostream` tag."""
        config = var_child_runnable_config.get() or {}
        quiet = var_child_runnable_config.set({**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]})
        try:
            yield
        finally:
            with suppress(ValueError):
                var_child_runnable_config.reset(quiet)

    async def reply(self, message: a2a.Message, *, target: str | None) -> None:
        """See `ReplySink.reply`; where it goes is kept with it, for whoever distributes it."""
        if target is not None:
            message.metadata.update({TARGET: target})
        hand(get_stream_writer(), Replied(message, running_node()))

    async def react(self, key: str, *, message_id: str) -> None:
        """See `ReplySink.react`."""
        hand(get_stream_writer(), Reacted(key, message_id, running_node()))

    async def typing(self) -> None:
        """See `ReplySink.typing`."""
        get_stream_writer()(IsTyping())

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[Message]:
        """See `ReplySink.history`: of the task, whose messages are at hand."""
        said = list(self._asked.task.history)
        if before is not None:
            place = next((n for n, message in enumerate(said) if message.message_id == before), len(said))
            said = said[:place]
        owner = self._asked.context.owner
        return [Message(raw=message, user=User(owner), thread=thread) for message in said[max(0, len(said) - limit) :]]


TARGET = "aion:target"
"""Where a reply goes, in its metadata; the server's to set."""
