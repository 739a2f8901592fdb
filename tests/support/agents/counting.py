"""Graphs for tests: `counting` counts its runs in a file, `talking` streams many chunks."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph


async def count(state: MessagesState) -> dict[str, Any]:
    """Add a line for this run to the file, and pause, so that other messages come during the run."""
    with Path(os.environ["COUNTED_IN"]).open("a") as runs:
        runs.write(f"{os.getpid()}\n")
    await asyncio.sleep(0.3)
    return {"messages": [AIMessage("counted")]}


counting = StateGraph(MessagesState).add_node("count", count).add_edge(START, "count").compile()


class Talker(BaseChatModel):
    """Model that streams `chunks` numbered words, `a_second` of them per second or all at once (0)."""

    chunks: int = 1000
    a_second: float = 0

    @property
    def _llm_type(self) -> str:
        return "talker"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("not streamed"))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        raise TypeError("only asked asynchronously")

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for number in range(self.chunks):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"word{number:04d} "))
            if self.a_second:
                await asyncio.sleep(1 / self.a_second)


def talking(chunks: int, a_second: float = 0) -> Any:
    """Return a graph that answers with a Talker."""
    model = Talker(chunks=chunks, a_second=a_second)

    async def talk(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return StateGraph(MessagesState).add_node("talk", talk).add_edge(START, "talk").compile()
