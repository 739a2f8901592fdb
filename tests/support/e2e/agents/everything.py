"""Agents that together use every permission of a function: large answers, artifacts, user state."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.genai import types
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import interrupt

LARGE = "x" * 40_000


async def say(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
    """Answer with a long or a short text, or ask first; write and delete a long-term memory."""
    await store.aput(("said",), "last", {"text": LARGE}, ttl=60)
    assert await store.aget(("said",), "last") is not None
    assert await store.asearch(("said",))
    assert await store.alist_namespaces()
    await store.adelete(("said",), "last")
    match str(state["messages"][-1].content):
        case "large":
            return {"messages": [AIMessage(LARGE)]}
        case "ask":
            return {"messages": [AIMessage(f"You said {interrupt('Which?')}.")]}
    return {"messages": [AIMessage("A little.")]}


async def speak(state: MessagesState) -> dict[str, Any]:
    """Stream a sentence word by word."""
    model = GenericFakeChatModel(messages=iter([AIMessage("One word after another.")]))
    return {"messages": [await model.ainvoke(state["messages"])]}


speaker = StateGraph(MessagesState).add_node(speak).set_entry_point("speak")
graph = StateGraph(MessagesState).add_node(say).set_entry_point("say")


class Keeper(BaseAgent):
    """ADK agent that writes and reads artifacts, session state and user state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        artifacts = ctx.artifact_service
        assert artifacts is not None
        where: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
        for name in ("note.txt", "user:note.txt"):
            await artifacts.save_artifact(**where, filename=name, artifact=types.Part(text=LARGE))
            assert await artifacts.load_artifact(**where, filename=name) is not None
        assert await artifacts.load_artifact(**where, filename="none.txt") is None
        assert await artifacts.list_artifact_keys(**where)
        await artifacts.delete_artifact(**where, filename="note.txt")
        other = {**where, "session_id": "other"}
        await ctx.session_service.delete_session(**other)
        kept = {"app:seen": LARGE, "user:seen": LARGE + str(ctx.invocation_id), "seen": LARGE}
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.ModelContent(LARGE),
            actions=EventActions(state_delta=kept),
        )


keeper = Keeper(name="keeper", description="Keeps things.")
