"""What a turn's invocation hands to the turn: each thing is recorded, and spoken, before whoever handed it goes on."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)


class Handover:
    """A line of one place: ADK's events and what an author's helpers say, in the order in which they come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._line: asyncio.Queue[tuple[object, Future[None]] | None] = asyncio.Queue()
        self._under_way: set[Future[None]] = set()
        self._ended = False

    async def hand(self, given: object) -> None:
        """Return when it is recorded; from any thread, and any event loop. Canceled where it never will be."""
        recorded: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._put, given, recorded)
        await asyncio.wrap_future(recorded)

    def tell(self, given: object) -> None:
        """Hand it over without waiting; from any thread. Where nobody listens any more it goes nowhere."""
        self._loop.call_soon_threadsafe(self._put, given, Future())

    def end(self) -> None:
        """Note that nothing more comes."""
        self._loop.call_soon_threadsafe(self._line.put_nowait, None)

    def cut(self) -> None:
        """Note that nobody listens any more: whoever waits is canceled."""
        self._ended = True
        for recorded in self._under_way:
            recorded.cancel()
        self._under_way.clear()

    async def handed(self) -> AsyncGenerator[object, None]:
        """Yield what is handed over; whoever asks for the next has recorded the one before."""
        while (came := await self._line.get()) is not None:
            given, recorded = came
            yield given
            self._under_way.discard(recorded)
            if not recorded.done():
                recorded.set_result(None)

    def _put(self, given: object, recorded: Future[None]) -> None:
        if self._ended:
            logger.warning("The agent emitted after the end of its turn: the emission is ignored.")
            recorded.cancel()
            return
        self._under_way.add(recorded)
        self._line.put_nowait((given, recorded))


@asynccontextmanager
async def reading(handover: Handover) -> AsyncIterator[AsyncGenerator[object, None]]:
    """Give what is handed over, for as long as somebody listens."""
    handed = handover.handed()
    try:
        yield handed
    finally:
        handover.cut()
        await handed.aclose()
