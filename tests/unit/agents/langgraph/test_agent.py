"""Common forms of graphs over HTTP: their input, their output, and their failures."""

import asyncio
import json
import logging
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from google.protobuf.json_format import MessageToDict
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.func import task as durable_task
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import create_react_agent
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, StreamWriter, interrupt
from pydantic import BaseModel

from aion.langgraph import AionContext, get_aion_context
from aion.langgraph.stream import emit_data, emit_message
from aion.shared.types import A2AInbox, A2AOutbox
from aion_core.protocol.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from tests.support.service import http, parts, send

State = dict[str, Any]


class Envelope(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    a2a_inbox: A2AInbox | None
    a2a_outbox: A2AOutbox | None


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


def one_node(node: Callable[..., Any], schema: Any = MessagesState, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(schema, **options).add_node("node", node).add_edge(START, "node")


_dialect = "SendMessage"


@pytest.fixture(autouse=True, params=["SendMessage", "message/send"], ids=["v1", "v0.3"])
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test sends in both protocol versions; the SDK reads the older version's response."""
    monkeypatch.setattr(sys.modules[__name__], "_dialect", request.param)
    return str(request.param)


async def ask(client: httpx.AsyncClient, text: str = "hi", **message: Any) -> dict[str, Any]:
    """Return the task of a blocking send."""
    answer = (await client.post("/", json=send(text, method=_dialect, **message))).json()
    assert "result" in answer, answer
    if _dialect == "SendMessage":
        task: dict[str, Any] = answer["result"]["task"]
        return task
    return MessageToDict(conversions.to_core_task(v03.Task.model_validate(answer["result"])))


def said(task: dict[str, Any]) -> str | None:
    message = task["status"].get("message")
    return "".join(part.get("text", "") for part in message["parts"]) if message else None


def echo(state: State) -> State:
    return {"messages": [AIMessage(f"echo {state['messages'][-1].text}")]}


async def aecho(state: State) -> State:
    return echo(state)


class Own(TypedDict):
    setting: str


@entrypoint()
def functional(given: dict[str, Any]) -> str:
    return f"echo {given['messages'][-1].text}"


class NoMessages(TypedDict):
    a2a_inbox: A2AInbox | None
    a2a_outbox: Any


def by_envelope(state: State) -> State:
    inbox: A2AInbox = state["a2a_inbox"]
    text = "".join(part.text for part in inbox.message.parts)
    return {"a2a_outbox": {"role": "ROLE_AGENT", "parts": [{"text": f"echo {text}"}]}}


def own_context(state: State, runtime: Runtime[Own]) -> State:
    assert runtime.context == {}
    message = get_aion_context().message
    assert message is not None
    return {"messages": [AIMessage(f"echo {message.text}")]}


inner = one_node(echo).compile(name="inner")

GRAPHS: dict[str, Callable[[], Any]] = {
    "a StateGraph": lambda: one_node(echo),
    "compiled, without a checkpointer": lambda: one_node(echo).compile(),
    "compiled, with its own checkpointer": lambda: one_node(echo).compile(checkpointer=InMemorySaver()),
    "compiled, with checkpointer=False": lambda: one_node(echo).compile(checkpointer=False),
    "asynchronous": lambda: one_node(aecho),
    "with its own context schema": lambda: one_node(own_context, context_schema=Own),
    "without messages in its state": lambda: one_node(by_envelope, NoMessages),
    "with a subgraph": lambda: StateGraph(MessagesState).add_node("sub", inner).add_edge(START, "sub"),
    "functional": lambda: functional,
}


@pytest.mark.parametrize("name", GRAPHS)
async def test_graphs_as_people_export_them(name: str) -> None:
    """The author's objects stay unchanged."""
    graph = GRAPHS[name]()
    before = getattr(graph, "checkpointer", None)
    async with http(parts(graph).app()) as client:
        for number, text in enumerate(["one", "two"]):
            task = await ask(client, text, message_id=f"m-{number}", contextId="c-1")
            assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", f"echo {text}"), task
    assert getattr(graph, "checkpointer", None) is before


class ToolCaller(BaseChatModel):
    """Model that calls a tool, then answers."""

    @property
    def _llm_type(self) -> str:
        return "tool-caller"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("It is sunny."))])
        call = {"name": "weather", "args": {"city": "Paris"}, "id": "call-1"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


@pytest.mark.parametrize("make", [create_react_agent, create_agent], ids=["create_react_agent", "create_agent"])
@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
async def test_prebuilt_agent_answers_without_tool_results(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The operator's log has the tool calls; no client gets them."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return f"SECRET-TOOL-RESULT {city}"

    with caplog.at_level(logging.INFO, "aion_core.internal"):
        async with http(parts(make(ToolCaller(), [weather])).app()) as client:
            answer = await client.post("/", json=send("weather?", method="SendStreamingMessage"))
    assert "SECRET-TOOL-RESULT" not in answer.text
    assert '"It is sunny."' in answer.text
    events = [record.internal for record in caplog.records if hasattr(record, "internal")]
    calls = [event for event in events if event["kind"] != "internal:checkpoint"]
    assert [event["kind"] for event in calls] == [
        "internal:llm-call", "internal:tool-start", "internal:tool-complete", "internal:llm-call",
    ]  # fmt: skip
    assert calls[1] == {**calls[1], "toolName": "weather", "toolCallId": "call-1"}
    assert calls[2] == {**calls[2], "toolCallId": "call-1", "success": True}
    assert [event["iteration"] for event in (calls[0], calls[3])] == [1, 2]
    assert not any("SECRET" in str(event) or "Paris" in str(event) for event in events)


async def test_thread_is_shared_but_answers_are_not() -> None:
    """An AIMessage of an earlier turn is never the answer."""
    seen: list[list[str]] = []

    def sometimes(state: State) -> State:
        seen.append([message.text for message in state["messages"]])
        return {"messages": [AIMessage("once")]} if len(state["messages"]) == 1 else {}

    async with http(parts(one_node(sometimes)).app()) as client:
        first = await ask(client, "one", message_id="m-1", contextId="c-1")
        second = await ask(client, "two", message_id="m-2", contextId="c-1")
        other = await ask(client, "three", message_id="m-3", contextId="c-2")
    assert (said(first), said(second), said(other)) == ("once", None, "once")
    assert seen == [["one"], ["one", "once", "two"], ["three"]]


async def test_outbox_belongs_to_its_turn() -> None:
    """It is never read again from a checkpoint."""
    outbox = A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="from the outbox")]))

    def once(state: State) -> State:
        return {"a2a_outbox": outbox} if len(state["messages"]) == 1 else {"messages": [AIMessage("later")]}

    async with http(parts(one_node(once, Envelope)).app()) as client:
        assert said(await ask(client, message_id="m-1", contextId="c-1")) == "from the outbox"
        assert said(await ask(client, message_id="m-2", contextId="c-1")) == "later"


OUTBOXES: dict[str, Any] = {
    "an A2AOutbox": A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="out")])),
    "a protobuf Message": Message(role=Role.ROLE_AGENT, parts=[Part(text="out")]),
    "a protobuf Task": Task(history=[Message(role=Role.ROLE_AGENT, parts=[Part(text="out")])]),
    "v1 JSON": {"role": "ROLE_AGENT", "parts": [{"text": "out"}]},
    "v0.3 JSON": {"kind": "message", "role": "agent", "messageId": "x", "parts": [{"kind": "text", "text": "out"}]},
}


@pytest.mark.parametrize("given", OUTBOXES)
async def test_an_outbox_may_be_given_in_many_forms(given: str) -> None:

    class AnyOutbox(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        a2a_outbox: Any

    graph = one_node(lambda state: {"a2a_outbox": OUTBOXES[given]}, AnyOutbox)
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert said(task) == "out", task
    assert task["status"]["message"]["taskId"] == task["id"]


async def test_outbox_task_is_merged_and_may_fail() -> None:
    patch = Task(
        id="not-mine",
        context_id="not-mine",
        status=TaskStatus(
            state=TaskState.TASK_STATE_FAILED, message=Message(role=Role.ROLE_AGENT, parts=[Part(text="sorry")])
        ),
        artifacts=[Artifact(artifact_id="a", name="report", parts=[Part(text="half of it")])],
        history=[Message(role=Role.ROLE_AGENT, parts=[Part(text="before")])],
    )
    patch.metadata.update({"mine": 1, "aion:network": "forged", "deep": {"aion:x": 1, "kept": 2}})
    graph = one_node(lambda state: {"a2a_outbox": A2AOutbox(task=patch)}, Envelope)
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert task["id"] != "not-mine"
    assert task["contextId"] != "not-mine"
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert said(task) == "sorry"
    assert [entry["parts"][0]["text"] for entry in task["history"]] == ["hi", "before"]
    assert task["artifacts"][0]["parts"] == [{"text": "half of it"}]
    assert task["metadata"] == {"mine": 1, "deep": {"kept": 2}}


async def test_state_contains_sent_messages() -> None:
    """An AIMessage with the A2A message's id, for a reply and for an outbox."""
    seen: list[list[BaseMessage]] = []

    async def replies(state: State, runtime: Runtime[AionContext]) -> State:
        seen.append(list(state["messages"]))
        await runtime.context.thread.reply(f"reply {len(seen)}")
        return {}

    async with http(parts(one_node(replies, context_schema=AionContext)).app()) as client:
        first = await ask(client, "one", message_id="m-1", contextId="c-1")
        await ask(client, "two", message_id="m-2", contextId="c-1")
    human, reply, _ = seen[1]
    assert isinstance(human, HumanMessage)
    assert isinstance(reply, AIMessage)
    assert reply.text == "reply 1"
    assert reply.id == first["status"]["message"]["messageId"]
    assert [entry["messageId"] for entry in first["history"]] == ["m-1"]


async def test_several_questions_are_answered_by_their_ids() -> None:
    """All interrupts are shown; an ambiguous, wrong or repeated answer is refused before the graph runs."""
    runs: list[str] = []

    class Asking(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    def asks(name: str) -> Callable[[State], State]:
        def node(state: State) -> State:
            runs.append(name)
            return {"messages": [AIMessage(f"{name}={interrupt(f'{name}?')}")]}

        return node

    graph = StateGraph(Asking).add_node("x", asks("x")).add_node("y", asks("y"))
    graph.add_edge(START, "x")
    graph.add_edge(START, "y")
    async with http(parts(graph).app()) as client:
        task = await ask(client, message_id="m-1")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        questions = {part["text"] for part in task["status"]["message"]["parts"]}
        assert questions == {"x?", "y?"}
        ids = [entry["id"] for entry in task["status"]["message"]["metadata"]["interrupts"]]
        ran = len(runs)
        for bad in ({}, {"interruptId": "0" * 32}):
            answer = (await client.post("/", json=send("?", message_id="m-2", taskId=task["id"], metadata=bad))).json()
            assert answer["error"]["code"] == -32602
            assert ids[0] in answer["error"]["message"]
        assert len(runs) == ran
        task = await ask(client, "first", message_id="m-3", taskId=task["id"], metadata={"interruptId": ids[0]})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert len(task["status"]["message"]["parts"]) == 1
        again = send("first", message_id="m-4", taskId=task["id"], metadata={"interruptId": ids[0]})
        assert (await client.post("/", json=again)).json()["error"]["code"] == -32602
        task = await ask(client, "second", message_id="m-5", contextId=task["contextId"])
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_answer_sent_twice_resumes_once() -> None:
    runs: list[str] = []

    def asks(state: State) -> State:
        runs.append("run")
        answer = interrupt({"prompt": "Which?", "options": ["a", "b"]})
        return {"messages": [AIMessage(f"chose {answer}")]}

    async with http(parts(one_node(asks)).app()) as client:
        task = await ask(client, message_id="m-1")
        answer = send("b", message_id="m-2", taskId=task["id"])
        first, again = await asyncio.gather(client.post("/", json=answer), client.post("/", json=answer))
        assert first.json()["result"]["task"]["id"] == again.json()["result"]["task"]["id"]
        assert said(first.json()["result"]["task"]) == said(again.json()["result"]["task"]) == "chose b"
        later = await client.post("/", json=answer)
        assert said(later.json()["result"]["task"]) == "chose b"
    assert runs == ["run", "run"]


async def test_an_answer_may_be_data() -> None:
    def asks(state: State) -> State:
        return {"messages": [AIMessage(f"got {interrupt('?')['n']:g}")]}

    async with http(parts(one_node(asks)).app()) as client:
        task = await ask(client, message_id="m-1")
        answer = send("", message_id="m-2", taskId=task["id"])
        answer["params"]["message"]["parts"] = [{"data": {"n": 7}}]
        assert said((await client.post("/", json=answer)).json()["result"]["task"]) == "got 7"


async def test_sub_agent_is_announced_and_stays_internal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph = StateGraph(MessagesState).add_node("researcher", inner).add_edge(START, "researcher")
    with caplog.at_level(logging.INFO, "aion_core.internal"):
        async with http(parts(graph).app()) as client:
            answer = await client.post("/", json=send(method="SendStreamingMessage"))
    assert '"metadata": {"agentInvoked": "researcher"}' in answer.text
    assert "internal:" not in answer.text
    kinds = {record.internal["kind"] for record in caplog.records if hasattr(record, "internal")}
    assert "internal:checkpoint" in kinds


async def test_failed_turn_leaves_valid_conversation() -> None:
    """Open tool calls are answered, so that the next turn's model call is valid."""
    asked: list[list[BaseMessage]] = []

    class Strict(ToolCaller):
        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            asked.append(messages)
            open_calls = {call["id"] for message in messages for call in getattr(message, "tool_calls", [])}
            answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
            assert open_calls <= answered, "a tool call has no answer"
            if len(asked) > 1:
                return ChatResult(generations=[ChatGeneration(message=AIMessage("All is well."))])
            return super()._generate(messages)

    def weather(city: str) -> str:
        """Tell the weather."""
        raise ConnectionError("no weather today")

    async with http(parts(create_agent(Strict(), [weather])).app()) as client:
        first = await ask(client, "one", message_id="m-1", contextId="c-1")
        second = await ask(client, "two", message_id="m-2", contextId="c-1")
    assert first["status"]["state"] == "TASK_STATE_FAILED"
    assert said(second) == "All is well."
    assert [type(message).__name__ for message in asked[1]] == [
        "HumanMessage", "AIMessage", "ToolMessage", "HumanMessage",
    ]  # fmt: skip


# ── Unusual graphs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_raising_graph_fails_with_safe_text() -> None:

    def raises(state: State) -> State:
        raise KeyError("the password is hunter2")

    async with http(parts(one_node(raises)).app()) as client:
        answer = await client.post("/", json=send())
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["metadata"] == {"error": "KeyError: the agent could not finish this turn."}
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
async def test_exiting_node_ends_its_task_only(ending: BaseException, asynchronous: bool) -> None:
    def ends(state: State) -> State:
        raise ending

    async def aends(state: State) -> State:
        raise ending

    async with http(parts(one_node(aends if asynchronous else ends)).app()) as client:
        task = await ask(client)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "end its process" in str(said(task))


async def test_graph_without_output_completes_without_message() -> None:
    async with http(parts(one_node(lambda state: {})).app()) as client:
        task = await ask(client)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", None)


@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.deep)])
async def test_many_chunks_complete_within_their_memory(many: int) -> None:
    if _dialect != "SendMessage":
        pytest.skip("what a chunk leaves behind is the same in either dialect")

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


async def test_blocking_graph_does_not_lose_its_lease() -> None:
    async def blocks(state: State) -> State:
        time.sleep(2.5)  # blocks the event loop on purpose
        return {"messages": [AIMessage("still here")]}

    from aion_core.clock import SystemClock
    from tests.support.stores import MemoryTaskStore

    clock = SystemClock()
    made = parts(one_node(blocks), MemoryTaskStore(clock, lease_seconds=1), clock, lease_seconds=0.6)
    async with http(made.app()) as client:
        task = await ask(client)
    assert said(task) == "still here"


async def test_emission_after_end_is_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
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
        await asyncio.wrap_future(stray[0])  # type: ignore[call-overload]
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        assert (await client.post("/", json=body)).json()["result"] == task
    assert said(task) == "done"
    assert "after the end of its turn" in caplog.text


async def test_data_artifact_is_identified_by_name() -> None:
    """`append` continues the last artifact with that name, and opens one if there is no such artifact."""

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


async def test_state_classes_survive_checkpoints() -> None:
    """Between turns the state is in a checkpoint: models, dataclasses and enums of its annotations survive it."""
    seen: list[Any] = []

    def keeps(state: ProfileState) -> State:
        seen.append(state.get("profile"))
        return {"profile": Profile(name="Ada", mood=Mood.GOOD, visits=[Visit(1)])}

    async with http(parts(one_node(keeps, ProfileState)).app()) as client:
        await ask(client, message_id="m-1", contextId="c-1")
        await ask(client, message_id="m-2", contextId="c-1")
    assert seen == [None, Profile(name="Ada", mood=Mood.GOOD, visits=[Visit(1)])]


async def test_last_values_of_four_modes_count() -> None:
    """The answer is the last AIMessage of the final state; its chunks come before."""
    from aion_core.agents.langgraph.turn import STREAM_MODES

    assert STREAM_MODES == ["values", "messages", "custom", "updates"]
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
    assert '"draft"' not in streamed.text


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


@pytest.mark.parametrize(
    "other", [lambda state: {}, lambda state: {"messages": [AIMessage("from b")]}], ids=["nothing", "a message"]
)
async def test_a_last_step_of_parallel_branches_may_reply(other: Callable[..., Any]) -> None:
    async with http(parts(branches(replies, other)).app()) as client:
        task = await ask(client)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", "from a")


async def test_storing_sent_messages_runs_no_edges() -> None:
    routed: list[str] = []

    def route(state: State) -> str:
        routed.append("routed")
        return "__end__"

    graph = StateGraph(MessagesState, context_schema=AionContext).add_node("node", replies).add_edge(START, "node")
    graph.add_conditional_edges("node", route)
    async with http(parts(graph).app()) as client:
        await ask(client)
    assert routed == ["routed"]


async def test_sent_messages_extend_list_without_reducer() -> None:
    seen: list[list[str]] = []

    class Plain(TypedDict):
        messages: list[AnyMessage]

    async def twice(state: State, runtime: Runtime[AionContext]) -> State:
        seen.append([message.text for message in state["messages"]])
        await runtime.context.thread.reply("one")
        await runtime.context.thread.reply("two")
        return {}

    for schema, expected in ((MessagesState, ["hi", "one", "two", "hi"]), (Plain, ["hi"])):
        seen.clear()
        async with http(parts(one_node(twice, schema, context_schema=AionContext)).app()) as client:
            await ask(client, message_id="m-1", contextId="c")
            await ask(client, message_id="m-2", contextId="c")
        assert seen[1] == expected


@pytest.mark.parametrize("kind", ["input schema", "reducer"])
async def test_uncleared_outbox_belongs_to_its_turn(kind: str) -> None:
    """An outbox is consumed by the turn that wrote it."""

    class Reduced(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        a2a_outbox: Annotated[Any, lambda old, new: new or old]

    def node(state: State) -> State:
        if len(state["messages"]) == 1:
            return {"a2a_outbox": {"role": "ROLE_AGENT", "parts": [{"text": "OUT1"}]}}
        return {"messages": [AIMessage("second answer")]}

    graph = one_node(node, Envelope, input_schema=MessagesState) if kind == "input schema" else one_node(node, Reduced)
    async with http(parts(graph).app()) as client:
        assert said(await ask(client, message_id="m-1", contextId="c")) == "OUT1"
        assert said(await ask(client, message_id="m-2", contextId="c")) == "second answer"


@pytest.mark.parametrize(
    "value", [float("nan"), {1, 2}, datetime(2026, 1, 1, tzinfo=UTC), HumanMessage("x")], ids=lambda v: type(v).__name__
)
async def test_interrupt_of_any_value_is_readable(value: Any) -> None:
    """LangGraph takes any value; the log stores JSON for every client."""

    def asks(state: State) -> State:
        return {"messages": [AIMessage(f"chose {interrupt({'prompt': 'Which?', 'of': value})}")]}

    async with http(parts(one_node(asks)).app()) as client:
        task = await ask(client, message_id="m-1")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert said(task) == "Which?"
        assert said(await ask(client, "this", message_id="m-2", taskId=task["id"])) == "chose this"


def speaking(*calls: str) -> list[Callable[..., Any]]:
    """Return nodes with models that stream one word at a time, all at once."""

    def node(text: str) -> Callable[..., Any]:
        class Model(ToolCaller):
            async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                for word in text.split():
                    yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
                    await asyncio.sleep(0.01)

        model = Model()

        async def speak(state: Any) -> State:
            await model.ainvoke("go")
            return {}

        return speak

    return [node(call) for call in calls]


async def test_parallel_models_stream_one_after_another() -> None:
    """No call is interleaved with another, and the fallback is a whole one."""
    graph = branches(*speaking("alpha one two three", "beta four five six"))
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method="message/stream"))
    events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    deltas = [event for event in events if event["kind"] == "artifact-update"]
    assert [event["append"] for event in deltas].count(False) == 2
    assert [event["lastChunk"] for event in deltas].count(True) == 2
    texts = "".join(event["artifact"]["parts"][0]["text"] + "|" * event["lastChunk"] for event in deltas)
    assert set(texts.split("|")) == {"alpha one two three ", "beta four five six ", ""}
    assert events[-1]["status"]["message"]["parts"][0]["text"] in {"alpha one two three ", "beta four five six "}


async def test_model_within_reply_is_streamed_once() -> None:
    """A model within a reply is not streamed a second time."""

    class Model(ToolCaller):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            for word in ("one ", "two"):
                yield ChatGenerationChunk(message=AIMessageChunk(content=word))

    async def reply(state: State, runtime: Runtime[AionContext]) -> State:
        await runtime.context.thread.reply(str(chunk.text) async for chunk in Model().astream("go"))
        return {}

    async def emit(state: State, writer: StreamWriter) -> State:
        async for chunk in Model().astream("go"):
            emit_message(writer, chunk)
        return {}

    for node in (reply, emit):
        async with http(parts(one_node(node, context_schema=AionContext)).app()) as client:
            answer = await client.post("/", json=send(method="message/stream"))
        events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
        deltas = [event["artifact"]["parts"][0]["text"] for event in events if event["kind"] == "artifact-update"]
        assert deltas == ["one ", "two", ""]
        assert events[-1]["status"]["message"]["parts"][0]["text"] == "one two"


async def test_retried_node_repeats_no_emission() -> None:
    tries: list[int] = []

    async def flaky(state: State, runtime: Runtime[AionContext], writer: StreamWriter) -> State:
        tries.append(1)
        emit_data(writer, {"n": 1}, name="rows", append=True)
        emit_message(writer, AIMessage("mid"))
        await runtime.context.thread.reply("the reply")
        if len(tries) == 1:
            raise ConnectionError("once")
        return {}

    graph = StateGraph(MessagesState, context_schema=AionContext)
    graph.add_node("node", flaky, retry_policy=RetryPolicy(initial_interval=0.01))
    graph.add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert len(tries) == 2
    assert [entry["parts"][0]["text"] for entry in task["history"]] == ["hi", "mid"]
    assert said(task) == "the reply"
    assert [part["data"] for part in task["artifacts"][0]["parts"]] == [{"n": 1}]


async def test_outbox_artifacts_are_identified_by_name() -> None:
    patch = Task(artifacts=[Artifact(name=name, parts=[Part(text=name)]) for name in ("x", "y")])
    graph = one_node(lambda state: {"a2a_outbox": A2AOutbox(task=patch)}, Envelope)
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert [entry["name"] for entry in task["artifacts"]] == ["x", "y"]
    assert len({entry["artifactId"] for entry in task["artifacts"]}) == 2


async def test_breakpoint_continues_after_any_answer() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("plan", lambda state: {"messages": [AIMessage("a plan")]})
    graph.add_node("act", lambda state: {"messages": [AIMessage("done")]})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "act")
    async with http(parts(graph.compile(interrupt_before=["act"])).app()) as client:
        task = await ask(client, message_id="m-1", contextId="c")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        task = await ask(client, "go on", message_id="m-2", contextId="c")
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", "done")


@durable_task
async def visit(number: int) -> Visit:
    return Visit(number)


@entrypoint()
async def visiting(given: dict[str, Any]) -> str:
    first = await visit(7)
    answer = interrupt("Again?")
    return f"{answer}: {first.number}"


async def test_functional_graph_resumes_with_stored_results() -> None:
    """A finished task does not run again, and its result is unchanged."""
    async with http(parts(visiting).app()) as client:
        asked = await ask(client, message_id="m-1")
        assert said(asked) == "Again?"
        assert said(await ask(client, "yes", message_id="m-2", taskId=asked["id"])) == "yes: 7"


async def test_an_answer_of_files_only_is_refused() -> None:
    def asks(state: State) -> State:
        return {"messages": [AIMessage(interrupt("?"))]}

    async with http(parts(one_node(asks)).app()) as client:
        asked = await ask(client, message_id="m-1")
        answer = send("", message_id="m-2", taskId=asked["id"])
        answer["params"]["message"]["parts"] = [{"url": "https://x.test/a.png", "mediaType": "image/png"}]
        refused = (await client.post("/", json=answer)).json()
        assert refused["error"]["code"] == -32602
        assert said(await ask(client, "fine", message_id="m-3", taskId=asked["id"])) == "fine"
