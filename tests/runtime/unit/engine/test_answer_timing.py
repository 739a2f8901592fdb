"""Response to a message by `reply`, for slow answers, repeats, and agents of aion.yaml."""

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aion_core.bootstrap import build_app
from aion_core.engine import answer
from aion_core.engine.agent import Reply
from aion_core.engine.agent_options import ReplyAs
from aion_core.engine.answer import QUICK_SECONDS
from aion_core.engine.call import CallContext
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.records import Head, Lease
from aion_core.engine.runner.execution import TurnExecution
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.service import READ_SECONDS
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.protocol.types import Event, Message, Task, TaskState, TaskStatusUpdateEvent
from aion_core.settings import Settings
from tests.runtime.unit.engine.reply_modes import another_process, caller, kinds, made_with, streamed, until
from tests.runtime.unit.engine.teller import Teller
from tests.runtime.unit.engine.wire import texts
from tests.support.agents.scripted import says
from tests.support.clock import ManualClock, settle
from tests.support.conversation import StoreConversation
from tests.support.histories import messages_of
from tests.support.requests import request
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskList, MemoryTaskStore

# ── Slow answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["slow", "replied slow", "types slow"])
async def test_slow_stream_in_reply_mode_auto_begins_with_task(text: str) -> None:
    """Answer slowly: the stream waits a second, then sends the task and its events; a repeat gets the task."""
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
    assert [item.id for item in batch if item.id][:2] == ["1", "2"]
    agent.go.set()
    rest = [item async for batch in stream for item in batch]
    assert isinstance(rest[-1].payload, TaskStatusUpdateEvent)
    assert rest[-1].payload.status.state == TaskState.TASK_STATE_COMPLETED
    assert isinstance(await made.service.send(caller(), request(text)), Task)


async def test_slow_send_in_reply_mode_auto_returns_task() -> None:
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=ReplyAs.AUTO)
    sending = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    clock.move(QUICK_SECONDS + 0.1)
    agent.go.set()
    assert isinstance(await sending, Task)


async def test_reply_mode_message_returns_task_after_maximum_wait() -> None:
    """Answer later than `blocking_wait`: the response is the task; a later repeat gets the Message."""
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


async def test_reply_mode_message_streams_task_at_deadline() -> None:
    """End the invocation before the answer: the stream ends with the task; a later repeat gets the Message."""
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=ReplyAs.MESSAGE)
    ends_soon = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(seconds=100)))
    listening = asyncio.create_task(streamed(made, "slow", call=ends_soon))
    await agent.began.wait()
    for _ in range(100):
        clock.move(1)
        await settle()
    item = await listening
    assert [each.id for each in item] == ["1", "2"]
    assert isinstance(item[0].payload, Task)
    agent.go.set()
    await made.work_queue.quiet()
    assert kinds(await streamed(made, "slow")) == ["Message"]


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_queued_turn_follows_configured_reply_mode(reply: ReplyAs) -> None:
    """Queue the turn behind another: with `reply: auto` its time in the queue counts as waiting."""
    clock, agent = ManualClock(), Teller()
    made = parts(agent, MemoryTaskStore(clock), clock, reply=reply)
    first = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    second = asyncio.create_task(streamed(made, "hi", message_id="m-2"))
    await settle()
    clock.move(QUICK_SECONDS + READ_SECONDS)
    await settle()
    agent.go.set()
    await first
    while not second.done():
        clock.move(0.1)
        await settle()
    names = kinds(second.result())
    if reply is ReplyAs.MESSAGE:
        assert names == ["Message"]
    else:
        assert names == ["Task", "TaskStatusUpdateEvent", "TaskStatusUpdateEvent"]


async def test_message_reply_is_sent_although_answer_is_stored_slowly() -> None:
    """Record the answer slowly: client, repeat and reader of the log get the Message nevertheless."""
    clock = ManualClock()
    recording, go = asyncio.Event(), asyncio.Event()

    class SlowReply(MemoryTaskStore):
        async def finish(self, lease: Lease, head: Head, event: Event, **options: Any) -> Any:
            recording.set()
            await go.wait()
            return await super().finish(lease, head, event, **options)

    store = SlowReply(clock)
    made = parts(Teller(), store, clock, reply=ReplyAs.AUTO)
    other = another_process(made, store, clock, ReplyAs.AUTO)
    listening = asyncio.create_task(streamed(made, "hi"))
    await recording.wait()
    elsewhere = asyncio.create_task(streamed(other, "hi"))
    await settle()
    clock.move(QUICK_SECONDS + READ_SECONDS / 2)
    await settle()
    go.set()
    await settle()
    while not elsewhere.done():
        clock.move(0.01)
        await settle()
    assert kinds(await listening) == kinds(elsewhere.result()) == ["Message"]
    assert isinstance(await made.service.send(caller(), request("hi")), Message)


async def test_stream_in_reply_mode_message_opens_before_answer() -> None:
    """Send headers and a comment at once, so that no entry point closes the stream; one frame follows."""
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
    assert said[2]["body"] == b": \n"
    assert said[2]["more_body"]
    agent.go.set()
    await call
    bodies = [message["body"] for message in said[3:]]
    assert [body.count(b"data: ") for body in bodies] == [1, 0]


# ── Repeated messages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_repeated_request_gets_same_message_in_another_process(reply: ReplyAs) -> None:
    """Repeat the request in another process: it reads the Message from the store, and runs no turn."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, reply=reply)
    first = await made.service.send(caller(), request("hi"))
    assert isinstance(first, Message)
    other = another_process(made, store, clock, reply)
    assert await other.service.send(caller(), request("hi")) == first
    clock.move(60)
    assert [item.payload for item in await streamed(other, "hi")] == [first]
    assert isinstance(other.agent, Teller)
    assert not other.agent.runs


async def test_reply_mode_auto_returns_task_to_repeated_request() -> None:
    """A stream has begun with the task: a repeat of its request must not get a Message."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, reply=ReplyAs.AUTO)
    assert "Delta" in kinds(await streamed(made, "chunks"))
    other = another_process(made, store, clock, ReplyAs.AUTO)
    assert isinstance(await other.service.send(caller(), request("chunks")), Task)
    assert kinds(await streamed(other, "chunks"))[0] == "Task"


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_concurrent_repeated_request_waits_for_same_message(reply: ReplyAs) -> None:
    """Repeat a request during its turn: the repeat waits for the Message with which the turn ends."""
    clock, agent = ManualClock(), Teller()
    store = MemoryTaskStore(clock)
    made = parts(agent, store, clock, reply=reply)
    first = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    other = another_process(made, store, clock, reply)
    again = asyncio.create_task(streamed(other, "slow"))
    await settle()
    agent.go.set()
    message = await first
    while not again.done():
        clock.move(0.1)
        await settle()
    assert [item.payload for item in again.result()] == [message]


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_next_lease_holder_replies_to_request_of_dead_process(reply: ReplyAs) -> None:
    """Another process ends the turn: its reply is a Message with `message`, and a task with `auto`."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    dies, agent = parts(Teller(), store, clock, reply=reply), Teller()
    first = asyncio.create_task(streamed(dies, "slow", call=CallContext("owner", "test")))
    assert isinstance(dies.agent, Teller)
    await until(dies.agent.began.is_set)
    first.cancel()
    dies.work_queue.close()
    clock.move(31)
    heir = parts(agent, store, clock, reply=reply)
    agent.go.set()
    again = asyncio.create_task(heir.service.send(caller(), request("slow")))
    while not again.done():
        clock.move(1)
        await settle()
    assert isinstance(again.result(), Message if reply is ReplyAs.MESSAGE else Task)
    assert agent.runs["slow"] == 1


async def test_reply_mode_message_returns_task_after_second_message() -> None:
    """Send a second message to the task: two answers do not fit into one Message."""
    clock, agent = ManualClock(), Teller()
    store = MemoryTaskStore(clock)
    made = parts(agent, store, clock, reply=ReplyAs.MESSAGE, task_list=MemoryTaskList(store))
    first = asyncio.create_task(made.service.send(caller(), request("slow")))
    await agent.began.wait()
    (task_id,) = [key.task_id for key in store.task_keys()]
    second = asyncio.create_task(made.service.send(caller(), request("more", message_id="m-2", task_id=task_id)))
    await settle()
    agent.go.set()
    while not (first.done() and second.done()):
        clock.move(0.1)
        await settle()
    assert first.result() == second.result()
    task = first.result()
    assert isinstance(task, Task)
    assert [message.parts[0].text for message in messages_of(task)] == [
        "slow",
        "answer to slow",
        "more",
        "answer to more",
    ]
    assert not task.HasField("metadata")


# ── Setting in aion.yaml ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_agent_has_its_own_reply_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve the documentation's example with its `reply`, and an agent without `reply`."""
    # Raise the time limit of a quick answer, because the first turn also loads the agent, slowly on some machines.
    monkeypatch.setattr(answer, "QUICK_SECONDS", 60.0)
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


ROOT = Path(__file__).parents[4]
AGENT = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [AIMessage("an answer")]})
graph.add_edge(START, "say")
"""


@pytest.mark.parametrize("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_response_is_task_if_message_is_queued(reply: ReplyAs, clock: ManualClock) -> None:
    """Queue a second message for the task: the task continues, so readers must not wait for a Message."""
    chat = StoreConversation(MemoryTaskStore(clock), clock)
    begun = await chat.starts()
    log = await chat.store.log(begun.head.key)
    assert log is not None
    run = EventBroadcast(log.events)
    term = LeaseTerm(chat.store, begun.lease, clock, seconds=30)
    turn = TurnExecution(begun, term, run, chat.store, clock, None, reply=reply)
    await chat.queues("t-m-1", "m-2")
    await turn.end(Reply(says("answer")), has_time=lambda: False)
    assert not run.replies_with_message
    event = run.log[-1].event
    assert isinstance(event, TaskStatusUpdateEvent)
    assert event.status.state == TaskState.TASK_STATE_WORKING
    assert not event.HasField("metadata")
