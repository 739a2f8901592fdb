"""Request context of an executor: the same content as under the SDK's own server."""

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.executor.request_context import CONFIGURATION
from aion_core.engine.call import CallContext
from aion_core.protocol.types import Role, Task, TaskState
from tests.runtime.unit.agents.executor.executors import ScriptedExecutor, served, states, text, text_of
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http, send

COMPLETED, INPUT_REQUIRED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED
AUTH_REQUIRED = TaskState.TASK_STATE_AUTH_REQUIRED


class BookingExecutor(AgentExecutor):
    """Executor that recognizes an answer by the state of `current_task`, like the SDK's samples."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.contexts.append(context)
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        task = context.current_task
        if task is None:
            await updater.add_artifact(text("a form"), "form")
            await updater.requires_input(updater.new_agent_message(text("Which day?")))
        elif task.status.state == INPUT_REQUIRED:
            await updater.add_artifact(text(f" for {context.get_user_input()}"), "form", append=True)
            await updater.complete(updater.new_agent_message(text("Booked.")))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_executor_gets_task_with_its_question_when_user_answers(method: str) -> None:
    """The executor's `current_task` has the history, the artifacts and the question, in both protocol versions.

    As under the SDK's server, the history lacks the question: an executor reads history and status message together.
    """
    booking = BookingExecutor()
    made = served(booking)
    async with http(made.parts.app()) as client:

        async def sent(body: dict[str, Any]) -> dict[str, Any]:
            result = (await client.post("/", json=body)).json()["result"]
            return dict(result.get("task", result))

        asked = await sent(send("Book a table", method=method))
        assert asked["status"]["state"] in ("TASK_STATE_INPUT_REQUIRED", "input-required")
        ids = {"taskId": asked["id"], "contextId": asked["contextId"]}
        task = await sent(send("Tuesday", method=method, message_id="m-2", **ids))
    assert task["status"]["state"] in ("TASK_STATE_COMPLETED", "completed")
    assert "".join(part["text"] for part in task["artifacts"][0]["parts"]) == "a form for Tuesday"
    first, second = booking.contexts
    assert first.current_task is None
    assert (first.task_id, first.context_id) == (asked["id"], asked["contextId"])
    current = second.current_task
    assert current is not None
    assert text_of(current.status.message) == "Which day?"
    assert [text_of(message) for message in current.history] == ["Book a table"]
    assert [artifact.artifact_id for artifact in current.artifacts] == ["form"]
    assert second.message is not None
    assert (second.message.message_id, second.message.task_id) == ("m-2", asked["id"])


async def test_executor_receives_file_as_answer_to_its_question() -> None:
    booking = BookingExecutor()
    async with http(served(booking).parts.app()) as client:
        asked = (await client.post("/", json=send("Book a table"))).json()["result"]["task"]
        body = send(message_id="m-2", taskId=asked["id"])
        body["params"]["message"]["parts"] = [{"raw": "AAEC", "mediaType": "image/png"}]
        task = (await client.post("/", json=body)).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    message = booking.contexts[-1].message
    assert message is not None
    assert [part.raw for part in message.parts] == [b"\x00\x01\x02"]


async def test_executor_receives_metadata_output_modes_and_extensions_of_request() -> None:
    """Check metadata, output modes and extensions; referenced tasks must belong to this owner and agent."""
    executor = ScriptedExecutor(_says_done)
    made = served(executor, configuration={"model": "small"})
    mine = await made.send(message_id="m-0", context_id="c-0")
    foreign = await made.parts.service.send(CallContext("somebody-else", "test"), request(message_id="m-0"))
    another_agents = await made.parts.service.send(CallContext("anonymous", "another"), request(message_id="m-0"))
    assert isinstance(foreign, Task)
    assert isinstance(another_agents, Task)
    async with http(made.parts.app()) as client:
        # Over HTTP the caller is anonymous, so the caller is neither of the two owners above.
        mine_too = (await client.post("/", json=send(message_id="m-1"))).json()["result"]["task"]
        body = send(
            "look",
            message_id="m-2",
            referenceTaskIds=[mine_too["id"], mine.id, foreign.id, another_agents.id, "no-such-task"],
            extensions=["urn:in-the-message"],
        )
        body["params"]["metadata"] = {"trace": {"id": 7}, "aion:acceptedOutputModes": ["made/up"]}
        body["params"]["configuration"] = {"acceptedOutputModes": ["text/plain", "image/png"]}
        answer = await client.post("/", json=body, headers={"A2A-Extensions": "urn:in-the-header"})
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        made_up = send(message_id="m-3")
        made_up["params"]["metadata"] = {"aion:acceptedOutputModes": ["made/up"], "aion:requestedExtensions": ["urn:x"]}
        await client.post("/", json=made_up)
    *_, context, without = executor.contexts
    assert without.configuration is not None
    assert (list(without.configuration.accepted_output_modes), without.requested_extensions) == ([], set())
    assert context.get_user_input() == "look"
    assert context.metadata == {"trace": {"id": 7}}
    assert context.configuration is not None
    assert list(context.configuration.accepted_output_modes) == ["text/plain", "image/png"]
    assert [task.id for task in context.related_tasks] == [mine_too["id"]]
    (related,) = context.related_tasks
    assert (text_of(related.status.message), len(related.history)) == ("done", 1), "as in the SDK's task store"
    assert context.requested_extensions == {"urn:in-the-message", "urn:in-the-header"}
    assert not context.call_context.user.is_authenticated
    assert context.call_context.state[CONFIGURATION] == {"model": "small"}


@each_row(
    ("sent", "seen"),
    [
        ("SendMessage", "SendMessage"),
        ("message/send", "SendMessage"),
        ("SendStreamingMessage", "SendStreamingMessage"),
        ("message/stream", "SendStreamingMessage"),
    ],
)
async def test_executor_sees_whether_the_client_streams(sent: str, seen: str) -> None:
    """Executors choose between chunks and one answer by this state of the SDK's server."""
    executor = ScriptedExecutor(_completes)
    async with http(served(executor).parts.app()) as client:
        await client.post("/", json=send(method=sent))
    (context,) = executor.contexts
    assert (context.call_context.state["method"], context.metadata) == (seen, {})


async def test_executor_sees_tenant_of_anonymous_caller() -> None:
    executor = ScriptedExecutor(_completes)
    made = served(executor)
    made.parts.described = {"aion_extensions": False}
    async with http(made.parts.app()) as client:
        body = send()
        body["params"] |= {"tenant": "acme", "metadata": {"aion:tenant": "another", "key": 1}}
        await client.post("/", json=body)
        body["params"] |= {"tenant": ""}
        await client.post("/", json=body)
    acme, without = executor.contexts
    assert (acme.tenant, without.tenant) == ("acme", "")
    assert not acme.call_context.user.is_authenticated
    assert acme.metadata == without.metadata == {"key": 1}


async def test_executor_receives_task_owner_as_user_name() -> None:
    executor = ScriptedExecutor(_completes)
    await served(executor).send()
    user = executor.contexts[0].call_context.user
    assert (user.is_authenticated, user.user_name) == (True, "owner")


async def test_executor_continues_after_asking_client_to_log_in() -> None:
    """The executor requires a login: the client sees this, the task stays working, and the turn continues."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.requires_auth(updater.new_agent_message(text("Log in at https://example.org")))
        while not seen:
            await asyncio.sleep(0)
            task = await made.parts.service.get(CallContext("owner", "test"), updater.task_id)
            if task.status.HasField("message"):
                seen.append((task.status.state, text_of(task.status.message)))
        await updater.start_work(updater.new_agent_message(text("Thank you")))
        await updater.complete()

    seen: list[tuple[int, str]] = []
    made = served(execute)
    task = await made.send()
    assert seen == [(TaskState.TASK_STATE_WORKING, "Log in at https://example.org")]
    assert task.status.state == COMPLETED
    assert [text_of(message) for message in task.history if message.role == Role.ROLE_AGENT] == [
        "Log in at https://example.org",
        "Thank you",
    ]


async def test_request_for_authorization_is_sent_once_if_executor_returns() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.update_status(AUTH_REQUIRED, updater.new_agent_message(text("Log in")), metadata={"realm": "x"})

    made = served(execute)
    task = await made.send()
    assert states(await made.events(task.id)) == ["submitted", "working", "auth_required"]
    assert (text_of(task.status.message), dict(task.metadata)) == ("Log in", {"realm": "x"})


async def test_request_for_authorization_of_a_failing_executor_is_kept() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.requires_auth(updater.new_agent_message(text("Log in")))
        raise ValueError("internal")

    task = await served(execute).send()
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert [text_of(message) for message in task.history[:2]] == ["hi", "Log in"]


async def test_executor_ends_authorization_by_status_working() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.requires_auth()
        await updater.start_work(updater.new_agent_message(text("Thank you")))

    task = await served(execute).send()
    assert (task.status.state, text_of(task.status.message)) == (COMPLETED, "Thank you")


async def test_executor_run_for_queued_message_receives_working_task() -> None:
    """A second message to a running task waits for the first turn; its turn then runs in the same task."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def first(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        await go.wait()
        await updater.complete(updater.new_agent_message(text("one")))

    executor = ScriptedExecutor(first, _completes)
    made = served(executor)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.parts.service.send(call, request()))
    await begun.wait()
    (key,) = made.store.task_keys()
    following = asyncio.create_task(
        made.parts.service.send(call, request("more", message_id="m-2", task_id=key.task_id))
    )
    for _ in range(50):
        await asyncio.sleep(0)
    go.set()
    await asyncio.gather(sending, following)
    await asyncio.gather(*call.background)
    current = executor.contexts[1].current_task
    assert current is not None
    assert (current.status.state, text_of(current.status.message)) == (TaskState.TASK_STATE_WORKING, "one")


async def _says_done(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await updater.complete(updater.new_agent_message(text("done")))


async def _completes(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await updater.complete()
