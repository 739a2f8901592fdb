"""LangGraph's chat model without a provider: it calls the agent's first tool, and answers with the result."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Self

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class ScriptedChatModel(BaseChatModel):
    """Chat model that calls the first of the agent's tools, and answers with the tool's result, word by word.

    It needs no API key, so an agent can be tried and tested without one. The tool gets the text of the last message as
    its first argument.
    """

    answer: str = "{result}"
    """Text of the answer, with `{result}` for the result of the tool; without tools, for the text of the message."""
    tool: dict[str, Any] | None = None
    """Description of the tool as a JSON object; `bind_tools` sets it."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Self:
        """Return this model with the first of the tools."""
        return self.model_copy(update={"tool": convert_to_openai_tool(tools[0])["function"] if tools else None})

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        last = messages[-1]
        if self.tool is None or isinstance(last, ToolMessage):
            message = AIMessage(self.answer.format(result=last.text))
        else:
            arguments = dict.fromkeys([*self.tool["parameters"]["properties"]][:1], last.text)
            call = ToolCall(name=self.tool["name"], args=arguments, id=f"call-{len(messages)}")
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        message = self._generate(messages).generations[0].message
        if isinstance(message, AIMessage) and message.tool_calls:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=message.tool_calls))
        for word in re.findall(r"\s*\S+", message.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
