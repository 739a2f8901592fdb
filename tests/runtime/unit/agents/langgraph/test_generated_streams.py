"""Streams of random graphs with random emissions, in both protocol versions.

A client that folds a stream with the a2a-sdk receives each streamed text complete and exactly once, and the final answer.
The text of a delayed reply or of a failed model call may be missing, but never appears twice.
"""

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage, message_chunk_to_message
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter, interrupt

from aion.langgraph import get_aion_context
from aion.langgraph.stream import emit_data, emit_message, emit_task_metadata
from tests.runtime.golden.graphs import asks_for, model_saying
from tests.runtime.unit.agents.folding import fold, text_of
from tests.support.service import http, parts, send

EXAMPLES = 1000 if os.environ.get("SIMULATION_DEEP") else 25
"""Number of generated agents; each has one or two turns, with a stream each, and takes 30 ms of CPU."""


@dataclass(frozen=True)
class Branch:
    """Node, perhaps within a subgraph: its speaker, its steps, and whether the node returns two messages."""

    speaker: str
    nested: bool
    steps: tuple[str, ...]
    returns: bool


Stages = list[list[Branch]]
"""Groups of nodes: the groups run one after another, the nodes of a group run at once."""

STEPS = st.sampled_from(["word", "word", "word", "wait", "metadata", "data", "message", "abort"])
SPEAKERS = st.sampled_from(["model", "chunks", "reply", "caller"])
BRANCHES = st.builds(Branch, SPEAKERS, st.booleans(), st.lists(STEPS, max_size=5).map(tuple), st.booleans())
STAGES = st.lists(st.lists(BRANCHES, min_size=1, max_size=3), min_size=1, max_size=2)
TURNS = st.one_of(
    st.lists(STAGES, min_size=1, max_size=1),
    st.lists(st.lists(st.lists(BRANCHES, min_size=1, max_size=2), min_size=1, max_size=1), min_size=2, max_size=2),
)
"""Stages of each turn. An interrupt ends each turn but the last one."""


class ExpectedStream:
    """Everything that a client has to receive from one turn of a generated graph."""

    def __init__(self) -> None:
        self.streamed: dict[str, str] = {}
        """Texts of model calls and emitted chunks, by node."""
        self.aborted: set[str] = set()
        """Texts of failed model calls. They are streamed unless another text has delayed them."""
        self.replies: dict[str, str] = {}
        self.messages: list[str] = []
        self.artifacts: dict[str, float] = {}
        self.metadata: dict[str, float] = {}
        self.last = ""
        """Text of the turn's answer or question."""


async def failing_call(label: str) -> None:
    """Call a model that fails after its first word."""
    with suppress(ConnectionError):
        await model_saying([f"half of {label} ", ConnectionError()]).ainvoke("go")


def node_of(name: str, branch: Branch, expected: ExpectedStream, *, replies: bool) -> Any:
    speaker, steps = branch.speaker, branch.steps
    words = [f"{name}.{number} " for number in range(steps.count("word"))]
    text = "".join(words)
    if speaker == "reply":
        expected.replies |= {name: text} if text else {}
    elif text:
        expected.streamed[name] = text
    if speaker in ("model", "caller") and text:
        expected.messages.append(text)
    # Let a node that replies return no messages, because its reply is the answer.
    returned = [f"{name}-returned-{number}" for number in range(2)] if branch.returns and not replies else []
    expected.messages += returned

    async def spoken(writer: StreamWriter, heard: list[AIMessageChunk]) -> AsyncIterator[str]:
        """Yield the words, with the other steps in between. `heard` gets the chunks of the model."""
        calls = [asks_for("look", "{}")] if speaker == "caller" else []
        source = model_saying([*words, *calls]).astream("go") if speaker in ("model", "caller") and words else None
        left = iter(words)
        for number, step in enumerate(steps):
            label = f"{name}-{number}"
            match step:
                case "word" if source is not None:
                    heard.append(cast("AIMessageChunk", await anext(source)))
                    yield str(heard[-1].text)
                case "word":
                    yield next(left)
                case "wait":
                    await asyncio.sleep(0)
                case "metadata":
                    emit_task_metadata(writer, {label: number})
                    expected.metadata[label] = number
                case "data":
                    emit_data(writer, {"n": number}, name=label)
                    expected.artifacts[label] = number
                case "message":
                    emit_message(writer, AIMessage(label))
                    expected.messages.append(label)
                case "abort":
                    await failing_call(label)
                    expected.aborted.add(f"half of {label} ")
        if source is not None:
            heard.extend([chunk async for chunk in source])

    async def node(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
        heard: list[AIMessageChunk] = []
        if speaker == "reply" and text:
            await get_aion_context().thread.reply(spoken(writer, heard))
            return {"messages": list(map(AIMessage, returned))}
        async for word in spoken(writer, heard):
            if speaker == "chunks":
                emit_message(writer, AIMessageChunk(content=word, id=f"id-{name}"))
        messages: list[Any] = list(map(AIMessage, returned))
        if speaker == "caller" and heard:
            whole = sum(heard[1:], heard[0])
            messages += [message_chunk_to_message(whole), ToolMessage("seen", tool_call_id="call-1")]
        return {"messages": messages}

    return node


def graph_of(turns: list[Stages], expected: list[ExpectedStream]) -> Any:
    graph = StateGraph(MessagesState)
    before: list[str] = [START]
    for number, stages in enumerate(turns):
        replies = any(branch.speaker == "reply" and "word" in branch.steps for row in stages for branch in row)
        for row, branches in enumerate(stages):
            names = [f"t{number}s{row}b{column}" for column in range(len(branches))]
            for name, branch in zip(names, branches, strict=True):
                node = node_of(name, branch, expected[number], replies=replies)
                if branch.nested:
                    node = StateGraph(MessagesState).add_node("inner", node).add_edge(START, "inner").compile()
                graph.add_node(name, node)
                graph.add_edge(before if len(before) > 1 else before[0], name)
            before = names
        if number < len(turns) - 1:
            graph.add_node(f"ask{number}", asks)
            graph.add_edge(before if len(before) > 1 else before[0], f"ask{number}")
            before, expected[number].last = [f"ask{number}"], "Go on?"
    last = model_saying(["The ", "answer."])

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await last.ainvoke("go")]}

    graph.add_node("answer", answer)
    graph.add_edge(before if len(before) > 1 else before[0], "answer")
    return graph


def asks(state: MessagesState) -> dict[str, Any]:
    interrupt("Go on?")
    return {}


@pytest.mark.timeout(900)
@given(TURNS, st.sampled_from(["SendStreamingMessage", "message/stream"]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_random_graphs_stream_each_text_once(turns: list[Stages], method: str) -> None:
    expected = [ExpectedStream() for _ in turns]
    for turn, body in zip(
        expected, asyncio.run(streams_of(graph_of(turns, expected), method, len(turns))), strict=True
    ):
        check_turn(turn, body)


def check_turn(expected: ExpectedStream, body: str) -> None:
    folded = fold(body)
    texts = Counter(folded.texts)
    if not expected.last:
        assert texts.pop("The answer.") == 1
    assert not [text for text, count in texts.items() if count > 1]
    # Allow texts without chunks: while one text is streamed, another reply is held back and then sent as a message.
    optional = {*expected.replies.values(), *expected.aborted}
    assert {text: count for text, count in texts.items() if text not in optional} == dict.fromkeys(
        expected.streamed.values(), 1
    )
    messages = [text_of(message) for message in folded.messages.values()]
    assert sorted(messages) == sorted([*expected.messages, *expected.replies.values(), *answers(expected)])
    assert not folded.repeated.total()
    stages = [int(found[1]) for text in messages if (found := re.match(r"t\d+s(\d+)", text))]
    assert stages == sorted(stages), "a text of a later group of nodes comes first"
    artifacts = {artifact.name: artifact.parts[0].data.struct_value["n"] for artifact in folded.artifacts}
    assert {name: artifacts.get(name) for name in expected.artifacts} == expected.artifacts
    assert {key: number for key, number in metadata_of(body).items() if key in expected.metadata} == expected.metadata
    last = text_of(folded.task.status.message)
    assert last == expected.last if expected.last else last in (expected.replies.values() or ["The answer."])


def answers(expected: ExpectedStream) -> list[str]:
    """Return the text of the turn's answer or question; by default it is the text of the last node."""
    return [expected.last or "The answer."]


def metadata_of(body: str) -> dict[str, Any]:
    """Return the merged metadata of all status updates."""
    results = [json.loads(line[6:])["result"] for line in body.splitlines() if line.startswith("data: ")]
    updates = [result.get("statusUpdate", result) for result in results]
    return {key: value for update in updates for key, value in update.get("metadata", {}).items()}


async def streams_of(graph: Any, method: str, turns: int) -> list[str]:
    """Return the stream of each turn. Each message after the first answers the task's interrupt."""
    bodies: list[str] = []
    async with http(parts(graph).app()) as client:
        for number in range(turns):
            task = {"taskId": fold(bodies[0]).task.id} if bodies else {}
            request = send(method=method, message_id=f"m-{number}", **task)
            bodies.append((await client.post("/", json=request)).text)
    return bodies
