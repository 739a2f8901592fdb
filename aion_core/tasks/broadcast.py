"""Broadcast of one running turn to the stream of this process."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from aion_core.ports import Cursor, Delta, Numbered
from aion_core.protocol.types import Event, Task, TaskStatusUpdateEvent
from aion_core.tasks import lifecycle, projection, replies


@dataclass(frozen=True, slots=True)
class Resumed:
    """Start of a stream that resumes after its client's last event: the client knows this task."""

    id: str
    context_id: str


@dataclass(frozen=True, slots=True)
class StreamItem:
    """An event or a transient chunk, with its SSE id."""

    id: str
    payload: Event | Delta | Resumed


class StreamStart(Enum):
    """First item of a broadcast's stream."""

    NO_STREAM = auto()
    FIRST_EVENT = auto()
    """The task's first event, then all later ones."""
    CURRENT_TASK = auto()
    """The current task, then later events."""


class EventBroadcast:
    """Events and chunks of one turn, with a stream for one reader or without."""

    def __init__(self, log: Iterable[Numbered], *, start: StreamStart = StreamStart.NO_STREAM) -> None:
        """`log` holds the task's events so far."""
        self.log = list(log)
        """The durable events of the task known to this process."""
        self._unsent: deque[StreamItem] | None = None
        if start is StreamStart.FIRST_EVENT:
            self._unsent = deque(StreamItem(str(entry.generation), entry.event) for entry in self.log)
        elif start is StreamStart.CURRENT_TASK:
            self._unsent = deque([StreamItem(str(self.log[-1].generation), self.task())])
        self._last_id = str(self.log[-1].generation) if self.log else ""
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._replies_with_task = asyncio.Event()
        self.replies_with_message = False
        """True if the turn is about to end with a Message for its client; nothing of its task is streamed then."""

    def record(self, entry: Numbered) -> None:
        """Publish an event that is in the log now."""
        self.log.append(entry)
        self.publish(str(entry.generation), entry.event)
        if not self.replies_with_task and not replies.may_be_message(self.log):
            self.reply_with_task()

    def publish(self, id_: str, payload: Event | Delta) -> None:
        """Publish an event or a chunk to the reader."""
        self._last_id = id_ or self._last_id
        if self._unsent is not None:
            self._unsent.append(StreamItem(id_, payload))
            self._changed.set()
            if isinstance(payload, Delta):
                self.reply_with_task()

    def reply_with_task(self) -> None:
        """Decide that the client receives the task: a Message is no longer possible."""
        self._replies_with_task.set()

    @property
    def replies_with_task(self) -> bool:
        """True if the client receives the task: a chunk was streamed, or a Message cannot hold the log."""
        return self._replies_with_task.is_set()

    async def wait_for_decision(self) -> None:
        """Return when the client is to receive the task, or the turn has ended."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._replies_with_task, self._ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def stop_streaming(self) -> None:
        """Drop the stream and its unsent items."""
        self._unsent = None

    def end(self) -> None:
        """End the broadcast and its stream."""
        self._ended.set()
        self._changed.set()

    async def batches(self) -> AsyncIterator[list[StreamItem]]:
        """Yield the unsent items in batches until the turn has ended; for one reader."""
        while self._unsent is not None:
            if self._unsent:
                batch = list(self._unsent)
                self._unsent.clear()
                yield batch
            elif self._ended.is_set():
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_end(self) -> None:
        """Return when the turn has ended; cancelling the wait does not cancel the turn."""
        await self._ended.wait()

    def cursor(self) -> Cursor:
        """Return the cursor of a reader of the whole broadcast."""
        return cursor_of(self._last_id) or Cursor()

    def entry(self, generation: int) -> Numbered | None:
        """Return the event of this generation, None if the log does not hold it as an entry of its own."""
        first = self.log[0].generation if self.log else 1
        return self.log[generation - first] if 0 <= generation - first < len(self.log) else None

    def knows_state(self) -> bool:
        """Return True if this broadcast has the newest state: the turn is running, or has stopped its task here."""
        return self.has_stopped() or not self._ended.is_set()

    def has_stopped(self) -> bool:
        """Return True if the newest known state of the task is terminal or interrupted."""
        with_status = (entry.event for entry in reversed(self.log))
        statuses = (event.status for event in with_status if isinstance(event, Task | TaskStatusUpdateEvent))
        return next((status.state in lifecycle.TERMINAL_OR_INTERRUPTED for status in statuses), False)

    def task(self) -> Task:
        """Return the task of the log."""
        return projection.fold(self.log)


def cursor_of(sse_id: str) -> Cursor | None:
    """Return the cursor after the item of this SSE id, None if the id is not aion's."""
    steps = sse_id.split(".")
    if len(steps) not in (1, 3) or not all(step.isascii() and step.isdecimal() and len(step) < 12 for step in steps):
        return None
    if len(steps) == 1:
        return Cursor(int(steps[0]))
    generation, fence, number = (int(step) for step in steps)
    return Cursor(generation, fence, number + 1)
