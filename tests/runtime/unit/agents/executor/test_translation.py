"""Translation of an executor's events: each event once, server ids, one ending."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.authoring.context import get_aion_context
from aion_core.engine.agent_options import ReplyAs
from aion_core.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from tests.runtime.unit.agents.executor.executors import ScriptedExecutor, served, states, text, text_of
from tests.runtime.unit.agents.folding import fold
from tests.support.histories import before_status, messages_of
from tests.support.rows import each_row
from tests.support.service import http, send

COMPLETED, FAILED, WORKING = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_WORKING,
)


def new_task(message: Message) -> Task:
    """Return a task made as in the SDK's samples."""
    return Task(
        id=message.task_id,
        context_id=message.context_id,
        status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        history=[message],
    )


class HelloWorld(AgentExecutor):
    """Executor like the SDK's hello world: a task, a status, an artifact, the end."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task or new_task(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message(text("Saying hello…")))
        await updater.add_artifact(
            text(f"Hello, {context.get_user_input()}!"), name="greeting", artifact_id="greeting-1", last_chunk=True
        )
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


class QuickReply(AgentExecutor):
    """Executor like the SDK's quick reply: a message without a task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(new_text_message("Hello World"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


async def events_of(app: Any, method: str) -> list[dict[str, Any]]:
    async with http(app) as client:
        answer = await client.post("/", json=send("you", method=method))
    return [json.loads(line[5:])["result"] for line in answer.text.splitlines() if line.startswith("data:")]


async def test_sample_executor_streams_its_events() -> None:
    """The server itself sends the task and its first status, so the executor's copies of them are not repeated."""
    made = served(HelloWorld())
    events = await events_of(made.parts.app(), "SendStreamingMessage")
    assert [next(iter(event)) for event in events] == [
        "task",
        "statusUpdate",
        "statusUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert events[2]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "Saying hello…"}]
    artifact = events[3]["artifactUpdate"]
    assert artifact["lastChunk"] is True
    assert artifact["artifact"] == {
        "artifactId": "greeting-1",
        "name": "greeting",
        "parts": [{"text": "Hello, you!"}],
    }


async def test_sample_executor_streams_v03_events() -> None:
    made = served(HelloWorld())
    events = await events_of(made.parts.app(), "message/stream")
    assert [event["kind"] for event in events] == [
        "task",
        "status-update",
        "status-update",
        "artifact-update",
        "status-update",
    ]
    assert [event.get("final") for event in events if event["kind"] == "status-update"] == [False, False, True]
    assert events[3]["artifact"]["parts"] == [{"kind": "text", "text": "Hello, you!"}]


async def test_message_sent_by_executor_is_the_answer() -> None:
    task = await served(QuickReply()).send()
    assert task.status.state == COMPLETED
    assert text_of(task.status.message) == "Hello World"
    assert task.status.message.task_id == task.id


async def test_executor_artifact_chunks_are_appended() -> None:
    """Keep the artifact's name, metadata and extensions, but remove reserved metadata keys."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("a"), "x", "letters", {"n": 1, "aion:mine": 2}, extensions=["urn:e"])
        await updater.add_artifact(text("b"), "x", append=True)
        await updater.add_artifact(text("c"), "x", append=True, last_chunk=True)
        await updater.add_artifact(text("never opened"), "y", append=True)
        await updater.complete()

    made = served(execute)
    task = await made.send()
    x, y = task.artifacts
    assert (x.artifact_id, x.name, "".join(part.text for part in x.parts)) == ("x", "letters", "abc")
    assert dict(x.metadata) == {"n": 1}
    assert list(x.extensions) == ["urn:e"]
    chunks = [event for event in await made.events(task.id) if isinstance(event, TaskArtifactUpdateEvent)]
    assert [(chunk.append, chunk.last_chunk) for chunk in chunks] == [
        (False, False),
        (True, False),
        (True, True),
        (False, False),
    ], "an append to a missing artifact opens it"
    assert y.artifact_id == "y"


@each_row(
    ("end", "state"),
    [
        ("complete", COMPLETED),
        ("failed", FAILED),
        ("reject", TaskState.TASK_STATE_REJECTED),
        ("cancel", TaskState.TASK_STATE_CANCELED),
        ("requires_input", TaskState.TASK_STATE_INPUT_REQUIRED),
        ("requires_auth", TaskState.TASK_STATE_AUTH_REQUIRED),
    ],
)
async def test_final_state_set_by_task_updater_becomes_task_state(end: str, state: TaskState) -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await getattr(updater, end)(updater.new_agent_message(text("because"), {"why": "so", "aion:x": 1}))

    task = await served(execute).send()
    assert task.status.state == state
    assert text_of(task.status.message) == "because"
    assert dict(task.status.message.metadata) == {"why": "so"}
    assert [message.role for message in before_status(task)] == [Role.ROLE_USER], "no message twice"


async def test_input_required_status_without_message_contains_last_message() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("Which day?")))
        await updater.requires_input()

    task = await served(execute).send()
    assert text_of(task.status.message) == "Which day?"
    assert [text_of(message) for message in messages_of(task)] == ["hi", "Which day?"]


async def test_status_metadata_is_merged_into_the_task() -> None:
    """Merge the status update's metadata into the task's, without reserved keys."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.update_status(WORKING, metadata={"step": 1, "aion:network": "mine"})
        await updater.update_status(WORKING, metadata={"step": 1})
        await updater.update_status(WORKING, updater.new_agent_message(text("half")), metadata={"half": True})
        await updater.update_status(COMPLETED, metadata={"cost": 2})

    made = served(execute)
    task = await made.send()
    assert dict(task.metadata) == {"step": 1, "half": True, "cost": 2}
    assert states(await made.events(task.id)) == ["submitted", "working", "working", "working", "completed"], (
        "a status without a change is not recorded"
    )


async def test_task_and_context_ids_of_executor_events_are_overwritten() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        other = TaskUpdater(queue, "another-task", "another-context")
        await queue.enqueue_event(Task(id="another-task", context_id="another-context"))
        await other.start_work(other.new_agent_message(text("on it")))
        await other.add_artifact(text("x"), "x")
        await other.complete(other.new_agent_message(text("done")))

    made = served(execute)
    task = await made.send()
    assert task.status.state == COMPLETED
    for event in await made.events(task.id):
        assert (event.id if isinstance(event, Task) else event.task_id) == task.id
        assert event.context_id == "c"
    assert task.status.message.task_id == task.id
    assert all(message.context_id == "c" for message in task.history)


async def test_executor_messages_with_equal_ids_stay_in_history() -> None:
    """Reuse a message object, and the id of the client's message: the earlier messages do not vanish."""

    async def counts(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        progress = updater.new_agent_message(text("1"))
        await updater.start_work(progress)
        progress.parts[0].text = "2"
        await updater.start_work(progress)
        answer = Message(message_id="m-1", role=Role.ROLE_AGENT, parts=text("3"))
        await updater.start_work(answer)
        await updater.complete(answer)

    task = await served(counts).send(message_id="m-1")
    assert [text_of(message) for message in messages_of(task)] == ["hi", "1", "2", "3", "3"]


async def test_ignored_task_is_logged_only_if_it_has_news(caplog: pytest.LogCaptureFixture) -> None:
    """Many executors send `current_task` first in each turn, which changes nothing."""

    async def asks(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("a form"), "form")
        await updater.requires_input(updater.new_agent_message(text("Which day?")))

    async def repeats(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        assert context.current_task is not None
        await queue.enqueue_event(context.current_task)
        logged.append(len(caplog.records))
        context.current_task.artifacts.add(artifact_id="new", parts=text("lost"))
        await queue.enqueue_event(context.current_task)
        logged.append(len(caplog.records))
        await updater.complete()

    logged: list[int] = []
    made = served(ScriptedExecutor(asks, repeats))
    task = await made.send()
    task = await made.send("Monday", message_id="m-2", task_id=task.id)
    assert (logged, [each.artifact_id for each in task.artifacts]) == ([0, 1], ["form"])
    assert "the executor's Task is ignored" in caplog.text


async def test_first_task_sent_by_executor_is_merged_into_stored_task() -> None:
    """The first event of an executor may be a whole, already completed task with artifacts and history."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        assert context.message is not None
        task = new_task(context.message)
        task.artifacts.append(Artifact(artifact_id="a", parts=text("result")))
        task.history.append(Message(message_id="on-the-way", role=Role.ROLE_AGENT, parts=text("a moment")))
        task.status.state = COMPLETED
        task.status.message.CopyFrom(updater.new_agent_message(text("done")))
        task.metadata.update({"cost": 1})
        await queue.enqueue_event(task)

    task = await served(execute).send()
    assert [artifact.artifact_id for artifact in task.artifacts] == ["a"]
    assert [text_of(message) for message in messages_of(task)] == ["hi", "a moment", "done"]
    assert (text_of(task.status.message), dict(task.metadata)) == ("done", {"cost": 1})


async def test_status_message_repeated_in_task_of_executor_is_sent_once() -> None:
    """The executor enqueues another server's task, whose history ends with its status message, as ours does."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        assert context.message is not None
        task = new_task(context.message)
        answer = updater.new_agent_message(text("done"))
        task.history.append(answer)
        task.status.CopyFrom(TaskStatus(state=COMPLETED, message=answer))
        await queue.enqueue_event(task)

    made = served(execute)
    task = await made.send()
    assert [text_of(message) for message in messages_of(task)] == ["hi", "done"]
    assert states(await made.events(task.id)) == ["submitted", "working", "completed"]


async def test_task_sent_by_executor_after_other_events_is_ignored() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("kept"), "a")
        await queue.enqueue_event(Task(id=updater.task_id, status=TaskStatus(state=FAILED)))
        await updater.complete()

    task = await served(execute).send()
    assert task.status.state == COMPLETED
    assert len(task.artifacts) == 1


async def test_executor_events_after_final_state_are_ignored() -> None:
    """The executor may continue after its final state, but its events and errors change nothing."""
    did: list[str] = []
    tidied = asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.complete(updater.new_agent_message(text("done")))
        did.append("after the end")
        await updater.add_artifact(text("too late"), "late")
        await queue.enqueue_event(TaskStatusUpdateEvent(task_id=updater.task_id, status=TaskStatus(state=FAILED)))
        did.append("tidied up")
        tidied.set()
        raise RuntimeError("as it left")

    made = served(execute)
    task = await made.send()
    await tidied.wait()
    assert did == ["after the end", "tidied up"]
    again = await made.parts.service.get(_call(), task.id)
    assert (again.status.state, text_of(again.status.message), len(again.artifacts)) == (COMPLETED, "done", 0)


async def test_completed_task_is_returned_before_execute_ends() -> None:
    go = asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.complete()
        await go.wait()

    task = await asyncio.wait_for(served(execute).send(), 60)
    assert task.status.state == COMPLETED
    go.set()


@pytest.mark.parametrize("what", ["artifact", "message"])
async def test_executor_returning_without_final_state_completes_task(what: str) -> None:
    """The server completes the task; under the SDK's server it would stay in WORKING forever."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        if what == "artifact":
            await updater.add_artifact(text("the result"), "a")
        else:
            await updater.start_work(updater.new_agent_message(text("the result")))

    task = await served(execute).send()
    assert task.status.state == COMPLETED
    if what == "message":
        assert text_of(task.status.message) == "the result"
    assert len(before_status(task)) == 1


@pytest.mark.parametrize("task_first", [False, True])
async def test_executor_returning_without_output_fails_task(task_first: bool) -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        if task_first:
            await updater.submit()

    task = await served(execute).send()
    assert task.status.state == FAILED
    assert "without an answer" in text_of(task.status.message)


async def test_executor_error_fails_task() -> None:
    """Raise an error: the earlier events stay, and the client does not receive the error's text."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("half"), "a")
        raise ValueError("the key is s3cret")

    task = await served(execute).send()
    assert task.status.state == FAILED
    assert text_of(task.status.message).startswith("ValueError")
    assert "s3cret" not in str(task)
    assert len(task.artifacts) == 1


async def test_client_sees_text_of_invalid_params_error_from_executor() -> None:
    from a2a.utils.errors import InternalError, InvalidParamsError

    async def refuse(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        raise InvalidParamsError("Name a city.")

    async def fail(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        raise InternalError("password=hunter2")

    assert text_of((await served(refuse).send()).status.message) == "InvalidParamsError: Name a city."
    assert "hunter2" not in str(await served(fail).send())


async def test_executor_exiting_process_fails_task() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        raise SystemExit(3)

    task = await served(execute).send()
    assert task.status.state == FAILED
    assert "end its process" in text_of(task.status.message)


async def test_executor_cancelling_itself_fails_task() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        raise asyncio.CancelledError

    assert (await served(execute).send()).status.state == FAILED


async def test_event_queue_refuses_objects_of_other_types() -> None:
    from a2a.compat.v0_3 import types as v03

    errors: list[str] = []

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        old: Any = v03.Message(role=v03.Role.agent, message_id="m", parts=[])
        try:
            await queue.enqueue_event(old)
        except TypeError as error:
            errors.append(str(error))
        await updater.complete()

    assert (await served(execute).send()).status.state == COMPLETED
    assert "a2a.compat.v0_3.types.Message" in errors[0]


async def test_reply_is_answer_if_executor_completes_without_message() -> None:
    """The executor replies, then completes without a message: the reply becomes the final status message."""
    seen: list[Any] = []

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        turn = get_aion_context()
        seen.append((turn.message.text if turn.message else "", turn.thread.id, turn.self.name))
        await turn.thread.typing()
        await turn.thread.reply("My reply")
        await asyncio.to_thread(lambda: seen.append(get_aion_context().self.id))
        await updater.complete()

    made = served(execute)
    task = await made.send()
    assert seen == [("hi", "c", "Test"), "test"]
    assert text_of(task.status.message) == "My reply"
    assert [text_of(message) for message in messages_of(task)] == ["hi", "My reply"]


async def spoken(*words: str) -> AsyncIterator[str]:
    for word in words:
        await asyncio.sleep(0)
        yield word


@pytest.mark.parametrize("method", ["SendStreamingMessage", "message/stream"])
async def test_texts_streamed_concurrently_by_executor_do_not_interleave(method: str) -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        async def delta() -> None:
            for number, word in enumerate(("one ", "two ", "three")):
                await updater.add_artifact(text(word), "aion:stream-delta", append=number > 0, last_chunk=number == 2)

        reply = get_aion_context().thread.reply
        await asyncio.gather(reply(spoken("four ", "five ", "six")), delta(), reply(spoken("seven ", "eight")))
        await updater.complete()

    async with http(served(execute).parts.app()) as client:
        folded = fold((await client.post("/", json=send(method=method))).text)
    # Allow texts without chunks: while one text is streamed, another reply is held back and then sent as a message.
    assert set(folded.texts) <= {"one two three", "four five six", "seven eight"}
    assert "one two three" in folded.texts
    assert len(folded.texts) == len(set(folded.texts))
    assert {text_of(message) for message in folded.messages.values()} == {"four five six", "seven eight"}


async def test_client_receives_two_texts_although_first_lacks_last_chunk() -> None:
    """Stream two texts without marking the first one's last chunk: the client receives two separate texts."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        for words in (("One ", "moment."), ("The ", "answer.")):
            for number, word in enumerate(words):
                await updater.add_artifact(text(word), "aion:stream-delta", append=number > 0)
            await updater.update_status(WORKING, updater.new_agent_message(text("".join(words))))
        await updater.complete()

    async with http(served(execute).parts.app()) as client:
        folded = fold((await client.post("/", json=send(method="SendStreamingMessage"))).text)
    assert folded.texts == ["One moment.", "The answer."]


async def test_stream_delta_artifact_is_sent_but_not_stored() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("Hel"), "aion:stream-delta", append=False)
        await updater.add_artifact(text("lo"), "aion:streamDelta", append=True, last_chunk=True)
        await updater.complete(updater.new_agent_message(text("Hello")))

    made = served(execute)
    events = await events_of(made.parts.app(), "SendStreamingMessage")
    deltas = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert "".join(part["text"] for delta in deltas for part in delta["artifact"].get("parts", ())) == "Hello"
    (key,) = made.store.task_keys()
    assert not (await made.parts.service.get(_call("anonymous"), key.task_id)).artifacts


def _call(owner: str = "owner") -> Any:
    from aion_core.engine.call import CallContext

    return CallContext(owner, "test")


async def test_executor_status_without_state_means_working() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        status = TaskStatus(message=Message(parts=[Part(text="hm")]))
        await queue.enqueue_event(TaskStatusUpdateEvent(task_id=updater.task_id, status=status))
        await updater.complete()

    made = served(execute)
    task = await made.send()
    assert states(await made.events(task.id)) == ["submitted", "working", "working", "completed"]
    assert [text_of(message) for message in task.history] == ["hi", "hm"]


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_part_without_content_gets_empty_text(method: str) -> None:
    """Send `Part(text=None)` in an artifact and in the answer: v0.3 has no part without content."""

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact([Part(text=None), *text("one")])
        await updater.complete(updater.new_agent_message([Part(text=None)]))

    async with http(served(execute).parts.app()) as client:
        result = (await client.post("/", json=send(method=method))).json()["result"]
    task = result.get("task", result)
    parts = [*task["artifacts"][0]["parts"], *task["status"]["message"]["parts"]]
    assert [part["text"] for part in parts] == ["", "one", ""]


@pytest.mark.parametrize("path", ["/message:send", "/v1/message:send"])
async def test_rest_binding_refuses_unsupported_output_modes(path: str) -> None:
    """Request an output mode that the agent does not have: error -32005 in both versions."""
    made = served(QuickReply())
    old = path.startswith("/v1")
    message = {"messageId": "m-1", "role": "ROLE_USER", ("content" if old else "parts"): [{"text": "hi"}]}
    body = {"message": message, "configuration": {"acceptedOutputModes": ["image/png"]}}
    async with http(made.parts.app()) as client:
        answer = await client.post(path, json=body, headers={"A2A-Version": "0.3" if old else "1.0"})
    assert answer.status_code in (400, 415), answer.text
    assert "text/plain" in answer.text
    assert not made.store.task_keys()


async def test_message_reply_mode_returns_executor_answer_without_task() -> None:
    """Set `reply: message`: the response is a Message instead of a task."""
    made = served(QuickReply(), reply=ReplyAs.MESSAGE)
    async with http(made.parts.app()) as client:
        result = (await client.post("/", json=send())).json()["result"]
    assert result["message"]["parts"] == [{"text": "Hello World"}]
