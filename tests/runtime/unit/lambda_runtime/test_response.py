import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from mangum.exceptions import UnexpectedMessage

from aion_core.lambda_runtime.invocation import Invocation
from aion_core.lambda_runtime.response import APP_FAILED, OUT_OF_TIME, Stage, StreamedResponse, prelude
from aion_core.lambda_runtime.runtime_api import RuntimeApi, RuntimeApiCall
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.rows import each_row

NUL = bytes(8)
INVOCATION = Invocation("r-1", deadline_ms=4102444800000, payload=b"", invocation_id="attempt-1")


class Wire:
    """Server that records the received bytes and responds with 202."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading = asyncio.Event()
        self.reading.set()
        self.ended = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not self.sent.endswith((b"0\r\n\r\n", b"==\r\n\r\n")):
            await self.reading.wait()
            data = await reader.read(64 * 1024)
            if not data:
                break
            self.sent += data
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        self.ended.set()


@asynccontextmanager
async def wired() -> AsyncIterator[tuple[Wire, RuntimeApi, str]]:
    wire = Wire()
    async with await asyncio.start_server(wire.connected, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        address = f"{host}:{port}"
        yield wire, RuntimeApi(address), address


def start(status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> dict[str, object]:
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(data: bytes = b"", more: bool = False) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def head(address: str) -> bytes:
    return (
        f"POST /2018-06-01/runtime/invocation/r-1/response HTTP/1.1\r\n"
        f"Host: {address}\r\n"
        "User-Agent: aion-lambda-runtime\r\n"
        "Connection: close\r\n"
        "Lambda-Runtime-Function-Response-Mode: streaming\r\n"
        "Transfer-Encoding: chunked\r\n"
        "Content-Type: application/vnd.awslambda.http-integration-response\r\n"
        "Trailer: Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body\r\n"
        "Lambda-Runtime-Invocation-Id: attempt-1\r\n"
        "\r\n"
    ).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@each_row(
    ("messages", "expected"),
    [
        (
            [start(200, [(b"content-type", b"text/event-stream")]), body(b"data: a\n\n", True), body(b"data: b\n\n")],
            chunk(b'{"statusCode":200,"headers":{"content-type":"text/event-stream"},"cookies":[]}' + NUL)
            + chunk(b"data: a\n\n")
            + chunk(b"data: b\n\n")
            + b"0\r\n\r\n",
        ),
        ([start(204), body()], chunk(b'{"statusCode":204,"headers":{},"cookies":[]}' + NUL) + b"0\r\n\r\n"),
        # Leave out the fields that are optional in ASGI.
        (
            [{"type": "http.response.start", "status": 200}, {"type": "http.response.body"}],
            chunk(b'{"statusCode":200,"headers":{},"cookies":[]}' + NUL) + b"0\r\n\r\n",
        ),
        (
            [start(), body(b"", True), body(b"a", True), body(b"", True), body(b"")],
            chunk(b'{"statusCode":200,"headers":{},"cookies":[]}' + NUL) + chunk(b"a") + b"0\r\n\r\n",
        ),
    ],
)
async def test_asgi_response_messages_convert_to_bytes(messages: list[dict[str, object]], expected: bytes) -> None:
    async with wired() as (wire, api, address):
        response = StreamedResponse(lambda: api.begin_response(INVOCATION))
        for message in messages:
            await response.send(message)
        assert response.stage is Stage.ENDED
        assert response.over.is_set()
        await response.acknowledged()
        assert bytes(wire.sent) == head(address) + expected


async def test_response_stopped_at_deadline_ends_with_error_trailers() -> None:
    async with wired() as (wire, api, address):
        response = StreamedResponse(lambda: api.begin_response(INVOCATION))
        await response.send(start())
        await response.send(body(b"a", more=True))
        await response.finish(OUT_OF_TIME)
        await response.acknowledged()
        error = (
            b'{"errorType": "Runtime.OutOfTime", '
            b'"errorMessage": "The application was stopped; the response is not complete.", "stackTrace": []}'
        )
        assert bytes(wire.sent) == (
            head(address)
            + chunk(b'{"statusCode":200,"headers":{},"cookies":[]}' + NUL)
            + chunk(b"a")
            + b"0\r\n"
            + b"Lambda-Runtime-Function-Error-Type: Runtime.OutOfTime\r\n"
            + b"Lambda-Runtime-Function-Error-Body: "
            + base64.b64encode(error)
            + b"\r\n\r\n"
        )


async def test_response_headers_are_replaced_if_app_fails_before_body() -> None:
    async with wired() as (wire, api, _):
        response = StreamedResponse(lambda: api.begin_response(INVOCATION))
        await response.send(start(200, [(b"set-cookie", b"session=abc")]))
        assert response.stage is Stage.HEADERS_BUFFERED
        await response.finish(APP_FAILED)
        await response.acknowledged()
        assert b"session" not in wire.sent
        assert chunk(b'{"message": "Internal Server Error"}') in wire.sent


@each_row(
    ("before", "message", "stage"),
    [
        ([], body(), Stage.NOT_STARTED),
        ([start()], start(), Stage.HEADERS_BUFFERED),
        ([start(), body(b"a", True)], start(), Stage.STREAMING),
        ([start(), body()], body(), Stage.ENDED),
        ([start(), body()], start(), Stage.ENDED),
        ([start()], {"type": "http.response.trailers"}, Stage.HEADERS_BUFFERED),
    ],
)
async def test_asgi_message_out_of_order_raises(
    before: list[dict[str, object]], message: dict[str, object], stage: Stage
) -> None:
    async with wired() as (_, api, _):
        response = StreamedResponse(lambda: api.begin_response(INVOCATION))
        for earlier in before:
            await response.send(earlier)
        with pytest.raises(UnexpectedMessage):
            await response.send(message)
        assert response.stage is stage
        response.close()


async def test_two_asyncio_tasks_may_send_parts_of_one_response() -> None:
    async with FakeRuntimeApi() as fake:
        invoked = fake.invoke({})
        api = RuntimeApi(fake.address)
        invocation = await api.next()
        response = StreamedResponse(lambda: api.begin_response(invocation))
        await response.send(start())
        response._last_yield = 0.0  # make the first asyncio task yield to the others
        await asyncio.gather(*(response.send(body(b"%d" % number, more=True)) for number in range(10)))
        await response.send(body())
        await response.acknowledged()
        assert "invocation-1 response rejected" not in fake.journal
        assert (await invoked.answered()).body == b"0123456789"


async def test_app_continues_after_lost_connection() -> None:
    response = StreamedResponse(lambda: RuntimeApi("127.0.0.1:1").begin_response(INVOCATION))
    await response.send(start())
    await response.send(body(b"a", more=True))
    assert response.stage is Stage.DISCONNECTED
    assert not response.over.is_set()
    await response.send(body(b"b"))
    assert response.over.is_set()
    await response.finish(APP_FAILED)
    await response.acknowledged()


async def ran_while_sending(response: StreamedResponse) -> list[str]:
    """Run an app that sends, and another asyncio task. Return the order in which they end."""
    order = []

    async def somebody_else() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        order.append("somebody else")

    async def send() -> None:
        for _ in range(10_000):
            await response.send(body(b"x" * 1000, more=True))
        order.append("sender")

    await response.send(start())
    await response.send(body(b"x", more=True))
    async with asyncio.TaskGroup() as together:
        together.create_task(send())
        together.create_task(somebody_else())
    response.close()
    return order


async def test_app_sending_to_fast_reader_yields_to_other_asyncio_tasks() -> None:
    # Read the response in a separate process, which does nothing else, so that the reader is faster than the app.
    code = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\n"
        "connection, _ = server.accept()\n"
        "while connection.recv(1 << 20): pass\n"
    )
    reader = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert reader.stdout is not None
    api = RuntimeApi(f"127.0.0.1:{int(await reader.stdout.readline())}")
    assert await ran_while_sending(StreamedResponse(lambda: api.begin_response(INVOCATION))) == [
        "somebody else",
        "sender",
    ]
    await reader.communicate()


async def test_sending_app_waits_for_slow_reader() -> None:
    async with wired() as (wire, api, _):
        wire.reading.clear()
        exchange = await api.begin_response(INVOCATION)
        transport = exchange._writer.transport
        _, high_water = transport.get_write_buffer_limits()

        async def begin() -> RuntimeApiCall:
            return exchange

        response = StreamedResponse(begin)
        await response.send(start())
        piled_up: list[int] = []

        async def send() -> None:
            for _ in range(1000):
                await response.send(body(b"x" * high_water, more=True))
                piled_up.append(transport.get_write_buffer_size())
            await response.send(body())

        sending = asyncio.create_task(send())
        # The app sends more than the buffers of both sides hold, so it must wait before our buffer exceeds its limit.
        while transport.get_write_buffer_size() <= high_water and not sending.done():
            await asyncio.sleep(0)
        wire.reading.set()
        await sending
        await response.acknowledged()
        assert max(piled_up) <= high_water
        assert len(wire.sent) > 1000 * high_water


@each_row(
    ("headers", "expected"),
    [
        ([], b'{"statusCode":200,"headers":{},"cookies":[]}'),
        (
            [(b"Content-Type", b"text/html"), (b"Vary", b"Accept"), (b"VARY", b"Origin")],
            b'{"statusCode":200,"headers":{"content-type":"text/html","vary":"Accept, Origin"},"cookies":[]}',
        ),
        (
            [(b"Set-Cookie", b"a=1; Path=/"), (b"set-cookie", b"b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT")],
            b'{"statusCode":200,"headers":{},"cookies":["a=1; Path=/","b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT"]}',
        ),
        ([(b"x", b"caf\xe9")], b'{"statusCode":200,"headers":{"x":"caf\\u00e9"},"cookies":[]}'),
        # Eight NUL bytes in a header must not look like the delimiter, so they are escaped.
        ([(b"x", NUL)], b'{"statusCode":200,"headers":{"x":"' + b"\\u0000" * 8 + b'"},"cookies":[]}'),
    ],
)
def test_status_and_headers_are_encoded_in_lambda_response_prelude(
    headers: list[tuple[bytes, bytes]], expected: bytes
) -> None:
    assert prelude(200, headers) == expected + NUL


def test_response_headers_above_16_kib_raise_error() -> None:
    room = 16 * 1024 - len(prelude(200, [(b"x", b"")]))
    assert len(prelude(200, [(b"x", b"y" * room)])) == 16 * 1024
    with pytest.raises(ValueError, match="16384"):
        prelude(200, [(b"x", b"y" * (room + 1))])
