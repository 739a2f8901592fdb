"""Common forms of graphs over HTTP: their input, their output, and their failures."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from a2a.compat.v0_3 import types as v03
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import create_react_agent
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from aion.langgraph import get_aion_context
from aion.shared.types import A2AInbox, A2AOutbox
from aion_core.agents.client_answers import QUESTION_EXPIRED
from aion_core.protocol.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from tests.runtime.unit.agents.langgraph.requests import RequestEnvelope, State, ask, echo, one_node, said
from tests.support.rows import each_row
from tests.support.service import http, parts, send


async def aecho(state: State) -> State:
    return echo(state)


class OwnState(TypedDict):
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


def own_context(state: State, runtime: Runtime[OwnState]) -> State:
    context: object = runtime.context
    assert context == {}
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
    "with its own context schema": lambda: one_node(own_context, context_schema=OwnState),
    "without messages in its state": lambda: one_node(by_envelope, NoMessages),
    "with a subgraph": lambda: StateGraph(MessagesState).add_node("sub", inner).add_edge(START, "sub"),
    "functional": lambda: functional,
}


@each_row("name", GRAPHS)
async def test_exported_graph_answers_without_being_changed(name: str) -> None:
    """Serve each form in which a module may export its graph, without changing the author's objects."""
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
async def test_clients_do_not_receive_tool_results_of_prebuilt_agents(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Call a tool: the operator's log has the tool call, but no client receives the call or its result."""

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


V03 = {"kind": "message", "role": "agent", "messageId": "x", "parts": [{"kind": "text", "text": "out"}]}
OUTBOXES: dict[str, Any] = {
    "an A2AOutbox": A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="out")])),
    "a protobuf Message": Message(role=Role.ROLE_AGENT, parts=[Part(text="out")]),
    "a protobuf Task": Task(history=[Message(role=Role.ROLE_AGENT, parts=[Part(text="out")])]),
    "v1 JSON": {"role": "ROLE_AGENT", "parts": [{"text": "out"}]},
    "v0.3 JSON": V03,
    "a v0.3 model": v03.Message.model_validate(V03),
    "a task with v0.3's state unknown": {"kind": "task", "status": {"state": "unknown"}, "history": [V03]},
}


@each_row("given", OUTBOXES)
async def test_a2a_outbox_accepts_objects_and_json_of_both_a2a_versions(given: str) -> None:
    class AnyOutbox(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        a2a_outbox: Any

    graph = one_node(lambda state: {"a2a_outbox": OUTBOXES[given]}, AnyOutbox)
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", "out"), task
    assert task["status"]["message"]["taskId"] == task["id"]


async def test_task_fails_if_a2a_outbox_contains_failed_task() -> None:
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
    graph = one_node(lambda state: {"a2a_outbox": A2AOutbox(task=patch)}, RequestEnvelope)
    async with http(parts(graph).app()) as client:
        task = await ask(client)
    assert task["id"] != "not-mine"
    assert task["contextId"] != "not-mine"
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert said(task) == "sorry"
    assert [entry["parts"][0]["text"] for entry in task["history"]] == ["hi", "before", "sorry"]
    assert task["artifacts"][0]["parts"] == [{"text": "half of it"}]
    assert task["metadata"] == {"mine": 1, "deep": {"kept": 2}}


async def test_status_message_repeated_in_outbox_task_is_sent_once() -> None:
    """Set another agent's task as the outbox: its history ends with its status message, as that of our tasks does."""
    before, answer = (
        Message(message_id=each, role=Role.ROLE_AGENT, parts=[Part(text=each)]) for each in ("before", "answer")
    )
    status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=answer)
    patch = Task(status=status, history=[before, answer])
    graph = one_node(lambda state: {"a2a_outbox": A2AOutbox(task=patch)}, RequestEnvelope)
    async with http(parts(graph).app()) as client:
        response = await client.post("/", json=send(method="SendStreamingMessage"))
    updates = [json.loads(line[6:])["result"] for line in response.text.splitlines() if line.startswith("data: ")]
    statuses = [each["statusUpdate"]["status"] for each in updates if "statusUpdate" in each]
    assert [each["message"]["messageId"] for each in statuses if "message" in each] == ["before", "answer"]


async def test_client_cannot_replace_agent_message_by_reusing_its_id() -> None:
    seen: list[list[tuple[str, str]]] = []

    def answer(state: MessagesState) -> dict[str, Any]:
        seen.append([(message.type, message.text) for message in state["messages"]])
        return {"messages": [AIMessage("answer")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    async with http(parts(graph).app()) as client:
        first = await ask(client, "one", message_id="m-1", contextId="c-1")
        await ask(client, "two", message_id=first["status"]["message"]["messageId"], contextId="c-1")
    assert seen[1] == [("human", "one"), ("ai", "answer"), ("human", "two")]


async def test_several_interrupts_are_answered_by_their_ids() -> None:
    """Refuse an ambiguous, wrong or repeated answer before the graph runs; the client gets all interrupts."""
    runs: list[str] = []

    class AskingGraph(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    def asks(name: str) -> Any:
        def node(state: State) -> State:
            runs.append(name)
            return {"messages": [AIMessage(f"{name}={interrupt(f'{name}?')}")]}

        return node

    graph = StateGraph(AskingGraph).add_node("x", asks("x")).add_node("y", asks("y"))
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


async def test_answer_sent_twice_resumes_graph_once() -> None:
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


async def test_answer_fails_task_after_its_checkpoint_has_expired() -> None:
    runs: list[str] = []

    def asks(state: State) -> State:
        runs.append(state["messages"][-1].text)
        return {"messages": [AIMessage(f"chose {interrupt('Which?')}")]}

    made = parts(one_node(asks))
    async with http(made.app()) as client:
        question = await ask(client, message_id="m-1")
    # Another checkpointer has no checkpoint of the thread, as after the checkpoint's TTL.
    async with http(parts(one_node(asks), made.store).app()) as client:
        failed = await ask(client, "b", message_id="m-2", taskId=question["id"])
    assert (failed["status"]["state"], said(failed)) == ("TASK_STATE_FAILED", QUESTION_EXPIRED)
    assert runs == ["hi"], "the graph does not receive the answer as a new message"


async def test_client_sees_name_of_sub_agent_but_no_internal_events(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph = StateGraph(MessagesState).add_node("researcher", inner).add_edge(START, "researcher")
    with caplog.at_level(logging.DEBUG, "aion_core.internal"):
        async with http(parts(graph).app()) as client:
            answer = await client.post("/", json=send(method="SendStreamingMessage"))
    assert '"metadata":{"agentInvoked":"researcher"}' in answer.text
    assert "internal:" not in answer.text
    kinds = {record.internal["kind"] for record in caplog.records if hasattr(record, "internal")}
    assert "internal:checkpoint" in kinds


async def test_open_tool_calls_of_failed_turn_get_a_result() -> None:
    """Fail a turn during a tool call: the adapter answers the call, as models refuse open calls in a history."""
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
