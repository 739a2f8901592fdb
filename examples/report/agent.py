"""LangGraph graph that reports its progress and answers with structured data. No key, no network."""

import asyncio
from collections import Counter
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from aion.langgraph.stream import emit_data, emit_task_metadata


async def count(state: MessagesState) -> dict[str, Any]:
    """Count the words of the message sentence by sentence; report the progress, and answer with the counts."""
    writer, words = get_stream_writer(), Counter[str]()
    sentences = [each for each in state["messages"][-1].text.split(".") if each.strip()]
    for done, sentence in enumerate(sentences, start=1):
        words.update(sentence.lower().split())
        # Progress is metadata of the task: clients get it in the stream, by GetTask and by webhook.
        emit_task_metadata(writer, {"progress": round(100 * done / len(sentences))})
        await asyncio.sleep(0)
    emit_data(writer, {"sentences": len(sentences), "words": dict(words.most_common(5))}, name="Report")
    return {"messages": [AIMessage(f"Sentences: {len(sentences)}. Words: {words.total()}.")]}


graph = StateGraph(MessagesState).add_node("count", count).add_edge(START, "count")
