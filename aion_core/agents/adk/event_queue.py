"""Event queue of an ADK turn. A sender continues after the runner has recorded its event."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager

from aion_core.engine.task.transition import MOST_TOGETHER

logger = logging.getLogger(__name__)
_Recorded = Future[None] | asyncio.Future[None]
"""Future that is done when the event is recorded: one of any thread, or one of the turn's event loop."""


class EventChannel:
    """Ordered channel from the ADK invocation to the turn, for ADK events and helper calls of the author's code.

    A sender waits until its event is recorded. Most senders run in the turn's own event loop: they need no wake-up, which
    would take longer than all else here.
    """

    def __init__(self, *, alone: tuple[type, ...] = ()) -> None:
        """Events of the classes `alone` are received alone; others may share a transaction."""
        self._loop = asyncio.get_running_loop()
        self._alone = alone
        self._events: deque[tuple[object, _Recorded]] = deque()
        self._changed = asyncio.Event()
        self._finished = False
        self._unrecorded: set[_Recorded] = set()
        self._cancelled = False

    async def send(self, event: object) -> None:
        """Send an event and wait until it is recorded. Any thread and any event loop may call this.

        Raises CancelledError if the channel is canceled before the event is recorded.
        """
        if _running_loop() is self._loop:
            recorded = self._loop.create_future()
            self._put(event, recorded)
            await recorded
        else:
            waiting: Future[None] = Future()
            self._loop.call_soon_threadsafe(self._put, event, waiting)
            await asyncio.wrap_future(waiting)

    def send_nowait(self, event: object) -> None:
        """Send an event without waiting. Any thread may call this. A canceled channel drops the event."""
        if _running_loop() is self._loop:
            # As in `send`, because one of them must not overtake the other.
            self._put(event, self._loop.create_future())
        else:
            self._loop.call_soon_threadsafe(self._put, event, Future())

    def finish(self) -> None:
        """End the iterator of received events, after all events sent so far."""
        self._loop.call_soon_threadsafe(self._finish)

    def cancel(self) -> None:
        """Cancel all waiting senders, and drop all later events."""
        self._cancelled = True
        for recorded in self._unrecorded:
            recorded.cancel()
        self._unrecorded.clear()

    @asynccontextmanager
    async def receiving(self) -> AsyncIterator[AsyncGenerator[Sequence[object], None]]:
        """Context manager: return an iterator of the sent events (see `_received`), and cancel the channel on exit."""
        events = self._received()
        try:
            yield events
        finally:
            self.cancel()
            await events.aclose()

    async def _received(self) -> AsyncGenerator[Sequence[object], None]:
        """Yield the sent events in order: one, or those that wait and may share a transaction.

        They count as recorded when the caller requests the next ones.
        """
        while True:
            while not self._events:
                if self._finished:
                    return
                self._changed.clear()
                await self._changed.wait()
            waiting = [self._events.popleft()]
            most = 1 if isinstance(waiting[0][0], self._alone) else MOST_TOGETHER
            while self._events and len(waiting) < most and not isinstance(self._events[0][0], self._alone):
                waiting.append(self._events.popleft())
            yield [event for event, _ in waiting]
            for _, recorded in waiting:
                self._unrecorded.discard(recorded)
                if not recorded.done():
                    recorded.set_result(None)

    def _finish(self) -> None:
        self._finished = True
        self._changed.set()

    def _put(self, event: object, recorded: _Recorded) -> None:
        if self._cancelled:
            logger.warning("The agent sent output after the end of its turn: the output is ignored.")
            recorded.cancel()
            return
        self._unrecorded.add(recorded)
        self._events.append((event, recorded))
        self._changed.set()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
