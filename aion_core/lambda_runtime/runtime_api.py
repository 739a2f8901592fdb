"""The Lambda Runtime API's endpoints, one connection per request.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html and, for streaming, .../dg/runtimes-custom.html.
h11 writes the HTTP: unlike httpx and http.client it can end a chunked body with trailers, and it costs 12 ms to import.
"""

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlsplit

import h11

from .invocation import Invocation

_VERSION = "/2018-06-01"
_READ_SIZE = 64 * 1024
_ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
_ERROR_BODY = "Lambda-Runtime-Function-Error-Body"

Headers = Sequence[tuple[str, str]]


class RuntimeApiError(ConnectionError):
    """The Runtime API broke off, or answered what it should not."""


@dataclass(frozen=True)
class ErrorReport:
    """An error in the Runtime API's words. Whoever invoked the function may get to see it."""

    error_type: str
    message: str

    def as_json(self) -> bytes:
        """The body that the error endpoints take."""
        return json.dumps({"errorType": self.error_type, "errorMessage": self.message}).encode()

    def as_trailers(self) -> Headers:
        """The trailers that say that a response which had begun is not whole."""
        return [(_ERROR_TYPE, self.error_type), (_ERROR_BODY, base64.b64encode(self.as_json()).decode())]


@dataclass(frozen=True)
class Answer:
    """What the Runtime API answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Exchange:
    """One request to the Runtime API, written piece by piece, then its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ_SIZE)

    @classmethod
    async def begin(cls, address: str, method: str, path: str, headers: Headers = ()) -> Self:
        """Connect and write the request's head; OSError when nobody listens."""
        endpoint = urlsplit(f"//{address}")
        exchange = cls(*await asyncio.open_connection(endpoint.hostname, endpoint.port))
        # A streamed response's connection is to be closed after it, says the documentation; the others may as well.
        general = [("Host", address), ("User-Agent", "aion-lambda-runtime"), ("Connection", "close")]
        exchange._send(h11.Request(method=method, target=_VERSION + path, headers=[*general, *headers]))
        return exchange

    def write(self, data: bytes) -> None:
        """Write a piece of the body. An empty one is left out: a chunk of length zero would end the body."""
        if data:
            self._send(h11.Data(data=data))

    def end(self, trailers: Headers = ()) -> None:
        """Write the end of the body."""
        self._send(h11.EndOfMessage(headers=list(trailers)))

    async def drain(self) -> None:
        """Wait until there is room for more; OSError when the connection is gone."""
        await self._writer.drain()

    async def answer(self) -> Answer:
        """Wait for the answer to the whole request and close; `RuntimeApiError` when there is none."""
        status, headers, body = 0, {}, bytearray()
        try:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._http.receive_data(await self._reader.read(_READ_SIZE))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return Answer(status, headers, bytes(body))
        except h11.RemoteProtocolError as error:
            raise RuntimeApiError(f"no answer that HTTP would know: {error}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Drop the connection and whatever is still unsent."""
        self._writer.transport.abort()

    def _send(self, event: h11.Event) -> None:
        # Not writelines: without the fix for CVE-2024-12254, Pythons 3.12 and 3.13 never make drain() wait after it.
        self._writer.write(self._http.send(event) or b"")


class RuntimeApi:
    """The four endpoints that a runtime uses."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def next(self) -> Invocation:
        """Wait for the next invocation, however long; OSError when this environment has no next one.

        No timeout: between asking and being answered the environment may be frozen for hours.
        """
        answer = await self._ask("GET", "/runtime/invocation/next")
        if answer.status != 200:
            raise RuntimeApiError(f"next answered {answer.status}: {answer.body[:500]!r}")
        try:
            return Invocation.from_answer(answer.headers, answer.body)
        except (KeyError, ValueError) as error:
            raise RuntimeApiError(f"next gave an invocation that cannot be answered: {error!r}") from error

    async def begin_response(self, invocation: Invocation) -> Exchange:
        """Open the streamed response to an invocation; its body is a prelude and what follows it."""
        return await Exchange.begin(
            self._address,
            "POST",
            _path(invocation, "response"),
            [
                ("Lambda-Runtime-Function-Response-Mode", "streaming"),
                ("Transfer-Encoding", "chunked"),
                ("Content-Type", "application/vnd.awslambda.http-integration-response"),
                ("Trailer", f"{_ERROR_TYPE}, {_ERROR_BODY}"),
                *_echo(invocation),
            ],
        )

    async def refuse(self, invocation: Invocation, report: ErrorReport) -> None:
        """Answer an invocation, to which no response has begun, with an error."""
        await self._report(_path(invocation, "error"), report, _echo(invocation))

    async def report_init_error(self, report: ErrorReport) -> None:
        """Say that this environment will never serve."""
        await self._report("/runtime/init/error", report)

    async def _report(self, path: str, report: ErrorReport, headers: Headers = ()) -> None:
        answer = await self._ask(
            "POST",
            path,
            [("Content-Type", "application/json"), (_ERROR_TYPE, report.error_type), *headers],
            report.as_json(),
        )
        if answer.status != 202:
            raise RuntimeApiError(f"{path} answered {answer.status}: {answer.body[:500]!r}")

    async def _ask(self, method: str, path: str, headers: Headers = (), body: bytes = b"") -> Answer:
        exchange = await Exchange.begin(self._address, method, path, [*headers, ("Content-Length", str(len(body)))])
        exchange.write(body)
        exchange.end()
        return await exchange.answer()


def _path(invocation: Invocation, endpoint: str) -> str:
    return f"/runtime/invocation/{quote(invocation.request_id, safe='')}/{endpoint}"


def _echo(invocation: Invocation) -> Headers:
    return [("Lambda-Runtime-Invocation-Id", invocation.invocation_id)] if invocation.invocation_id else []
