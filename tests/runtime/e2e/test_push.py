"""PushFunction on the local stack with the AWS adapters: from a message to its webhook."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import handlers
from aion_tools.stack.stack import LocalStack
from tests.support.queues import messages_in, received
from tests.support.receiver import TIMEOUT, WebhookReceiver, answers, receiving
from tests.support.server import ROOT
from tests.support.service import http

AGENTS = ROOT / "tests" / "support" / "e2e" / "agents"
PUSH_HERE = {"AION_PUSH_HTTP": "true", "AION_PUSH_NETWORKS": "127.0.0.0/8"}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalStack]:
    """Start a stack with pollers and newly imported handlers; webhooks may have URLs on this machine."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("run_task", "deliver_push", "sweep"):
        monkeypatch.delitem(sys.modules, f"handlers.{name}", raising=False)
        monkeypatch.delattr(handlers, name, raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with LocalStack.start("template.yaml") as stack:
        here = {**PUSH_HERE, "AION_CONFIG": str(AGENTS / "steps.yaml"), "AION_AUTH": "off"}
        here |= {"NOTED_IN": str(tmp_path / "notes"), "STEP_SECONDS": "0.1"}
        for name, value in {**stack.environment("ApiFunction"), **here}.items():
            monkeypatch.setenv(name, value)
        stack.poll(environ=here, retry_after=0)
        yield stack


@pytest.fixture
async def client(stack: LocalStack) -> AsyncIterator[httpx.AsyncClient]:
    from aion_core.bootstrap import build_app

    async with http(build_app()) as client:
        yield client


async def rpc(client: httpx.AsyncClient, method: str, **params: Any) -> Any:
    answer = (
        await client.post("http://localhost/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    ).json()
    assert "result" in answer, answer
    return answer["result"]


async def send(client: httpx.AsyncClient, receiver: WebhookReceiver) -> dict[str, Any]:
    """Send a non-blocking message with a push config for the receiver; return the task."""
    config = {"id": "p-1", "url": receiver.url(), "token": "said-back"}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "three"}]}
    configuration = {"returnImmediately": True, "taskPushNotificationConfig": config}
    answer = await rpc(client, "SendMessage", message=message, configuration=configuration)
    task: dict[str, Any] = answer["task"]
    return task


async def test_webhook_receives_task_events_in_order(stack: LocalStack, client: httpx.AsyncClient) -> None:
    """The first post fails, so PushFunction repeats it; it sends each later notification once."""
    async with receiving(answers(500), answers(200)) as receiver:
        task = await send(client, receiver)
        state = ""
        for _ in range(TIMEOUT * 20):
            state = (await rpc(client, "GetTask", id=task["id"]))["status"]["state"]
            if state == "TASK_STATE_COMPLETED" and any(state in post.body.decode() for post in receiver.posts):
                break
            await asyncio.sleep(0.05)
        said = [json.loads(post.body)["statusUpdate"]["status"]["state"] for post in receiver.posts]
        assert said[0] == said[1] == "TASK_STATE_WORKING"
        assert said[-1] == "TASK_STATE_COMPLETED", (state, said)
        generations = [int(post.id.split("_")[1]) for post in receiver.posts]
        assert generations[0] == generations[1], "the first was refused, and came again under its id"
        assert generations[1:] == sorted(set(generations)), "each once, in order"
        assert {post.headers["x-a2a-notification-token"] for post in receiver.posts} == {"said-back"}
    # Wait until the queue is empty, because a wake-up message may be left whose events are already delivered.
    for _ in range(TIMEOUT * 20):
        if messages_in(stack, "PushQueue") == 0:
            break
        await asyncio.sleep(0.05)
    await asyncio.to_thread(stack.stop_polling)
    assert messages_in(stack, "PushQueue") == 0
    index = {"TableName": stack.physical_id("Table"), "IndexName": "due"}
    assert stack.client("dynamodb").scan(**index)["Items"] == [], "nothing is promised any more"


async def test_invalid_message_ends_in_dead_letter_queue(stack: LocalStack) -> None:
    sqs = stack.client("sqs")
    sqs.send_message(QueueUrl=stack.physical_id("PushQueue"), MessageBody='{"v": 1, "owner": "ann"}')
    assert await asyncio.to_thread(received, stack, "PushDeadLetters") == ['{"v": 1, "owner": "ann"}']


def test_push_function_loads_no_agent_or_web_framework() -> None:
    """Import handlers.deliver_push in a new process: no agent framework and no web framework is loaded."""
    program = (
        "import sys, handlers.deliver_push\n"
        "never = ('fastapi', 'langgraph', 'langchain_core', 'google.adk', 'a2a.server', 'sqlalchemy', 'mangum')\n"
        "print([name for name in never if name in sys.modules])"
    )
    needed = ("AION_TABLE", "AION_BUCKET", "AION_TASK_QUEUE_URL", "AION_PUSH_QUEUE_URL", "AION_KMS_KEY")
    environment = {**os.environ, **dict.fromkeys(needed, "https://there.test/"), "AWS_DEFAULT_REGION": "us-east-1"}
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr
