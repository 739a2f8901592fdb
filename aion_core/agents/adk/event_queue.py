"""Event queue of an ADK turn. A sender continues after the runner has recorded its event."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)
_Recorded = Future[None] | asyncio.Future[None]
"""Future that is done when the event is recorded: one of any thread, or one of the turn's event loop."""


class EventChannel:
    """Ordered channel from the ADK invocation to the turn, for ADK events and helper calls of the author's code.

    A sender waits until its event is recorded. Most senders run in the turn's own event loop: they need no wake-up, which
    would take longer than all else here.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[object, _Recorded] | None] = asyncio.Queue()
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
        self._loop.call_soon_threadsafe(self._events.put_nowait, None)

    def cancel(self) -> None:
        """Cancel all waiting senders, and drop all later events."""
        self._cancelled = True
        for recorded in self._unrecorded:
            recorded.cancel()
        self._unrecorded.clear()

    @asynccontextmanager
    async def receiving(self) -> AsyncIterator[AsyncGenerator[object, None]]:
        """Context manager: return an iterator of the sent events, and cancel the channel on exit."""
        events = self._received()
        try:
            yield events
        finally:
            self.cancel()
            await events.aclose()

    async def _received(self) -> AsyncGenerator[object, None]:
        """Yield the sent events. An event counts as recorded when the caller requests the next one."""
        while (item := await self._events.get()) is not None:
            event, recorded = item
            yield event
            self._unrecorded.discard(recorded)
            if not recorded.done():
                recorded.set_result(None)

    def _put(self, event: object, recorded: _Recorded) -> None:
        if self._cancelled:
            logger.warning("The agent sent output after the end of its turn: the output is ignored.")
            recorded.cancel()
            return
        self._unrecorded.add(recorded)
        self._events.put_nowait((event, recorded))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
