"""What an author's helpers say, put in line with everything else that the graph streams.

The replies travel through LangGraph's own custom stream, from whatever node says them, so that their order is the
graph's, and a node that runs again says them under the same key.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from uuid_utils.compat import uuid7

from aion_core.agents.sink import TARGET, BrokeOff, ChunkSaid, IsTyping, Reacted, Replied, history_of
from aion_core.authoring.context import Message, Thread
from aion_core.authoring.emit import hand, running_node
from aion_core.ports import Asked
from aion_core.protocol import types as a2a


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
        return await history_of(self._asked, thread, limit=limit, before=before)


_IDS = uuid.UUID("0d1c3f5e-6f5b-4a39-9a40-8c4a4bd0a6c1")
"""The namespace of the ids of replies."""
