"""LangGraph graph with a scripted chat model that repeats the message word by word. No key, no network."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph


class EchoModel(BaseChatModel):
    """Scripted chat model: streams the last message back word by word."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=str(messages[-1].text)))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", str(messages[-1].text)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk


model = EchoModel()


async def answer(state: MessagesState) -> dict[str, Any]:
    """Call the model; if the message has no text, for example only a file, ask for text."""
    if not state["messages"]:
        return {"messages": [AIMessage("Send me some text, and I say it back.")]}
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
