"""Response to a message, by `reply` in aion.yaml: its task, or the answer as a Message."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from aion_core.engine.agent_options import ReplyAs
from aion_core.protocol.types import Task, TaskState
from tests.runtime.unit.engine.reply_modes import both_dialects, caller, client_of, made_with, until
from tests.runtime.unit.engine.teller import Teller
from tests.runtime.unit.engine.wire import texts
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http

# ── Answers with a Message ────────────────────────────────────────────────────────────────────────────────────────────


@both_dialects
@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_quick_answer_is_returned_as_message_without_task(reply: ReplyAs, dialect: str) -> None:
    """The Message has role agent, an id and a context id. v1 wraps it in `message`; in v0.3 it has a kind."""
    async with client_of(made_with(reply), dialect) as client:
        kind, message = await client.send("decorated", contextId="c")
    assert kind == "message"
    assert message["role"] == ("ROLE_AGENT" if dialect == "1.0" else "agent")
    assert message["messageId"] == "a-decorated"
    assert message["contextId"] == "c"
    assert "taskId" not in message
    assert texts(message["parts"]) == ["answer to decorated"]
    assert len(message["parts"]) == 2
    assert message["metadata"] == {"mood": "better"}


@both_dialects
@each_row("text", ["hi", "chunks", "replied", "types", "meanwhile", "note", "file"])
async def test_reply_mode_message_streams_exactly_one_message(text: str, dialect: str) -> None:
    """Stream with `reply: message`: one Message arrives, then the stream closes (A2A 3.1.2)."""
    async with client_of(made_with(ReplyAs.MESSAGE), dialect) as client:
        ((sse_id, kind, message),) = await client.stream(text)
    assert (sse_id, kind) == ("", "message")
    assert texts(message["parts"])[0] == f"answer to {text}"


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_rest_response_and_stream_contain_same_message(prefix: str) -> None:
    """Call HTTP+JSON in both versions, blocking and streaming: each wraps the same Message."""
    parts_of = {("content" if prefix else "parts"): [{"text": "hi"}]}
    body = {"message": {"messageId": "m-1", "role": "ROLE_USER", "contextId": "c", **parts_of}}
    async with http(made_with(ReplyAs.AUTO).app()) as client:
        headers = {"A2A-Version": "0.3" if prefix else "1.0"}
        sent = (await client.post(f"{prefix}/message:send", json=body, headers=headers)).json()
        streamed = (await client.post(f"{prefix}/message:stream", json=body, headers=headers)).text
    (frame,) = [line.removeprefix("data: ") for line in streamed.splitlines() if line.startswith("data: ")]
    assert sent.keys() == {"message"}
    assert json.loads(frame) == sent
    assert sent["message"]["messageId"] == "a-hi"
    assert "taskId" not in sent["message"]


async def test_message_reply_includes_artifacts_and_metadata_of_task() -> None:
    """The Message has the answer's parts, then those of artifacts; the answer's metadata overrides the task's."""
    async with client_of(made_with(ReplyAs.MESSAGE)) as client:
        _, message = await client.send("file note decorated")
        assert message["parts"][2:] == [{"raw": "AP8=", "mediaType": "image/png"}]
        assert message["metadata"] == {"mood": "better"}
        _, message = await client.send("note", message_id="m-2")
        assert message["metadata"] == {"mood": "good"}


async def test_task_of_message_reply_is_listed() -> None:
    """The task of a Message is stored nevertheless, so ListTasks returns it (docs/decisions/0011)."""
    made = made_with(ReplyAs.MESSAGE)
    async with client_of(made) as client:
        _, message = await client.send("file")
        (task,) = (await client.call("ListTasks", includeArtifacts=True))["result"]["tasks"]
        assert task["contextId"] == message["contextId"]
        assert task["metadata"] == {"aion:reply": "message"}
        assert task["status"]["message"]["messageId"] == message["messageId"]
        assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["file"]


async def test_reply_mode_message_ignores_return_immediately() -> None:
    """Set `returnImmediately`: the Message still arrives, because it has no state to poll (A2A 3.2.2)."""
    async with client_of(made_with(ReplyAs.MESSAGE)) as client:
        assert (await client.at_once("hi"))[0] == "message"


async def test_reply_mode_auto_returns_task_with_return_immediately() -> None:
    """With `returnImmediately` the answer is not known yet: the response is the task, also for a repeat."""
    made = made_with(ReplyAs.AUTO)
    async with client_of(made) as client:
        first = await client.at_once("hi", contextId="c")
        await made.work_queue.quiet()
        again = await client.at_once("hi", contextId="c")
    assert [first[0], again[0]] == ["task", "task"]
    assert first[1]["id"] == again[1]["id"]


async def test_conversation_continues_after_message_replies() -> None:
    """Send further messages to the context: its history is the same with each setting of `reply`."""

    def count(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"message {len(state['messages'])}")]}

    graph = StateGraph(MessagesState).add_node(count).add_edge(START, "count")
    async with client_of(made_with(ReplyAs.AUTO, graph)) as client:
        _, first = await client.send("one")
        _, second = await client.send("two", message_id="m-2", contextId=first["contextId"])
    assert texts(first["parts"] + second["parts"]) == ["message 1", "message 3"]


# ── Answers with a task ───────────────────────────────────────────────────────────────────────────────────────────────


@both_dialects
@each_row("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
@each_row(
    ("text", "state"),
    [
        ("fails", "failed"),
        ("rejects", "rejected"),
        ("asks", "input-required"),
        ("silent", "completed"),
        ("empty", "completed"),
    ],
)
async def test_response_is_task_unless_turn_completes_with_answer(
    text: str, state: str, reply: ReplyAs, dialect: str
) -> None:
    """Fail, reject or interrupt the turn: a Message cannot express this, so the response is the task."""
    async with client_of(made_with(reply), dialect) as client:
        kind, task = await client.send(text, message_id="m-1")
        frames = await client.stream(text, message_id="m-2")
    assert kind == "task"
    assert task["status"]["state"].removeprefix("TASK_STATE_").lower().replace("_", "-") == state
    assert [(sse_id, kind) for sse_id, kind, _ in frames] == [
        ("1", "task"),
        ("2", "statusUpdate" if dialect == "1.0" else "status-update"),
        ("3", "statusUpdate" if dialect == "1.0" else "status-update"),
    ]
    assert "aion:reply" not in str(frames) + str(task)


@each_row("text", ["file", "note", "meanwhile", "patched", "replied meanwhile"])
async def test_reply_mode_auto_returns_task_if_turn_has_other_events(text: str) -> None:
    """Emit artifacts, metadata or earlier messages beside the answer: the response is the task."""
    async with client_of(made_with(ReplyAs.AUTO)) as client:
        assert (await client.send(text, message_id="m-1"))[0] == "task"
        frames = await client.stream(text, message_id="m-2")
    assert frames[0][:2] == ("1", "task")
    assert [sse_id for sse_id, _, _ in frames] == [str(n) for n in range(1, len(frames) + 1)]
    assert frames[-1][2]["status"]["state"] == "TASK_STATE_COMPLETED"


@each_row("text", ["hi", "replied", "types", "replied types"])
async def test_reply_mode_auto_returns_message_for_thread_reply(text: str) -> None:
    """Reply by `thread.reply` before the end of the turn: the response is the Message."""
    async with client_of(made_with(ReplyAs.AUTO)) as client:
        assert (await client.send(text, message_id="m-1"))[0] == "message"
        assert [kind for _, kind, _ in await client.stream(text, message_id="m-2")] == ["message"]


async def test_reply_mode_auto_streams_task_if_agent_streams_chunks() -> None:
    """Stream chunks: each has its SSE id, and the response to a repeat is a task too."""
    made = made_with(ReplyAs.AUTO)
    async with client_of(made) as client:
        frames = await client.stream("chunks", contextId="c")
        assert [kind for _, kind, _ in frames] == ["task", *["statusUpdate"], *["artifactUpdate"] * 3, "statusUpdate"]
        assert [sse_id for sse_id, _, _ in frames] == ["1", "2", "2.1.0", "2.1.1", "2.1.2", "3"]
        kind, task = await client.send("chunks", contextId="c")
    assert kind == "task"
    assert task["id"] == frames[0][2]["id"]
    assert "metadata" not in task


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_answer_to_interrupt_returns_task(reply: ReplyAs) -> None:
    """Answer an interrupt with or without a taskId, or twice: the client gets the end of the task that it knows."""
    for naming in (True, False):
        made = made_with(reply)
        async with client_of(made) as client:
            _, task = await client.send("asks", contextId="c")
            named = {"contextId": "c"} | ({"taskId": task["id"]} if naming else {})
            frames = await client.stream("this one", message_id="m-2", **named)
            kind, again = await client.send("this one", message_id="m-2", **named)
            repeated = await client.send("asks", contextId="c")
        assert [(kind, frame.get("id", "")) for _, kind, frame in frames] == [
            ("task", task["id"]),
            ("statusUpdate", ""),
        ]
        assert (kind, again["status"]["state"]) == ("task", "TASK_STATE_COMPLETED")
        assert repeated == (kind, again)


@pytest.mark.parametrize("naming", [True, False])
async def test_answer_to_interrupt_with_return_immediately_returns_working_task(naming: bool) -> None:
    """Answer an interrupt with `returnImmediately`: the response is the task, still working."""
    made = made_with(ReplyAs.MESSAGE)
    call = caller()
    asking = await made.service.send(call, request("asks"))
    assert isinstance(asking, Task)
    answer = request("slow", message_id="m-2", task_id=asking.id if naming else "", return_immediately=True)
    task = await made.service.send(call, answer)
    assert isinstance(task, Task)
    assert task.status.state == TaskState.TASK_STATE_WORKING
    assert isinstance(made.agent, Teller)
    made.agent.go.set()
    await made.work_queue.quiet()
    await until(lambda: not call.background)
    assert (await made.service.get(call, task.id)).status.state == TaskState.TASK_STATE_COMPLETED


async def test_reply_mode_task_returns_and_streams_task() -> None:
    async with client_of(made_with(ReplyAs.TASK)) as client:
        kind, task = await client.send("hi")
        frames = await client.stream("hi", message_id="m-2")
    assert (kind, task.get("metadata")) == ("task", None)
    assert [(sse_id, kind) for sse_id, kind, _ in frames] == [
        ("1", "task"),
        ("2", "statusUpdate"),
        ("3", "statusUpdate"),
    ]
