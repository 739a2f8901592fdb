"""Streamed response of an invocation, from the ASGI messages of the app."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from http import HTTPStatus
from typing import TypedDict

from mangum.exceptions import UnexpectedMessage
from mangum.types import Message
from msgspec import Struct

from .runtime_api import ErrorReport, Headers, RuntimeApiCall

logger = logging.getLogger(__name__)

# API Gateway searches for the delimiter in the first 16 KB:
# https://docs.aws.amazon.com/apigateway/latest/developerguide/response-transfer-mode-lambda.html
_DELIMITER = bytes(8)
OF_JSON = ((b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff"))
"""Headers of a response in JSON that the app has not sent."""

MAX_PRELUDE = 16 * 1024
"""Maximum bytes of a response's status, headers and delimiter. If they are larger, the response has status 500."""

# Longest time in seconds for which an app may send messages before the response lets other asyncio tasks run.
_MAX_TURN = 0.01


class Stage(Enum):
    """Stage of a response.

    * **NOT_STARTED** - The app has sent no message.
    * **HEADERS_BUFFERED** - The app has sent status and headers. They are buffered until the first body message (ASGI).
      If the app fails before that message, the client gets status 500.
    * **STREAMING** - The prelude is sent; an error can only be a trailer.
    * **ENDED** - The body is complete; the app may still run.
    * **DISCONNECTED** - The connection is lost, the loop has stopped the app, or another thread has taken the response
      over. Further messages are dropped.
    """

    NOT_STARTED = auto()
    HEADERS_BUFFERED = auto()
    STREAMING = auto()
    ENDED = auto()
    DISCONNECTED = auto()


class Failure(Struct, frozen=True):
    """Error response for a failed app. Its text is fixed, and the log has the cause."""

    status: HTTPStatus
    report: ErrorReport

    def body(self) -> bytes:
        """Return the JSON body of an error response that has not started yet."""
        return json.dumps({"message": self.status.phrase}).encode()


APP_FAILED = Failure(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorReport("Runtime.AppFailed", "The application failed; the response is not complete."),
)
OUT_OF_TIME = Failure(
    HTTPStatus.GATEWAY_TIMEOUT,
    ErrorReport("Runtime.OutOfTime", "The application was stopped; the response is not complete."),
)


class ResponseMetadata(TypedDict):
    """Status, headers and cookies of a response, as Lambda's HTTP entry points read them."""

    statusCode: int
    headers: dict[str, str]
    cookies: list[str]


def metadata(status: int, headers: Iterable[tuple[bytes, bytes]]) -> ResponseMetadata:
    """Return the metadata of a response.

    A Function URL accepts only one value for a header. Repeated headers are joined (RFC 9110 5.3), and Set-Cookie has a
    separate field.
    """
    single: dict[str, str] = {}
    cookies: list[str] = []
    for raw_name, raw_value in headers:
        # Decode headers as latin-1, as ASGI servers and frameworks do. json.dumps escapes non-ASCII characters.
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name == "set-cookie":
            cookies.append(value)
        else:
            single[name] = f"{single[name]}, {value}" if name in single else value
    return {"statusCode": status, "headers": single, "cookies": cookies}


def prelude(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the prelude of a streamed response body: its metadata as JSON, then eight NUL bytes.

    Raises ValueError for a prelude above Lambda's limit.
    """
    told = json.dumps(metadata(status, headers), separators=(",", ":"))
    if len(told) + len(_DELIMITER) > MAX_PRELUDE:
        raise ValueError(f"status and headers take {len(told)} bytes; Lambda reads at most {MAX_PRELUDE}")
    return told.encode() + _DELIMITER


class StreamedResponse:
    """Streamed response of an invocation, from the app's first message to the Runtime API's acknowledgement."""

    def __init__(self, begin: Callable[[], Awaitable[RuntimeApiCall]]) -> None:
        self.stage = Stage.NOT_STARTED
        # This event is set at the end of the body, or after the runtime loop has stopped the app.
        self.over = asyncio.Event()
        self._begin = begin
        self._prelude = b""
        self._call: RuntimeApiCall | None = None
        # Let one asyncio task of the app send at a time, because only the first body message opens the connection.
        self._lock = asyncio.Lock()
        self._last_yield = 0.0
        # Let either this response or the thread that takes it over write to the Runtime API first.
        self._beginning = threading.Lock()
        self._is_taken = False

    async def send(self, message: Message) -> None:
        """Send an ASGI message of the app, and wait for a slow client.

        After a lost connection, messages are dropped and the app continues. Raises UnexpectedMessage for a message out
        of order.
        """
        async with self._lock:
            # Yield while holding the lock, so that no later message overtakes this message.
            await self._yield_to_others()
            match self.stage, message["type"]:
                case Stage.DISCONNECTED, _:
                    if message["type"] == "http.response.body" and not message.get("more_body", False):
                        self.over.set()
                case Stage.NOT_STARTED, "http.response.start":
                    self._prelude = prelude(message["status"], message.get("headers", ()))
                    self.stage = Stage.HEADERS_BUFFERED
                case Stage.HEADERS_BUFFERED | Stage.STREAMING, "http.response.body":
                    await self._stream(message.get("body", b""), last=not message.get("more_body", False))
                case stage, kind:
                    raise UnexpectedMessage(f"{kind} while the response is {stage.name}")

    async def finish(self, failure: Failure) -> None:
        """End an open response with an error response, or with an error trailer after the start of the body."""
        async with self._lock:
            match self.stage:
                case Stage.NOT_STARTED | Stage.HEADERS_BUFFERED:
                    self._prelude = prelude(failure.status, OF_JSON)
                    self.stage = Stage.HEADERS_BUFFERED
                    await self._stream(failure.body(), last=True)
                case Stage.STREAMING:
                    await self._stream(b"", last=True, trailers=failure.report.as_trailers())
                case Stage.ENDED | Stage.DISCONNECTED:
                    pass

    async def acknowledged(self) -> None:
        """Wait for the Runtime API's acknowledgement of the complete response."""
        if self._call is None or self.stage is not Stage.ENDED:
            return
        try:
            response = await self._call.response()
        except OSError as error:
            logger.warning("The Runtime API did not acknowledge the response: %r", error)
        else:
            if response.status != 202:
                logger.warning(
                    "The Runtime API answered the response with %s: %r", response.status, response.body[:500]
                )

    def close(self) -> None:
        """Close the connection and drop further messages of the app."""
        if self._call is not None:
            self._call.close()
        self.stage = Stage.DISCONNECTED
        self.over.set()

    def take_over(self) -> Stage:
        """Drop the further messages of the app, and return the stage before. Call it in another thread.

        Before STREAMING, nothing is sent, even if the connection is being opened. The thread may send another response.
        """
        with self._beginning:
            self._is_taken = True
            stage, self.stage = self.stage, Stage.DISCONNECTED
            return stage

    def end_in_thread(self, trailers: Headers) -> None:
        """End the body in another thread, while the event loop is blocked. Raises OSError for a lost connection."""
        if self._call is not None:
            self._call.end_in_thread(trailers)

    async def _yield_to_others(self) -> None:
        # Let other asyncio tasks run. If the client is fast or lost, `send` never waits, so that an app that sends in
        # a loop would block the event loop, and the runtime could not react to the deadline or SIGTERM.
        now = time.monotonic()
        if now - self._last_yield > _MAX_TURN:
            self._last_yield = now
            await asyncio.sleep(0)

    async def _begun(self) -> RuntimeApiCall | None:
        """Open the connection and write the prelude. Return None if another thread has taken the response over."""
        call = await self._begin()
        with self._beginning:
            if self._is_taken:
                call.close()
                self.stage = Stage.DISCONNECTED
                return None
            call.write(self._prelude)
            self.stage = Stage.STREAMING
            return call

    async def _stream(self, body: bytes, *, last: bool, trailers: Headers = ()) -> None:
        try:
            if self._call is None:
                self._call = await self._begun()
            if self._call is None:
                return
            self._call.write(body)
            if last:
                # End the body now, because the client must not wait for work that the app does after its response.
                self._call.end(trailers)
                self.stage = Stage.ENDED
            await self._call.drain()
        except OSError as error:
            logger.warning("The response lost its connection; the app continues: %r", error)
            self.stage = Stage.DISCONNECTED
        finally:
            if last:
                self.over.set()
