"""Log of failed requests: one record names the store's operation and AWS's error code, and has the traceback."""

import json
import logging
from typing import Any

import httpx
import pytest
from a2a.utils.errors import A2AError

from aion_core.clock import SystemClock
from aion_core.errors import StoreCorrupt, StoreError, StoreUnavailable, TaskNotFound
from aion_core.protocol.errors import STANDARD_MESSAGES, WIRE_ERRORS
from aion_core.telemetry import Metric
from aion_core.web.errors import error_body, rest_error_body, v03_rest_error_body
from tests.support.agents.scripted import GatedAgent
from tests.support.failing import Failing
from tests.support.metrics import MemoryMetrics
from tests.support.rows import each_row
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

DENIED = StoreError("TransactWriteItems: AccessDeniedException")
THROTTLED = StoreUnavailable("TransactWriteItems: ThrottlingException")
REST = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
REST_V03 = {"message": {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "hi"}]}}


def request(binding: str) -> dict[str, Any]:
    """Return a message in the binding: path, body and headers."""
    match binding:
        case "REST":
            return {"url": "/message:send", "json": REST, "headers": {"A2A-Version": "1.0"}}
        case "REST, streaming":
            return {"url": "/message:stream", "json": REST, "headers": {"A2A-Version": "1.0"}}
        case "REST of v0.3":
            return {"url": "/v1/message:send", "json": REST_V03}
    return {"url": "/", "json": send("hi", method=binding)}


BINDINGS = ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"]
BINDINGS += ["REST", "REST, streaming", "REST of v0.3"]


async def fails(
    binding: str, error: Exception, *, operation: str = "create", metrics: MemoryMetrics | None = None
) -> httpx.Response:
    """Return the response to a message while the store's operation fails."""
    store: Any = Failing(MemoryTaskStore(SystemClock()))
    store.refuse(error, **{operation: 100})
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent, store)
    async with http(made.app(metrics)) as client:
        answer = await client.post(**request(binding))
    await made.work_queue.quiet()
    return answer


def problems(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


@each_row("binding", BINDINGS)
@each_row(
    ("error", "code", "status"),
    [(DENIED, -32603, 500), (THROTTLED, -32053, 503), (StoreCorrupt("A record cannot be read."), -32603, 500)],
)
async def test_store_error_returns_error_code_and_is_logged_once(
    caplog: pytest.LogCaptureFixture, binding: str, error: Exception, code: int, status: int
) -> None:
    answer = await fails(binding, error)
    body = json.loads(answer.text.removeprefix("data: "))
    found = (answer.status_code, body.get("error", body)["code"])
    match binding:
        case "REST" | "REST, streaming":
            assert found == (status, status)
        case "REST of v0.3":
            assert found == (status, code)
        case _:
            assert found == (200, code)
    assert answer.headers.get("retry-after") == ("2" if error is THROTTLED else None)
    assert str(error) not in answer.text
    (record,) = problems(caplog)
    assert str(error) in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert record.levelno == (logging.WARNING if error is THROTTLED else logging.ERROR)


@each_row("binding", BINDINGS)
async def test_unexpected_error_is_logged_once(caplog: pytest.LogCaptureFixture, binding: str) -> None:
    """The error's text may quote the request, so it is in the traceback only."""
    error = RuntimeError("what was sent")
    await fails(binding, error)
    (record,) = problems(caplog)
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert "what was sent" not in record.getMessage()


@each_row("kind", WIRE_ERRORS)
def test_error_message_begins_with_standard_one(kind: type[A2AError]) -> None:
    """The words of each code stand in tests/runtime/protocol/answers.py too, where requests are refused with them."""
    words = STANDARD_MESSAGES[WIRE_ERRORS[kind].code]
    for text, expected in (("Do this.", f"{words}. Do this."), (f"{words}: do this.", f"{words}: do this.")):
        error = kind(text)
        bodies = error_body(1, error)["error"], rest_error_body(error)["error"], v03_rest_error_body(error)
        assert [body["message"] for body in bodies] == [expected] * 3


async def test_error_during_stream_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    error = StoreError("Query: AccessDeniedException")
    answer = await fails("SendStreamingMessage", error, operation="append")
    assert "event: error" not in answer.text, "the turn logs what it cannot record"
    caplog.clear()
    store: Any = Failing(MemoryTaskStore(SystemClock()))
    made = parts(GatedAgent(), store)
    async with http(made.app()) as client:
        body = {**send("hi"), "params": {**send("hi")["params"], "configuration": {"returnImmediately": True}}}
        task = (await client.post("/", json=body)).json()["result"]["task"]["id"]
        store.refuse(error, deltas=100)
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}
        answer = await client.post("/", json=body)
    assert "event: error" in answer.text
    (record,) = problems(caplog)
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_refused_request_is_logged_at_info_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await fails("SendMessage", TaskNotFound("t-1"))
    assert problems(caplog) == []
    assert "Refused with -32001" in caplog.text


@each_row("binding", BINDINGS)
@each_row(
    ("error", "count"),
    [(DENIED, 1), (THROTTLED, 1), (RuntimeError("unexpected"), 1), (TaskNotFound("t-1"), 0)],
)
async def test_internal_errors_are_counted(binding: str, error: Exception, count: int) -> None:
    """Count them by a metric: a JSON-RPC error has HTTP status 200, so AWS does not count it."""
    metrics = MemoryMetrics()
    await fails(binding, error, metrics=metrics)
    assert metrics.total(Metric.INTERNAL_ERRORS) == count
