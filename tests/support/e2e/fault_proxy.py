"""HTTP proxy in front of the AWS emulator. Rules select the AWS calls that fail, and how."""

import asyncio
import itertools
import json
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_SERVICE = re.compile(rb"Credential=[^/]+/[^/]+/[^/]+/([^/]+)/aws4_request")
_TARGET = re.compile(rb"x-amz-target: *[^\r]*\.([A-Za-z]+)", re.IGNORECASE)
_DROPPED = re.compile(rb"(?:connection|expect): [^\r]*\r\n", re.IGNORECASE)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Call:
    """HTTP request of an AWS operation, and the connection for its response."""

    head: bytes
    body: bytes
    writer: asyncio.StreamWriter
    endpoint: str

    @property
    def service(self) -> str:
        """Return the AWS service in the request's signature, such as `dynamodb`."""
        found = _SERVICE.search(self.head)
        return found[1].decode() if found else ""

    @property
    def operation(self) -> str:
        """Return the AWS operation, such as `TransactWriteItems`, or the HTTP method for S3."""
        found = _TARGET.search(self.head)
        return found[1].decode() if found else self.head.split(b" ", 1)[0].decode()

    async def forward(self) -> bytes:
        """Send the request to the emulator and return the response."""
        place = urlsplit(self.endpoint)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        line, _, headers = _DROPPED.sub(b"", self.head).partition(b"\r\n")
        writer.write(line + b"\r\nConnection: close\r\n" + headers + self.body)
        answer = await reader.read()
        writer.close()
        return answer


Fault = Callable[[Call], Awaitable[bytes | None]]
"""Answer to a call; None closes the connection without an answer."""


@dataclass
class Rule:
    """Fault for every `every`-th call of a service's `operations` (empty: all), at most `times` times."""

    service: str
    fault: Fault
    operations: tuple[str, ...] = ()
    every: int = 1
    times: int | None = None
    injected: int = 0
    _matched: int = field(default=0, repr=False)

    def takes(self, call: Call) -> bool:
        """Count the call; return True if the rule's fault applies to it."""
        if call.service != self.service or (self.operations and call.operation not in self.operations):
            return False
        self._matched += 1
        if self._matched % self.every or (self.times is not None and self.injected >= self.times):
            return False
        self.injected += 1
        return True


class FaultProxy:
    """Proxy at `url`. Tests may change `rules` at any time; `calls` counts each service's operations."""

    def __init__(self, endpoint: str) -> None:
        self.rules: list[Rule] = []
        self.calls: Counter[str] = Counter()
        self.url = ""
        self._endpoint = endpoint

    @contextmanager
    def injecting(self, *rules: Rule) -> Iterator[None]:
        """Apply these rules to all calls until the block ends."""
        self.rules = list(rules)
        try:
            yield
        finally:
            self.rules = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"100-continue" in head.lower():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = _LENGTH.search(head)
            call = Call(head, await reader.readexactly(int(length[1]) if length else 0), writer, self._endpoint)
            self.calls[f"{call.service}.{call.operation}"] += 1
            rule = next((rule for rule in self.rules if rule.takes(call)), None)
            answer = await (rule.fault(call) if rule else call.forward())
            if answer is not None:
                writer.write(answer)
                await writer.drain()
        writer.close()


@contextmanager
def fault_proxy(endpoint: str) -> Iterator[FaultProxy]:
    """Run a proxy to the endpoint in a new thread until the block ends."""
    proxy, loop = FaultProxy(endpoint), asyncio.new_event_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    proxy.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    loop.run_until_complete(asyncio.start_server(proxy._serve, sock=listener, limit=2**20))
    thread = threading.Thread(target=loop.run_forever, name="fault-proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listener.close()


def _answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.0\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def refused(status: int = 503, code: str = "ServiceUnavailable") -> Fault:
    """Return this AWS error without executing the call."""

    async def fault(_: Call) -> bytes | None:
        return _answer(status, json.dumps({"__type": code, "message": "injected"}).encode())

    return fault


async def lost(call: Call) -> bytes | None:
    """Execute the call, but answer with a server error."""
    await call.forward()
    return _answer(500, b'{"__type": "InternalServerError", "message": "injected"}')


async def reset(call: Call) -> bytes | None:
    """Reset the connection before the call, after the call, or in the middle of the response."""
    answer = b"" if next(_resets) % 3 == 0 else await call.forward()
    if len(answer) % 2:
        call.writer.write(answer[: len(answer) // 2])
        await call.writer.drain()
    # Set SO_LINGER to 0 seconds, so that closing the connection sends a TCP reset.
    call.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    call.writer.transport.abort()
    return None


_resets = itertools.count()


def slow(seconds: float) -> Fault:
    """Delay the response."""

    async def fault(call: Call) -> bytes | None:
        answer = await call.forward()
        await asyncio.sleep(seconds)
        return answer

    return fault


def repeated(times: int) -> Fault:
    """Execute the call several times, and return the last response."""

    async def fault(call: Call) -> bytes | None:
        return [await call.forward() for _ in range(times)][-1]

    return fault


def delayed(seconds: int) -> Fault:
    """Delay every second SQS message, so that later messages overtake it."""
    turns = itertools.cycle((0, seconds))

    async def fault(call: Call) -> bytes | None:
        request = json.loads(call.body)
        request["DelaySeconds"] = min(900, int(request.get("DelaySeconds", 0)) + next(turns))
        call.body = json.dumps(request).encode()
        call.head = _LENGTH.sub(b"content-length: %d" % len(call.body), call.head)
        return await call.forward()

    return fault


def cancelled() -> Fault:
    """Cancel a transaction with different reasons for its items, as DynamoDB does under contention and throttling."""
    mixtures = itertools.cycle(
        [
            ("TransactionConflict", "None", "TransactionConflict"),
            ("ThrottlingError", "None", "TransactionConflict"),
            ("ProvisionedThroughputExceeded", "None", "ThrottlingError"),
            ("TransactionConflict", "ProvisionedThroughputExceeded", "None"),
        ]
    )

    async def fault(call: Call) -> bytes | None:
        count = len(json.loads(call.body)["TransactItems"])
        codes = list(itertools.islice(itertools.cycle(next(mixtures)), count))
        body = {
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": f"Transaction cancelled, please refer cancellation reasons for specific reasons {codes}",
            "CancellationReasons": [{"Code": code} for code in codes],
        }
        return _answer(400, json.dumps(body).encode())

    return fault
