"""Exporters of an agent's code send what they hold before Lambda freezes the process."""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from aion.shared.telemetry import before_freeze
from aion_core.authoring.before_freeze import flushes
from aion_core.bootstrap.exporters import Exporters
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.telemetry import NoopTraces, NullMetrics
from aion_core.web.app import build_app
from aion_core.web.app_parts import Instruments, ServedAgent, SharedServices
from aion_core.web.cards.agent_cards import AgentCards
from tests.runtime.unit.engine.teller import Teller
from tests.support.e2e import forked
from tests.support.pages import blocks
from tests.support.service import http, parts, send


@pytest.fixture(autouse=True)
def registered() -> Iterator[list[Any]]:
    before = list(flushes)
    yield flushes
    flushes[:] = before


def exporters(*, freezes: bool = True) -> Exporters:
    return Exporters(NoopTraces(), freezes=freezes)


def test_functions_of_authors_run_at_the_same_time() -> None:
    """Each function waits for the other one."""
    meet, done = threading.Barrier(2, timeout=60), []

    @before_freeze
    def first() -> None:
        meet.wait()
        done.append("first")

    @before_freeze
    def second() -> None:
        meet.wait()
        done.append("second")

    exporters().flush(60)
    assert sorted(done) == ["first", "second"]


def test_slow_function_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    release, sent = threading.Event(), threading.Event()

    @before_freeze
    def slow() -> None:
        release.wait(60)
        sent.set()

    exporters().flush(0.01)
    release.set()
    assert sent.wait(60), "it goes on in the next invocation"
    assert any("slow has not sent everything" in record.message for record in caplog.records)


def test_error_of_function_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    sent = []

    @before_freeze
    def broken() -> None:
        raise RuntimeError("the collector is away")

    before_freeze(lambda: sent.append(1))
    with caplog.at_level(logging.ERROR):
        exporters().flush(60)
    assert sent == [1]
    assert any("broken could not send what it holds" in record.message for record in caplog.records)


def test_nothing_runs_where_nothing_freezes() -> None:
    sent: list[int] = []
    before_freeze(lambda: sent.append(1))
    local = exporters(freezes=False)
    local.flush(60)
    assert (local.hold, sent) == (False, [])


def test_example_of_the_page_registers_its_exporter() -> None:
    (block,) = [each for each in blocks("docs/observability.md") if each.language == "python"]
    before = len(flushes)
    exec(block.code, {})  # noqa: S102  # the page's own code
    assert len(flushes) == before + 1
    exporters().flush(60)


def test_only_functions_can_be_registered() -> None:
    not_a_function: Any = "flush"
    with pytest.raises(TypeError, match="takes a function"):
        before_freeze(not_a_function)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_functions_run_after_the_response_has_ended(method: str) -> None:
    order: list[str] = []
    before_freeze(lambda: order.append("flushed"))
    made = parts(Teller())
    telemetry = Telemetry(NullMetrics(), NoopTraces(), freezes=True)

    services = SharedServices(made.service, made.lister, made.conversations)
    served = ServedAgent(made.agent, AgentCards.of(made.card, None), True)
    app = build_app(services, {"test": served}, instruments=Instruments(flush=telemetry.flush))

    async def observed(scope: Any, receive: Any, send_: Any) -> None:
        async def noted(message: Any) -> None:
            await send_(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                order.append("response ended")

        await app(scope, receive, noted)

    async with http(observed) as client:
        await client.post("/", json=send("hello", method=method))
    assert order == ["response ended", "flushed"]


BATCHES = {
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20_971_520,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 16,
    "scale_down_nempty_trigger": 4,
}
"""Configuration with which LangSmith's client sends its runs as JSON."""

PROGRAM = """
import asyncio, json, sys
from aion_core.bootstrap.app import build_app
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.settings import Settings
from aion_core.telemetry import NoopTraces, NullMetrics
from tests.support.service import http, send
import urllib.request

async def main(url, turns):
    settings = Settings.from_environ({"AION_CONFIG": "bench/aion.yaml", "AION_STORE": "memory", "AION_AUTH": "off"})
    app = build_app(settings, Telemetry(NullMetrics(), NoopTraces(), freezes=True))
    async with http(app) as client:
        client.base_url = "http://127.0.0.1"
        for number in range(turns):
            method = "SendMessage" if number % 2 else "SendStreamingMessage"
            answered = await client.post("/", json=send("3 0", message_id=f"m-{number}", method=method))
            assert "COMPLETED" in answered.text, answered.text
            # Here Lambda freezes the process.
            print(urllib.request.urlopen(url + "/ended").read().decode(), flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("turns", [4, pytest.param(50, marks=pytest.mark.deep)])
def test_no_run_of_langsmith_is_lost(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace turns with the real client of LangSmith; its collector answers after 150 ms."""
    ended: set[str] = set()

    class Collector(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            limits = json.dumps({"version": "0.12.0", "batch_ingest_config": BATCHES}).encode()
            self.answer(str(len(ended)).encode() if self.path == "/ended" else limits)

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(0.15)
            for run in (*sent.get("post", ()), *sent.get("patch", ())):
                if run.get("end_time") and not run.get("parent_run_id"):
                    ended.add(run["id"])
            self.answer(b"{}")

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    for name, value in {"TRACING": "true", "ENDPOINT": url, "API_KEY": "lsv2_pt_x"}.items():
        monkeypatch.setenv(f"LANGSMITH_{name}", value)
    try:
        ran = forked.run("-c", PROGRAM, url, str(turns), env=os.environ, timeout=300)
    finally:
        server.shutdown()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(number) for number in range(1, turns + 1)]
