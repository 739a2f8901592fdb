"""Client of the Lambda Runtime API, with one connection per request.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html and, for streaming, .../dg/runtimes-custom.html.
h11 supports trailers after a chunked body, unlike httpx and http.client. Its import takes 12 ms.
"""

import asyncio
import base64
import json
import select
from collections.abc import Sequence
from typing import Self
from urllib.parse import quote, urlsplit

import h11
from msgspec import Struct

from .invocation import Invocation

_VERSION = "/2018-06-01"
_READ_SIZE = 64 * 1024
_END_SECONDS = 1.0
_ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
_ERROR_BODY = "Lambda-Runtime-Function-Error-Body"

Headers = Sequence[tuple[str, str]]


class RuntimeApiError(ConnectionError):
    """Error for a lost connection to the Runtime API, or an unexpected response."""


class ErrorReport(Struct, frozen=True):
    """Error report in the Runtime API's format. The client of the function may receive it."""

    error_type: str
    message: str

    def as_json(self) -> bytes:
        """Return the report as a JSON body for the Runtime API's error endpoints."""
        # Leave out the stack trace, because the client may receive the report. The log contains it.
        return json.dumps({"errorType": self.error_type, "errorMessage": self.message, "stackTrace": []}).encode()

    def as_trailers(self) -> Headers:
        """Return the report as HTTP trailers for an incomplete response."""
        return [(_ERROR_TYPE, self.error_type), (_ERROR_BODY, base64.b64encode(self.as_json()).decode())]


class RuntimeApiResponse(Struct, frozen=True):
    """HTTP response of the Runtime API."""

    status: int
    headers: dict[str, str]
    body: bytes


class RuntimeApiCall:
    """HTTP request to the Runtime API with a streamed body, and its response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ_SIZE)
        self._unsent = b""

    @classmethod
    async def begin(cls, address: str, method: str, path: str, headers: Headers = ()) -> Self:
        """Connect to the Runtime API. The headers are sent with the first part of the body.

        Until then the call can be closed without a trace. Raises OSError for a failed connection.
        """
        endpoint = urlsplit(f"//{address}")
        call = cls(*await asyncio.open_connection(endpoint.hostname, endpoint.port))
        # Close the connection after a streamed response, as the Runtime API's documentation requires.
        general = [("Host", address), ("User-Agent", "aion-lambda-runtime"), ("Connection", "close")]
        request = h11.Request(method=method, target=_VERSION + path, headers=[*general, *headers])
        call._unsent = call._http.send(request) or b""
        return call

    def write(self, data: bytes) -> None:
        """Write a chunk of the request body. Skip an empty chunk, since it would end the body."""
        if data:
            self._send(h11.Data(data=data))

    def end(self, trailers: Headers = ()) -> None:
        """Write the end of the request body and its trailers."""
        self._send(h11.EndOfMessage(headers=list(trailers)))

    def end_in_thread(self, trailers: Headers = ()) -> None:
        """Write the end of the request body in another thread, while the event loop is blocked.

        Do nothing if an earlier part of the body still waits for the event loop. Raises OSError.
        """
        transport = self._writer.transport
        if transport.get_write_buffer_size():
            return
        unsent = self._http.send(h11.EndOfMessage(headers=list(trailers))) or b""
        # Duplicate the socket, because asyncio doesn't let others write to its own.
        with transport.get_extra_info("socket").dup() as own:
            while unsent and select.select([], [own], [], _END_SECONDS)[1]:
                unsent = unsent[own.send(unsent) :]

    async def drain(self) -> None:
        """Wait for space in the write buffer. Raises OSError for a lost connection."""
        await self._writer.drain()

    async def response(self) -> RuntimeApiResponse:
        """Wait for the response and close the connection. Raises RuntimeApiError for an invalid or missing response."""
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
                    return RuntimeApiResponse(status, headers, bytes(body))
        except h11.RemoteProtocolError as error:
            raise RuntimeApiError(f"the response is not valid HTTP: {error}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Abort the connection to the Runtime API and drop unsent data."""
        self._writer.transport.abort()

    def _send(self, event: h11.Event) -> None:
        # Do not use writelines, because drain() does not wait after writelines in Python versions with CVE-2024-12254.
        self._writer.write(self._unsent + (self._http.send(event) or b""))
        self._unsent = b""


class RuntimeApi:
    """Client of the Lambda Runtime API: gets the invocations, and sends their responses and errors."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def next(self) -> Invocation:
        """Wait for the next invocation. Raises OSError if the Runtime API returns no invocation.

        The call has no timeout, since Lambda may freeze the environment for hours during the call.
        """
        response = await self._request("GET", "/runtime/invocation/next")
        if response.status != 200:
            raise RuntimeApiError(f"next responded with {response.status}: {response.body[:500]!r}")
        try:
            return Invocation.from_response(response.headers, response.body)
        except (KeyError, ValueError) as error:
            raise RuntimeApiError(f"next returned an invalid invocation: {error!r}") from error

    async def begin_response(self, invocation: Invocation) -> RuntimeApiCall:
        """Open the streamed response to an invocation. The caller writes a prelude first, then the body."""
        return await RuntimeApiCall.begin(
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
        """Answer an invocation with an error report instead of a response."""
        await self._report(_path(invocation, "error"), report, _echo(invocation))

    async def report_init_error(self, report: ErrorReport) -> None:
        """Report a failed start of this Lambda environment."""
        await self._report("/runtime/init/error", report)

    async def restore_next(self) -> None:
        """Tell Lambda to take the snapshot, and wait until an environment is restored from it.

        Raises OSError if the Runtime API reports an error.
        """
        response = await self._request("GET", "/runtime/restore/next")
        if response.status != 200:
            raise RuntimeApiError(f"restore/next responded with {response.status}: {response.body[:500]!r}")

    async def report_restore_error(self, report: ErrorReport) -> None:
        """Report a failed hook of a restored environment."""
        await self._report("/runtime/restore/error", report)

    async def _report(self, path: str, report: ErrorReport, headers: Headers = ()) -> None:
        response = await self._request(
            "POST",
            path,
            [("Content-Type", "application/vnd.aws.lambda.error+json"), (_ERROR_TYPE, report.error_type), *headers],
            report.as_json(),
        )
        if response.status != 202:
            raise RuntimeApiError(f"{path} responded with {response.status}: {response.body[:500]!r}")

    async def _request(self, method: str, path: str, headers: Headers = (), body: bytes = b"") -> RuntimeApiResponse:
        call = await RuntimeApiCall.begin(self._address, method, path, [*headers, ("Content-Length", str(len(body)))])
        call.write(body)
        call.end()
        return await call.response()


def _path(invocation: Invocation, endpoint: str) -> str:
    return f"/runtime/invocation/{quote(invocation.request_id, safe='')}/{endpoint}"


def _echo(invocation: Invocation) -> Headers:
    return [("Lambda-Runtime-Invocation-Id", invocation.invocation_id)] if invocation.invocation_id else []
