"""Queues of wake-up messages within one process. The handler runs on the event loop, and is retried after failures."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from aion_core.clock import Clock
from aion_core.engine.queues import PushWakeUp, WakeUp, limited
from aion_core.errors import StoreUnavailable

logger = logging.getLogger(__name__)

B = TypeVar("B", WakeUp, PushWakeUp)

MAX_RECEIVES = 5
"""Number of receives before a message becomes a dead letter. It is higher on AWS, which counts throttled receives."""

FIRST_BACKOFF = 1.0
"""Seconds before the first retry of a failed message. Each further failure doubles the delay."""


class _Queue(Generic[B]):
    """Queue of wake-up messages within one process, with the handler of the messages."""

    def __init__(self, clock: Clock, *, max_receives: int = MAX_RECEIVES) -> None:
        self._clock, self._max_receives = clock, max_receives
        self._handler: Callable[[B], Awaitable[None]] = _no_handler
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: deque[tuple[B, float]] = deque()
        """Messages sent by threads before the event loop's start, with their delays."""
        self._handling: dict[asyncio.Task[None], B] = {}
        self._visible = 0
        """Number of failed messages that wait for their next receive."""
        self._closed = False
        self.dead: list[B] = []
        """Dead letters: messages not handled within `max_receives` receives."""

    def handled_by(self, handler: Callable[[B], Awaitable[None]]) -> Sequence[Any]:
        """Set the handler of all messages. Return (): unlike a SQLite queue, this queue needs no consumers to run."""
        self._handler = handler
        return ()

    def open(self) -> None:
        """Handle the messages enqueued from threads on the running event loop, also those enqueued before this call."""
        self._loop = asyncio.get_running_loop()
        while self._early:
            self._start(*self._early.popleft())

    async def enqueue(self, wake_up: B, *, delay: float = 0.0, urgent: bool = False) -> None:
        """See `WorkQueue.enqueue`. The handler runs on the event loop of this call. No message waits for another."""
        self.open()
        if self._closed:
            raise StoreUnavailable("The queue is closed.")
        self._start(wake_up, delay)

    def enqueue_from_thread(self, wake_up: B, *, delay: float = 0.0) -> None:
        """See `WorkQueue.enqueue_from_thread`. The call does not wait for the event loop."""
        if self._closed:
            raise StoreUnavailable("The queue is closed.")
        if self._loop is None:
            self._early.append((wake_up, delay))
            return
        try:
            self._loop.call_soon_threadsafe(self._start, wake_up, delay)
        except RuntimeError as error:
            raise StoreUnavailable("The queue's event loop is closed.") from error

    async def backlog(self) -> int:
        """See `WorkQueue.backlog`. Each message has a handler at once, so only failed messages wait."""
        return len(self._early) + self._visible

    async def quiet(self) -> None:
        """Wait until all messages have been handled, except those for the end of a lease or for a suspended turn."""
        while True:
            # Let the event loop first start the handlers of messages enqueued from threads.
            await asyncio.sleep(0)
            handling = [
                task
                for task, wake_up in self._handling.items()
                if not (getattr(wake_up, "fence", 0) or getattr(wake_up, "look", 0))
            ]
            if not handling:
                return
            await asyncio.wait(handling)

    def close(self) -> None:
        """Cancel the handling of all messages. Call this on the queue's event loop."""
        self._closed = True
        for task in self._handling:
            task.cancel()

    def _start(self, wake_up: B, delay: float) -> None:
        if self._closed:
            return
        # Store the asyncio task, because an event loop has only weak references to its tasks.
        task = asyncio.get_running_loop().create_task(_LateCoroutine(partial(self._handle, wake_up, delay)))
        self._handling[task] = wake_up
        task.add_done_callback(self._handling.pop)

    async def _handle(self, wake_up: B, delay: float) -> None:
        await self._clock.sleep(limited(delay))
        for receives in range(self._max_receives):
            if receives:
                await self._backoff(FIRST_BACKOFF * 2 ** (receives - 1))
            try:
                await self._handler(wake_up)
                return
            except Exception:  # the handler of a message may raise any exception
                logger.exception("A wake-up message was not handled.", extra=_labels(wake_up))
        self.dead.append(wake_up)

    async def _backoff(self, seconds: float) -> None:
        self._visible += 1
        try:
            await self._clock.sleep(seconds)
        finally:
            self._visible -= 1


class _LateCoroutine(Coroutine[Any, Any, None]):
    """Coroutine that creates the handler's coroutine only when it is first run.

    If the event loop ends before that, no handler coroutine exists. Otherwise Python would warn that the handler's
    coroutine was never awaited.
    """

    def __init__(self, create: partial[Coroutine[Any, Any, None]]) -> None:
        self._create = create
        # Copy the handler's name, because asyncio shows it in the task's description.
        self.__qualname__ = create.func.__qualname__
        self._work: Coroutine[Any, Any, None] | None = None

    def _created(self) -> Coroutine[Any, Any, None]:
        self._work = self._work or self._create()
        return self._work

    def send(self, value: Any) -> Any:
        return self._created().send(value)

    def throw(self, *error: Any) -> Any:
        return self._created().throw(*error)

    def close(self) -> None:
        if self._work is not None:
            self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._created().__await__()


class MemoryWorkQueue(_Queue[WakeUp]):
    """`WorkQueue` for one process."""


class MemoryPushQueue(_Queue[PushWakeUp]):
    """`PushQueue` for one process."""


def _labels(wake_up: WakeUp | PushWakeUp) -> dict[str, str]:
    return (
        {"context_id": wake_up.context.context_id} if isinstance(wake_up, WakeUp) else {"task_id": wake_up.task.task_id}
    )


async def _no_handler(wake_up: object) -> None:
    raise StoreUnavailable("The queue has no handler.")
