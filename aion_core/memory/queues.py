"""Bells within one process, with the promises of `ports.WorkQueue` and `ports.PushQueue`.

They are heard on its event loop, again where that failed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from aion_core.errors import StoreUnavailable
from aion_core.ports import Clock, PushWakeUp, WakeUp

logger = logging.getLogger(__name__)

B = TypeVar("B", WakeUp, PushWakeUp)

LONGEST_DELAY = 900.0
"""As on SQS."""

MAX_RECEIVES = 5
"""How often a bell is heard before it is dead, as the template's queue has it."""

FIRST_BACKOFF = 1.0
"""Seconds until a bell is heard again that could not be answered; each further try waits twice as long."""


class _Queue(Generic[B]):
    """A queue for one process, and the function behind it."""

    def __init__(self, clock: Clock, *, tries: int = MAX_RECEIVES) -> None:
        self._clock, self._tries = clock, tries
        self._answer: Callable[[B], Awaitable[None]] = _nobody
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: deque[tuple[B, float]] = deque()
        """What threads have rung before there was a loop to hear it."""
        self._sending: set[asyncio.Task[None]] = set()
        self._closed = False
        self.dead: list[B] = []
        """The bells that were heard as often as they may be, and never answered."""

    def handled_by(self, answer: Callable[[B], Awaitable[None]]) -> Sequence[Any]:
        """Let each bell be answered so, without a consumer; an error is logged, and the bell is answered again later."""
        self._answer = answer
        return ()

    def open(self) -> None:
        """Let the bells of threads be heard on the event loop that runs now; each `enqueue` does so by itself."""
        self._loop = asyncio.get_running_loop()
        while self._early:
            self._start(*self._early.popleft())

    async def enqueue(self, wake_up: B, *, delay: float = 0.0) -> None:
        """See `ports.WorkQueue.enqueue`; it is heard on the event loop that runs now."""
        self.open()
        if self._closed:
            raise StoreUnavailable("The bells are closed.")
        self._start(wake_up, delay)

    def enqueue_from_thread(self, wake_up: B, *, delay: float = 0.0) -> None:
        """See `ports.WorkQueue.enqueue_from_thread`; it does not wait for the loop, which an agent may block."""
        if self._closed:
            raise StoreUnavailable("The bells are closed.")
        if self._loop is None:
            self._early.append((wake_up, delay))
            return
        try:
            self._loop.call_soon_threadsafe(self._start, wake_up, delay)
        except RuntimeError as error:
            raise StoreUnavailable("The event loop that hears the bells is closed.") from error

    async def quiet(self) -> None:
        """Return when no bell rings or is being answered, however far ahead it was to be heard."""
        while True:
            # What a thread has handed to the loop before this becomes a task first.
            await asyncio.sleep(0)
            if not self._sending:
                return
            await asyncio.wait(self._sending)

    def close(self) -> None:
        """Let no bell be heard any more; call it on the loop that hears them."""
        self._closed = True
        for task in self._sending:
            task.cancel()

    def _start(self, wake_up: B, delay: float) -> None:
        if self._closed:
            return
        # A loop itself holds its tasks only weakly.
        task = asyncio.get_running_loop().create_task(self._enqueue(wake_up, delay))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _enqueue(self, wake_up: B, delay: float) -> None:
        await self._clock.sleep(min(max(delay, 0.0), LONGEST_DELAY))
        for heard in range(self._tries):
            if heard:
                await self._clock.sleep(FIRST_BACKOFF * 2 ** (heard - 1))
            try:
                await self._answer(wake_up)
                return
            except Exception:  # whatever it was, the bell was not answered
                logger.exception("A bell was not answered.", extra=_labels(wake_up))
        self.dead.append(wake_up)


class MemoryWorkQueue(_Queue[WakeUp]):
    """`ports.WorkQueue` for one process."""


class MemoryPushQueue(_Queue[PushWakeUp]):
    """`ports.PushQueue` for one process."""


def _labels(wake_up: WakeUp | PushWakeUp) -> dict[str, str]:
    return (
        {"context_id": wake_up.context.context_id} if isinstance(wake_up, WakeUp) else {"task_id": wake_up.task.task_id}
    )


async def _nobody(wake_up: object) -> None:
    raise StoreUnavailable("Nobody answers the bells.")
