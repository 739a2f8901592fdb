"""Event queue of an executor's turn: `enqueue_event` returns once the event is recorded."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from a2a.server.events import EventQueue

from aion_core.agents.outbound import DurableReply, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.protocol.types import Event, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)

EVENTS = (Task, Message, TaskStatusUpdateEvent, TaskArtifactUpdateEvent)
ExecutorEvent = Event | ReplyChunk | StreamAborted | TypingSignal | Reaction | DurableReply
"""Event of the SDK, or a call of a helper of the turn's context."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """Queued event, and a future for its sender."""

    event: ExecutorEvent
    recorded: "asyncio.Future[None]"

    def set_recorded(self) -> None:
        """Let the sender continue."""
        if not self.recorded.done():
            self.recorded.set_result(None)


class RecordingQueue(EventQueue):
    """FIFO queue for events from any task, thread or event loop; a sender waits until its event is recorded."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._entries: deque[QueueEntry] = deque()
        self._changed = asyncio.Event()
        self._closed = self._warned = False

    async def enqueue_event(self, event: Event) -> None:
        """Return once the event is recorded; after the end of the turn, drop it with a warning.

        Raises TypeError for any other object than the SDK's four events.
        """
        if not isinstance(event, EVENTS):
            raise TypeError(
                f"enqueue_event takes a Task, a Message, a TaskStatusUpdateEvent or a TaskArtifactUpdateEvent of "
                f"a2a.types, not {type(event).__module__}.{type(event).__qualname__}."
            )
        await self.send(event)

    async def send(self, event: ExecutorEvent) -> None:
        """See `enqueue_event`; also takes calls of the turn's context."""
        if asyncio.get_running_loop() is not self._loop:
            # `asyncio.run` in a thread: the order is the order of arrival in this loop.
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.send(event), self._loop))
            return
        if self._closed:
            level = logging.DEBUG if self._warned else logging.WARNING
            logger.log(level, "The turn is over: a %s of its executor is dropped.", type(event).__name__)
            self._warned = True
            # A sender in a loop must not block other tasks.
            await asyncio.sleep(0)
            return
        await self.put(event).recorded

    def put(self, event: ExecutorEvent) -> QueueEntry:
        """Enqueue the event without waiting."""
        entry = QueueEntry(event, self._loop.create_future())
        self._entries.append(entry)
        self._changed.set()
        return entry

    async def until(self, work: "asyncio.Future[None]") -> AsyncGenerator[QueueEntry, None]:
        """Yield entries in order until the work is done and the queue is empty."""
        work.add_done_callback(lambda _: self._changed.set())
        while True:
            if self._entries:
                yield self._entries.popleft()
            elif work.done():
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    def is_closed(self) -> bool:
        """Return True after the end of the turn; the SDK's own queue has this method too."""
        return self._closed

    def close(self) -> None:
        """Drop all later events and release the waiting senders."""
        self._closed = True
        for entry in self._entries:
            entry.set_recorded()
        self._entries.clear()
