"""LangGraph graph of every measured server. It streams as many chunks as the message requests."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph


class CountingModel(BaseChatModel):
    """Chat model without a network: the message "100 0.01" asks for 100 chunks with pauses of 0.01 seconds."""

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("word"))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        chunks, pause = messages[-1].text.split()
        for number in range(int(chunks)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"word{number:04d} "))
            if seconds := float(pause):
                await asyncio.sleep(seconds)


model = CountingModel()


async def talk(state: MessagesState) -> dict[str, Any]:
    """Answer the messages by a call of the model."""
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node("talk", talk).add_edge(START, "talk")
