"""Output of `aion smoke` for missing agents and invalid arguments."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from aion_tools.cli.smoke import smoke
from aion_tools.smoke.report import Report
from tests.support.listening import free_port


def smoked(*arguments: str) -> Result:
    return CliRunner().invoke(smoke, arguments)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """Serve one response to all requests; yield the URL, and the list of requests."""
    asked: list[str] = []

    class ReportHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that http.server calls

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), ReportHandler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "AGENT", "TOKEN", "API_KEY", "BASIC", "ONLY", "SIGN", "AION_STACK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "url", ["", "agents.example.com", "http://", "https:///dev", "http://127.0.0.1:port", "ftp://a"]
)
def test_invalid_url_is_refused(url: str) -> None:
    done = smoked(url)
    assert done.exit_code == 2
    assert "as https://…" in done.stderr


def test_unreachable_deployment_is_reported() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = smoked(url)
    assert done.exit_code == 2
    told = done.stdout.splitlines()[-1]
    assert told.startswith(f"FAILED   card       no response from {url}/.well-known/agent-card.json: ")
    assert told.endswith("No other check was made")


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html><title>It works!</title></html>", "{url}/.well-known/agent-card.json is not an agent card: "),
        (200, b'{"name": "not an agent"}', "{url}/.well-known/agent-card.json is not an agent card: the card offers no interface"),
        (200, b"[1]", "{url}/.well-known/agent-card.json is not an agent card: "),
        (404, b"<!DOCTYPE HTML>\n<html><head>", "returned 404 (not found: does the URL contain the stage (/dev), and is --agent in aion.yaml?)"),
        (401, b'{"error": {"message": "Who calls is not known.", "details": [{"a": 1}]}}',
         "returned 401: Who calls is not known. (set TOKEN, API_KEY or BASIC"),
        (500, b'{"error": "down"}', 'returned 500: {{"error": "down"}}'),
    ],
)  # fmt: skip
def test_smoke_stops_if_server_has_no_agent(status: int, body: bytes, told: str) -> None:
    with answering(status, body) as (url, asked):
        done = smoked(url)
    assert done.exit_code == 2
    said = done.stdout.splitlines()
    assert len(said) == 2
    assert told.format(url=url) in said[-1]
    assert said[-1].endswith("No other check was made")
    assert asked == ["GET /.well-known/agent-card.json"]


def test_timeout_of_silent_server_is_printed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = smoked(f"http://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "1")
    assert done.exit_code == 2
    assert "agent-card.json: ReadTimeout. No other check" in done.stdout


def test_time_limit_below_a_second_is_refused() -> None:
    done = smoked("http://127.0.0.1:1", "--timeout", "0")
    assert done.exit_code == 2
    assert "'--timeout'" in done.stderr


def test_report_escapes_control_characters_of_server(capsys: pytest.CaptureFixture[str]) -> None:
    Report().print("ok", "card", "a \x1b]0;owned\x07\n\x9b2J name")
    assert capsys.readouterr().out == "ok       card       a \\x1b]0;owned\\x07 \\x9b2J name\n"
