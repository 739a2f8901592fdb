"""A turn under way in this process, and what its readers hear of it."""

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
    """A stream goes on where its reader left it: of this task, which the reader has heard of."""

    id: str
    context_id: str


@dataclass(frozen=True, slots=True)
class StreamItem:
    """What a reader hears: an event or a transient chunk, with its SSE id."""

    id: str
    what: Event | Delta | Resumed


WITH_STATUS = (Task, TaskStatusUpdateEvent)
"""The events that say in which state the task is."""


class Listen(Enum):
    """What a run's reader wants to hear."""

    NOT = auto()
    FROM_THE_FIRST = auto()
    """Every event of the task, from its first."""
    FROM_NOW = auto()
    """The task as it stands, then what follows."""


class EventBroadcast:
    """What a runner says of one turn; it goes on whether or not anybody listens."""

    def __init__(self, log: Iterable[Numbered], *, listen: Listen = Listen.NOT) -> None:
        """`log` holds the task's events so far.

        With `listen`, they and all that follows are kept for `batches`; a reader of a task that goes on hears the task
        as it stands instead of its past.
        """
        self.log = list(log)
        """The durable events of the task, as far as this run knows them."""
        self._unheard: deque[StreamItem] | None = None
        if listen is Listen.FROM_THE_FIRST:
            self._unheard = deque(StreamItem(str(entry.generation), entry.event) for entry in self.log)
        elif listen is Listen.FROM_NOW:
            self._unheard = deque([StreamItem(str(self.log[-1].generation), self.task())])
        self._last_said = str(self.log[-1].generation) if self.log else ""
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._told = asyncio.Event()
        self.ends_as_message = False
        """Whether the turn is about to end with a Message for its client (R23): nobody is told of the task then."""

    def record(self, entry: Numbered) -> None:
        """Note an event that is now in the log, and let the reader have it."""
        self.log.append(entry)
        self.say(str(entry.generation), entry.event)
        if not self.told_of_task() and not replies.may_be_message(self.log):
            self.tell_of_task()

    def say(self, id_: str, what: Event | Delta) -> None:
        """Let the reader have an event or a chunk."""
        self._last_said = id_ or self._last_said
        if self._unheard is not None:
            self._unheard.append(StreamItem(id_, what))
            self._news.set()
            if isinstance(what, Delta):
                self.tell_of_task()

    def tell_of_task(self) -> None:
        """Settle that the reader is told of the task: what it hears is no Message any more."""
        self._told.set()

    def told_of_task(self) -> bool:
        """Tell whether that is settled: by a chunk that the reader hears, or by what no Message can hold."""
        return self._told.is_set()

    async def settled(self) -> None:
        """Return when it is settled what the reader hears, or the turn has ended."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._told, self._ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def leave(self) -> None:
        """Keep nothing for a reader any more."""
        self._unheard = None

    def end(self) -> None:
        """Say no more."""
        self._ended.set()
        self._news.set()

    async def batches(self) -> AsyncIterator[list[StreamItem]]:
        """Yield what is ready, as often as something is, until the turn has ended; for one reader."""
        while self._unheard is not None:
            if self._unheard:
                batch = list(self._unheard)
                self._unheard.clear()
                yield batch
            elif self._ended.is_set():
                return
            else:
                self._news.clear()
                await self._news.wait()

    async def ended(self) -> None:
        """Return when the turn has ended; whoever is cancelled here leaves the turn alone."""
        await self._ended.wait()

    def cursor(self) -> Cursor:
        """Return where a reader stands who has heard all that was said here."""
        return cursor_of(self._last_said) or Cursor()

    def entry(self, generation: int) -> Numbered | None:
        """Return the event of that number, None where it is not known by itself."""
        first = self.log[0].generation if self.log else 1
        return self.log[generation - first] if 0 <= generation - first < len(self.log) else None

    def rests_or_goes_on(self) -> bool:
        """Tell whether this run knows how its task stands: it has come to rest here, or is still under way."""
        return self.rests() or not self._ended.is_set()

    def rests(self) -> bool:
        """Tell whether the task has come to rest, as far as this run knows."""
        statuses = (entry.event.status for entry in reversed(self.log) if isinstance(entry.event, WITH_STATUS))
        return next((status.state in lifecycle.TERMINAL_OR_INTERRUPTED for status in statuses), False)

    def task(self) -> Task:
        """Return the task as the log tells it."""
        return projection.fold(self.log)


def cursor_of(sse_id: str) -> Cursor | None:
    """Return where a reader stands whose last SSE id this was; None where it is none of ours."""
    steps = sse_id.split(".")
    if len(steps) not in (1, 3) or not all(step.isascii() and step.isdecimal() and len(step) < 12 for step in steps):
        return None
    if len(steps) == 1:
        return Cursor(int(steps[0]))
    generation, fence, number = (int(step) for step in steps)
    return Cursor(generation, fence, number + 1)
