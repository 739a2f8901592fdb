"""HTTP protocol of the development server: uvicorn's protocol with time limits, and with URLs as request targets."""

import asyncio
import contextlib
import re
from typing import Any
from urllib.parse import unquote

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""Time limit for a request's headers. Without it, a client could hold a connection open by sending single bytes."""

LAST_SECONDS = 1.0
"""Time for which a connection without a request so far stays open after the server's stop, because the client's first
request may be on its way."""
IDLE_SECONDS = 0.1
"""Time for which a connection stays open after the server's stop and an answered request, because the client may have
sent its next request already. A later request must reach the next server, which does not end its turn or stream."""


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 connection that closes if a client sends headers, or a body after its response, too slowly.

    The class is needed because uvicorn limits only the time between two requests. For a body that the application
    reads, the application has its own time limit. uvicorn's protocol on httptools is not used, because it loses request
    bodies of Java's client (docs/decisions/0041).
    """

    header_seconds = HEADER_SECONDS
    """Time limit of this connection. A subclass may set another limit."""
    last_seconds, idle_seconds = LAST_SECONDS, IDLE_SECONDS
    _limit: asyncio.TimerHandle | None = None
    _stops = False

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create uvicorn's protocol, and wrap its application so that it accepts URLs as request targets."""
        super().__init__(*args, **options)
        self.app: Any = _accepting_urls(self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Start the time limit of the first request's headers."""
        super().connection_made(transport)
        self._set_limit()

    def data_received(self, data: bytes) -> None:
        """Pass the data to uvicorn, and start or cancel the time limit."""
        super().data_received(data)
        if self._stops and self._has_request:
            super().shutdown()
        self._set_limit()

    def on_response_complete(self) -> None:
        """Start the time limit of the next request's headers, or of the rest of this request's body."""
        super().on_response_complete()
        self._set_limit()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit."""
        self._end_limit()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close after the current request, or after a short time if the connection has no current request."""
        if self._has_request:
            super().shutdown()
        elif not self._stops:
            self._stops = True
            seconds = self.last_seconds if self.cycle is None else self.idle_seconds
            self.loop.call_later(seconds, self._close_unused)

    def _should_upgrade(self) -> bool:
        # Ignore an offer of another protocol, such as `Upgrade: h2c` in the first request of Java's HttpClient. uvicorn
        # would warn that a library for WebSockets is missing.
        return False

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_unused(self) -> None:
        if not self._has_request:
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


async def stop_accepting(server: uvicorn.Server) -> None:
    """Close the server's listeners, but no connection that they have accepted.

    asyncio creates the transport of an accepted connection in the next iteration of the event loop. It drops the
    connection if the listener is closed by then.
    """
    loop = asyncio.get_running_loop()
    for listening in server.servers:
        for each in listening.sockets:
            with contextlib.suppress(NotImplementedError):  # the event loop of Windows has no readers
                loop.remove_reader(each.fileno())
    await asyncio.sleep(0)
    for listening in server.servers:
        listening.close()


_URL = re.compile(rb"https?://([^/]*)(.*)", re.IGNORECASE | re.DOTALL)


def _accepting_urls(app: ASGIApp) -> ASGIApp:
    """Wrap the application: convert a request target that is a URL to its path and its Host header (RFC 9112, 3.2.2)."""

    async def converted(scope: Scope, receive: Receive, send: Send) -> None:
        if url := _URL.fullmatch(scope["raw_path"]):
            raw_path = url[2] or b"/"
            headers = [(b"host", url[1]), *(each for each in scope["headers"] if each[0] != b"host")]
            scope = {**scope, "path": unquote(raw_path.decode("ascii")), "raw_path": raw_path, "headers": headers}
        await app(scope, receive, send)

    return converted
