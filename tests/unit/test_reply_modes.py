"""Response to a message, by `reply` in aion.yaml: its task, or the answer as a Message."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from aion_core.bootstrap import build_app
from aion_core.ports import Head, Lease, Reply, ReplyAs
from aion_core.protocol.types import Event, Message, Task, TaskState, TaskStatusUpdateEvent
from aion_core.settings import Settings
from aion_core.tasks import replies
from aion_core.tasks.broadcast import EventBroadcast, StreamItem
from aion_core.tasks.call import CallContext, Deadline
from aion_core.tasks.replies import QUICK_SECONDS
from aion_core.tasks.service import READ_SECONDS
from aion_core.tasks.turn import TurnExecution
from tests.support.agents.scripted import says
from tests.support.agents.teller import Teller
from tests.support.clock import ManualClock
from tests.support.conversation import Conversation
from tests.support.requests import request
from tests.support.service import Parts, http, parts, send
from tests.support.stores import MemoryTaskList, MemoryTaskStore
from tests.support.wire import DIALECTS, Client, texts

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
COMPLETED = {"1.0": "TASK_STATE_COMPLETED", "0.3": "completed"}


def caller() -> CallContext:
    return CallContext("owner", "test")


@asynccontextmanager
async def client_of(made: Parts, dialect: str = "1.0") -> AsyncIterator[Client]:
    async with http(made.app()) as client:
        yield Client(client, dialect)


def made_with(reply: ReplyAs, agent: Any = None, **options: Any) -> Parts:
    return parts(agent or Teller(), reply=reply, **options)


def another_process(made: Parts, store: MemoryTaskStore, clock: Any, reply: ReplyAs) -> Parts:
    """Return a service over the same store; its agent must not run."""
    return parts(Teller(), store, clock, reply=reply)


async def heard(made: Parts, text: str, *, call: CallContext | None = None, **options: Any) -> list[StreamItem]:
    stream = made.service.stream(call or caller(), request(text, **options))
    return [spoken async for batch in stream for spoken in batch]


def kinds(spoken: list[StreamItem]) -> list[str]:
    return [type(each.payload).__name__ for each in spoken]


# ── A Message ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@both_dialects
@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_quick_answer_is_message_without_task(reply: ReplyAs, dialect: str) -> None:
    """It has role agent, its own id and context, and no task; v1 wraps it, v0.3 has its kind."""
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
@pytest.mark.parametrize("text", ["hi", "chunks", "replied", "types", "meanwhile", "note", "file"])
async def test_message_mode_streams_exactly_one_message(text: str, dialect: str) -> None:
    """Exactly one Message, then the stream closes (A2A 3.1.2)."""
    async with client_of(made_with(ReplyAs.MESSAGE), dialect) as client:
        ((sse_id, kind, message),) = await client.stream(text)
    assert (sse_id, kind) == ("", "message")
    assert texts(message["parts"])[0] == f"answer to {text}"


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_rest_has_the_message_in_the_same_words(prefix: str) -> None:
    """Both versions of the HTTP binding wrap it."""
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


async def test_message_mode_includes_artifacts_and_metadata() -> None:
    """The artifacts' parts follow the answer's; the answer's own metadata overrides the task's."""
    async with client_of(made_with(ReplyAs.MESSAGE)) as client:
        _, message = await client.send("file note decorated")
        assert message["parts"][2:] == [{"raw": "AP8=", "mediaType": "image/png"}]
        assert message["metadata"] == {"mood": "better"}
        _, message = await client.send("note", message_id="m-2")
        assert message["metadata"] == {"mood": "good"}


async def test_task_of_message_reply_is_listed() -> None:
    """Decision 0011."""
    made = made_with(ReplyAs.MESSAGE)
    async with client_of(made) as client:
        _, message = await client.send("file")
        (task,) = (await client.call("ListTasks", includeArtifacts=True))["result"]["tasks"]
        assert task["contextId"] == message["contextId"]
        assert task["metadata"] == {"aion:reply": "message"}
        assert task["status"]["message"]["messageId"] == message["messageId"]
        assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["file"]


async def test_by_message_returning_immediately_has_no_effect() -> None:
    """A2A 3.2.2."""
    async with client_of(made_with(ReplyAs.MESSAGE)) as client:
        assert (await client.at_once("hi"))[0] == "message"


async def test_auto_mode_returns_task_immediately() -> None:
    """The answer is still unknown; a repeat gets the task again."""
    made = made_with(ReplyAs.AUTO)
    async with client_of(made) as client:
        first = await client.at_once("hi", contextId="c")
        await made.work_queue.quiet()
        again = await client.at_once("hi", contextId="c")
    assert [first[0], again[0]] == ["task", "task"]
    assert first[1]["id"] == again[1]["id"]


async def test_a_conversation_goes_on_behind_its_messages() -> None:
    """The context's history is the same in each mode."""

    def count(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"message {len(state['messages'])}")]}

    graph = StateGraph(MessagesState).add_node(count).add_edge(START, "count")
    async with client_of(made_with(ReplyAs.AUTO, graph)) as client:
        _, first = await client.send("one")
        _, second = await client.send("two", message_id="m-2", contextId=first["contextId"])
    assert texts(first["parts"] + second["parts"]) == ["message 1", "message 3"]


# ── A task ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@both_dialects
@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("fails", "failed"),
        ("rejects", "rejected"),
        ("asks", "input-required"),
        ("silent", "completed"),
        ("empty", "completed"),
    ],
)
async def test_what_does_not_simply_complete_is_a_task(text: str, state: str, reply: ReplyAs, dialect: str) -> None:
    """A Message cannot hold it; the stream has all events."""
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


@pytest.mark.parametrize("text", ["file", "note", "meanwhile", "patched", "replied meanwhile"])
async def test_auto_mode_returns_task_for_other_events(text: str) -> None:
    """Artifacts, metadata, earlier messages."""
    async with client_of(made_with(ReplyAs.AUTO)) as client:
        assert (await client.send(text, message_id="m-1"))[0] == "task"
        frames = await client.stream(text, message_id="m-2")
    assert frames[0][:2] == ("1", "task")
    assert [sse_id for sse_id, _, _ in frames] == [str(n) for n in range(1, len(frames) + 1)]
    assert frames[-1][2]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("text", ["hi", "replied", "types", "replied types"])
async def test_auto_mode_returns_message_for_early_reply(text: str) -> None:
    """`thread.reply` records the reply before the end of the turn: it is the same message."""
    async with client_of(made_with(ReplyAs.AUTO)) as client:
        assert (await client.send(text, message_id="m-1"))[0] == "message"
        assert [kind for _, kind, _ in await client.stream(text, message_id="m-2")] == ["message"]


async def test_auto_mode_streams_task_for_chunks() -> None:
    """Each chunk has its id; a repeat gets a task too."""
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
async def test_answer_to_interrupt_gets_the_task(reply: ReplyAs) -> None:
    """The client knows the task and has to see it complete: with or without its id, also for a repeat."""
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
async def test_message_mode_answer_may_return_immediately(naming: bool) -> None:
    """Its response is the task."""
    made = made_with(ReplyAs.MESSAGE)
    call = caller()
    asking = await made.service.send(call, request("asks"))
    answer = request("slow", message_id="m-2", task_id=asking.id if naming else "", return_immediately=True)
    task = await made.service.send(call, answer)
    assert isinstance(task, Task)
    assert task.status.state == TaskState.TASK_STATE_WORKING
    made.agent.go.set()
    await made.work_queue.quiet()
    await until(lambda: not call.background)
    assert (await made.service.get(call, task.id)).status.state == TaskState.TASK_STATE_COMPLETED


async def test_task_mode_is_the_default() -> None:
    """`reply: task` is the default."""
    async with client_of(parts(Teller())) as client:
        kind, task = await client.send("hi")
        frames = await client.stream("hi", message_id="m-2")
    assert (kind, task.get("metadata")) == ("task", None)
    assert [(sse_id, kind) for sse_id, kind, _ in frames] == [
        ("1", "task"),
        ("2", "statusUpdate"),
        ("3", "statusUpdate"),
    ]


# ── Slow answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come true")


@pytest.mark.parametrize("text", ["slow", "replied slow", "types slow"])
async def test_auto_mode_slow_stream_has_task(text: str) -> None:
    """Empty for a second, then all events so far, then the later ones; a repeat gets the task."""
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=ReplyAs.AUTO)
    stream = made.service.stream(caller(), request(text))
    assert await anext(stream) == []
    first = asyncio.ensure_future(anext(stream))
    await agent.began.wait()
    await asyncio.sleep(0)
    assert not first.done()
    clock.move(QUICK_SECONDS)
    batch = await first
    assert isinstance(batch[0].payload, Task)
    assert [spoken.id for spoken in batch if spoken.id][:2] == ["1", "2"]
    agent.go.set()
    rest = [spoken async for batch in stream for spoken in batch]
    assert isinstance(rest[-1].payload, TaskStatusUpdateEvent)
    assert rest[-1].payload.status.state == TaskState.TASK_STATE_COMPLETED
    assert isinstance(await made.service.send(caller(), request(text)), Task)


async def test_auto_mode_slow_send_returns_task() -> None:
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=ReplyAs.AUTO)
    sending = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    clock.move(QUICK_SECONDS + 0.1)
    agent.go.set()
    assert isinstance(await sending, Task)


async def test_message_mode_returns_task_after_blocking_wait() -> None:
    """After `blocking_wait`; a repeat gets the answer."""
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=ReplyAs.MESSAGE, blocking_wait=10)
    call = caller()
    sending = asyncio.create_task(made.service.send(call, request("slow")))
    await agent.began.wait()
    clock.move(11)
    task = await sending
    assert isinstance(task, Task)
    assert task.status.state == TaskState.TASK_STATE_WORKING
    agent.go.set()
    await until(lambda: not call.background)
    message = await made.service.send(caller(), request("slow"))
    assert isinstance(message, Message)
    assert message.parts[0].text == "answer to slow"


async def test_message_mode_streams_task_at_deadline() -> None:
    """The client can resume the task; a repeat gets the Message."""
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=ReplyAs.MESSAGE)
    ends_soon = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(seconds=100)))
    listening = asyncio.create_task(heard(made, "slow", call=ends_soon))
    await agent.began.wait()
    for _ in range(100):
        clock.move(1)
        await asyncio.sleep(0.001)
    spoken = await listening
    assert [each.id for each in spoken] == ["1", "2"]
    assert isinstance(spoken[0].payload, Task)
    agent.go.set()
    await made.work_queue.quiet()
    assert kinds(await heard(made, "slow")) == ["Message"]


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_queued_turn_replies_in_same_mode(reply: ReplyAs) -> None:
    """By `auto` the time in the queue counts."""
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=reply)
    first = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    second = asyncio.create_task(heard(made, "hi", message_id="m-2"))
    await asyncio.sleep(0.01)
    clock.move(QUICK_SECONDS + READ_SECONDS)
    await asyncio.sleep(0.01)
    agent.go.set()
    await first
    while not second.done():
        clock.move(0.1)
        await asyncio.sleep(0.001)
    names = kinds(second.result())
    if reply is ReplyAs.MESSAGE:
        assert names == ["Message"]
    else:
        assert names == ["Task", "TaskStatusUpdateEvent", "TaskStatusUpdateEvent"]


async def test_auto_mode_waits_for_recording_answer() -> None:
    """A repeat gets the Message, and so does this client, however slow the store is; so does a reader of the log."""
    clock = ManualClock()
    recording, go = asyncio.Event(), asyncio.Event()

    class Slow(MemoryTaskStore):
        async def finish(self, lease: Lease, head: Head, event: Event, **options: Any) -> Any:
            recording.set()
            await go.wait()
            return await super().finish(lease, head, event, **options)

    store = Slow(clock)
    made = parts(Teller(), store, clock, reply=ReplyAs.AUTO)
    other = another_process(made, store, clock, ReplyAs.AUTO)
    listening = asyncio.create_task(heard(made, "hi"))
    await recording.wait()
    elsewhere = asyncio.create_task(heard(other, "hi"))
    await asyncio.sleep(0.01)
    clock.move(QUICK_SECONDS + READ_SECONDS / 2)
    await asyncio.sleep(0.01)
    go.set()
    await asyncio.sleep(0.01)
    while not elsewhere.done():
        clock.move(0.01)
        await asyncio.sleep(0.001)
    assert kinds(await listening) == kinds(elsewhere.result()) == ["Message"]
    assert isinstance(await made.service.send(caller(), request("hi")), Message)


async def test_message_mode_stream_opens_before_answer() -> None:
    """The response's head and a comment leave at once, so that no entry point closes it; then one frame."""
    agent = Teller()
    app = made_with(ReplyAs.MESSAGE, agent).app()
    said: list[Any] = []
    asking = json.dumps(send("slow", method="SendStreamingMessage")).encode()

    async def receive() -> Any:
        if asking in said:
            await asyncio.Event().wait()
        said.append(asking)
        return {"type": "http.request", "body": asking}

    async def note(message: Any) -> None:
        said.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"test")]
    scope = {"type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"", "headers": headers}
    call = asyncio.create_task(app({**scope, "http_version": "1.1", "scheme": "http"}, receive, note))
    await until(lambda: len(said) >= 3)
    assert said[1]["status"] == 200
    assert said[2]["body"] == b": \n\n"
    assert said[2]["more_body"]
    agent.go.set()
    await call
    bodies = [message["body"] for message in said[3:]]
    assert [body.count(b"data: ") for body in bodies] == [1, 0]


# ── Repeats ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_repeat_gets_same_message_in_another_process(reply: ReplyAs) -> None:
    """From the records; no turn runs."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, reply=reply)
    first = await made.service.send(caller(), request("hi"))
    assert isinstance(first, Message)
    other = another_process(made, store, clock, reply)
    assert await other.service.send(caller(), request("hi")) == first
    clock.move(60)
    assert [spoken.payload for spoken in await heard(other, "hi")] == [first]
    assert not other.agent.runs


async def test_auto_mode_repeat_gets_task_again() -> None:
    """The stream has already streamed the task."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, reply=ReplyAs.AUTO)
    assert "Delta" in kinds(await heard(made, "chunks"))
    other = another_process(made, store, clock, ReplyAs.AUTO)
    assert isinstance(await other.service.send(caller(), request("chunks")), Task)
    assert kinds(await heard(other, "chunks"))[0] == "Task"


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_concurrent_repeat_waits_for_same_message(reply: ReplyAs) -> None:
    """By `auto` as long as a Message is possible."""
    clock, agent = ManualClock(), Teller()
    store = MemoryTaskStore(clock)
    made = parts(agent, store, clock, reply=reply)
    first = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    other = another_process(made, store, clock, reply)
    again = asyncio.create_task(heard(other, "slow"))
    await asyncio.sleep(0.01)
    agent.go.set()
    message = await first
    while not again.done():
        clock.move(0.1)
        await asyncio.sleep(0.001)
    assert [spoken.payload for spoken in again.result()] == [message]


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_next_holder_gives_the_message(reply: ReplyAs) -> None:
    """By `message` a Message; by `auto` a task, since it took long."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    dies, agent = parts(Teller(), store, clock, reply=reply), Teller()
    first = asyncio.create_task(heard(dies, "slow", call=CallContext("owner", "test")))
    await until(dies.agent.began.is_set)
    first.cancel()
    dies.work_queue.close()
    clock.move(31)
    heir = parts(agent, store, clock, reply=reply)
    agent.go.set()
    again = asyncio.create_task(heir.service.send(caller(), request("slow")))
    while not again.done():
        clock.move(1)
        await asyncio.sleep(0.001)
    assert isinstance(again.result(), Message if reply is ReplyAs.MESSAGE else Task)
    assert agent.runs["slow"] == 1


async def test_message_mode_follow_up_makes_it_task() -> None:
    """A caller that lists the task may add a message to it: then there are two answers."""
    clock, agent = ManualClock(), Teller()
    store = MemoryTaskStore(clock)
    made = parts(agent, store, clock, reply=ReplyAs.MESSAGE, task_list=MemoryTaskList(store))
    first = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    (task_id,) = [key.task_id for key in store.task_keys()]
    second = asyncio.create_task(made.service.send(caller(), request("more", message_id="m-2", task_id=task_id)))
    await asyncio.sleep(0.01)
    agent.go.set()
    while not (first.done() and second.done()):
        clock.move(0.1)
        await asyncio.sleep(0.001)
    assert first.result() == second.result()
    assert isinstance(first.result(), Task)
    assert [message.parts[0].text for message in first.result().history] == ["slow", "answer to slow", "more"]
    assert first.result().status.message.parts[0].text == "answer to more"
    assert not first.result().HasField("metadata")


# ── From aion.yaml ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_agent_has_its_own_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the documentation, and an agent without the setting."""
    # The agent is loaded at its first turn; its duration depends on this machine.
    monkeypatch.setattr(replies, "QUICK_SECONDS", 60.0)
    (tmp_path / "agent.py").write_text(AGENT)
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "replies.md").read_text(), re.DOTALL)
    (tmp_path / "aion.yaml").write_text(example + "    plain:\n      path: agent.py:graph\n")
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml")}
    async with http(build_app(Settings.from_environ(environ))) as client:
        results = {
            agent: (await client.post(f"/agents/{agent}", json=send())).json()["result"]
            for agent in ("helper", "plain")
        }
        listed = {"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": {"includeArtifacts": True}}
        (behind,) = (await client.post("/agents/helper", json=listed)).json()["result"]["tasks"]
    assert texts(results["helper"]["message"]["parts"]) == ["an answer"]
    assert texts(results["plain"]["task"]["status"]["message"]["parts"]) == ["an answer"]
    assert texts(behind["artifacts"][0]["parts"]) == ["an answer"]
    assert "message" not in behind["status"]


ROOT = Path(__file__).parents[2]
AGENT = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [AIMessage("an answer")]})
graph.add_edge(START, "say")
"""


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_pending_input_takes_message_reply_back(reply: ReplyAs, clock: ManualClock) -> None:
    """A message waits for the task, and the task continues: readers must not wait for a Message."""
    chat = Conversation(MemoryTaskStore(clock), clock)
    begun = await chat.starts()
    log = await chat.store.log(begun.head.key)
    assert log is not None
    run = EventBroadcast(log.events)
    turn = TurnExecution(begun, run, chat.store, clock, None, reply=reply)
    await chat.queues("t-m-1", "m-2")
    await turn.end(Reply(says("answer")), run_next=False)
    assert not run.replies_with_message
    event = run.log[-1].event
    assert isinstance(event, TaskStatusUpdateEvent)
    assert event.status.state == TaskState.TASK_STATE_WORKING
    assert not event.HasField("metadata")
