"""Log lines and metrics that the real handlers of TaskFunction, PushFunction and SweepFunction write."""

import asyncio
import importlib
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

import handlers
from aion_core.bootstrap.app import build_app
from aion_core.bootstrap.stores import build_stores
from aion_core.bootstrap.telemetry import build_telemetry
from aion_core.clock import SystemClock
from aion_core.engine.admission.messages import new_task
from aion_core.engine.outcomes import TurnQueued
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushWakeUp, WakeUp, body_of, push_body_of
from aion_core.engine.records import Head
from aion_core.protocol.types import Message, Part, Role
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey, TaskKey
from aion_tools.stack.lambda_events import LambdaContext, sqs_event
from aion_tools.stack.stack import LocalStack
from tests.support.collector import exported_from_here
from tests.support.receiver import answers, receiving
from tests.support.service import http, send
from tests.support.stores import dynamodb_store, new_owner
from tests.support.tasks import orphan

GRAPH = """
import logging
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

logger = logging.getLogger("an.author")


async def act(state):
    said = str(state["messages"][-1].content)
    logger.info("An author's own line.")
    if "explode" in said:
        raise RuntimeError("the agent has a fault")
    return {"messages": [AIMessage("You said: " + said)]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""

SAID = "words-of-a-client"


@dataclass
class FunctionOutput:
    """Output of a Lambda function: log lines and metrics in JSON."""

    capsys: pytest.CaptureFixture[str]

    def lines(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the log lines and the metrics written since the last call."""
        written = self.capsys.readouterr().out
        assert SAID not in written
        found = [json.loads(line) for line in written.splitlines()]
        return [line for line in found if "_aws" not in line], [line for line in found if "_aws" in line]


@pytest.fixture
def output(
    moto: LocalStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[FunctionOutput]:
    """Set the environment of a deployed function, and have its handlers imported again."""
    (tmp_path / "observed_agent.py").write_text(GRAPH)
    (tmp_path / "aion.yaml").write_text("aion: {agents: {one: {path: 'observed_agent.py:graph'}}}")
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("run_task", "deliver_push", "sweep"):
        monkeypatch.delitem(sys.modules, f"handlers.{name}", raising=False)
        monkeypatch.delattr(handlers, name, raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    here = {
        **moto.environment("TaskFunction"),
        "AION_CONFIG": str(tmp_path / "aion.yaml"),
        "AWS_LAMBDA_FUNCTION_NAME": "a-function",
        "POWERTOOLS_SERVICE_NAME": "my-stack",
        "AION_PUSH_HTTP": "true",
        "AION_PUSH_NETWORKS": "127.0.0.0/8",
    }
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    root = logging.getLogger()
    handlers_before, level = root.handlers[:], root.level
    yield FunctionOutput(capsys)
    ours = [handler for handler in root.handlers if handler not in handlers_before]
    for handler in ours:
        root.removeHandler(handler)
    root.setLevel(level)


def call(function: str, *bodies: str) -> tuple[Any, str]:
    """Call the function with messages of its queue. Return its response and the request id of the invocation."""
    messages = [
        {"MessageId": f"q-{n}", "ReceiptHandle": "r", "Body": body, "MD5OfBody": "0"} for n, body in enumerate(bodies)
    ]
    context: Any = LambdaContext("a-function", "arn", 512, 900)
    event = sqs_event(messages, "arn:aws:sqs:us-east-1:0:a-queue") if bodies else {}
    return importlib.import_module(f"handlers.{function}").handler(event, context), context.aws_request_id


async def waiting(stack: LocalStack, text: str, **request: Any) -> Head:
    """Create a task with a queued turn."""
    store = dynamodb_store(stack, SystemClock())
    context = ContextKey(new_owner(), "one", "c-1")
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=text)])
    task_id = str(uuid4())
    new = new_task(
        message, context, task_id=task_id, turn_id=f"turn-{task_id}", at=datetime.now(UTC), context_is_new=False
    )
    kept = await store.create(replace(new, request=request), holder=None)
    assert isinstance(kept, TurnQueued)
    return kept.head


def values(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of the single metrics line by name, as CloudWatch reads them."""
    (line,) = metrics
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert (directive["Namespace"], directive["Dimensions"], line["service"]) == ("aion", [["service"]], "my-stack")
    units = {each["Name"]: each["Unit"] for each in directive["Metrics"]}
    times = {name for name, unit in units.items() if unit == "Milliseconds"}
    assert times == {name for name in units if name.endswith(("Duration", "Time", "Lag"))}
    assert {unit for name, unit in units.items() if name not in times} <= {"Count"}
    return {name: line[name] for name in units}


def test_log_lines_of_turn_contain_task_and_context_ids(output: FunctionOutput, moto: LocalStack) -> None:
    """The agent's own log lines have the ids too. No line contains the message's text."""
    head = asyncio.run(waiting(moto, SAID))
    answer, request_id = call("run_task", body_of(WakeUp(head.context)))
    assert answer == {"batchItemFailures": []}
    lines, metrics = output.lines()
    assert {"A turn begins.", "An author's own line.", "A turn has ended."} <= {line["message"] for line in lines}
    for line in lines:
        found_by: dict[str, Any] = {
            "task_id": head.key.task_id,
            "context_id": "c-1",
            "agent": "one",
            "queue_message_id": "q-0",
        }
        found_by |= {"correlation_id": request_id, "function_request_id": request_id, "cold_start": True}
        assert found_by.items() <= line.items(), line
        assert head.context.owner not in json.dumps(line)
    ended = next(line for line in lines if line["message"] == "A turn has ended.")
    assert ended["state"] == "completed"
    counted = values(metrics)
    assert counted.keys() == {"Turns", "TurnDuration", "TurnLag"}
    assert (counted["Turns"], metrics[0]["agent"]) == ([1], "one")
    assert counted["TurnDuration"][0] >= 0
    _, again = call("run_task", body_of(WakeUp(head.context)))
    lines, metrics = output.lines()
    assert metrics == [], "an unneeded wake-up message adds no metric and no empty line"
    assert again != request_id


def test_error_logged_by_failed_turn_contains_task_id(output: FunctionOutput, moto: LocalStack) -> None:
    """Fail a turn in a second invocation: its log lines have the ids, and state that it is no cold start."""
    call("run_task", body_of(WakeUp(ContextKey("nobody", "one", "c-0"))))
    head = asyncio.run(orphan(moto, f"explode {SAID}", agent="one"))
    _, request_id = call("run_task", body_of(WakeUp(head.context)))
    lines, metrics = output.lines()
    (failed,) = (line for line in lines if line["level"] == "ERROR")
    assert "RuntimeError: the agent has a fault" in failed["exception"]
    assert (failed["task_id"], failed["correlation_id"]) == (head.key.task_id, request_id)
    assert failed["cold_start"] is False
    assert values(metrics).keys() == {"Turns", "TurnsFailed", "TurnRetries", "TurnDuration"}, "it was begun before"


def test_unreadable_sqs_message_is_logged_with_its_id(output: FunctionOutput) -> None:
    answer, request_id = call("run_task", "poison")
    assert answer == {"batchItemFailures": [{"itemIdentifier": "q-0"}]}
    lines, _ = output.lines()
    (told,) = (line for line in lines if "exception" in line)
    assert (told["queue_message_id"], told["correlation_id"]) == ("q-0", request_id)
    assert "UnreadableWakeUp" in told["exception"]


@pytest.mark.parametrize(
    ("function", "body"),
    [
        ("run_task", body_of(WakeUp(ContextKey("nobody", "one", "c-0")))),
        ("deliver_push", push_body_of(PushWakeUp(TaskKey("nobody", "t-0"), 2))),
    ],
)
def test_function_logs_error_with_name_of_deleted_table(
    output: FunctionOutput, monkeypatch: pytest.MonkeyPatch, function: str, body: str
) -> None:
    monkeypatch.setenv("AION_TABLE", "deleted-table")
    answer, _ = call(function, body)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "q-0"}]}
    (failed,) = (line for line in output.lines()[0] if line["level"] == "ERROR")
    assert failed["message"].startswith("The table deleted-table does not exist. `aion doctor` prints the commands ")


async def test_log_lines_of_push_notification_contain_task_and_context_ids(
    output: FunctionOutput, moto: LocalStack
) -> None:
    """Deliver push notifications: no line contains the webhook's URL, and each outcome is counted."""
    head = await waiting(moto, SAID)
    push = build_stores(Settings.from_environ(), SystemClock()).push
    assert push is not None
    async with receiving(answers(200), answers(500)) as receiver:
        for config_id in ("p-1", "p-2"):
            config = PushConfig(config_id, url=receiver.url("/s3cret-path"), token="s3cret-token")
            await push.configs.put(head.key, config)
        await asyncio.to_thread(call, "run_task", body_of(WakeUp(head.context)))
        output.lines()
        answer, request_id = await asyncio.to_thread(call, "deliver_push", push_body_of(PushWakeUp(head.key)))
    assert answer == {"batchItemFailures": []}
    lines, metrics = output.lines()
    assert {line["message"] for line in lines} == {"A notification was delivered.", "A notification failed: HTTP 500"}
    for line in lines:
        found_by: dict[str, Any] = {
            "task_id": head.key.task_id,
            "context_id": "c-1",
            "agent": "one",
            "correlation_id": request_id,
        }
        assert found_by.items() <= line.items(), line
    assert "s3cret" not in json.dumps([lines, metrics])
    counted = values(metrics)
    assert counted.keys() == {"PushDelivered", "PushLag", "PushRetries"}
    assert (counted["PushDelivered"], counted["PushRetries"], len(counted["PushLag"])) == ([1], [1], 1)


def test_sweep_emits_its_counts_as_metrics(output: FunctionOutput) -> None:
    """A sweep that finds nothing emits zeros, because an alarm needs a value."""
    swept, request_id = call("sweep")
    lines, metrics = output.lines()
    counted = values(metrics)
    assert set(counted) == {"SweepFound", "SweepEnqueued"}
    assert counted["SweepEnqueued"] == [swept["enqueued"]]
    assert 0 <= counted["SweepFound"][0] <= swept["found"]
    assert next(line for line in lines if line["message"] == "swept")["correlation_id"] == request_id


@pytest.mark.parametrize("trace", [{}, {"traceparent": f"00-{'4b' * 16}-{'f0' * 8}-01", "tracestate": "one=1,two=2"}])
async def test_lambda_functions_continue_trace_of_request(
    output: FunctionOutput, moto: LocalStack, monkeypatch: pytest.MonkeyPatch, trace: dict[str, str]
) -> None:
    """TaskFunction and PushFunction continue the client's trace or, without `traceparent`, that of the request."""
    with exported_from_here(monkeypatch) as collector:
        settings = replace(Settings.from_environ(), auth=False)
        async with receiving(answers(200)) as receiver, http(build_app(settings, build_telemetry(settings))) as client:
            hook = {"taskPushNotificationConfig": {"url": receiver.url("/hook")}, "returnImmediately": True}
            request = send(SAID)
            request["params"]["configuration"] = hook
            sent = await client.post("http://127.0.0.1/", json=request, headers={"A2A-Version": "1.0", **trace})
            task = sent.json()["result"]["task"]
            for function, queue, found_by in (
                ("run_task", settings.task_queue_url, task["contextId"]),
                ("deliver_push", settings.push_queue_url, task["id"]),
            ):
                await asyncio.to_thread(call, function, *bodies(moto, queue, found_by))
        asked, turn = collector.named("request"), collector.named("turn")
        pushed = collector.spans_named("push")
        assert pushed
        assert {span.trace_id for span in (turn, *pushed)} == {asked.trace_id}
        parent = asked.parent_span_id if trace else asked.span_id
        assert {span.parent_span_id for span in (turn, *pushed)} == {parent}
        assert {span.trace_state for span in (asked, turn, *pushed)} == {trace.get("tracestate", "")}


def bodies(stack: LocalStack, queue: str, text: str) -> list[str]:
    """Return the bodies of the queue's messages that contain the text."""
    sqs = stack.client("sqs")
    found: list[str] = []
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages if text in message["Body"]]
    return found
