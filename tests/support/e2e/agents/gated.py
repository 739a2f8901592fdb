"""Graph with a model that streams a word, waits at a barrier of the test, and streams a second word."""

from typing import Any

from langchain_core.messages import AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_message
from tests.support.e2e.gates import gate


async def speak(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
    """Stream a word, wait at the barrier, and stream a second word."""
    emit_message(writer, AIMessageChunk(content="before ", id="call"))
    await gate("between")
    emit_message(writer, AIMessageChunk(content="after", id="call"))
    return {}


graph = StateGraph(MessagesState).add_node("speak", speak).add_edge(START, "speak").compile()
