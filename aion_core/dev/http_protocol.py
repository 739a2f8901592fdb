"""HTTP protocol of the development server: uvicorn's, with time limits for slow request headers and for unread bodies."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""Time limit for the headers of a request. Without one, a client holds a connection open by a byte now and then."""

LAST_SECONDS = 1.0
"""Time limit for the first request of a connection when the server stops: the client may have sent it already."""


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 connection. Closes if a request's headers, or the rest of a body after the response, arrive too slowly.

    uvicorn limits only the silence between two requests. The application limits the time of a body that it reads.
    uvicorn's other protocol, on httptools, loses bodies of Java's client (docs/decisions/0041).
    """

    header_seconds = HEADER_SECONDS
    """Time limit of this connection; a subclass may have another one."""
    last_seconds = LAST_SECONDS
    _limit: asyncio.TimerHandle | None = None
    _stops = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin the time of the first request's headers."""
        super().connection_made(transport)
        self._set_limit()

    def data_received(self, data: bytes) -> None:
        """Pass the data on; begin or end the time limit."""
        super().data_received(data)
        if self._stops and self.cycle is not None:
            super().shutdown()
        self._set_limit()

    def on_response_complete(self) -> None:
        """Begin the time limit of the next headers, or of the rest of the request."""
        super().on_response_complete()
        self._set_limit()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit."""
        self._end_limit()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after its current request. A connection without any request waits for its first one."""
        if self.cycle is not None:
            super().shutdown()
        elif not self._stops:
            self._stops = True
            self.loop.call_later(self.last_seconds, self._close_unused)

    def _close_unused(self) -> None:
        if self.cycle is None:
            super().shutdown()

    def _set_limit(self) -> None:
        has_no_headers = self.conn.their_state is h11.IDLE
        is_answered = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if not (has_no_headers or is_answered) or self.transport.is_closing():
            self._end_limit()
        elif self._limit is None:
            self._limit = self.loop.call_later(self.header_seconds, self.transport.close)

    def _end_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
