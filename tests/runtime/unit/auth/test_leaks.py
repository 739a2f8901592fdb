"""Client data in logs, errors, traces and queues: searches for planted secrets.

Each search first finds a harmless marker, the id of a task or context.
"""

import io
import json
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from starlette.types import ASGIApp

from aion_core import log
from aion_core.aws import log_formatter
from aion_core.bootstrap import build_push, build_worker, push_wake_up_of, wake_up_of
from aion_tools.stack.stack import LocalStack
from tests.support.asgi import ask
from tests.support.collector import Collector, exported_from_here
from tests.support.issuer import Issuer

GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


async def act(state):
    if "explode" in str(state["messages"][-1].content):
        raise RuntimeError("the agent has a fault")
    return {"messages": [AIMessage("done")]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    one: {path: leaking_agent.py:graph, capabilities: {extended_agent_card: true}, extended_card: {description: More.}}
"""

SECRET = "pl4nted-s3cret"
CONTEXT = "a-harmless-context"


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp]) -> ASGIApp:
    return api_function("leaking_agent", GRAPH, AION_YAML)


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Yield all log output at DEBUG, in the formats of Lambda and of a terminal."""
    written, root = io.StringIO(), logging.getLogger()
    ours = [logging.StreamHandler(written), logging.StreamHandler(written)]
    ours[0].setFormatter(log_formatter.formatter("aion"))
    ours[1].setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    level = root.level
    root.setLevel(logging.DEBUG)
    for handler in ours:
        root.addHandler(handler)
    yield written
    root.setLevel(level)
    for handler in ours:
        root.removeHandler(handler)


def planted(n: int) -> str:
    """Return a secret text for one place in a request; its number tells where it was planted."""
    return f"{SECRET}-{n:03}"


def whole_message() -> dict[str, Any]:
    """Return a valid message with a secret in each field of the client's choice."""
    return {
        "message": {
            "messageId": "m-1",
            "contextId": CONTEXT,
            "role": "ROLE_USER",
            "parts": [
                {"text": planted(1), "metadata": {planted(2): planted(3)}},
                {"data": {planted(4): [planted(5)]}},
                {"raw": "cGw0bnRlZC1zM2NyZXQ=", "filename": planted(6), "mediaType": "application/octet-stream"},
                {"url": f"https://files.example.com/{planted(7)}?{planted(8)}", "mediaType": "text/plain"},
            ],
            "metadata": {planted(9): {"deep": planted(10)}, "aion:owner": planted(11)},
            "extensions": [f"https://example.com/{planted(12)}"],
            planted(13): planted(14),
        },
        "metadata": {"k": planted(15)},
        "configuration": {
            "taskPushNotificationConfig": {
                "id": "hook",
                "url": f"https://hooks.invalid/{planted(16)}?token={planted(17)}",
                "token": planted(18),
                "authentication": {"scheme": "Bearer", "credentials": planted(19)},
            }
        },
    }


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("SendMessage", {"message": {"messageId": f"{planted(30)}\0", "role": "ROLE_USER", "parts": [{"text": "x"}]}}),
    ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": {"x": planted(31)}}]}}),
    ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": f"*{planted(32)}"}]}}),
    ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": f"{planted(33)}"}}),
    ("message/send", {"message": {"messageId": "m", "role": "user", "parts": [{"kind": planted(34), "text": "x"}]}}),
    ("message/send", {"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": [planted(35)]}]}}),
    ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": f"http://127.0.0.1/{planted(36)}", "token": planted(37)}),
    ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://a.example", "token": f"{planted(38)}\n"}),
    ("ListTasks", {"pageToken": planted(39)}),
    ("ListTasks", {"status": planted(47)}),
    ("ListTasks", {"statusTimestampAfter": planted(48)}),
    ("SendMessage", {"message": {"messageId": "m", "role": planted(49), "parts": [{"text": "x"}]}}),
    ("GetTask", {"id": planted(40)}),
    ("GetTask", {"id": "t", "historyLength": planted(41)}),
    ("CancelTask", {"id": f"x\nERROR root: {planted(42)}"}),
    ("GetContext", {"contextId": f"{planted(43)} "}),
    (f"No{planted(44)}", {planted(45): planted(46)}),
]  # fmt: skip


class ProbingClient:
    """Client with secrets in its headers too."""

    def __init__(self, app: ASGIApp, issuer: Issuer) -> None:
        self._app = app
        self.token = issuer.token(sub="alice", private=planted(60))
        self.answers: list[bytes] = []

    async def rpc(self, method: str, params: Any, **more: str) -> Any:
        """Return the response to a JSON-RPC request."""
        headers = {
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "x-api-key": planted(61),
            "cookie": f"session={planted(62)}",
            "x-custom": planted(63),
            "user-agent": planted(64),
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            **more,
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        answer = await ask(self._app, "POST", f"/?{planted(65)}={planted(66)}", headers, body)
        self.answers.append(answer.content)
        return answer


async def everything(client: ProbingClient) -> str:
    """Return all of the owner's views of a task."""
    sent = whole_message()
    answer = (await client.rpc("SendMessage", sent)).json()
    task: str = answer["result"]["task"]["id"]
    again = whole_message()
    again["message"] |= {"messageId": "m-2", "contextId": f"{CONTEXT}-2"}
    again["configuration"]["returnImmediately"] = True
    await client.rpc("SendMessage", again)
    failing = whole_message()
    failing["message"] |= {"messageId": "m-3", "contextId": "another", "parts": [{"text": f"explode {planted(20)}"}]}
    failed = (await client.rpc("SendMessage", failing)).json()
    assert failed["result"]["task"]["status"]["state"] == "TASK_STATE_FAILED"
    streamed = whole_message()
    streamed["message"] |= {"messageId": "m-4"}
    await client.rpc("SendStreamingMessage", streamed)
    await client.rpc("GetTask", {"id": task})
    await client.rpc("CancelTask", {"id": task})
    return task


def bodies(moto: LocalStack, queue: str) -> list[str]:
    """Remove the messages from the queue and return them; SQS moves dead letters unchanged."""
    sqs, url, found = moto.client("sqs"), moto.physical_id(queue), []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        found += [json.dumps(message) for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


def secrets_in(text: str, client: ProbingClient) -> list[str]:
    """Return the lines with a secret."""
    marks = (SECRET, client.token, client.token.split(".")[2], "cGw0bnRlZC1zM2NyZXQ")
    lines = [line for line in text.splitlines() if any(mark in line for mark in marks)]
    return [line[:400] for line in lines]


async def test_logs_and_queues_have_no_client_data(
    app: ASGIApp, issuer: Issuer, logged: io.StringIO, moto: LocalStack
) -> None:
    """Search all log output, down to DEBUG and that of libraries, and the queues."""
    bodies(moto, "TaskQueue"), bodies(moto, "PushQueue")
    client = ProbingClient(app, issuer)
    task = await everything(client)
    for method, params in WRONG:
        answer = await client.rpc(method, params)
        assert "error" in answer.json()
        assert secrets_in(answer.text, client) == [], "a proxy or a client may log the response"
    for header in ("a2a-version", "a2a-extensions", "idempotency-key"):
        answer = await client.rpc("GetTask", {"id": "t"}, **{header: planted(73)})
        assert answer.json()["error"]["code"] in (-32001, -32009)
        assert secrets_in(answer.text, client) == []
    await client.rpc("GetTask", {"id": task}, authorization=f"Bearer {client.token}x")
    await client.rpc("GetTask", {"id": task}, authorization=f"Basic {planted(70)}")
    await client.rpc("GetTask", {"id": task}, **{"a2a-version": planted(71), "a2a-extensions": planted(72)})
    log_text = logged.getvalue()
    assert task in log_text
    assert "Refused with -32602" in log_text
    assert "RuntimeError: the agent has a fault" in log_text
    assert secrets_in(log_text, client) == []
    wake_ups, notifications = bodies(moto, "TaskQueue"), bodies(moto, "PushQueue")
    # Check the logs of the task function, which runs the turn, and of the push function, whose delivery fails.
    logged.truncate(0)
    worker, delivery, soon = build_worker(), build_push(), datetime.now(UTC) + timedelta(seconds=60)
    for body in wake_ups:
        await worker.handle(wake_up_of(json.loads(body)["Body"]), until=soon)
    for body in sorted({json.loads(body)["Body"] for body in notifications}):
        await delivery.deliver(push_wake_up_of(body), until=soon)
    log_text = logged.getvalue()
    assert "A turn begins." in log_text
    assert "A notification failed" in log_text
    assert secrets_in(log_text, client) == []
    assert any(CONTEXT in body for body in wake_ups)
    assert any(task in body for body in notifications)
    assert secrets_in("\n".join([*wake_ups, *notifications]), client) == []


async def test_all_log_lines_of_one_request_have_its_id(app: ASGIApp, issuer: Issuer, logged: io.StringIO) -> None:
    client = ProbingClient(app, issuer)
    ids = []
    for params in ({"message": {**whole_message()["message"], "contextId": f"c-{n}"}} for n in range(2)):
        logged.truncate(0)
        await client.rpc("SendMessage", params)
        lines = [json.loads(line) for line in logged.getvalue().lstrip("\0").splitlines() if line.startswith("{")]
        ours = [line for line in lines if line["logger"].startswith("aion_core.")]
        assert any(line["message"] == "A turn begins." for line in ours)
        assert len({line.get("correlation_id") for line in ours}) == 1, ours
        ids.append(ours[0]["correlation_id"])
    assert ids[0] != ids[1]


def test_logged_line_breaks_are_escaped(logged: io.StringIO) -> None:
    log.install()
    logging.getLogger("aion_core.x").warning("It is %s.", "gone\r\nERROR root: all is lost\x1b[2J\u2028")
    plain = [line for line in logged.getvalue().splitlines() if not line.startswith("{")]
    assert plain == ["WARNING aion_core.x: It is gone\\r\\nERROR root: all is lost\\x1b[2J\\u2028."]


def test_credentials_are_redacted_from_log(logged: io.StringIO) -> None:
    log.install()
    logger = logging.getLogger("author.of.an.agent")
    with log.request("r-1", ["hunter2hunter2", "a b"]):
        logger.error("The header was Bearer hunter2hunter2; a b stays, as short as it is")
        try:
            raise ValueError("hunter2hunter2")
        except ValueError:
            logger.exception("It failed.")
    logger.error("Outside of it hunter2hunter2 is a word.")
    first, *others = [json.loads(line) for line in logged.getvalue().splitlines() if line.startswith("{")]
    assert first["message"] == "The header was Bearer [redacted]; a b stays, as short as it is"
    assert (first["correlation_id"], "correlation_id" in others[1]) == ("r-1", False)
    assert "ValueError: [redacted]" in others[0]["message"]
    assert "hunter2hunter2" not in json.dumps(others[0])
    assert "hunter2hunter2" in others[1]["message"]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with exported_from_here(monkeypatch) as collector:
        yield collector


async def test_traces_have_no_client_data(collector: Collector, request: pytest.FixtureRequest, issuer: Issuer) -> None:
    """Search the traces received by a collector, including the spans of errors."""
    client = ProbingClient(request.getfixturevalue("app"), issuer)
    task = await everything(client)
    with pytest.raises(ValueError), trace.get_tracer("an.author").start_as_current_span("raising"):
        raise ValueError(planted(80))
    for method, params in WRONG:
        await client.rpc(method, params)
    # The span of the agent's code is exported with the next request.
    assert all(word in collector.text for word in (task, "request", "turn", "raising", "ValueError"))
    assert secrets_in(collector.text, client) == []
    assert os.environ["ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"] == "false"


async def test_logs_and_metrics_of_functions_contain_no_client_data(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    issuer: Issuer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Search the log lines and the metrics of deployed functions."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "a-function")
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    client = ProbingClient(request.getfixturevalue("app"), issuer)
    root.setLevel(logging.DEBUG)
    try:
        await everything(client)
    finally:
        root.handlers[:] = [handler for handler in root.handlers if handler in before]
        root.setLevel(level)
    written = capsys.readouterr().out
    metrics = [json.loads(line) for line in written.splitlines() if '"_aws"' in line]
    assert {line["agent"] for line in metrics} == {"one"}
    assert any("TurnsFailed" in line for line in metrics)
    assert CONTEXT in written
    assert secrets_in(written, client) == []
