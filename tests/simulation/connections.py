"""Connection between a client and a function: a response or a stream, with broken connections and slow clients."""

import asyncio
from typing import Any

from aion_core.engine.stream.broadcast import StreamItem


class Broken(Exception):
    """Error of a client: the connection broke, or the server answered with an internal error."""


class Connection:
    """Client's and server's side of a connection."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.heard: list[tuple[float, StreamItem]] = []
        self.slow = 0.0
        self.gone = False
        self.ended: Any = None
        """End of the connection: True, or an exception; None while it is open."""
        self.seconds_left = 0.0
        """Seconds between the end of the stream and the deadline of the server's process."""
        self.answer: Any = None
        self._news = asyncio.Event()
        self._read = 0

    # ── The server's side ─────────────────────────────────────────────────────────────────────────────────────────────

    def answers(self, answer: Any) -> None:
        """Send the response, unless the connection has ended."""
        if self.ended is None:
            self.answer = answer
            self.ends(answer if isinstance(answer, Exception) else None)

    def write(self, now: float, batch: list[StreamItem]) -> None:
        """Send a batch of events; raise ConnectionError if the client has left."""
        if self.gone:
            raise ConnectionError
        if self.ended is None:
            self.heard += [(now, spoken) for spoken in batch]
            self._news.set()

    async def room(self) -> None:
        """Wait until a slow client has read enough to free the buffer."""
        if self.slow:
            await asyncio.sleep(self.slow)

    def ends(self, why: Exception | None = None) -> None:
        """Close the stream."""
        if self.ended is None:
            self.ended = why or True
            self._news.set()

    def breaks(self) -> None:
        """Break the connection."""
        self.ends(Broken("the connection broke"))

    # ── The client's side ─────────────────────────────────────────────────────────────────────────────────────────────

    def leave(self) -> None:
        """Close the client's side; the server notices this at its next write."""
        self.gone = True
        self.ends(Broken("the client left"))

    async def read(self) -> list[tuple[float, StreamItem]]:
        """Wait for events, and return those since the last read; return [] at the end of the stream."""
        while self._read == len(self.heard) and self.ended is None:
            self._news.clear()
            await self._news.wait()
        new = self.heard[self._read :]
        self._read = len(self.heard)
        return new

    async def result(self, patience: float) -> Any:
        """Return the response; raise the server's error, or Broken."""
        try:
            async with asyncio.timeout(patience):
                while self.ended is None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            self.leave()
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.answer
