"""Streams of generated graphs: any shape and any interleaving of emissions, in both protocol versions.

A client that folds the stream with the a2a-sdk has each streamed text whole and once, and the final answer.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph import get_aion_context
from aion.langgraph.stream import emit_data, emit_message, emit_task_metadata
from tests.golden.graphs import model_saying
from tests.support.service import http, parts, send
from tests.unit.agents.folding import fold, text_of

EXAMPLES = 500
"""Number of generated agents: one takes 35 ms of CPU."""

Branch = tuple[str, bool, list[str]]
"""Speaker of a node, True for a node within a subgraph, and the steps of the node."""
Stages = list[list[Branch]]
"""Rows of nodes that run at once."""

STEPS = st.sampled_from(["word", "word", "word", "wait", "metadata", "data", "message"])
BRANCHES = st.tuples(st.sampled_from(["model", "chunks", "reply"]), st.booleans(), st.lists(STEPS, max_size=5))
STAGES = st.lists(st.lists(BRANCHES, min_size=1, max_size=3), min_size=1, max_size=2)


class ExpectedStream:
    """Everything that a client has to receive from one generated graph."""

    def __init__(self) -> None:
        self.streamed: dict[str, str] = {}
        """Texts of model calls and emitted chunks, by node."""
        self.replies: dict[str, str] = {}
        self.messages: list[str] = []
        self.artifacts: dict[str, float] = {}
        self.metadata: dict[str, float] = {}


def node_of(name: str, branch: Branch, expected: ExpectedStream) -> Any:
    speaker, _, steps = branch
    words = [f"{name}.{number} " for number in range(steps.count("word"))]
    text = "".join(words)
    if speaker == "reply":
        expected.replies |= {name: text} if text else {}
    elif text:
        expected.streamed[name] = text

    async def spoken(writer: StreamWriter) -> AsyncIterator[str]:
        """Yield the words, with the other steps in between."""
        source = model_saying(list(words)).astream("go") if speaker == "model" and words else None
        left = iter(words)
        for number, step in enumerate(steps):
            label = f"{name}-{number}"
            match step:
                case "word" if source is not None:
                    yield str((await anext(source)).text)
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
        if source is not None:
            async for _ in source:
                """Read the end of the model call."""

    async def node(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
        if speaker == "reply" and text:
            context = get_aion_context()
            await context.thread.reply(spoken(writer))
            return {}
        async for word in spoken(writer):
            if speaker == "chunks":
                emit_message(writer, AIMessageChunk(content=word, id=f"id-{name}"))
        return {}

    return node


def graph_of(stages: Stages, expected: ExpectedStream) -> Any:
    graph = StateGraph(MessagesState)
    before: list[str] = [START]
    for row, branches in enumerate(stages):
        names = [f"s{row}b{column}" for column in range(len(branches))]
        for name, branch in zip(names, branches, strict=True):
            node = node_of(name, branch, expected)
            if branch[1]:
                node = StateGraph(MessagesState).add_node("inner", node).add_edge(START, "inner").compile()
            graph.add_node(name, node)
            graph.add_edge(before if len(before) > 1 else before[0], name)
        before = names
    last = model_saying(["The ", "answer."])

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await last.ainvoke("go")]}

    graph.add_node("answer", answer)
    graph.add_edge(before if len(before) > 1 else before[0], "answer")
    return graph


@given(STAGES, st.sampled_from(["SendStreamingMessage", "message/stream"]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_folded_stream_has_each_text_once(stages: Stages, method: str) -> None:
    expected = ExpectedStream()
    body = asyncio.run(stream_of(graph_of(stages, expected), method))
    folded = fold(body)
    # A reply that another text has delayed is not streamed, because its message follows at once.
    texts = Counter(folded.texts)
    assert texts.pop("The answer.") == 1
    assert {text: count for text, count in texts.items() if text not in expected.replies.values()} == dict.fromkeys(
        expected.streamed.values(), 1
    )
    assert not [text for text, count in texts.items() if count > 1]
    messages = [text_of(message) for message in folded.messages.values()]
    assert sorted(messages) == sorted([*expected.messages, *expected.replies.values(), *answers(expected)])
    assert not folded.repeated.total()
    assert {artifact.name: artifact.parts[0].data.struct_value["n"] for artifact in folded.artifacts} == (
        expected.artifacts
    )
    assert {key: number for key, number in metadata_of(body).items() if key in expected.metadata} == expected.metadata
    assert text_of(folded.task.status.message) in (expected.replies.values() or ["The answer."])


def answers(expected: ExpectedStream) -> list[str]:
    """Return the answer, unless a reply is the answer."""
    return [] if expected.replies else ["The answer."]


def metadata_of(body: str) -> dict[str, Any]:
    """Return the merged metadata of all status updates."""
    results = [json.loads(line[6:])["result"] for line in body.splitlines() if line.startswith("data: ")]
    updates = [result.get("statusUpdate", result) for result in results]
    return {key: value for update in updates for key, value in update.get("metadata", {}).items()}


async def stream_of(graph: Any, method: str) -> str:
    async with http(parts(graph).app()) as client:
        return (await client.post("/", json=send(method=method))).text
