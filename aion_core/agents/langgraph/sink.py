"""What an author's helpers say, put in line with everything else that the graph streams.

The replies travel through LangGraph's own custom stream, from whatever node says them, so that their order is the
graph's, and a node that runs again says them under the same key.
"""

import uuid
from collections import Counter
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
class BrokeOff:
    """No more comes of what was being said under this id, a reply or a model's message: it is not whole."""

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
        self._replies: Counter[str] = Counter()

    def next_message_id(self) -> str:
        """See `ReplySink.next_message_id`; a node that runs again gives its replies the ids that they had."""
        node = running_node()
        if not node:
            return str(uuid7())
        self._replies[node] += 1
        return str(uuid.uuid5(_IDS, f"{self._asked.task.id}\0{node}\0{self._replies[node]}"))

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """See `ReplySink.chunk`."""
        get_stream_writer()(ChunkSaid(text, message_id))

    def broke_off(self, message_id: str) -> None:
        """See `ReplySink.broke_off`."""
        get_stream_writer()(BrokeOff(message_id))

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
        """See `ReplySink.history`: what was said in the context, the turn's own message last."""
        if limit <= 0:
            return []
        said = await self._said(limit, before)
        names = {a2a.Role.ROLE_AGENT: self._asked.context.agent}
        owner = self._asked.context.owner
        return [
            Message(raw=message, user=User(names.get(message.role, owner)), thread=thread) for message in said[-limit:]
        ]

    async def _said(self, limit: int, before: str | None) -> list[a2a.Message]:
        this = self._asked.message
        if self._asked.history is None:
            # Only the task is at hand.
            said = list(self._asked.task.history)
            place = next((n for n, message in enumerate(said) if message.message_id == before), len(said))
            return said[:place]
        if before not in (None, this.message_id):
            return list(await self._asked.history(limit, before))
        # Whoever reads the context may or may not count the message that it is being read for.
        earlier = [each for each in await self._asked.history(limit + 1, None) if each.message_id != this.message_id]
        return earlier if before is not None else [*earlier, this]


_IDS = uuid.UUID("0d1c3f5e-6f5b-4a39-9a40-8c4a4bd0a6c1")
"""The namespace of the ids of replies."""

TARGET = "aion:target"
"""Where a reply goes, in its metadata; the server's to set."""
