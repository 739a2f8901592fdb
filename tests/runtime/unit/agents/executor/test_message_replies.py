"""Executors that enqueue a Message: the client's response is this Message, as under the SDK's own server.

The first tests are the A2A TCK's requirements CORE-SEND-001 and CORE-STREAM-002 (A2A 3.1.1 and 3.1.2).
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.bootstrap import build_app
from aion_core.engine.agent_options import ReplyAs
from aion_core.engine.call import CallContext
from aion_core.protocol.types import Task, TaskState, TaskStatus
from aion_core.settings import Settings
from tests.runtime.unit.agents.executor.executors import Execute, served, text
from tests.support.requests import request
from tests.support.service import ServiceParts, http, send

METHODS = {"v1": ("SendMessage", "SendStreamingMessage"), "v0.3": ("message/send", "message/stream")}
both_versions = pytest.mark.parametrize("version", METHODS)


async def answers(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await queue.enqueue_event(updater.new_agent_message(text("Hello World")))


def agent_of(execute: Execute, reply: ReplyAs = ReplyAs.AGENT) -> ServiceParts:
    return served(execute, reply=reply).parts


async def sent(client: httpx.AsyncClient, method: str, **message: Any) -> dict[str, Any]:
    """Return the kind of a blocking request's result, and the object in the result."""
    result: dict[str, Any] = (await client.post("/", json=send(method=method, **message))).json()["result"]
    return result if "kind" in result else {"kind": next(iter(result)), **next(iter(result.values()))}


async def streamed(client: httpx.AsyncClient, method: str, **message: Any) -> list[dict[str, Any]]:
    """Return the results of a stream, each with its kind."""
    answer = await client.post("/", json=send(method=method, **message))
    results = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [each if "kind" in each else {"kind": next(iter(each)), **next(iter(each.values()))} for each in results]


def texts_of(message: dict[str, Any]) -> list[str]:
    return [part["text"] for part in message["parts"]]


@both_versions
async def test_message_of_an_executor_is_the_response(version: str) -> None:
    async with http(agent_of(answers).app()) as client:
        message = await sent(client, METHODS[version][0])
    assert (message["kind"], texts_of(message)) == ("message", ["Hello World"])
    assert "taskId" not in message
    assert message["contextId"]


@both_versions
async def test_streamed_reply_without_task_is_exactly_one_message(version: str) -> None:
    async with http(agent_of(answers).app()) as client:
        (message,) = await streamed(client, METHODS[version][1])
    assert (message["kind"], texts_of(message)) == ("message", ["Hello World"])


@both_versions
async def test_executor_message_is_returned_as_task_if_configured(version: str) -> None:
    async with http(agent_of(answers, ReplyAs.TASK).app()) as client:
        task = await sent(client, METHODS[version][0])
        frames = await streamed(client, METHODS[version][1], message_id="m-2")
    assert (task["kind"], texts_of(task["status"]["message"])) == ("task", ["Hello World"])
    assert frames[0]["kind"] == "task"


async def test_repeated_request_returns_the_same_reply() -> None:
    async with http(agent_of(answers).app()) as client:
        first, again = [await sent(client, "SendMessage", contextId="c-1") for _ in range(2)]
        frames = await streamed(client, "SendStreamingMessage", contextId="c-1")
    assert first == again == frames[0]
    assert len(frames) == 1


@both_versions
async def test_response_is_task_if_executor_updates_task_status(version: str) -> None:
    """The executor updates its task's status, so the stream begins with the task (A2A 3.1.2)."""

    async def works(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work()
        await updater.add_artifact(text("a file"), name="file")
        await updater.complete(updater.new_agent_message(text("Done.")))

    async with http(agent_of(works).app()) as client:
        task = await sent(client, METHODS[version][0])
        frames = await streamed(client, METHODS[version][1], message_id="m-2")
    assert (task["kind"], texts_of(task["status"]["message"])) == ("task", ["Done."])
    assert frames[0]["kind"] == "task"
    assert texts_of(frames[-1]["status"]["message"]) == ["Done."]


async def test_task_is_streamed_before_its_executor_ends() -> None:
    """A status update without content is not recorded, but makes the server stream the task."""
    go = asyncio.Event()

    async def works(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work()
        await go.wait()
        await updater.complete()

    made = agent_of(works)
    stream = made.service.stream(CallContext("owner", "test"), request("hi"))
    kinds: list[str] = []
    async for batch in stream:
        kinds += [type(item.payload).__name__ for item in batch]
        if kinds:
            go.set()
    assert kinds == ["Task", "TaskStatusUpdateEvent", "TaskStatusUpdateEvent"]


async def test_response_is_task_if_executor_sends_artifact_before_message() -> None:
    async def saves(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("a file"), name="file")
        await answers(context, queue, updater)

    async with http(agent_of(saves).app()) as client:
        task = await sent(client, "SendMessage")
        frames = await streamed(client, "SendStreamingMessage", message_id="m-2")
    assert (task["kind"], texts_of(task["status"]["message"])) == ("task", ["Hello World"])
    assert [frame["kind"] for frame in frames] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]


async def test_response_is_message_if_executor_sends_task_then_message() -> None:
    """The TCK's executor enqueues a new Task, then a Message: the response is the Message."""

    async def begins(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        assert context.message is not None
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        task = Task(id=context.task_id or "", context_id=context.context_id or "", status=status)
        task.history.append(context.message)
        await queue.enqueue_event(task)
        await answers(context, queue, updater)

    async with http(agent_of(begins).app()) as client:
        assert (await sent(client, "SendMessage"))["kind"] == "message"
        frames = await streamed(client, "SendStreamingMessage", message_id="m-2")
    assert [frame["kind"] for frame in frames] == ["message"]


async def test_response_to_follow_up_message_is_a_task() -> None:
    async def asks(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        if context.current_task is None:
            await updater.requires_input(updater.new_agent_message(text("Which day?")))
        else:
            await answers(context, queue, updater)

    async with http(agent_of(asks).app()) as client:
        question = await sent(client, "SendMessage")
        task = await sent(client, "SendMessage", message_id="m-2", taskId=question["id"])
    assert (task["kind"], task["status"]["state"]) == ("task", "TASK_STATE_COMPLETED")


async def test_executor_that_raises_fails_task_visible_to_client() -> None:
    async def fails(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        raise ValueError("the secret")

    async with http(agent_of(fails).app()) as client:
        task = await sent(client, "SendMessage")
        frames = await streamed(client, "SendStreamingMessage", message_id="m-2")
    assert (task["kind"], task["status"]["state"]) == ("task", "TASK_STATE_FAILED")
    assert frames[0]["kind"] == "task"


EXECUTOR = """
from a2a.server.agent_execution import AgentExecutor
from a2a.helpers import new_text_message

class Bare(AgentExecutor):
    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(new_text_message("Hello World"))

    async def cancel(self, context, event_queue):
        pass
"""
ADK = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types

class Says(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, content=types.ModelContent("Hello World"))

root_agent = Says(name="says")
"""


@pytest.mark.parametrize(("source", "kind"), [(EXECUTOR, "message"), (ADK, "task")], ids=["executor", "adk"])
async def test_default_response_kind_depends_on_framework_of_agent(source: str, kind: str, tmp_path: Path) -> None:
    """Without `reply` in aion.yaml the framework decides, even before the agent's code is loaded."""
    (tmp_path / "agent.py").write_text(source)
    (tmp_path / "aion.yaml").write_text("aion:\n  agents:\n    mine:\n      path: agent.py\n")
    app = build_app(Settings.from_environ({"AION_CONFIG": str(tmp_path / "aion.yaml"), "AION_STORE": "memory"}))
    async with http(app) as client:
        for number in (1, 2):
            frames = await streamed(client, "SendStreamingMessage", message_id=f"m-{number}")
            assert frames[0]["kind"] == kind
            assert (await sent(client, "SendMessage", message_id=f"n-{number}"))["kind"] == kind
