"""Slow graph: five words with a pause before each."""

import asyncio
from typing import Any

from langchain_core.messages import AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_message

WORDS = ("one ", "two ", "three ", "four ", "five")
SECONDS = 0.3


async def count(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
    """Stream the words, one after another."""
    for word in WORDS:
        await asyncio.sleep(SECONDS)
        emit_message(writer, AIMessageChunk(content=word, id="counting"))
    return {}


graph = StateGraph(MessagesState).add_node("count", count).add_edge(START, "count").compile()
