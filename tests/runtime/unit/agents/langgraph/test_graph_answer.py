"""Answer of a turn before an interrupt, beside tool calls and with a response format, over HTTP."""

import logging
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import before_model
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import CachePolicy, StreamWriter, interrupt
from pydantic import BaseModel

from aion.langgraph import get_aion_context
from aion.langgraph.stream import emit_message
from aion.shared.types import A2AOutbox
from aion_core.agents.langgraph.added_messages import AddedMessages
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.graph_answer import NO_ANSWER
from aion_core.clock import SystemClock
from aion_core.protocol.types import Artifact, Message, Part, Role, Task
from tests.runtime.golden.graphs import ScriptedModel, asks_for, in_a_row, side_by_side
from tests.support.histories import json_messages_of
from tests.support.savers import memory_savers
from tests.support.service import http, parts, send

State = dict[str, Any]


class AnswerModel(ScriptedModel):
    def bind_tools(self, tools: Any, **_: Any) -> "AnswerModel":
        return self


@pytest.fixture(params=["SendMessage", pytest.param("message/send", marks=pytest.mark.deep)])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def held(graph: Any, method: str, *texts: str) -> list[Any]:
    """Send each text to the previous task if it is interrupted, else to a new one; return the task after each text."""
    tasks: list[Any] = []
    async with http(parts(graph).app()) as client:
        for number, text in enumerate(texts):
            message: dict[str, Any] = {"contextId": tasks[-1]["contextId"]} if tasks else {}
            sent = send(text, message_id=f"m-{number}", method=method, **message)
            task = (await client.post("/", json=sent)).json()["result"]
            tasks.append(task.get("task", task))
    return tasks


def texts(task: Any) -> list[str]:
    """Return all texts of the agent in the task, in order."""
    said = json_messages_of(task)
    return [entry["parts"][0].get("text", "") for entry in said if entry["role"] in ("agent", "ROLE_AGENT")]


def says(text: str) -> Callable[[State], State]:
    def node(state: State) -> State:
        return {"messages": [AIMessage(text)]}

    return node


def asking(state: State) -> State:
    interrupt("May I?")
    return {}


# ── Messages before an interrupt ──────────────────────────────────────────────────────────────────────────────────────


async def test_answer_is_sent_once_if_parallel_branch_interrupts(method: str) -> None:
    def sent(state: State) -> State:
        return {"messages": [AIMessage("Sent.")]}

    asked, task = await held(side_by_side(says("A draft."), asking, join=sent), method, "write", "yes")
    assert texts(asked) == ["A draft.", "May I?"]
    assert texts(task) == ["A draft.", "May I?", "Sent."]


async def test_answer_emitted_before_interrupt_is_sent_once(method: str) -> None:
    def emits(state: State, writer: StreamWriter) -> State:
        message = AIMessage("A draft.")
        emit_message(writer, message)
        return {"messages": [message]}

    async def replies(state: State) -> State:
        await get_aion_context().thread.reply("A draft.")
        return {"messages": [AIMessage("Not this.")]}

    for node in (emits, replies):
        (asked,) = await held(in_a_row(node, asking), method, "write")
        assert texts(asked) == ["A draft.", "May I?"]


async def test_interrupt_does_not_repeat_answer_of_previous_turn(method: str) -> None:
    def answers(state: State) -> State:
        return {"messages": [AIMessage("first")]} if len(state["messages"]) == 1 else {}

    def asks(state: State) -> State:
        return asking(state) if len(state["messages"]) > 2 else {}

    first, second = await held(in_a_row(answers, asks), method, "one", "two")
    assert texts(first) == ["first"]
    assert texts(second) == ["May I?"]


async def test_answer_of_node_before_breakpoint_is_sent(method: str) -> None:
    def second(state: State) -> State:
        return {"messages": [AIMessage("Two.")]}

    graph = in_a_row(says("One."), second)
    graph.interrupt_before_nodes = ["second"]
    asked, task = await held(graph, method, "go", "no")
    assert texts(asked) == ["One.", "Paused before second. Any answer lets it go on; cancel the task to stop."]
    assert texts(task)[-1] == "Two."


# ── Several messages of a node ────────────────────────────────────────────────────────────────────────────────────────


async def test_each_message_of_a_node_is_recorded_once(method: str) -> None:
    def answers(state: State) -> State:
        return {"messages": [AIMessage("first"), ("ai", "second"), AIMessage("")]}

    (task,) = await held(in_a_row(answers), method, "go")
    assert texts(task) == ["first", "second"]


async def test_messages_already_in_graph_state_are_not_recorded_again(method: str) -> None:
    """The last node also returns messages that the state already has: these are not recorded again."""

    def drafts(state: State) -> State:
        return {"messages": [AIMessage("draft", id="d")]}

    def answers(state: State) -> State:
        return {"messages": [*state["messages"], AIMessage("answer")]}

    first, second = await held(in_a_row(drafts, answers), method, "one", "two")
    assert texts(first) == ["draft", "answer"]
    assert texts(second) == ["answer"], "the state has had the draft since the first turn"


async def test_reply_or_a2a_outbox_replaces_messages_from_graph_state(method: str) -> None:
    class OutboxState(MessagesState):
        a2a_outbox: A2AOutbox | None

    def leaves(state: Any) -> State:
        outbox = A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="outbox")]))
        return {"a2a_outbox": outbox, "messages": [AIMessage("first"), AIMessage("second")]}

    async def replies(state: State) -> State:
        await get_aion_context().thread.reply("reply")
        return {"messages": [AIMessage("first"), AIMessage("second")]}

    graph = StateGraph(OutboxState).add_node("leaves", leaves).add_edge(START, "leaves")
    for agent, answer in ((graph, "outbox"), (in_a_row(replies), "reply")):
        (task,) = await held(agent, method, "go")
        assert texts(task) == [answer]


async def test_answer_that_node_emits_and_returns_is_stored_once(method: str) -> None:
    """A node emits a message and also returns it: the task and the graph's state each contain it once."""
    seen: list[list[str]] = []

    def answers(state: State, writer: StreamWriter) -> State:
        seen.append([message.text for message in state["messages"]])
        emit_message(writer, AIMessage("The answer."))
        return {"messages": [AIMessage("The answer.")]}

    first, _ = await held(in_a_row(answers), method, "one", "two")
    assert texts(first) == ["The answer."]
    assert seen == [["one"], ["one", "The answer.", "two"]]


# ── Messages beside tool calls ────────────────────────────────────────────────────────────────────────────────────────


class City(BaseModel):
    name: str


@tool
def look() -> str:
    """Look at the page."""
    return "seen"


async def test_model_text_sent_with_tool_call_is_not_the_answer(method: str) -> None:
    """The model writes a text beside a tool call: this text is an earlier message of the task, not its answer."""
    scripts: list[list[Any]] = [["Let me look.", asks_for("look", "{}")], [asks_for("City", '{"name": "Riga"}')]]
    graph = create_agent(AnswerModel(scripts=scripts), [look], response_format=ToolStrategy(City))
    (task,) = await held(graph, method, "which?")
    assert task["status"]["state"] in ("TASK_STATE_COMPLETED", "completed")
    assert texts(task) == ["Let me look.", ""]
    assert [part["data"] for part in task["status"]["message"]["parts"]] == [{"name": "Riga"}]


async def test_model_text_sent_with_tool_call_in_entrypoint_is_recorded(method: str) -> None:
    """Run the agent of LangGraph's functional API guide: its text is recorded, and the next turn does not repeat it."""
    scripts: list[list[Any]] = [["Let me look.", asks_for("look", "{}")], ["Seen."], ["Again."]]
    model = AnswerModel(scripts=scripts)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(given: Any, *, previous: Any = None) -> Any:
        messages: Any = [*(previous or []), *given["messages"]]
        while True:
            answer: Any = await model.ainvoke(messages)
            messages = add_messages(messages, [answer])
            if not answer.tool_calls:
                return messages
            results: Any = [ToolMessage("seen", tool_call_id=call["id"]) for call in answer.tool_calls]
            messages = add_messages(messages, results)

    first, second = await held(workflow, method, "one", "two")
    assert texts(first) == ["Let me look.", "Seen."]
    assert texts(second) == ["Again."]


async def test_model_text_is_answer_if_turn_ends_with_tool_call(method: str) -> None:
    def opens(state: State) -> State:
        call = {"name": "open", "args": {}, "id": "call-1"}
        return {"messages": [AIMessage("Opening it.", tool_calls=[call])]}

    (task,) = await held(in_a_row(opens), method, "open")
    assert texts(task) == ["Opening it."]


async def test_turn_without_answer_logs_warning(method: str, caplog: pytest.LogCaptureFixture) -> None:
    def works(state: State) -> State:
        return {}

    with caplog.at_level(logging.WARNING):
        await held(in_a_row(says("Hello.")), method, "go")
        assert NO_ANSWER not in caplog.text
        await held(in_a_row(works), method, "go")
    assert caplog.text.count(NO_ANSWER) == 1


@pytest.mark.parametrize("is_entrypoint", [False, True])
async def test_warning_names_output_field_that_is_nested_too_deeply(
    is_entrypoint: bool, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    def works(state: State) -> State:
        deep: Any = "end"
        for _ in range(60):
            deep = {"more": deep}
        return {"flat": "value", "result": deep}

    class Plan(MessagesState):
        flat: str
        result: Any

    graph = entrypoint()(works) if is_entrypoint else in_a_row(works, state=Plan)
    with caplog.at_level(logging.WARNING):
        await held(graph, method, "go")
    problem = "the value of `result` has more than 49 levels of objects and lists."
    assert [record.message for record in caplog.records] == [f"The agent's data cannot be sent: {problem}"]


async def test_structured_response_is_restored_in_next_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Store an object whose class only the agent's module names, not the state's annotations."""
    found: list[Any] = []

    @before_model
    def peek(state: Any, runtime: Any) -> None:
        found.append(state.get("structured_response"))

    model = AnswerModel(scripts=[[asks_for("City", '{"name": "Riga"}')], [asks_for("City", '{"name": "Rome"}')]])
    graph = create_agent(model, [], response_format=ToolStrategy(City), middleware=[peek])
    savers = memory_savers(SystemClock())
    agent = LangGraphAgent(graph, lambda types, **_: savers.saver(types=types), module=sys.modules[__name__])
    with caplog.at_level(logging.WARNING):
        await held(agent, "SendMessage", "one", "two")
    assert found == [None, City(name="Riga")]
    assert "Blocked" not in caplog.text


async def test_structured_output_of_agent_called_by_tool_is_not_sent() -> None:
    inner = create_agent(
        AnswerModel(scripts=[[asks_for("City", '{"name": "Riga"}')]]), [], response_format=ToolStrategy(City)
    )

    @tool
    async def research() -> str:
        """Ask the other agent."""
        return str((await inner.ainvoke({"messages": []}))["structured_response"].name)

    model = AnswerModel(scripts=[[asks_for("research", "{}")], [""]])
    (task,) = await held(create_agent(model, [research]), "SendMessage", "go")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "message" not in task["status"]


# ── Other answers ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_stream_names_calling_node_for_each_subgraph_call() -> None:
    inner = in_a_row(says("inner"))

    async def researcher(state: State) -> State:
        for _ in range(2):
            await inner.ainvoke({"messages": []})
        return {"messages": [AIMessage("done")]}

    async with http(parts(in_a_row(researcher)).app()) as client:
        answer = await client.post("/", json=send(method="SendStreamingMessage"))
    assert answer.text.count('"agentInvoked":"researcher"') == answer.text.count("agentInvoked") == 2


@pytest.mark.parametrize("delta_id", ["aion:stream-delta", "aion:streamDelta"])
async def test_stream_delta_artifact_is_removed_from_a2a_outbox(delta_id: str, method: str) -> None:
    class AnswerWithOutbox(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        a2a_outbox: Any

    def node(state: AnswerWithOutbox) -> State:
        answer = Message(role=Role.ROLE_AGENT, parts=[Part(text="Whole.")])
        kept = Artifact(artifact_id="mine", name="mine", parts=[Part(text="kept")])
        delta = Artifact(artifact_id=delta_id, name="Stream Delta", parts=[Part(text="Who")])
        return {"a2a_outbox": Task(history=[answer], artifacts=[delta, kept])}

    (task,) = await held(in_a_row(node, state=AnswerWithOutbox), method, "go")
    assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["mine"]
    assert texts(task) == ["Whole."]


class UnrenderedFile(dict[Any, Any]):
    """Content block of a large file, whose slow `repr` must never be called; here it fails the test."""

    def __repr__(self) -> str:
        raise AssertionError("a user's file is rendered")


def test_files_sent_by_user_are_not_converted_for_answer() -> None:
    asked = HumanMessage([UnrenderedFile(type="file", base64="AAAA")])
    asked.content = [UnrenderedFile(type="file", base64="AAAA")]
    messages = [asked, AIMessage("hello", id="a")]
    added = AddedMessages([asked])
    added.observe(messages)
    answer = added.answer(messages)
    assert answer is not None
    assert answer.parts[0].text == "hello"


async def test_answer_from_langgraph_cache_is_sent(method: str) -> None:
    """LangGraph's cache returns a message whose id the state already has: it is still the answer."""
    runs: list[int] = []

    def answer(state: MessagesState) -> State:
        runs.append(1)
        return {"messages": [AIMessage(f"Run {len(runs)}.")]}

    policy: Any = CachePolicy(key_func=lambda state: state["messages"][-1].text)
    graph = StateGraph(MessagesState).add_node("answer", answer, cache_policy=policy).add_edge(START, "answer")
    tasks = await held(graph.compile(cache=InMemoryCache()), method, "one", "two", "one", "two")
    assert [texts(task) for task in tasks] == [["Run 1."], ["Run 2."], ["Run 1."], ["Run 2."]]
    assert len({task["status"]["message"]["messageId"] for task in tasks}) == 4
