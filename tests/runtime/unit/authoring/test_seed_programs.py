"""Programs for each code block of the LangGraph seed documents: same imports, calls, signatures and results.

The blocks show the emit functions, the runtime context, and the graph's state.
"""

from typing import Annotated, Any, TypedDict

import pytest
from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph, add_messages
from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from aion.langgraph import AionContext
from aion.langgraph.stream import emit_data, emit_file, emit_message, emit_task_metadata
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted
from tests.runtime.unit.authoring.recording_sink import RecordingSink, a_turn


class SeedState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def report(state: dict, writer: StreamWriter):  # type: ignore[type-arg,no-untyped-def]
    emit_file(writer, url="https://example.com/minutes.pdf", mime_type="application/pdf")
    emit_data(writer, {"status": "success", "results": []}, name="analysis")
    emit_message(writer, AIMessage(content="Half way there"))
    emit_task_metadata(writer, {"progress": 50})
    return state


async def helper(state: SeedState, runtime: Runtime[AionContext]) -> dict:  # type: ignore[type-arg]
    inbound = runtime.context.message
    thread = runtime.context.thread

    if inbound and inbound.text == "/help":
        await thread.reply("Here is what I can do.")
        return {}

    return {}


async def test_sync_node_emits_file_data_message_and_metadata() -> None:
    builder: Any = StateGraph(SeedState)
    graph = builder.add_node("report", report).add_edge(START, "report").compile()
    given: SeedState = {"messages": [HumanMessage("write it up", id="m-1")]}
    streamed = [event async for event in graph.astream(given, stream_mode=["custom", "values"])]
    file, data, message, metadata = [payload for mode, payload in streamed if mode == "custom"]
    assert isinstance(file, ArtifactEmitted)
    assert MessageToDict(file.artifact) == {
        "name": "file",
        "parts": [{"url": "https://example.com/minutes.pdf", "mediaType": "application/pdf"}],
    }
    assert isinstance(data, ArtifactEmitted)
    assert MessageToDict(data.artifact) == {
        "name": "analysis",
        "parts": [{"data": {"status": "success", "results": []}}],
    }
    assert (file.append, file.last_chunk, data.append, data.last_chunk) == (False, True, False, True)
    assert message == MessageEmitted(AIMessage(content="Half way there"))
    assert metadata == MetadataEmitted({"progress": 50})
    assert streamed[-1] == ("values", given)


@pytest.mark.parametrize(
    ("text", "replies"), [("/help", ["Here is what I can do."]), ("something else", []), (None, [])]
)
async def test_node_replies_through_thread_of_runtime_context(text: str | None, replies: list[str]) -> None:
    """The node uses `runtime.context.thread`, handles a missing message, and returns `{}`."""
    graph = (
        StateGraph(SeedState, context_schema=AionContext).add_node("helper", helper).add_edge(START, "helper").compile()
    )
    sink = RecordingSink()
    final = await graph.ainvoke({"messages": [HumanMessage(text or "")]}, context=a_turn(sink, text))
    assert sink.texts == replies
    assert len(final["messages"]) == 1


async def test_graph_without_context_schema_receives_aion_context() -> None:
    async def helper(state: SeedState, runtime: Runtime[AionContext]) -> dict:  # type: ignore[type-arg]
        await runtime.context.thread.reply("Here is what I can do.")
        return {}

    builder: Any = StateGraph(SeedState)
    graph = builder.add_node("helper", helper).add_edge(START, "helper").compile()
    sink = RecordingSink()
    context: Any = a_turn(sink)
    await graph.ainvoke({"messages": []}, context=context)
    assert sink.texts == ["Here is what I can do."]
