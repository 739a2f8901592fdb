"""Hostile A2A server on real sockets: each path is an agent that does one harmful thing, and does it without end if it can."""

import base64
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from random import Random
from typing import Any

MEGABYTE = 1024**2
CONTROLS = "\x1b]0;owned\x07\x9b2J\u202e\u2066"
DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000
DRIP_SECONDS = 0.02
SMALL_PARTS = b",".join([b'{"url":"a"}'] * 1000)
SAID = b'{"messageId":"m%d","role":"ROLE_AGENT","parts":[{"text":"hi"}]}'
STRANGE = b'{"statusUpdate":{"taskId":"u","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}'
DELTA = b'{"artifactUpdate":{"taskId":"t","append":%s,"artifact":{"artifactId":"aion:stream-delta","parts":[{"text":"a"}]}}}'


class Answering(BaseHTTPRequestHandler):
    """One request to a hostile agent."""

    server: "_Server"
    protocol_version = "HTTP/1.1"

    @property
    def mode(self) -> str:
        """Name of the agent, the first part of the path."""
        return self.path.split("/")[1]

    def do_GET(self) -> None:
        """Send the card."""
        self._answer(CARDS.get(self.mode, honest_card))

    def do_POST(self) -> None:
        """Answer a message."""
        self.server.seen.append((self.mode, dict(self.headers)))
        self.request_id = json.loads(self.rfile.read(int(self.headers["content-length"])))["id"]
        self._answer(ANSWERS.get(self.mode, honest_answer))

    def _answer(self, how: Callable[["Answering"], None]) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client has left
            how(self)

    def begin(self, kind: str = "application/json", status: int = 200, **headers: str) -> None:
        """Send the status and the headers."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Connection": "close", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def document(self, document: Any) -> None:
        """Send a JSON document."""
        self.begin()
        self.wfile.write(document if isinstance(document, bytes) else json.dumps(document).encode())

    def event(self, result: Any) -> None:
        """Send a JSON-RPC response as an event."""
        self.wfile.write(self.framed(result if isinstance(result, bytes) else json.dumps(result).encode()))

    def framed(self, result: bytes) -> bytes:
        """Return a result as an event."""
        return b'data: {"jsonrpc":"2.0","id":%s,"result":%s}\n\n' % (json.dumps(self.request_id).encode(), result)

    def without_end(self, text: bytes, *, drips: bool = False) -> None:
        """Send a text until the client has left."""
        while not (drips and self.server.closing.wait(DRIP_SECONDS)):
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()
        self.other_port = 0


@dataclass
class HostileServer:
    """The running server: `url` with the name of an agent behind it is the agent's URL."""

    url: str
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Name of the agent and headers of each message that has arrived, at this port."""
    elsewhere: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """The same at the other port."""


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    """Serve the hostile agents on a port, and on another port."""
    servers = [_Server(), _Server()]
    servers[0].other_port = servers[1].server_port
    threads = [threading.Thread(target=each.serve_forever, args=(0.05,), daemon=True) for each in servers]
    for each in threads:
        each.start()
    try:
        yield HostileServer(f"http://127.0.0.1:{servers[0].server_port}", servers[0].seen, servers[1].seen)
    finally:
        for server in servers:
            server.closing.set()
            server.shutdown()
            server.socket.close()


# ── Cards ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def card(to: Answering, *, port: int = 0, url: str = "", header: str = "X-API-Key", **more: Any) -> dict[str, Any]:
    """Return a card that a client accepts, except for the given things."""
    url = url or f"http://127.0.0.1:{port or to.server.server_port}/{to.mode}/"
    return {
        "name": "n",
        "description": "d",
        "version": "1",
        "capabilities": {"streaming": True},
        "skills": [],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": header}}},
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        **more,
    }


def honest_card(to: Answering) -> None:
    """Send a card that a client accepts."""
    to.document(card(to))


def _endless_card(to: Answering) -> None:
    to.begin()
    to.wfile.write(b'{"name":"')
    to.without_end(b"a" * MEGABYTE)


def _dripping_card(to: Answering) -> None:
    to.begin()
    to.without_end(b" ", drips=True)


def _dripping_headers(to: Answering) -> None:
    to.wfile.write(b"HTTP/1.1 200 OK\r\n")
    to.without_end(b"A: b\r\n", drips=True)


def _packed_card(to: Answering) -> None:
    to.begin(Content_Encoding="gzip")
    to.wfile.write(gzip.compress(bytes(100 * MEGABYTE)))


def _moved_card(to: Answering) -> None:
    to.begin(status=302, Location=f"http://127.0.0.1:{to.server.other_port}{to.path}")


def _in_circles(to: Answering) -> None:
    to.begin(status=302, Location=to.path)


CARDS: dict[str, Callable[[Answering], None]] = {
    "endless-card": _endless_card,
    "dripping-card": _dripping_card,
    "dripping-headers": _dripping_headers,
    "endless-headers": lambda to: to.without_end(b"HTTP/1.1 200 OK\r\n" + b"A: " + b"b" * MEGABYTE),
    "endless-continue": lambda to: to.without_end(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "many-skills": lambda to: to.document(
        card(to, skills=[{"id": f"s{each}", "name": "n"} for each in range(300_000)])
    ),
    "full-card": lambda to: to.document(card(to, skills=[{"id": "s" * 80}] * 4000)),
    "deep-card": lambda to: to.document(DEEP),
    "many-values": lambda to: to.document(b'{"skills":[' + b"0," * 500_000 + b"0]}"),
    "packed-card": _packed_card,
    "list-card": lambda to: to.document([1]),
    "number-card": lambda to: to.document(5),
    "wrong-types": lambda to: to.document(card(to, skills=5, capabilities=[], securitySchemes="x")),
    "no-utf8-card": lambda to: to.document(b'{"name":"\xff\xfe"}'),
    "surrogate-card": lambda to: to.document(b'{"name":"\\ud800","supportedInterfaces":[{"url":"\\ud800"}]}'),
    "moved-card": _moved_card,
    "circle-card": _in_circles,
    "other-port": lambda to: to.document(card(to, port=to.server.other_port)),
    "odd-header": lambda to: to.document(card(to, header="X\r\nEvil: 1")),
    "ftp-card": lambda to: to.document(card(to, url="ftp://127.0.0.1/")),
    "odd-url-card": lambda to: to.document(card(to, url="http://[::1")),
    "odd-port-card": lambda to: to.document(card(to, url="http://127.0.0.1:99999999/")),
    "controls-card": lambda to: to.document(card(to, name=CONTROLS, description=CONTROLS, url=f"ftp://{CONTROLS}/")),
}


# ── Answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def task(text: str = "hi", state: str = "COMPLETED", **more: Any) -> dict[str, Any]:
    """Return a task with a message."""
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}, *more.pop("parts", [])]}
    return {
        "task": {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", "message": message}, **more}
    }


def honest_answer(to: Answering) -> None:
    """Send an answer that a client accepts."""
    _events(to, task())


def _events(to: Answering, *results: Any) -> None:
    to.begin("text/event-stream")
    for each in results:
        to.event(each)


def _line(text: bytes, *, drips: bool = False, begins: bytes = b"data: ") -> Callable[[Answering], None]:
    def answer(to: Answering) -> None:
        to.begin("text/event-stream")
        to.wfile.write(begins)
        to.without_end(text, drips=drips)

    return answer


def artifact(parts: bytes, number: int = 0, *, append: bool = False) -> bytes:
    """Return an artifact's event with these parts."""
    return (
        b'{"artifactUpdate":{"taskId":"t","contextId":"c","append":%s,"artifact":{"artifactId":"a%d","parts":[%s]}}}'
        % (b"true" if append else b"false", number, parts)
    )


def message(number: int) -> bytes:
    """Return a status with a message of the running task."""
    status = b'{"state":"TASK_STATE_WORKING","message":%s}' % (SAID % number)
    return b'{"statusUpdate":{"taskId":"t","contextId":"c","status":%s}}' % status


def _file(size: int) -> bytes:
    return b'{"raw":"%s","filename":"a.bin"}' % base64.b64encode(Random(0).randbytes(size // 4 * 3))


def _endless(event: Callable[[int], bytes]) -> Callable[[Answering], None]:
    """Return an answer with a running task, and such an event for each number from 0 on."""

    def answer(to: Answering) -> None:
        to.begin("text/event-stream")
        to.event(task(state="WORKING"))
        for first in count(0, 10):
            to.wfile.write(b"".join(to.framed(event(number)) for number in range(first, first + 10)))

    return answer


def _full(*events: bytes) -> Callable[[Answering], None]:
    """Return an answer with a running task, these events, and the end of the task."""
    return lambda to: _events(to, task(state="WORKING"), *events, task())


def _endless_chunks(to: Answering) -> None:
    to.begin(Transfer_Encoding="chunked")
    to.without_end(b"1\r\n \r\n" * 10_000)


def _endless_body(status: int) -> Callable[[Answering], None]:
    def answer(to: Answering) -> None:
        to.begin(status=status)
        to.wfile.write(b'{"jsonrpc":"2.0","result":"')
        to.without_end(b"a" * MEGABYTE)

    return answer


def large(text: int, file: int, *, begins: str = "") -> Callable[[Answering], None]:
    """Return an answer with a text and a file of these sizes, the file's in base64. Neither can be compressed much."""

    def answer(to: Answering) -> None:
        chance = Random(0)
        said = begins.encode() + base64.b16encode(chance.randbytes(text // 2))
        raw = base64.b64encode(chance.randbytes(file // 4 * 3))
        result = json.dumps(task("TEXT", parts=[{"raw": "FILE", "filename": "a.bin"}])).encode()
        _events(to, result.replace(b"TEXT", said).replace(b"FILE", raw))

    return answer


def _moved(to: Answering) -> None:
    to.begin(status=307, Location=f"http://127.0.0.1:{to.server.other_port}{to.path}")


def _packed_events(to: Answering) -> None:
    to.begin("text/event-stream", Content_Encoding="gzip")
    to.without_end(gzip.compress(b": " + bytes(100 * MEGABYTE)))


def _response(**members: Any) -> Callable[[Answering], None]:
    return lambda to: to.document({"jsonrpc": "2.0", "id": to.request_id, **members})


ANSWERS: dict[str, Callable[[Answering], None]] = {
    "endless-line": _line(b"a" * MEGABYTE),
    "endless-event": _line(b"data: a\n" * 100_000),
    "endless-comment": _line(b"a" * MEGABYTE, begins=b": "),
    "dripping-line": _line(b"a", drips=True),
    "deep-event": lambda to: _events(to, b'{"task":{"id":"t","metadata":' + DEEP + b"}}"),
    "deep-for-protobuf": lambda to: _events(to, task(metadata=json.loads(b'{"a":' * 50 + b"1" + b"}" * 50))),
    "many-values-event": lambda to: _events(to, b'{"task":{"id":"t","metadata":{"a":[' + b"{}," * 300_000 + b"{}]}}}"),
    "full-file": large(0, 6 * MEGABYTE - 20_000),
    "full-wide-text": large(3 * MEGABYTE // 2 - 20_000, 0, begins="😀"),
    "full-event": large(0, 15 * MEGABYTE),
    "full-wide-event": large(3 * MEGABYTE, 12 * MEGABYTE, begins="😀"),
    "long-text": large(5 * MEGABYTE, 0),
    "full-files": _full(*(artifact(_file(MEGABYTE), number) for number in range(5))),
    "full-parts": _full(artifact(b",".join([b'{"url":"a"}'] * 9_000))),
    "full-data": _full(artifact(b'{"data":[%s]}' % b",".join([b"0"] * 30_000))),
    "full-text": _full(*(artifact(b'{"text":"hello"}', append=number > 0) for number in range(20_000))),
    "endless-files": _endless(lambda number: artifact(_file(MEGABYTE), number)),
    "endless-small-parts": _endless(lambda number: artifact(SMALL_PARTS, append=number > 0)),
    "endless-text": _endless(lambda number: artifact(b'{"text":"a"}', append=number > 0)),
    "endless-messages": _endless(message),
    "endless-artifacts": _endless(lambda number: artifact(b'{"text":"a"}', number)),
    "endless-tasks": _endless(lambda number: b'{"task":{"id":"t","contextId":"c","history":[%s]}}' % (SAID % number)),
    "task-of-another": lambda to: _events(to, task(state="WORKING"), {"task": {**task()["task"], "id": "u"}}),
    "status-of-another": lambda to: _events(to, task(state="WORKING"), STRANGE),
    "task-without-id": lambda to: _events(to, {"task": {"contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}),
    "endless-chunks-of-text": _endless(lambda number: DELTA % (b"true" if number else b"false")),
    "endless-statuses": _endless(lambda _: b'{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}'),
    "endless-nothing": _endless(lambda _: b"{}"),
    "endless-heartbeats": _line(b": ping\n\n" * 1000, begins=b": ping\n\n"),
    "endless-chunks": _endless_chunks,
    "endless-body": _endless_body(200),
    "endless-error": _endless_body(500),
    "packed-events": _packed_events,
    "wrong-result": lambda to: _events(to, {"task": 5}),
    "list-result": lambda to: _events(to, [1]),
    "list-event": _response(result=[]),
    "error-of-text": _response(error="no"),
    "no-json": lambda to: to.document(b"<html>"),
    "no-utf8": lambda to: _events(to, b'{"task":{"id":"\xff"}}'),
    "moved": _moved,
    "wait": lambda to: to.begin("text/plain", 429, Retry_After="9\x1b]0;owned\x07"),
    "controls-error": _response(error={"code": -32602, "message": CONTROLS}),
    "controls": lambda to: _events(
        to, task(CONTROLS, "INPUT_REQUIRED", parts=[{"raw": "UFdO", "filename": f"{CONTROLS}.pdf"}], id=CONTROLS)
    ),
}
