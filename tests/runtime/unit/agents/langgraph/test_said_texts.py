"""Texts of a turn: each becomes one message of the task, in the order in which they were said."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import StreamWriter, interrupt

from aion.langgraph import get_aion_context
from aion.langgraph.stream import emit_message
from tests.runtime.golden.graphs import asks_for, in_a_row, model_saying, side_by_side
from tests.runtime.unit.agents.folding import fold, text_of
from tests.support.histories import json_messages_of
from tests.support.service import http, parts, send

State = dict[str, Any]


@pytest.fixture(params=["SendStreamingMessage", pytest.param("message/send", marks=pytest.mark.deep)])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def history_of(graph: Any, method: str) -> list[str]:
    """Return the texts of the agent's messages in order. The last one is that of the task's status."""
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method=method))
    if "tream" in method:
        folded = fold(answer.text)
        last = folded.task.status.message
        before = [text_of(each) for each in folded.messages.values() if each.message_id != last.message_id]
        return [*before, text_of(last)]
    result = answer.json()["result"]
    task = result.get("task", result)
    return [
        each["parts"][0].get("text", "") for each in json_messages_of(task) if each["role"] in ("agent", "ROLE_AGENT")
    ]


def named(node: Any, text: str) -> Any:
    """Return the node under a name made of its text."""
    node.__name__ = f"{node.__name__}_{''.join(filter(str.isalnum, text))}"
    return node


def says(*texts: str) -> Any:
    """Return a node that adds messages to the state; no model streams them."""

    def says(state: State) -> State:
        return {"messages": [AIMessage(text) for text in texts]}

    return named(says, "".join(texts))


def speaks(*texts: str) -> Any:
    """Return a node whose model streams each text, and that returns the messages."""

    async def speaks(state: State) -> State:
        return {"messages": [await model_saying([text[:2], text[2:]]).ainvoke("go") for text in texts]}

    return named(speaks, "".join(texts))


def thinks(text: str) -> Any:
    """Return a node whose model streams a text that the node does not return."""

    async def thinks(state: State) -> State:
        await model_saying([text[:2], text[2:]]).ainvoke("go")
        return {}

    return named(thinks, text)


def emits(text: str) -> Any:
    def emits(state: State, writer: StreamWriter) -> State:
        emit_message(writer, AIMessage(text))
        return {}

    return named(emits, text)


def speaks_and_emits(text: str, emitted: str) -> Any:
    """Return a node that emits a message after the text of its model."""

    async def speaks_and_emits(state: State, writer: StreamWriter) -> State:
        said = await model_saying([text[:2], text[2:]]).ainvoke("go")
        emit_message(writer, AIMessage(emitted))
        return {"messages": [said]}

    return speaks_and_emits


def replies(text: str) -> Any:
    async def replies(state: State) -> State:
        await get_aion_context().thread.reply(text)
        return {}

    return named(replies, text)


ROWS: dict[str, tuple[list[Any], list[str]]] = {
    "messages": ([says("One."), says("Two."), says("Three.")], ["One.", "Two.", "Three."]),
    "a model's text before an emitted message": (
        [speaks("One."), emits("Two."), speaks("Three.")],
        ["One.", "Two.", "Three."],
    ),
    "a message before an emitted one": ([says("One."), emits("Two."), says("Three.")], ["One.", "Two.", "Three."]),
    "a thought before an emitted message": (
        [thinks("One."), emits("Two."), says("Three.")],
        ["One.", "Two.", "Three."],
    ),
    "a message and a thought": ([says("One."), thinks("Two."), says("Three.")], ["One.", "Two.", "Three."]),
    "a thought and a message": ([thinks("One."), says("Two."), speaks("Three.")], ["One.", "Two.", "Three."]),
    "messages before a reply": ([says("One."), speaks("Two."), replies("Three.")], ["One.", "Two.", "Three."]),
    "messages before and after a reply": (
        [says("One."), replies("Two."), says("Three."), says("Four.")],
        ["One.", "Two."],
    ),
    "a model's text after a reply": ([replies("Two."), speaks("Three."), says("Four.")], ["Three.", "Two."]),
    "several messages of a node": ([says("One.", "Two."), says("Three.")], ["One.", "Two.", "Three."]),
    "several texts of a node": (
        [speaks("One.", "Two."), thinks("Three."), says("Four.")],
        ["One.", "Two.", "Three.", "Four."],
    ),
    "equal messages": ([says("Yes."), speaks("Yes."), says("Yes.", "No.")], ["Yes.", "Yes.", "Yes.", "No."]),
    "an answer that a thought follows": ([says("One."), speaks("Two."), thinks("Three.")], ["One.", "Three.", "Two."]),
    "an answer that an emitted message follows": ([speaks("One."), emits("Two.")], ["Two.", "One."]),
    "a text that its node may still change": (
        [speaks_and_emits("Two.", "One."), says("Three.")],
        ["One.", "Two.", "Three."],
    ),
    "a message that is emitted and returned": ([emits("One."), says("One."), says("Two.")], ["One.", "Two."]),
}
"""Nodes in a row, and the messages of the task. The last one is the answer."""


@pytest.mark.parametrize("row", ROWS)
async def test_history_has_texts_in_the_order_said(row: str, method: str) -> None:
    nodes, history = ROWS[row]
    assert await history_of(in_a_row(*nodes, state=MessagesState), method) == history


async def test_hand_back_line_of_supervisor_is_not_shown(method: str) -> None:
    """An expert's node returns its text and the notes that the supervisor goes on, as langgraph-supervisor makes them."""
    back: State = {"__is_handoff_back": True}

    async def adds(state: State) -> State:
        call = {"name": "back", "args": {}, "id": "b"}
        return {
            "messages": [
                await model_saying(["It is ", "4."]).ainvoke("2 + 2?"),
                AIMessage("Back to you.", tool_calls=[call], response_metadata=back),
                ToolMessage("Successfully back.", tool_call_id="b", response_metadata=back),
            ]
        }

    assert await history_of(in_a_row(adds, state=MessagesState), method) == ["It is 4."]
    assert await history_of(in_a_row(adds, says("Four."), state=MessagesState), method) == ["It is 4.", "Four."]


@pytest.mark.parametrize("order", ["12345", "54321", "21354"])
async def test_messages_of_a_node_have_the_order_of_the_state(order: str, method: str) -> None:
    """A node returns two streamed texts, two messages of its own and one with a tool call, in any order."""
    model = model_saying(["text ", "1"], ["text ", "2"])

    async def node(state: State) -> State:
        call = {"name": "look", "args": {}, "id": "c"}
        made = {
            "1": await model.ainvoke("go"),
            "2": await model.ainvoke("go"),
            "3": AIMessage("text 3"),
            "4": AIMessage("text 4", tool_calls=[call]),
            "5": AIMessage("text 5"),
        }
        return {"messages": [*(made[each] for each in order), ToolMessage("seen", tool_call_id="c")]}

    graph = in_a_row(node, says("Done."), state=MessagesState)
    assert await history_of(graph, method) == [*(f"text {each}" for each in order), "Done."]


async def test_streamed_text_in_another_message_is_recorded_once(method: str) -> None:
    model = model_saying(["Hello ", "there."])

    async def node(state: State) -> State:
        text = "".join([str(chunk.text) async for chunk in model.astream("go")])
        return {"messages": [AIMessage(text)]}

    assert await history_of(in_a_row(node, says("Bye."), state=MessagesState), method) == ["Hello there.", "Bye."]


async def test_edited_text_is_recorded_although_another_node_emits_first(method: str) -> None:
    """Two nodes run at once: one edits its model's text and ends, then the other emits a message."""
    model, ended = model_saying(["Teh ", "draft."]), asyncio.Event()

    async def edits(state: State) -> State:
        said = await model.ainvoke("go")
        asyncio.get_running_loop().call_later(0.05, ended.set)
        return {"messages": [said.model_copy(update={"content": "The draft."})]}

    async def emits_later(state: State, writer: StreamWriter) -> State:
        await ended.wait()
        emit_message(writer, AIMessage("Reading."))
        return {}

    graph = side_by_side(edits, emits_later, join=says("Done."), state=MessagesState)
    assert await history_of(graph, method) == ["The draft.", "Reading.", "Done."]


async def test_message_of_state_is_recorded_before_question_and_failure(method: str) -> None:
    def asks(state: State) -> State:
        return {"messages": [AIMessage(f"Booked: {interrupt('Which day?')}")]}

    def fails(state: State) -> State:
        raise ValueError("the password is hunter2")

    failure = "ValueError: the agent could not finish this turn."
    for node, last in ((asks, "Which day?"), (fails, failure)):
        assert await history_of(in_a_row(says("One."), node, state=MessagesState), method) == ["One.", last]


async def test_message_removed_before_another_follows_is_not_recorded(method: str) -> None:
    def draft(state: State) -> State:
        return {"messages": [AIMessage("A draft.", id="draft")]}

    def removes(state: State) -> State:
        return {"messages": [RemoveMessage("draft")]}

    assert await history_of(in_a_row(draft, removes, says("Done."), state=MessagesState), method) == ["Done."]


async def test_words_beside_tool_call_are_recorded_before_tool_runs(method: str) -> None:
    """The client of a slow tool gets these words before the tool has ended."""

    @tool
    def book() -> str:
        """Book a seat."""
        return f"booked {interrupt('Which seat?')}"

    model = model_saying(["I book ", "a seat.", asks_for("book", "{}")])

    async def agent(state: MessagesState) -> State:
        return {"messages": [await model.ainvoke("go")]}

    graph = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", ToolNode([book]))
    graph.add_edge(START, "agent").add_edge("agent", "tools")
    assert await history_of(graph, method) == ["I book a seat.", "Which seat?"]
