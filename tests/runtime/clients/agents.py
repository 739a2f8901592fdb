"""Agents that the clients of this folder talk to: one for each way in which an answer can come about."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from google.adk.agents import LlmAgent
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter, interrupt
from pydantic import Field

from aion.adk.scripted import ScriptedLlm
from aion.langgraph.stream import emit_message

WORDS = ["One ", "two ", "three."]
SILENCE = 20.0
"""Seconds: longer than the 15 after which the server sends a heartbeat."""


class Speaker(BaseChatModel):
    """Model that streams its words; before a tool's result it streams others, and calls the tool."""

    words: list[str] = WORDS
    before: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Speaker":
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(self.words)))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        calls = bool(self.before) and not isinstance(messages[-1], ToolMessage)
        for word in self.before if calls else self.words:
            await asyncio.sleep(0.02)
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        if calls:
            call = ToolCall(name="weather", args={"day": "today"}, id="call-1")
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=[call]))


def weather(day: str) -> str:
    """Return the weather of a day."""
    return f"Sun, {day}."


async def _whole(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"You said {state['messages'][-1].text}.")]}


async def _tokens(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Speaker().ainvoke(state["messages"])]}


async def _question(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"Booked for {interrupt('Which day?')}.")]}


async def _failure(state: MessagesState) -> None:
    raise RuntimeError("The printer is on fire.")


async def _turns(state: MessagesState) -> dict[str, Any]:
    said = [message.text for message in state["messages"] if message.type == "human"]
    return {"messages": [AIMessage(f"So far: {', '.join(said)}.")]}


async def _silent(state: MessagesState) -> dict[str, Any]:
    await asyncio.sleep(SILENCE)
    return {"messages": [AIMessage("Here I am.")]}


async def _emitted(state: MessagesState, writer: StreamWriter) -> MessagesState:
    emit_message(writer, AIMessage("All done."))
    return state


def _graph(node: Any) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


whole, tokens, question, failure, turns, silent, emitted = (
    _graph(node) for node in (_whole, _tokens, _question, _failure, _turns, _silent, _emitted)
)
tool = create_agent(Speaker(words=["It is ", "sunny."], before=["Let me ", "look."]), [weather])
adk = LlmAgent(name="adk", description="Counts to three.", model=ScriptedLlm(answer="".join(WORDS)))


class Executor(AgentExecutor):
    """Executor that streams its answer as one artifact."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work()
        for place, word in enumerate(WORDS):
            last = place == len(WORDS) - 1
            await updater.add_artifact([Part(text=word)], artifact_id="count", append=place > 0, last_chunk=last)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
