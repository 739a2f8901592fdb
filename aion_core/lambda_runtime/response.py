"""ASGI messages from the app -> one streamed response."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus

from mangum.exceptions import UnexpectedMessage
from mangum.types import Message

from .runtime_api import ErrorReport, Exchange, Headers

logger = logging.getLogger(__name__)

# The front looks for the delimiter in the first 16 KB and no further, says
# https://docs.aws.amazon.com/apigateway/latest/developerguide/response-transfer-mode-lambda.html
_DELIMITER = bytes(8)
_LONGEST_PRELUDE = 16 * 1024

# In seconds.
_LONGEST_TURN = 0.01


class Stage(Enum):
    """How far the response has come.

    * **SILENT** - The app has said nothing.
    * **ANNOUNCED** - The app has given status and headers. They wait for its first body message, as ASGI asks, so an
      app that fails in between is still answered for with a 500.
    * **STREAMING** - The prelude is out; from here an error can only be a trailer.
    * **ENDED** - The body is complete. The app may go on, its client is served.
    * **UNHEARD** - The connection broke, or the loop gave the app up. What the app still says is dropped.
    """

    SILENT = auto()
    ANNOUNCED = auto()
    STREAMING = auto()
    ENDED = auto()
    DISCONNECTED = auto()


@dataclass(frozen=True)
class Failure:
    """How an app that did not answer is answered for. Fixed words: the story is in the log, none of it on the wire."""

    status: HTTPStatus
    report: ErrorReport

    def body(self) -> bytes:
        """The body of the response, if none had begun."""
        return json.dumps({"message": self.status.phrase}).encode()


APP_FAILED = Failure(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorReport("Runtime.AppFailed", "The application failed; the response is not complete."),
)
OUT_OF_TIME = Failure(
    HTTPStatus.GATEWAY_TIMEOUT,
    ErrorReport("Runtime.OutOfTime", "The application was stopped; the response is not complete."),
)


def prelude(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return what goes before the body: status, headers and cookies as JSON, then eight NUL bytes.

    A repeated header becomes one list (RFC 9110, 5.3), since a Function URL takes single values only; Set-Cookie,
    which cannot be one, has a place of its own. ValueError if it is longer than the front reads.
    """
    single: dict[str, str] = {}
    cookies: list[str] = []
    for raw_name, raw_value in headers:
        # latin-1 is how ASGI servers and frameworks read header bytes; json.dumps escapes what is not ASCII.
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name == "set-cookie":
            cookies.append(value)
        else:
            single[name] = f"{single[name]}, {value}" if name in single else value
    metadata = json.dumps({"statusCode": status, "headers": single, "cookies": cookies}, separators=(",", ":"))
    if len(metadata) + len(_DELIMITER) > _LONGEST_PRELUDE:
        raise ValueError(f"status and headers take {len(metadata)} bytes; Lambda reads at most {_LONGEST_PRELUDE}")
    return metadata.encode() + _DELIMITER


class Response:
    """One response, from the app's first message to the Runtime API's receipt."""

    def __init__(self, begin: Callable[[], Awaitable[Exchange]]) -> None:
        self.stage = Stage.SILENT
        # Set when there is nobody left to answer: the body is complete, or the app was given up.
        self.over = asyncio.Event()
        self._begin = begin
        self._prelude = b""
        self._exchange: Exchange | None = None
        # Tasks of one app may send at once; without it two first messages would open two connections.
        self._turn = asyncio.Lock()
        self._others_ran = 0.0

    async def send(self, message: Message) -> None:
        """ASGI's `send`: return when there is room for more; `UnexpectedMessage` for what is out of turn.

        A connection that breaks is the client's loss, not the app's: from then on messages are dropped.
        """
        await self._let_others_run()
        async with self._turn:
            match self.stage, message["type"]:
                case Stage.DISCONNECTED, _:
                    if message["type"] == "http.response.body" and not message.get("more_body", False):
                        self.over.set()
                case Stage.SILENT, "http.response.start":
                    self._prelude = prelude(message["status"], message.get("headers", ()))
                    self.stage = Stage.ANNOUNCED
                case Stage.ANNOUNCED | Stage.STREAMING, "http.response.body":
                    await self._stream(message.get("body", b""), last=not message.get("more_body", False))
                case stage, kind:
                    raise UnexpectedMessage(f"{kind} while the response is {stage.name}")

    async def finish_for_the_app(self, failure: Failure) -> None:
        """Finish what the app left open: a whole response if none had begun, else an end that says it is not whole."""
        async with self._turn:
            match self.stage:
                case Stage.SILENT | Stage.ANNOUNCED:
                    self._prelude = prelude(failure.status, [(b"content-type", b"application/json")])
                    self.stage = Stage.ANNOUNCED
                    await self._stream(failure.body(), last=True)
                case Stage.STREAMING:
                    await self._stream(b"", last=True, trailers=failure.report.as_trailers())
                case Stage.ENDED | Stage.DISCONNECTED:
                    pass

    async def receipt(self) -> None:
        """Wait until the Runtime API has taken the response."""
        if self._exchange is None or self.stage is not Stage.ENDED:
            return
        try:
            answer = await self._exchange.answer()
        except OSError as error:
            logger.warning("The Runtime API gave no receipt for the response: %r", error)
        else:
            if answer.status != 202:
                logger.warning("The Runtime API answered the response with %s: %r", answer.status, answer.body[:500])

    def close(self) -> None:
        """Let go of the connection; what an app that goes on says from here is dropped."""
        if self._exchange is not None:
            self._exchange.close()
        self.stage = Stage.DISCONNECTED
        self.over.set()

    async def _let_others_run(self) -> None:
        # A reader that keeps up, or none, never makes an app wait that does nothing but send. It would own the event
        # loop; neither the deadline nor SIGTERM would come through.
        now = time.monotonic()
        if now - self._others_ran > _LONGEST_TURN:
            self._others_ran = now
            await asyncio.sleep(0)

    async def _stream(self, body: bytes, *, last: bool, trailers: Headers = ()) -> None:
        try:
            if self._exchange is None:
                self._exchange = await self._begin()
                self._exchange.write(self._prelude)
                self.stage = Stage.STREAMING
            self._exchange.write(body)
            if last:
                # Here, not when the app returns: what it does after its answer is not the client's to wait for.
                self._exchange.end(trailers)
                self.stage = Stage.ENDED
            await self._exchange.drain()
        except OSError as error:
            logger.warning("The response lost its connection, the app runs on: %r", error)
            self.stage = Stage.DISCONNECTED
        finally:
            if last:
                self.over.set()
