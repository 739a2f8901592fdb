"""Scripted chat model in place of a real model. It calls the tool for the exchange rate, then the tool to multiply."""

import re
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class ScriptedConverter(BaseChatModel):
    """Chat model for questions such as "How much is 250 USD in EUR?"."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedConverter":
        """Accept the agent's tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        asked = max(place for place, message in enumerate(messages) if message.type == "human")
        results = [message.text for message in messages[asked:] if message.type == "tool"]
        return ChatResult(generations=[ChatGeneration(message=next_message(messages[asked].text, results))])


def next_message(question: str, results: list[str]) -> AIMessage:
    """Return the call of the next tool, or the answer once both tools have returned."""
    found = re.search(r"([\d.]+) ([A-Z]{3}) in ([A-Z]{3})", question)
    if found is None:
        return AIMessage("Ask me, for example: How much is 250 USD in EUR?")
    amount, base, target = found.groups()
    if not results:
        return call("exchange_rate", base=base, target=target)
    if len(results) == 1 and results[0][0].isdigit():
        return call("multiply", a=float(amount), b=float(results[0]))
    return AIMessage(f"{amount} {base} in {target}: {results[-1]}")


def call(tool: str, **arguments: Any) -> AIMessage:
    """Return a message with a call of the tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call-{tool}"}])
