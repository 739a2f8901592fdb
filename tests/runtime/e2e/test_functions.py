"""Handlers of TaskFunction and SweepFunction, run in the test's process as `aion dev` runs them."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import handlers
from aion_core.aws.client import AwsClient
from aion_core.aws.queues import SQSWorkQueue
from aion_core.bootstrap import build_worker
from aion_core.clock import SystemClock
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import WakeUp, body_of
from aion_core.engine.records import Head
from aion_core.engine.task import projection
from aion_core.protocol.types import TaskState
from aion_core.table.keys import ContextKey
from aion_tools.dev.worker import task_function_on
from aion_tools.operator.health import queue_state
from aion_tools.stack.lambda_events import LambdaContext, sqs_event
from aion_tools.stack.stack import LocalStack
from tests.support.queues import messages_in, received
from tests.support.stores import dynamodb_store
from tests.support.tasks import orphan

TIMEOUT = 60
AGENTS = Path(__file__).parents[2] / "support" / "agents"
NOTHING_TO_DO = WakeUp(ContextKey("nobody", "echo", "c-0"))


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalStack]:
    """Start an emulated stack for one test: the handlers are imported anew, and no poller runs yet."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("run_task", "sweep"):
        monkeypatch.delitem(sys.modules, f"handlers.{name}", raising=False)
        monkeypatch.delattr(handlers, name, raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with LocalStack.start("template.yaml") as stack:
        for name, value in stack.environment("TaskFunction").items():
            monkeypatch.setenv(name, value)
        yield stack


async def enqueue(stack: LocalStack, wake_up: WakeUp) -> None:
    with ThreadPoolExecutor(1) as executor:
        work_queue = SQSWorkQueue(
            AwsClient("sqs", executor, client=stack.client("sqs")), queue_url=stack.physical_id("TaskQueue")
        )
        await work_queue.enqueue(wake_up)


async def answer_of(stack: LocalStack, head: Head) -> str:
    """Wait until the task has completed; return the text of its status message."""
    store = dynamodb_store(stack, SystemClock())
    end = time.monotonic() + TIMEOUT
    while True:
        log = await store.log(head.key)
        assert log is not None
        if log.head.state == TaskState.TASK_STATE_COMPLETED:
            return projection.fold(log.events).status.message.parts[0].text
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_wake_up_message_resumes_turn_of_dead_worker(stack: LocalStack) -> None:
    stack.poll()
    head = await orphan(stack, "who is there?")
    await enqueue(stack, WakeUp(head.context))
    assert "who is there?" in await answer_of(stack, head)
    await asyncio.to_thread(stack.stop_polling)
    # Check that the queue is empty, so that it cannot deliver the wake-up message again.
    with ThreadPoolExecutor(1) as executor:
        sqs = AwsClient("sqs", executor, client=stack.client("sqs"))
        state = await queue_state(sqs, stack.physical_id("TaskQueue"))
    assert (state.waiting, state.in_flight) == (0, 0)


async def test_several_turns_run_concurrently(stack: LocalStack) -> None:
    stack.poll()
    heads = [await orphan(stack, f"this is {n}") for n in range(4)]
    await asyncio.gather(*(enqueue(stack, WakeUp(head.context)) for head in heads))
    for n, head in enumerate(heads):
        assert f"this is {n}" in await answer_of(stack, head)


async def test_dev_server_runs_all_turns_on_one_event_loop(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all turns on one event loop: an agent's HTTP client works only on the loop of its first use."""
    monkeypatch.setenv("AION_CONFIG", str(AGENTS / "where.yaml"))
    stack.poll({"TaskFunction": task_function_on(build_worker(), asyncio.get_running_loop(), Deadline())})
    for _ in range(2):
        head = await orphan(stack, "where do you run?", agent="where")
        await enqueue(stack, WakeUp(head.context))
        assert await answer_of(stack, head) == f"on {id(asyncio.get_running_loop())}"


async def test_sweep_enqueues_turn_whose_sqs_message_is_missing(
    stack: LocalStack, caplog: pytest.LogCaptureFixture
) -> None:
    head = await orphan(stack, "hello?")
    stack.poll()
    with caplog.at_level(logging.INFO, "handlers.sweep"):
        while not (swept := [record for record in caplog.records if getattr(record, "enqueued", 0)]):
            await asyncio.to_thread(stack.call_schedules, "SweepFunction")
    assert (swept[0].message, swept[0].found, swept[0].enqueued) == ("swept", 1, 1)  # type: ignore[attr-defined]
    assert "hello?" in await answer_of(stack, head)


async def test_invalid_message_ends_in_dead_letter_queue(stack: LocalStack, caplog: pytest.LogCaptureFixture) -> None:
    stack.poll(retry_after=0)
    sqs = stack.client("sqs")
    sqs.send_message(QueueUrl=stack.physical_id("TaskQueue"), MessageBody="poison")
    assert await asyncio.to_thread(received, stack, "TaskDeadLetters") == ["poison"]
    await asyncio.to_thread(stack.stop_polling)
    assert messages_in(stack, "TaskQueue") == 0
    told = [record for record in caplog.records if record.name == "handlers.run_task"]
    assert len(told) == 20
    assert "UnreadableWakeUp: The message is not JSON" in caplog.text


def test_function_reports_only_failed_queue_messages(stack: LocalStack) -> None:
    stack.poll()
    stack.stop_polling()
    from handlers.run_task import handler

    def message(number: int, body: str) -> dict[str, Any]:
        return {"MessageId": f"m-{number}", "ReceiptHandle": "r", "Body": body, "MD5OfBody": "0"}

    bodies = [body_of(NOTHING_TO_DO), "poison", body_of(NOTHING_TO_DO), json.dumps({"v": 2})]
    event = sqs_event([message(n, body) for n, body in enumerate(bodies)], "arn:aws:sqs:us-east-1:0:TaskQueue")
    context: Any = LambdaContext("TaskFunction", "arn", 512, 900)
    assert handler(event, context) == {"batchItemFailures": [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-3"}]}
    only_poison = {"Records": event["Records"][1:2]}
    assert handler(only_poison, context) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert handler(event, context) == {"batchItemFailures": [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-3"}]}
