"""What an executor finds in its RequestContext: what it finds there under the SDK's own server."""

from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.executor.inbound import CONFIGURATION
from aion_core.protocol.types import Role, TaskState
from aion_core.tasks.call import CallContext
from tests.support.executors import Doing, said, served, text
from tests.support.requests import request
from tests.support.service import http, send

COMPLETED, INPUT_REQUIRED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED


class Booking(AgentExecutor):
    """Asks, and tells an answer from a new message by the task as it stands, as the SDK's samples do."""

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
async def test_an_answer_finds_the_task_as_it_asked(method: str) -> None:
    """R12: in both versions; history, artifacts and the question are there."""
    booking = Booking()
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
    assert said(current.status.message) == "Which day?"
    assert [said(message) for message in current.history] == ["Book a table"]
    assert [artifact.artifact_id for artifact in current.artifacts] == ["form"]
    assert second.message is not None
    assert (second.message.message_id, second.message.task_id) == ("m-2", asked["id"])


async def test_a_message_holds_all_that_the_client_sent() -> None:
    """R51: metadata, output modes, extensions, and the tasks it refers to, of this owner only."""
    doing = Doing(_completes)
    made = served(doing, configuration={"model": "small"})
    mine = await made.send(message_id="m-0", context_id="c-0")
    foreign = await made.parts.service.send(CallContext("somebody-else", "test"), request(message_id="m-0"))
    another_agents = await made.parts.service.send(CallContext("anonymous", "another"), request(message_id="m-0"))
    async with http(made.parts.app()) as client:
        # Over HTTP nobody is asked who they are: the caller is another owner than the two above.
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
    *_, context, without = doing.contexts
    assert without.configuration is not None
    assert (list(without.configuration.accepted_output_modes), without.requested_extensions) == ([], set())
    assert context.get_user_input() == "look"
    assert context.metadata == {"trace": {"id": 7}}
    assert context.configuration is not None
    assert list(context.configuration.accepted_output_modes) == ["text/plain", "image/png"]
    assert [task.id for task in context.related_tasks] == [mine_too["id"]]
    assert context.requested_extensions == {"urn:in-the-message", "urn:in-the-header"}
    assert not context.call_context.user.is_authenticated
    assert context.call_context.state[CONFIGURATION] == {"model": "small"}


async def test_the_owner_is_the_user() -> None:
    doing = Doing(_completes)
    await served(doing).send()
    user = doing.contexts[0].call_context.user
    assert (user.is_authenticated, user.user_name) == (True, "owner")


async def test_an_authorization_that_is_given_elsewhere_is_waited_for_in_the_turn() -> None:
    """The SDK's out-of-bound way: the client hears of it, the turn goes on, and is not over."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.requires_auth(updater.new_agent_message(text("Log in at https://example.org")))
        task = await made.parts.service.get(CallContext("owner", "test"), updater.task_id)
        heard.append((task.status.state, said(task.status.message)))
        await updater.start_work(updater.new_agent_message(text("Thank you")))
        await updater.complete()

    heard: list[tuple[int, str]] = []
    made = served(execute)
    task = await made.send()
    assert heard == [(TaskState.TASK_STATE_WORKING, "Log in at https://example.org")]
    assert task.status.state == COMPLETED
    assert [said(message) for message in task.history if message.role == Role.ROLE_AGENT] == [
        "Log in at https://example.org",
        "Thank you",
    ]


async def test_an_executor_that_went_on_after_an_authorization_no_longer_waits_for_it() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.requires_auth()
        await updater.start_work(updater.new_agent_message(text("Thank you")))

    task = await served(execute).send()
    assert (task.status.state, said(task.status.message)) == (COMPLETED, "Thank you")


async def test_a_message_to_a_task_at_work_finds_it_at_work() -> None:
    """Double texting: the second turn runs after the first, in the same task."""
    import asyncio

    begun, go = asyncio.Event(), asyncio.Event()

    async def first(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        await go.wait()
        await updater.complete(updater.new_agent_message(text("one")))

    doing = Doing(first, _completes)
    made = served(doing)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.parts.service.send(call, request()))
    await begun.wait()
    (key,) = made.store.task_keys()
    following = asyncio.create_task(
        made.parts.service.send(call, request("more", message_id="m-2", task_id=key.task_id))
    )
    await asyncio.sleep(0.01)
    go.set()
    await asyncio.gather(sending, following)
    await asyncio.gather(*call.background)
    current = doing.contexts[1].current_task
    assert current is not None
    assert (current.status.state, said(current.status.message)) == (TaskState.TASK_STATE_WORKING, "one")


async def _completes(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await updater.complete()
