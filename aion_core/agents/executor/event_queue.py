"""Event queue of an executor's turn. `enqueue_event` returns after the runner has recorded the event."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator

from a2a.server.events import EventQueue
from msgspec import Struct

from aion_core.agents.helper_calls import DurableReply, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.protocol.types import Event, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)

EVENTS = (Task, Message, TaskStatusUpdateEvent, TaskArtifactUpdateEvent)
ExecutorEvent = Event | ReplyChunk | StreamAborted | TypingSignal | Reaction | DurableReply
"""Event of the SDK, or a call of a helper such as `thread.reply`."""


class QueueEntry(Struct, frozen=True):
    """Queued event, with a future for its sender to await."""

    event: ExecutorEvent
    recorded: "asyncio.Future[None]"

    def set_recorded(self) -> None:
        """Mark the event as recorded, so that its sender continues."""
        if not self.recorded.done():
            self.recorded.set_result(None)


class RecordingQueue(EventQueue):
    """FIFO queue for an executor's events. Any asyncio task, thread or event loop may send events.

    A sender waits until its event is recorded.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._entries: deque[QueueEntry] = deque()
        self._changed = asyncio.Event()
        self._closed = self._warned = False

    async def enqueue_event(self, event: Event) -> None:
        """Enqueue an event and wait until it is recorded. After the turn's end, drop it with a warning.

        Raises TypeError if the object is not one of the SDK's four event types.
        """
        if not isinstance(event, EVENTS):
            raise TypeError(
                f"enqueue_event takes a Task, a Message, a TaskStatusUpdateEvent or a TaskArtifactUpdateEvent of "
                f"a2a.types, not {type(event).__module__}.{type(event).__qualname__}."
            )
        await self.send(event)

    async def send(self, event: ExecutorEvent) -> None:
        """Enqueue an event of the SDK, or the event of a helper function of `aion`. See `enqueue_event`."""
        if asyncio.get_running_loop() is not self._loop:
            # The executor runs another event loop, such as by `asyncio.run` in a thread: send the event in the turn's
            # loop. The turn's events have the order of their arrival there.
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.send(event), self._loop))
            return
        if self._closed:
            level = logging.DEBUG if self._warned else logging.WARNING
            logger.log(
                level, "The queue of this turn is closed: a %s of its executor is dropped.", type(event).__name__
            )
            self._warned = True
            # Yield to other asyncio tasks, because the executor may send events in an endless loop.
            await asyncio.sleep(0)
            return
        await self.put(event).recorded

    def put(self, event: ExecutorEvent) -> QueueEntry:
        """Enqueue the event and return its queue entry, without waiting."""
        entry = QueueEntry(event, self._loop.create_future())
        self._entries.append(entry)
        self._changed.set()
        return entry

    async def until(self, work: "asyncio.Future[None]") -> AsyncGenerator[list[QueueEntry], None]:
        """Yield the waiting entries in order, until the asyncio task `work` is done and the queue is empty."""
        work.add_done_callback(lambda _: self._changed.set())
        while True:
            if self._entries:
                waiting = [*self._entries]
                self._entries.clear()
                yield waiting
            elif work.done():
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    def is_closed(self) -> bool:
        """Return True after the turn has ended. The SDK's queue has the same method."""
        return self._closed

    async def close(self, immediate: bool = False) -> None:
        """Drop all later events. An executor may await this method, as under the SDK's server."""
        self._closed = True

    def end(self, *, warn: bool = True) -> None:
        """Close the queue after the turn: release the waiting senders, and drop all later events.

        `warn` is False after a cancellation, of which every executor sends an event.
        """
        self._closed, self._warned = True, self._warned or not warn
        for entry in self._entries:
            entry.set_recorded()
        self._entries.clear()
