"""Broadcast of a turn's events and chunks to the clients of the same process."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from aion_core.engine import answer
from aion_core.engine.records import Cursor, Delta, Numbered
from aion_core.engine.stream.event_ids import cursor_of, event_id
from aion_core.engine.task import projection, states
from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import Event, Task, TaskStatusUpdateEvent


class Resumed(Struct, frozen=True):
    """First item of a resumed stream: the ids of its task. The client already has the task."""

    id: str
    context_id: str


class ResumedText(Struct, frozen=True):
    """Item before the first chunks of a resumed stream: the client has received the beginning of this text."""

    speaker: Mapping[str, Any]
    """Speaker of the text, with its `messageId`; see `Delta.speaker`."""


class StreamItem(Struct, frozen=True):
    """An item of a stream: an event, a transient chunk or the start of a resumed stream, with its SSE id."""

    id: str
    payload: Event | Delta | Resumed | ResumedText


class StreamStart(Enum):
    """First item in the stream of a broadcast, or NO_STREAM."""

    NO_STREAM = auto()
    FIRST_EVENT = auto()
    """The stream yields all events of the task from the first on."""
    CURRENT_TASK = auto()
    """The stream yields the current task, then its later events."""


MAX_BATCH = 100
"""Maximum number of items in a batch. A response holds a whole batch in memory while it writes to a slow client."""


class EventBroadcast:
    """Events and chunks of one turn, optionally streamed to one reader."""

    def __init__(
        self, log: Iterable[Numbered], *, start: StreamStart = StreamStart.NO_STREAM, is_for_client: bool = False
    ) -> None:
        """`log` holds the task's events at the start of this turn. With `is_for_client`, a client is about to read it."""
        self.log = list(log)
        """The task's durable events that this process knows."""
        self._unsent: deque[StreamItem] | None = None
        if start is StreamStart.FIRST_EVENT:
            self._unsent = deque(StreamItem(event_id(Cursor(entry.generation)), entry.event) for entry in self.log)
        elif start is StreamStart.CURRENT_TASK:
            self._unsent = deque([StreamItem(event_id(Cursor(self.log[-1].generation)), self.task())])
        self._last_id = event_id(Cursor(self.log[-1].generation)) if self.log else ""
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._replies_with_task = asyncio.Event()
        self.replies_with_message = False
        """True if the turn is about to end with a Message for its client. Its further events are then not streamed."""
        self._failure: StoreUnavailable | None = None
        self._awaits_reader, self._readers = is_for_client, 0

    def is_held(self) -> bool:
        """Return True while a client of this process waits for the turn: its invocation is billed anyway."""
        return self._awaits_reader or self._readers > 0

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._awaits_reader = False
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def record(self, entry: Numbered) -> None:
        """Publish a new event of the task. The caller has stored the event in the log."""
        self.log.append(entry)
        self.publish(event_id(Cursor(entry.generation)), entry.event)
        if not self.replies_with_task and not answer.may_be_message(self.log):
            self.reply_with_task()

    def publish(self, id_: str, payload: Event | Delta) -> None:
        """Add an event or a chunk to the stream, if there is one."""
        self._last_id = id_ or self._last_id
        if self._unsent is not None:
            self._unsent.append(StreamItem(id_, payload))
            self._changed.set()
            if isinstance(payload, Delta):
                self.reply_with_task()

    def reply_with_task(self) -> None:
        """Decide that the client receives the task instead of a Message with the answer."""
        self._replies_with_task.set()

    @property
    def replies_with_task(self) -> bool:
        """True if the client will receive the task instead of a Message."""
        return self._replies_with_task.is_set()

    async def wait_for_decision(self) -> None:
        """Wait until `reply_with_task` was called or the turn has ended."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._replies_with_task, self._ended)]
        try:
            with self._held():
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def stop_streaming(self) -> None:
        """Close the stream and drop its unsent items."""
        self._unsent = None

    def end(self) -> None:
        """End the broadcast and its stream."""
        self._ended.set()
        self._changed.set()

    def fail(self, failure: StoreUnavailable) -> None:
        """End the broadcast because the store can neither record nor suspend the turn.

        Readers receive the unsent items, then the failure, since the turn may continue hours later.
        """
        self._failure = failure
        self.end()

    async def batches(self) -> AsyncGenerator[list[StreamItem], None]:
        """Yield the stream's unsent items in batches until the turn has ended. Only one reader may use it, once.

        Raises StoreUnavailable after the last item if the turn has ended by `fail`.
        """
        try:
            with self._held():
                while self._unsent is not None:
                    if self._unsent:
                        yield [self._unsent.popleft() for _ in range(min(len(self._unsent), MAX_BATCH))]
                    elif self._ended.is_set():
                        self._raise_failure()
                        return
                    else:
                        self._changed.clear()
                        await self._changed.wait()
        finally:
            # Keep nothing for a client that has left: its turn may go on for hours.
            self.stop_streaming()

    async def wait_for_end(self) -> None:
        """Wait until the turn has ended in this process. Cancelling the wait does not cancel the turn.

        Raises StoreUnavailable if the turn has ended by `fail`.
        """
        with self._held():
            await self._ended.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def cursor(self) -> Cursor:
        """Return the cursor of a reader after the last published item."""
        return cursor_of(self._last_id) or Cursor()

    def entry(self, generation: int) -> Numbered | None:
        """Return the log entry of event `generation`; None if it is missing or only part of a snapshot."""
        first = self.log[0].generation if self.log else 1
        return self.log[generation - first] if 0 <= generation - first < len(self.log) else None

    def knows_state(self) -> bool:
        """Return True if `task` returns the current task: the turn still runs, or has ended or interrupted the task."""
        return self.has_stopped() or not self._ended.is_set()

    def has_stopped(self) -> bool:
        """Return True if the newest task state in the broadcast's log is terminal or interrupted."""
        with_status = (entry.event for entry in reversed(self.log))
        statuses = (event.status for event in with_status if isinstance(event, Task | TaskStatusUpdateEvent))
        return next((status.state in states.TERMINAL_OR_INTERRUPTED for status in statuses), False)

    def task(self) -> Task:
        """Return the task as of the newest event in the broadcast's log."""
        return projection.fold(self.log)
