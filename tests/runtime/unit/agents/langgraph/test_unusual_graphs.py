"""Unusual graphs over HTTP: failures, blocking nodes, and odd emissions."""

import asyncio
import json
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, StreamWriter, interrupt
from pydantic import BaseModel

from aion.langgraph import AionContext
from aion.langgraph.stream import emit_data, emit_message
from aion_core.clock import SystemClock
from aion_core.engine.records import Lease
from tests.runtime.unit.agents.folding import fold, text_of
from tests.runtime.unit.agents.langgraph.requests import RequestEnvelope, State, ask, one_node, said
from tests.runtime.unit.agents.langgraph.test_agent import ToolCaller
from tests.support.rows import each_row
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore


class Mood(Enum):
    GOOD = "good"


@dataclass
class Visit:
    number: int


class Profile(BaseModel):
    name: str
    mood: Mood
    visits: list[Visit]


class ProfileState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    profile: Profile | None


# ── Unusual graphs ────────────────────────────────────────────────────────────────────────────────────────────────────


@each_row("asynchronous", [True, False])
@each_row("ending", [SystemExit(3), KeyboardInterrupt()])
async def test_node_exiting_process_fails_only_its_task(ending: BaseException, asynchronous: bool) -> None:
    def ends(state: State) -> State:
        raise ending

    async def aends(state: State) -> State:
        raise ending

    async with http(parts(one_node(aends if asynchronous else ends)).app()) as client:
        task = await ask(client)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "end its process" in str(said(task))


@pytest.mark.parametrize("many", [3_000, pytest.param(100_000, marks=pytest.mark.deep)])
async def test_memory_use_is_limited_if_node_emits_many_chunks(many: int) -> None:
    def talks(state: State, writer: StreamWriter) -> State:
        for _ in range(many):
            emit_message(writer, AIMessageChunk(content="word ", id="one"))
        return {}

    tracemalloc.start()
    try:
        async with http(parts(one_node(talks)).app()) as client:
            before, _ = tracemalloc.get_traced_memory()
            task = await ask(client)
            after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert said(task) == "word " * many
    assert after - before < many * 512


async def test_lease_is_renewed_while_graph_blocks_event_loop() -> None:
    renewals = threading.Semaphore(0)

    class RenewedStore(MemoryTaskStore):
        def renew(self, lease: Lease) -> bool:
            renewals.release()
            return super().renew(lease)

    async def blocks(state: State) -> State:
        # Block the event loop on purpose, until the lease has been renewed three times.
        renewed = [renewals.acquire(timeout=60) for _ in range(3)]
        return {"messages": [AIMessage(f"still here: {renewed}")]}

    clock = SystemClock()
    made = parts(one_node(blocks), RenewedStore(clock), clock, lease_seconds=0.3)
    async with http(made.app()) as client:
        task = await ask(client)
    assert said(task) == "still here: [True, True, True]"


async def test_message_emitted_after_end_of_turn_is_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    stray: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    def strays(state: State, writer: StreamWriter) -> State:
        async def later() -> None:
            await ended.wait()
            emit_message(writer, AIMessage("too late"))

        stray.append(asyncio.run_coroutine_threadsafe(later(), loop))  # type: ignore[arg-type]
        return {"messages": [AIMessage("done")]}

    loop = asyncio.get_running_loop()
    async with http(parts(one_node(strays)).app()) as client:
        task = await ask(client)
        ended.set()
        await asyncio.wrap_future(stray[0])
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        assert (await client.post("/", json=body)).json()["result"] == task
    assert said(task) == "done"
    assert "after the end of its turn" in caplog.text


async def test_data_emitted_with_append_extends_artifact_of_given_name() -> None:
    """Emit data by name: `append` extends the last artifact of this name, or creates it."""

    def emits(state: State, writer: StreamWriter) -> State:
        emit_data(writer, {"n": 1}, name="rows", append=True, is_last_chunk=False)
        emit_data(writer, {"n": 2}, name="rows", append=True)
        emit_data(writer, [1, "two", None], name="other")
        emit_data(writer, {"n": 3}, artifact_id="mine")
        return {}

    async with http(parts(one_node(emits)).app()) as client:
        task = await ask(client)
    assert [(entry["name"], [part["data"] for part in entry["parts"]]) for entry in task["artifacts"]] == [
        ("rows", [{"n": 1}, {"n": 2}]),
        ("other", [[1, "two", None]]),
        ("data", [{"n": 3}]),
    ]
    assert task["artifacts"][2]["artifactId"] == "mine"


async def test_next_turn_reads_custom_state_classes_from_checkpoint() -> None:
    """The next turn reads models, dataclasses and enums of the state's annotations as objects of their classes."""
    seen: list[Any] = []

    def keeps(state: ProfileState) -> State:
        seen.append(state.get("profile"))
        return {"profile": Profile(name="Ada", mood=Mood.GOOD, visits=[Visit(1)])}

    async with http(parts(one_node(keeps, ProfileState)).app()) as client:
        await ask(client, message_id="m-1", contextId="c-1")
        await ask(client, message_id="m-2", contextId="c-1")
    assert seen == [None, Profile(name="Ada", mood=Mood.GOOD, visits=[Visit(1)])]


async def test_final_message_replaces_draft_with_equal_id() -> None:
    """Two nodes return messages with one id: the answer is the second, as in the final state. The first is a preview."""
    from aion_core.agents.langgraph.turn import STREAM_MODES

    assert STREAM_MODES == ["values", "messages", "custom", "updates", "tasks"]
    graph = StateGraph(MessagesState)
    graph.add_node("draft", lambda state: {"messages": [AIMessage("draft", id="answer")]})
    graph.add_node("final", lambda state: {"messages": [AIMessage("final", id="answer")]})
    graph.add_edge(START, "draft")
    graph.add_edge("draft", "final")
    async with http(parts(graph).app()) as client:
        sent = await ask(client)
        streamed = await client.post("/", json=send(message_id="m-2", method="SendStreamingMessage"))
    assert said(sent) == "final"
    assert '"final"' in streamed.text
    folded = fold(streamed.text)
    assert [text_of(each) for each in folded.messages.values()] == ["final"]
    assert folded.texts == ["draft"]


# ── Further graphs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def replies(state: State, runtime: Runtime[AionContext]) -> State:
    await runtime.context.thread.reply("from a")
    return {}


def branches(*nodes: Callable[..., Any]) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(MessagesState, context_schema=AionContext)
    for number, node in enumerate(nodes):
        graph.add_node(f"n{number}", node)
        graph.add_edge(START, f"n{number}")
    return graph


@each_row("other", [lambda state: {}, lambda state: {"messages": [AIMessage("from b")]}])
async def test_reply_of_parallel_branch_in_last_step_is_answer(other: Callable[..., Any]) -> None:
    async with http(parts(branches(replies, other)).app()) as client:
        task = await ask(client)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", "from a")


async def test_conditional_edge_runs_once_after_node_that_replies() -> None:
    routed: list[str] = []

    def route(state: State) -> str:
        routed.append("routed")
        return "__end__"

    graph = StateGraph(MessagesState, context_schema=AionContext).add_node("node", replies).add_edge(START, "node")
    graph.add_conditional_edges("node", route)
    async with http(parts(graph).app()) as client:
        await ask(client)
    assert routed == ["routed"]


async def test_replies_are_added_to_state_messages_only_with_reducer() -> None:
    seen: list[list[AnyMessage]] = []

    class Plain(TypedDict):
        messages: list[AnyMessage]

    async def twice(state: State, runtime: Runtime[AionContext]) -> State:
        seen.append(list(state["messages"]))
        await runtime.context.thread.reply("one")
        await runtime.context.thread.reply("two")
        return {}

    for schema, expected in ((MessagesState, ["hi", "one", "two", "hi"]), (Plain, ["hi"])):
        seen.clear()
        async with http(parts(one_node(twice, schema, context_schema=AionContext)).app()) as client:
            first = await ask(client, message_id="m-1", contextId="c")
            await ask(client, message_id="m-2", contextId="c")
        assert [message.text for message in seen[1]] == expected
        assert schema is Plain or seen[1][2].id == first["status"]["message"]["messageId"]


@each_row("kind", ["input schema", "reducer"])
async def test_message_remaining_in_a2a_outbox_is_sent_only_once(kind: str) -> None:
    """The graph leaves an outbox in its state: only the turn that wrote it sends it."""

    class Reduced(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        a2a_outbox: Annotated[Any, lambda old, new: new or old]

    def node(state: State) -> State:
        if len(state["messages"]) == 1:
            return {"a2a_outbox": {"role": "ROLE_AGENT", "parts": [{"text": "OUT1"}]}}
        return {"messages": [AIMessage("second answer")]}

    graph = (
        one_node(node, RequestEnvelope, input_schema=MessagesState)
        if kind == "input schema"
        else one_node(node, Reduced)
    )
    async with http(parts(graph).app()) as client:
        assert said(await ask(client, message_id="m-1", contextId="c")) == "OUT1"
        assert said(await ask(client, message_id="m-2", contextId="c")) == "second answer"


@each_row("value", [float("nan"), datetime(2026, 1, 1, tzinfo=UTC)])
async def test_interrupt_may_contain_value_of_any_type(value: Any) -> None:
    """LangGraph accepts any value in an interrupt; the log needs JSON, so the adapter converts the value."""

    def asks(state: State) -> State:
        return {"messages": [AIMessage(f"chose {interrupt({'prompt': 'Which?', 'of': value})}")]}

    async with http(parts(one_node(asks)).app()) as client:
        task = await ask(client, message_id="m-1")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert said(task) == "Which?"
        assert said(await ask(client, "this", message_id="m-2", taskId=task["id"])) == "chose this"


async def test_model_stream_sent_as_reply_reaches_client_only_once() -> None:
    """A reply is the stream of a model: its chunks are sent as the reply only."""

    class UnusualModel(ToolCaller):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            for word in ("one ", "two"):
                yield ChatGenerationChunk(message=AIMessageChunk(content=word))

    async def reply(state: State, runtime: Runtime[AionContext]) -> State:
        await runtime.context.thread.reply(str(chunk.text) async for chunk in UnusualModel().astream("go"))
        return {}

    async def emit(state: State, writer: StreamWriter) -> State:
        async for chunk in UnusualModel().astream("go"):
            emit_message(writer, chunk)
        return {}

    for node in (reply, emit):
        async with http(parts(one_node(node, context_schema=AionContext)).app()) as client:
            answer = await client.post("/", json=send(method="message/stream"))
        events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
        deltas = [event["artifact"]["parts"][0]["text"] for event in events if event["kind"] == "artifact-update"]
        assert deltas == ["one ", "two", ""]
        assert events[-1]["status"]["message"]["parts"][0]["text"] == "one two"


async def test_retried_node_does_not_send_messages_or_data_twice() -> None:
    tries: list[int] = []

    async def flaky(state: State, runtime: Runtime[AionContext], writer: StreamWriter) -> State:
        tries.append(1)
        emit_data(writer, {"n": 1}, name="rows", append=True)
        emit_message(writer, AIMessage("mid"))
        await runtime.context.thread.reply("the reply")
        if len(tries) == 1:
            raise ConnectionError("once")
        return {}

    graph: Any = StateGraph(MessagesState, context_schema=AionContext)
    graph.add_node("node", flaky, retry_policy=RetryPolicy(initial_interval=0.01))
    graph.add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert len(tries) == 2
    assert [entry["parts"][0]["text"] for entry in task["history"]] == ["hi", "mid", "the reply"]
    assert said(task) == "the reply"
    assert [part["data"] for part in task["artifacts"][0]["parts"]] == [{"n": 1}]
