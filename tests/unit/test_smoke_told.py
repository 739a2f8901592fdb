"""What `aion smoke` says where it finds no agent of ours, or is told something that cannot be."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from aion_core.cli.smoke import smoke
from tests.support.listening import free_port


def smoked(*arguments: str) -> Result:
    return CliRunner().invoke(smoke, arguments)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """A server that gives everything the same answer; yields its URL, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that http.server calls

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
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
def test_what_is_no_url_is_asked_for_again(url: str) -> None:
    done = smoked(url)
    assert done.exit_code == 2
    assert "has to say where the deployment is, as https://…" in done.stderr


def test_where_nothing_answers_that_is_said() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = smoked(url)
    assert done.exit_code == 2
    told = done.stdout.splitlines()[-1]
    assert told.startswith(f"FAILED   card       nothing answers at {url}/.well-known/agent-card.json: ")
    assert told.endswith("Nothing else was checked")


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html><title>It works!</title></html>", "there is no agent card at {url}/.well-known/agent-card.json: "),
        (200, b'{"name": "not an agent"}', "no agent card at {url}/.well-known/agent-card.json: it offers no interface"),
        (200, b"[1]", "there is no agent card at {url}/.well-known/agent-card.json: "),
        (404, b"<!DOCTYPE HTML>\n<html><head>", "was answered with 404 (nothing is there: does the URL hold the stage"),
        (401, b'{"error": {"message": "Who calls is not known.", "details": [{"a": 1}]}}',
         "was answered with 401: Who calls is not known. (TOKEN=…, API_KEY=… or BASIC=…"),
        (500, b'{"error": "down"}', 'was answered with 500: {{"error": "down"}}'),
    ],
)  # fmt: skip
def test_a_server_that_is_no_agent_is_told_from_one_and_asked_no_more(status: int, body: bytes, told: str) -> None:
    with answering(status, body) as (url, asked):
        done = smoked(url)
    assert done.exit_code == 2
    said = done.stdout.splitlines()
    assert len(said) == 2
    assert told.format(url=url) in said[-1]
    assert said[-1].endswith("Nothing else was checked")
    assert asked == ["GET /.well-known/agent-card.json"]
