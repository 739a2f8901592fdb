"""A LangGraph agent with one tool. The scripted `model` needs no API key; replace it by a real one."""

import re
from collections.abc import Iterator
from typing import Any, Self

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


class StandInChatModel(BaseChatModel):
    """Stand-in for a real chat model: it calls `count_words` on the last message, then streams the result word by word."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Self:
        """Return this model; its script already contains the tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            answer = AIMessage(f"Your message has {last.text} {'word' if last.text == '1' else 'words'}.")
        else:
            call = ToolCall(name="count_words", args={"text": last.text}, id=f"call-{len(messages)}")
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        answer = self._generate(messages).generations[0].message
        if isinstance(answer, AIMessage) and answer.tool_calls:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=answer.tool_calls))
        for word in re.findall(r"\s*\S+", answer.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


# For OpenAI, run `uv run aion add langchain-openai`, put OPENAI_API_KEY into .env, and replace the next line by:
#
#   from langchain_openai import ChatOpenAI
#   model = ChatOpenAI(model="gpt-5-mini")
#
# Use langchain-anthropic, langchain-google-genai or langchain-aws (Bedrock) in the same way.
model = StandInChatModel()

tools = [count_words]


def answer(state: MessagesState) -> dict[str, Any]:
    """Call the model; its answer is streamed."""
    return {"messages": [model.bind_tools(tools).invoke(state["messages"])]}


graph = (
    StateGraph(MessagesState)
    .add_node("answer", answer)
    .add_node("tools", ToolNode(tools))
    .add_edge(START, "answer")
    .add_conditional_edges("answer", tools_condition)
    .add_edge("tools", "answer")
    .compile()
)
