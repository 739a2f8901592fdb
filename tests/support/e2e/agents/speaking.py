"""Graph that streams a sentence slowly, word by word.

With `HELD_IN` it hangs in the middle of the sentence, so that a test can kill the process.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph

WORDS = [f"word{n} " for n in range(20)]


class WordSpeaker(BaseChatModel):
    """Model that streams one fixed sentence."""

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(WORDS)))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for n, word in enumerate(WORDS):
            if n == len(WORDS) // 2 and "HELD_IN" in os.environ:
                await asyncio.sleep(300)
            await asyncio.sleep(0.05)
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


async def speak(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await WordSpeaker().ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("speak", speak)
builder.add_edge(START, "speak")
graph = builder.compile()
