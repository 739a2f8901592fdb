"""The EventQueue that an executor is given: an event is enqueued when it is recorded, and not before."""

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
What = Event | ReplyChunk | StreamAborted | TypingSignal | Reaction | DurableReply
"""What an executor says: the SDK's events, or by the helpers of the turn's context."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something said, and whoever waits until it is recorded."""

    what: What
    recorded: "asyncio.Future[None]"

    def settle(self) -> None:
        """Let whoever said it go on."""
        if not self.recorded.done():
            self.recorded.set_result(None)


class RecordingQueue(EventQueue):
    """First in, first out, from any task, thread or event loop; whoever awaits `enqueue_event` waits for the log."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._entries: deque[Entry] = deque()
        self._news = asyncio.Event()
        self._closed = self._warned = False

    async def enqueue_event(self, event: Event) -> None:
        """Return once the event is recorded; one that comes when the turn is over is dropped, with a warning.

        Raises TypeError for what is none of the SDK's four events.
        """
        if not isinstance(event, EVENTS):
            raise TypeError(
                f"enqueue_event takes a Task, a Message, a TaskStatusUpdateEvent or a TaskArtifactUpdateEvent of "
                f"a2a.types, not {type(event).__module__}.{type(event).__qualname__}."
            )
        await self.say(event)

    async def say(self, what: What) -> None:
        """Do as `enqueue_event`, with what the turn's context has to say as well."""
        if asyncio.get_running_loop() is not self._loop:
            # `asyncio.run` in a thread: the order is that in which this loop hears of them.
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.say(what), self._loop))
            return
        if self._closed:
            level = logging.DEBUG if self._warned else logging.WARNING
            logger.log(level, "The turn is over: a %s of its executor is dropped.", type(what).__name__)
            self._warned = True
            # Whoever goes on saying things is to let others run.
            await asyncio.sleep(0)
            return
        await self.put(what).recorded

    def put(self, what: What) -> Entry:
        """Take it in its turn, without waiting."""
        entry = Entry(what, self._loop.create_future())
        self._entries.append(entry)
        self._news.set()
        return entry

    async def until(self, work: "asyncio.Future[None]") -> AsyncGenerator[Entry, None]:
        """Yield what is said, in order, until the work is done and nothing is left."""
        work.add_done_callback(lambda _: self._news.set())
        while True:
            if self._entries:
                yield self._entries.popleft()
            elif work.done():
                return
            else:
                self._news.clear()
                await self._news.wait()

    def is_closed(self) -> bool:
        """Tell whether the turn is over; kept for executors that ask, as the SDK's own queue is."""
        return self._closed

    def close(self) -> None:
        """Take nothing more, and keep nobody waiting."""
        self._closed = True
        for entry in self._entries:
            entry.settle()
        self._entries.clear()
