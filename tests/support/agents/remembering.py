"""Graph and ADK agent with incompressible data in every store."""

import os
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.genai import types
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import interrupt

LARGE = 34_000


def noise() -> str:
    """Return a text too large for an item, even after zlib."""
    return os.urandom(LARGE).hex()


async def reply(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
    await store.aput(("facts", "said"), "last", {"text": str(state["messages"][-1].content)[:20]})
    asked = str(state["messages"][-1].content)
    if asked == "ask":
        interrupt("Which one?")
    return {"messages": [AIMessage(noise() if asked == "large" else f"You said {asked[:20]}.")]}


graph = StateGraph(MessagesState).add_node(reply).add_edge(START, "reply").compile()


class Remembering(BaseAgent):
    """Agent that saves artifacts, and state of each scope, in every turn."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        session, artifacts = ctx.session, ctx.artifact_service
        assert artifacts is not None
        place: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": session.id}
        for name in ("report.txt", "user:photo.txt", "old.txt", "old.txt"):
            await artifacts.save_artifact(filename=name, artifact=types.Part(text=noise()), **place)
        await artifacts.delete_artifact(filename="old.txt", **place)
        state = {"mine": noise(), "user:name": ctx.user_id, "user:large": noise(), "app:seen": "yes"}
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=noise())]),
            actions=EventActions(state_delta=state),
        )


root_agent = Remembering(name="remembering")
