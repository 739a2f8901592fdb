"""Logs, metrics and traces of ApiFunction, run by the runtime loop with a real trace collector."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector import Collector, attributes, collecting
from tests.support.deployment import IN_MEMORY
from tests.support.e2e.runtime_process import RuntimeProcess, running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event
from tests.support.server import ROOT
from tests.support.service import send

CONFIG = Path(__file__).parents[2] / "support" / "e2e" / "agents" / "traced.yaml"
TRACE_ID, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT}-01"
SAID = "w0rds-of-a-client"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
async def api() -> AsyncIterator[FakeRuntimeApi]:
    async with FakeRuntimeApi([]) as api:
        yield api


@pytest.fixture
async def runtime(api: FakeRuntimeApi, collector: Collector) -> AsyncIterator[RuntimeProcess]:
    environ = {
        **IN_MEMORY,
        "AION_CONFIG": str(CONFIG),
        "AION_AUTH": "on",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "POWERTOOLS_SERVICE_NAME": "my-stack",
    }
    async with running("handlers.api:app", api=api.address, environ=environ) as runtime:
        yield runtime


async def answered(api: FakeRuntimeApi, request: dict[str, Any], **headers: str) -> tuple[Any, str]:
    """Invoke the function with a JSON-RPC request; return the response and the invocation's id."""
    event = function_url_event("/", method="POST", body=json.dumps(request), query=f"key={SAID}")
    event["headers"] |= {"content-type": "application/json", "traceparent": TRACEPARENT, **headers}
    invocation = api.invoke(event, deadline_in=60)
    body = json.loads((await invocation.answered()).body)
    return body, invocation.request_id


def since(runtime: RuntimeProcess, before: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the log lines and the metrics lines of the output, without its first `before` lines."""
    lines = [json.loads(line) for line in runtime.lines[before:]]
    # Leave out the sweep's metric: with AION_STORE=memory, this process also runs the sweep.
    metrics = [line for line in lines if "_aws" in line and "SweepFound" not in line]
    return [line for line in lines if "_aws" not in line], metrics


async def test_telemetry_contains_task_id_but_no_message_text(
    api: FakeRuntimeApi, runtime: RuntimeProcess, collector: Collector
) -> None:
    """Search logs, metrics and traces: they contain the task id, but no text of a message."""
    first, first_id = await answered(api, send(f"hello {SAID}"))
    task = first["result"]["task"]
    assert f"Heard hello {SAID}" in json.dumps(task)
    await answered(api, {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}})
    await runtime.logged("A turn has ended.")
    await runtime.logged('"Turns"')
    lines, metrics = since(runtime, 0)
    ours = [line for line in lines if line["logger"].startswith("aion_core.engine")]
    assert [line["message"] for line in ours] == ["A turn begins.", "A turn has ended."]
    for line in ours:
        found_by = {"task_id": task["id"], "context_id": task["contextId"], "agent": "traced", "cold_start": True}
        found_by |= {"correlation_id": first_id, "function_request_id": first_id, "service": "my-stack"}
        assert {**found_by, "traceparent": TRACEPARENT}.items() <= line.items(), line
    assert [line["Turns"] for line in metrics] == [[1]], "one line for an invocation, none for one that counts nothing"

    request, turn = collector.spans_named("request")[0], collector.named("turn")
    assert {span.trace_id.hex() for span in (request, turn)} == {TRACE_ID}
    assert (request.parent_span_id.hex(), turn.parent_span_id) == (PARENT, request.span_id)
    assert attributes(request) == {"http.request.method": "POST", "http.response.status_code": 200}
    found_by_span = {"aion.task_id": task["id"], "aion.context_id": task["contextId"], "aion.agent": "traced"}
    assert found_by_span.items() <= attributes(turn).items()
    author = collector.named("author's own")
    adks = {span.span_id: span for span in collector.of("gcp.vertex.agent")}
    assert adks, "ADK's own spans are exported"
    above = adks[author.parent_span_id]
    while above.parent_span_id in adks:
        above = adks[above.parent_span_id]
    assert above.parent_span_id == turn.span_id
    assert collector.services == {"my-stack"}

    before = len(runtime.lines)
    failed, failed_id = await answered(api, send(f"explode {SAID}", message_id="m-2"))
    assert failed["result"]["task"]["status"]["state"] == "TASK_STATE_FAILED"
    await answered(api, {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "unknown"}})
    await runtime.logged('"ERROR"', after=before)
    await runtime.logged('"TurnsFailed"', after=before)
    lines, metrics = since(runtime, before)
    (story,) = (line for line in lines if line["level"] == "ERROR")
    assert (story["correlation_id"], story["cold_start"]) == (failed_id, False)
    assert "RuntimeError" in story["exception"]
    assert metrics[0]["TurnsFailed"] == [1]
    assert {span.status.code for span in collector.spans if span.name in ("turn", "author's own")} == {0, 2}
    assert "RuntimeError" in collector.text, "that an author's span has failed is told, by the error's class"
    assert task["id"] in collector.text
    assert SAID not in collector.text
    assert all(SAID not in line for line in runtime.lines if "exception" not in line), "but in an agent's own error"


@pytest.mark.deep
async def test_unreachable_telemetry_collector_does_not_stop_turns(api: FakeRuntimeApi) -> None:
    environ = {
        **IN_MEMORY,
        "AION_CONFIG": str(CONFIG),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    }
    async with running("handlers.api:app", api=api.address, environ=environ) as runtime:
        for n in range(2):
            answer, _ = await answered(api, send("hello", message_id=f"m-{n}"))
            assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert await runtime.logged('"logger":"opentelemetry')


@pytest.mark.parametrize("function", ["run_task", "deliver_push", "sweep", "api"])
def test_function_without_traces_loads_no_opentelemetry(function: str) -> None:
    program = f"import handlers.{function}, sys; print([n for n in sys.modules if n.startswith('opentelemetry.sdk')])"
    environ = {
        "PATH": "/usr/bin:/bin",
        "AION_STORE": "memory",
        "AION_PUSH_QUEUE_URL": "http://127.0.0.1:1/q",
        "AION_KMS_KEY": "alias/none",
        "AION_CONFIG": str(CONFIG.with_name("steps.yaml")),
    }
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
