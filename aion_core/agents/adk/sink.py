"""What an author's helpers say in a turn of an ADK agent, in line with the agent's own events."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from uuid_utils.compat import uuid7

from aion_core.agents.adk.handover import Handover
from aion_core.agents.outbound import (
    TARGET,
    DurableReply,
    Reaction,
    ReplyChunk,
    StreamAborted,
    TypingSignal,
    thread_history,
)
from aion_core.authoring.context import Message, Thread
from aion_core.ports import TurnRequest
from aion_core.protocol import types as a2a

_IDS = uuid.UUID("7b1f3a52-7a0e-4c43-8b5e-5a3d8f9a2c10")
"""The namespace of the ids of replies."""

running_place: ContextVar[str] = ContextVar("aion_adk_place", default="")
"""What names the code that is running, so that it has the same name where it runs again: a tool's call, say."""


class HandedSink:
    """`authoring.context.ReplySink` of one turn of an ADK agent."""

    def __init__(self, asked: TurnRequest, handover: Handover) -> None:
        self._asked, self._handover = asked, handover
        self._replies: Counter[str] = Counter()

    def next_message_id(self) -> str:
        """See `ReplySink.next_message_id`; code that runs again gives its replies the ids that they had."""
        place = running_place.get()
        if not place:
            return str(uuid7())
        self._replies[place] += 1
        return str(uuid.uuid5(_IDS, f"{self._asked.turn.id}\0{place}\0{self._replies[place]}"))

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """See `ReplySink.chunk`."""
        await self._handover.hand(ReplyChunk(text, message_id))

    def abort(self, message_id: str) -> None:
        """See `ReplySink.abort`."""
        self._handover.tell(StreamAborted(message_id))

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """See `ReplySink.streaming`; what a model says to the author's own code is not streamed by ADK."""
        yield

    async def reply(self, message: a2a.Message, *, target: str | None) -> None:
        """See `ReplySink.reply`; where it goes is kept with it, for whoever distributes it."""
        if target is not None:
            message.metadata.update({TARGET: target})
        await self._handover.hand(DurableReply(message, running_place.get()))

    async def react(self, key: str, *, message_id: str) -> None:
        """See `ReplySink.react`."""
        await self._handover.hand(Reaction(key, message_id, running_place.get()))

    async def typing(self) -> None:
        """See `ReplySink.typing`."""
        await self._handover.hand(TypingSignal())

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[Message]:
        """See `ReplySink.history`: what was said in the context, the turn's own message last."""
        return await thread_history(self._asked, thread, limit=limit, before=before)
