"""Output of a turn: live events and chunks for the same process, stored chunks and wake-up messages for others.

A wake-up message may be lost. So the table also has a timer (stored time) for each piece of work, and the sweep
enqueues a new message when the timer has expired.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from aion_core import log
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.ports import (
    Clock,
    ContextKey,
    Cursor,
    Delta,
    DeltaBatch,
    Head,
    Numbered,
    OpenText,
    PushQueue,
    PushWakeUp,
    TaskKey,
    TaskStore,
    TurnStarted,
    WakeUp,
    WorkQueue,
)
from aion_core.protocol.types import Event, Task, TaskStatusUpdateEvent
from aion_core.tasks import lifecycle, replies
from aion_core.tasks.lifecycle import has_subscriber_for

logger = logging.getLogger(__name__)


class Resumed(Struct, frozen=True):
    """First item of a resumed stream: the ids of its task. The client already has the task."""

    id: str
    context_id: str


class StreamItem(Struct, frozen=True):
    """An item of a stream: an event, a transient chunk or the start of a resumed stream, with its SSE id."""

    id: str
    payload: Event | Delta | Resumed


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

    def __init__(self, log: Iterable[Numbered], *, start: StreamStart = StreamStart.NO_STREAM) -> None:
        """`log` holds the task's events at the start of this turn."""
        self.log = list(log)
        """The task's durable events that this process knows."""
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
        """True if the turn is about to end with a Message for its client. Its further events are then not streamed."""
        self._failure: StoreUnavailable | None = None

    def record(self, entry: Numbered) -> None:
        """Publish a new event of the task. The caller has stored the event in the log."""
        self.log.append(entry)
        self.publish(str(entry.generation), entry.event)
        if not self.replies_with_task and not replies.may_be_message(self.log):
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

    async def batches(self) -> AsyncIterator[list[StreamItem]]:
        """Yield the stream's unsent items in batches until the turn has ended. Only one reader may use it.

        Raises StoreUnavailable after the last item if the turn has ended by `fail`.
        """
        while self._unsent is not None:
            if self._unsent:
                yield [self._unsent.popleft() for _ in range(min(len(self._unsent), MAX_BATCH))]
            elif self._ended.is_set():
                self._raise_failure()
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_end(self) -> None:
        """Wait until the turn has ended in this process. Cancelling the wait does not cancel the turn.

        Raises StoreUnavailable if the turn has ended by `fail`.
        """
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
        return next((status.state in lifecycle.TERMINAL_OR_INTERRUPTED for status in statuses), False)

    def task(self) -> Task:
        """Return the task as of the newest event in the broadcast's log."""
        return lifecycle.fold(self.log)


def cursor_of(sse_id: str) -> Cursor | None:
    """Return the cursor after the stream item with this SSE id; None if it is not an SSE id of aion."""
    steps = sse_id.split(".")
    if len(steps) not in (1, 3) or not all(step.isascii() and step.isdecimal() and len(step) < 12 for step in steps):
        return None
    if len(steps) == 1:
        return Cursor(int(steps[0]))
    generation, fence, number = (int(step) for step in steps)
    return Cursor(generation, fence, number + 1)


# ── Stored chunks ───────────────────────────────────────────────────────────────────────────────────────────────────────

FLUSH_SECONDS = 0.25
"""Longest time until a chunk is stored. Readers in other processes lag by 0.2 to 0.4 s in all."""
FLUSH_CHARACTERS = 16 * 1024
"""Number of pending characters that are written without waiting for FLUSH_SECONDS."""
PAGE_CHARACTERS, PAGE_CHUNKS = 8 * 1024, 2048
"""Limits of a chunk in characters, and of a batch in chunks.

A batch has at most 2 * PAGE_CHARACTERS and an open text of OPEN_CHARACTERS: its item stays below 400 KB even with
escapes.
"""
OPEN_CHARACTERS = 2 * PAGE_CHARACTERS
"""Limit of an open text that is stored again after an event. Readers that miss a longer text wait for the next text."""


class DeltaWriter:
    """Writer of the text chunks that follow one durable event.

    It stores each chunk once and in order, and never changes a batch. The first chunk is written at once. Later chunks
    are written together: after FLUSH_SECONDS, at FLUSH_CHARACTERS, or by `flush` before the next durable event. After a
    failed write, the same batch is written again before later ones. Chunks still unwritten after `flush` are dropped.
    A text may continue after an event. The first batch after the event then repeats the text before the event. Readers
    need it if they have just connected or have missed a chunk.
    """

    def __init__(self, store: TaskStore, key: TaskKey, clock: Clock, *, fence: int) -> None:
        self._store, self._key, self._clock, self._fence = store, key, clock, fence
        self._generation = 0
        self._number = 0
        self._open: list[str] = []
        """Chunks of the newest text."""
        self._speaker: Mapping[str, str] | None = None
        """Speaker of the newest text."""
        self._end = Cursor()
        """Position after the last chunk that precedes the event at which chunk numbers restart."""
        self._continues: OpenText | None = None
        """Text before chunk 0 after this event, if chunk 0 continues a text."""
        self._pending: list[Delta] = []
        self._pending_characters = 0
        self._unwritten: deque[DeltaBatch] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def follow(self, generation: int) -> None:
        """Number the next chunks from 0: they follow event number `generation`. Call `flush` before this method."""
        if self._number:
            self._end = Cursor(self._generation, self._fence, self._number)
        self._generation, self._number = generation, 0

    def add(self, delta: Delta) -> str:
        """Add a chunk to the next batch and return its SSE id, `generation.fence.n`."""
        number = self._number
        if not delta.append:
            self._open, self._speaker = [], delta.speaker
        if number == 0:
            self._continues = OpenText(self._end, self._text(), self._speaker) if delta.append else None
        self._open.append(delta.text)
        self._number += 1
        self._pending.append(delta)
        fits = self._pending_characters < FLUSH_CHARACTERS
        self._pending_characters += _size(delta)
        if fits and self._pending_characters >= FLUSH_CHARACTERS:
            self._stop_timer()
        if self._timer is None:
            self._timer = asyncio.create_task(self._write_in_time())
        return f"{self._generation}.{self._fence}.{number}"

    async def flush(self) -> None:
        """Write all pending chunks now. Drop the chunks that cannot be written."""
        if self._pending or self._unwritten or self._writing.locked():
            await self._write()
        self._stop_timer()
        if self._unwritten:
            logger.warning("%d batches of stream deltas were dropped.", len(self._unwritten))
            self._unwritten.clear()

    async def stop(self) -> None:
        """Wait for the batch in progress and stop the timer. A later `flush` still writes the pending chunks."""
        async with self._writing:
            pass
        self._stop_timer()

    def _text(self) -> str | None:
        return "".join(self._open) if sum(map(len, self._open)) <= OPEN_CHARACTERS else None

    def _stop_timer(self) -> None:
        # Do not cancel the timer during a write, because the next write would repeat the batch.
        if self._timer is not None and not self._writing.locked():
            self._timer.cancel()
            self._timer = None

    async def _write_in_time(self) -> None:
        while self._pending or self._unwritten:
            await self._write()
            if self._pending_characters < FLUSH_CHARACTERS:
                await self._clock.sleep(FLUSH_SECONDS)
        self._timer = None

    async def _write(self) -> None:
        async with self._writing:
            first = self._number - len(self._pending)
            for page in _pages(self._pending, self._pending_characters):
                continues = self._continues if first == 0 else None
                self._unwritten.append(DeltaBatch(self._generation, self._fence, first, page, continues))
                first += len(page)
            self._pending, self._pending_characters = [], 0
            while self._unwritten:
                try:
                    await self._store.append_deltas(self._key, self._unwritten[0])
                except StoreUnavailable as error:
                    # Write the same batch in the next attempt, because the failed write may have stored it.
                    logger.warning(
                        "A batch of stream deltas could not be written; the next write repeats it: %s", error
                    )
                    return
                except StoreError:
                    logger.exception("The store refused a batch of stream deltas; it is dropped.")
                self._unwritten.popleft()


def _pages(pending: list[Delta], size: int) -> Iterator[tuple[Delta, ...]]:
    """Yield the chunks in order, in batches that fit into an item of the table. `size` is their number of characters."""
    if pending and size <= 2 * PAGE_CHARACTERS and len(pending) <= PAGE_CHUNKS:
        yield tuple(pending)  # most writes fit into one batch
        return
    page: list[Delta] = []
    characters = 0
    for chunk in pending:
        more = _size(chunk)
        if page and (characters + more > 2 * PAGE_CHARACTERS or len(page) == PAGE_CHUNKS):
            yield tuple(page)
            page, characters = [], 0
        page.append(chunk)
        characters += more
    if page:
        yield tuple(page)


def _size(chunk: Delta) -> int:
    return len(chunk.text) + (sum(map(len, chunk.speaker.values())) if chunk.speaker else 0)


# ── Wake-up messages ──────────────────────────────────────────────────────────────────────────────────────────────────

ENQUEUE_SECONDS = 1.0
"""Longest wait for the push queue at the end of a turn, in seconds."""


async def wake(work_queue: WorkQueue, context: ContextKey, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the context. Log errors of the queue, but do not raise them."""
    try:
        await work_queue.enqueue(WakeUp(context), delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"context_id": context.context_id})


async def wake_delivery(work_queue: PushQueue, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the push delivery of a task. Log errors of the queue, but do not raise them.

    The message has the trace of the surrounding log lines, so that the posts continue it.
    """
    traced = replace(wake_up, traceparent=log.label("traceparent"), tracestate=log.label("tracestate"))
    try:
        await work_queue.enqueue(traced, delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"task_id": wake_up.task.task_id})


class CommitNotifier:
    """Notifier of push delivery, called by the task store after each commit of a task.

    It enqueues a wake-up message if the task has push subscribers. It enqueues the messages of a task one at a time.
    Events recorded in the meantime share the next message.
    """

    def __init__(self, work_queue: PushQueue | None = None) -> None:
        """Without a queue (a deployment without push notifications), the notifier enqueues no messages."""
        self._work_queue = work_queue
        self._enqueuing: dict[TaskKey, asyncio.Task[None]] = {}
        self._newest: dict[TaskKey, int] = {}

    async def committed(self, head: Head) -> None:
        """Enqueue a message after a create, follow-up, finish or cancel. Wait up to ENQUEUE_SECONDS for the queue."""
        if head.push_events is not None:
            self._enqueue_beside(head)
            await self.settle(head.key)

    async def begun(self, begun: TurnStarted) -> None:
        """Enqueue a message if the newest event has the client's message, because `begin` may have recorded it."""
        if begun.lease.turn.message_generation == begun.head.generation:
            await self.committed(begun.head)

    def appended(self, head: Head, event: Event) -> None:
        """Enqueue a message in the background if a push subscriber receives the appended event."""
        if has_subscriber_for(head, event):
            self._enqueue_beside(head)

    async def settle(self, task: TaskKey) -> None:
        """Wait up to ENQUEUE_SECONDS for the task's messages, then drop the rest. Call it at a turn's end."""
        enqueuing = self._enqueuing.get(task)
        if enqueuing is not None:
            await asyncio.wait({enqueuing}, timeout=ENQUEUE_SECONDS)
            # Drop unsent messages, because Lambda freezes the process soon. Timers in the table replace the messages.
            enqueuing.cancel()

    def _enqueue_beside(self, head: Head) -> None:
        if self._work_queue is None:
            return
        self._newest[head.key] = head.generation
        if head.key not in self._enqueuing:
            self._enqueuing[head.key] = asyncio.create_task(self._enqueue(head.key, self._work_queue))

    async def _enqueue(self, task: TaskKey, work_queue: PushQueue) -> None:
        try:
            while (newest := self._newest.pop(task, None)) is not None:
                await wake_delivery(work_queue, PushWakeUp(task, newest))
        finally:
            self._enqueuing.pop(task, None)
            self._newest.pop(task, None)
