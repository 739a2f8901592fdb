"""Invocation of a function by `sam local start-lambda`; a server of the test answers in its place."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from aion_tools.sam_local.invocation import InvocationFailed, client, handler

ANSWERS = {
    "Works": (200, b'{"batchItemFailures": []}'),
    "Silent": (200, b""),
    "Raises": (200, b'{"errorMessage": "boom", "errorType": "ValueError", "stackTrace": []}'),
    "Missing": (404, b'{"Type": "User", "Message": "Function not found"}'),
    "Broken": (200, b"<html>"),
}
received: list[tuple[str, object]] = []


class _Lambda(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        function = self.path.split("/")[3]
        received.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        status, body = ANSWERS[function]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Lambda)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_result_of_function_is_returned(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with client(port) as lambdas:
        assert handler(lambdas, "Works")({"Records": []}, None) == {"batchItemFailures": []}
        assert handler(lambdas, "Silent")({}, None) is None
    assert received[0] == ("/2015-03-31/functions/Works/invocations", {"Records": []})


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("Raises", "^Raises failed: .*boom"),
        ("Missing", "^Missing failed: .*Function not found"),
        ("Broken", "^Broken could not be invoked"),
    ],
)
def test_failed_function_is_named(port: int, function: str, told: str) -> None:
    with client(port) as lambdas, pytest.raises(InvocationFailed, match=told):
        handler(lambdas, function)({}, None)


def test_unreachable_server_is_a_failed_invocation(port: int) -> None:
    with client(1) as lambdas, pytest.raises(InvocationFailed, match=r"^Works could not be invoked"):
        handler(lambdas, "Works")({}, None)
