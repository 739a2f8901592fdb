"""Forms of graphs over HTTP: the place of their answer, and output that no client gets."""

import json
import operator
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import StreamWriter, interrupt
from pydantic import BaseModel

from aion.langgraph import get_aion_context
from aion.langgraph.stream import emit_message
from aion.shared.types import A2AInbox
from tests.runtime.golden.graphs import ScriptedModel
from tests.support.histories import json_before_status
from tests.support.rows import each_row
from tests.support.service import http, parts, send

State = dict[str, Any]


async def ask(client: httpx.AsyncClient, text: str = "hi", **message: Any) -> dict[str, Any]:
    answer = (await client.post("/", json=send(text, **message))).json()
    task: dict[str, Any] = answer["result"]["task"]
    return task


async def asked_once(graph: Any, text: str = "hi") -> dict[str, Any]:
    async with http(parts(graph).app()) as client:
        return await ask(client, text)


async def stream_of(graph: Any) -> list[dict[str, Any]]:
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method="message/stream"))
    return [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]


def said(task: dict[str, Any]) -> str | None:
    message = task["status"].get("message")
    return "".join(part.get("text", "") for part in message["parts"]) if message else None


def one_node(node: Callable[..., Any], schema: Any = MessagesState, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(schema, **options).add_node("node", node).add_edge(START, "node")


# ── Input ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class WithInbox(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    a2a_inbox: A2AInbox | None
    a2a_outbox: Any


class OnlyMessages(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class OnlyMessagesModel(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.mark.parametrize("schema", [OnlyMessages, OnlyMessagesModel])
async def test_inbox_reaches_graph_state_although_input_schema_omits_inbox(schema: Any) -> None:
    """Only the state has an inbox, not the input schema: nodes and an edge at START can read it."""
    seen: list[Any] = []

    def route(state: State) -> str:
        seen.append(state["a2a_inbox"])
        return "node"

    def node(state: WithInbox) -> State:
        inbox = state["a2a_inbox"]
        assert inbox is not None
        return {"messages": [AIMessage(f"{inbox.message.message_id} of {inbox.message.parts[0].text}")]}

    graph = StateGraph(WithInbox, input_schema=schema)
    graph.add_node("node", node)
    graph.add_conditional_edges(START, route, ["node"])
    async with http(parts(graph).app()) as client:
        assert said(await ask(client, "one", message_id="m-1", contextId="c")) == "m-1 of one"
        assert said(await ask(client, "two", message_id="m-2", contextId="c")) == "m-2 of two"
    assert [inbox.message.message_id for inbox in seen] == ["m-1", "m-2"]


# ── Answer ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Replaced(TypedDict):
    messages: list[Any]


class Appended(TypedDict):
    messages: Annotated[list[Any], operator.add]


@each_row("schema", [Replaced, Appended, MessagesState])
@each_row(
    "answer",
    [lambda: {"role": "assistant", "content": "the same"}, lambda: ("ai", "the same"), lambda: AIMessage("the same")],
)
async def test_answer_may_be_dict_tuple_or_langchain_message(schema: Any, answer: Any) -> None:
    """Answer in the same words in three turns: each turn's message is its answer."""

    def node(state: State) -> State:
        return {"messages": [answer()]}

    async with http(parts(one_node(node, schema)).app()) as client:
        for number in range(3):
            task = await ask(client, message_id=f"m-{number}", contextId="c")
            assert said(task) == "the same"


async def test_objects_in_messages_list_that_are_no_messages_are_ignored() -> None:
    task = await asked_once(one_node(lambda state: {"messages": [{"rows": 1}, ("a", "b", "c"), 7]}, Replaced))
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", None)


async def test_message_removed_from_graph_state_is_still_answer() -> None:
    """One node answers, the next removes all messages but the first: the removed answer still counts."""

    def forget(state: State) -> State:
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *state["messages"][:1]]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage(f"answer {state['messages'][-1].text}")]})
    graph.add_node("forget", forget)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "forget")
    async with http(parts(graph).app()) as client:
        assert said(await ask(client, "one", message_id="m-1", contextId="c")) == "answer one"
        assert said(await ask(client, "two", message_id="m-2", contextId="c")) == "answer two"


async def test_restored_message_of_previous_turn_is_not_an_answer() -> None:
    """A node removes an earlier turn's AIMessage and adds it again: it is not this turn's answer."""

    def node(state: State) -> State:
        return {"messages": [AIMessage("once")] if len(state["messages"]) == 1 else []}

    def take_out(state: State) -> State:
        taken.extend(state["messages"])
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]}

    taken: list[BaseMessage] = []
    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_node("out", take_out)
    graph.add_node("back", lambda state: {"messages": [*taken]})
    for before, after in ((START, "node"), ("node", "out"), ("out", "back")):
        graph.add_edge(before, after)
    async with http(parts(graph).app()) as client:
        assert said(await ask(client, message_id="m-1", contextId="c")) == "once"
        assert said(await ask(client, message_id="m-2", contextId="c")) is None


RETURNED: dict[str, Any] = {
    "a list of messages": lambda text: [HumanMessage("x"), AIMessage(text), SystemMessage("y")],
    "a list of dicts": lambda text: [{"role": "user", "content": "x"}, {"role": "assistant", "content": text}],
    "a state": lambda text: {"messages": [AIMessage(text)]},
    "a message": AIMessage,
    "a text": str,
}


@each_row("name", RETURNED)
async def test_return_value_of_entrypoint_function_is_the_answer(name: str) -> None:
    """Return the same text in two turns: it is the answer of each."""

    @entrypoint()
    async def graph(given: State) -> Any:
        return RETURNED[name]("the answer")

    async with http(parts(graph).app()) as client:
        for number in range(2):
            assert said(await ask(client, message_id=f"m-{number}", contextId="c")) == "the answer"


# ── Output for no client ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_text_of_summarization_middleware_is_not_streamed() -> None:
    """Let a middleware summarise the history by a model call: the client does not receive the summary."""
    model = ScriptedModel(scripts=[["The first."], ["SECRET ", "SUMMARY"], ["The ", "answer."]])
    summary = SummarizationMiddleware(model=model, trigger=("messages", 3), keep=("messages", 1))
    async with http(parts(create_agent(model, middleware=[summary])).app()) as client:
        assert said(await ask(client, message_id="m-1", contextId="c")) == "The first."
        answer = await client.post("/", json=send(message_id="m-2", contextId="c", method="message/stream"))
    assert not model.scripts, "nothing was summed up"
    events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    deltas = [event["artifact"]["parts"][0]["text"] for event in events if event["kind"] == "artifact-update"]
    assert deltas == ["The ", "answer.", ""]
    assert events[-1]["status"]["message"]["parts"][0]["text"] == "The answer."
    assert "SECRET" not in answer.text


# ── Unusual emissions ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_message_with_used_id_but_new_text_is_new_message() -> None:
    """Emit one id with several texts: each different text is a message, under an id of its own."""

    def node(state: State, writer: StreamWriter) -> State:
        for text in ("one", "one", "two", "one", "three"):
            emit_message(writer, AIMessage(text, id="mine"))
        return {"messages": [AIMessage("done")]}

    task = await asked_once(one_node(node))
    agents = [entry for entry in json_before_status(task) if entry["role"] == "ROLE_AGENT"]
    assert [entry["parts"][0]["text"] for entry in agents] == ["one", "two", "three"]
    assert agents[0]["messageId"] == "mine"
    assert len({entry["messageId"] for entry in agents}) == 3


async def test_empty_message_from_graph_sends_nothing() -> None:
    def node(state: State, writer: StreamWriter) -> State:
        emit_message(writer, AIMessage(""))
        emit_message(writer, AIMessage("", tool_calls=[{"name": "x", "args": {}, "id": "1"}]))
        emit_message(writer, AIMessageChunk(content="", id="chunk"))
        return {}

    events = await stream_of(one_node(node))
    assert [event["kind"] for event in events] == ["task", "status-update", "status-update"]
    assert "message" not in events[-1]["status"]


async def test_message_emitted_to_nodes_own_list_does_not_delay_answer(caplog: pytest.LogCaptureFixture) -> None:
    """A node emits into its own list: the client does not get this, and the checkpoint does not wait for it."""
    elsewhere: list[Any] = []

    def node(state: State) -> State:
        emit_message(elsewhere.append, AIMessage("to my own list"))
        return {"messages": [AIMessage("done")]}

    task = await asked_once(one_node(node))
    assert said(task) == "done"
    assert len(elsewhere) == 1
    assert caplog.text.count("did not reach the turn's own stream") == 1


# ── Unserializable state ──────────────────────────────────────────────────────────────────────────────────────────────


class Anything(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    held: Any


@pytest.mark.parametrize(
    "node",
    [
        lambda state: {"held": threading.Lock()},
        lambda state: {"held": {"deep": [lambda: 1]}},
        lambda state: interrupt({"prompt": "Which?", "of": threading.Lock()}),
    ],
    ids=["a lock", "a function, deep within", "in a question"],
)
async def test_unserializable_value_fails_the_task(node: Any) -> None:
    """The task's error names the value, and tells the agent's author the remedy."""
    task = await asked_once(one_node(node, Anything))
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert any(
        named in str(said(task))
        for named in ("a value (_thread.lock)", "a value (function)", "(_thread.lock in Interrupt)")
    )
    assert "Hold plain data there" in str(said(task))


async def test_reply_is_not_sent_again_when_interrupted_node_reruns() -> None:
    """After the client's answer the node runs again, and replies in other words: this reply is not sent."""
    runs: list[int] = []

    async def node(state: State) -> State:
        runs.append(1)
        await get_aion_context().thread.reply(f"Found some, at try {len(runs)}.")
        day = interrupt("Which day?")
        return {"messages": [AIMessage(f"Booked for {day}.")]}

    async with http(parts(one_node(node)).app()) as client:
        asked = await ask(client, message_id="m-1")
        task = await ask(client, "Tuesday", message_id="m-2", taskId=asked["id"])
    assert len(runs) == 2
    assert said(task) == "Booked for Tuesday."
    texts = [entry["parts"][0]["text"] for entry in task["history"]]
    assert texts == ["hi", "Found some, at try 1.", "Which day?", "Tuesday", "Booked for Tuesday."]
