"""What an executor says by `get_aion_context()`, put in line with the events that it enqueues."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from uuid_utils.compat import uuid7

from aion_core.agents.executor.queue import RecordingQueue
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


class QueueSink:
    """`authoring.context.ReplySink` of one turn of an executor."""

    def __init__(self, asked: TurnRequest, queue: RecordingQueue) -> None:
        self._asked, self._queue = asked, queue

    def next_message_id(self) -> str:
        """See `ReplySink.next_message_id`."""
        return str(uuid7())

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """See `ReplySink.chunk`."""
        await self._queue.say(ReplyChunk(text, message_id))

    def abort(self, message_id: str) -> None:
        """See `ReplySink.abort`."""
        self._queue.put(StreamAborted(message_id))

    def streaming(self) -> AbstractContextManager[None]:
        """See `ReplySink.streaming`: of an executor, no model streams by itself."""
        return nullcontext()

    async def reply(self, message: a2a.Message, *, target: str | None) -> None:
        """See `ReplySink.reply`; it is recorded when this returns."""
        if target is not None:
            message.metadata.update({TARGET: target})
        await self._queue.say(DurableReply(message, ""))

    async def react(self, key: str, *, message_id: str) -> None:
        """See `ReplySink.react`."""
        await self._queue.say(Reaction(key, message_id, ""))

    async def typing(self) -> None:
        """See `ReplySink.typing`."""
        await self._queue.say(TypingSignal())

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[Message]:
        """See `ReplySink.history`: what was said in the context, the turn's own message last."""
        return await thread_history(self._asked, thread, limit=limit, before=before)
