"""Long-term memory of a deployment with authentication: only its owner's conversations read it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from tests.support.issuer import Issuer
from tests.support.service import http, send

AGENT = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore


async def remember(state, *, store: BaseStore):
    before = [item.value["text"] for item in await store.asearch(())]
    text = state["messages"][-1].text
    await store.aput(("said",), text, {"text": text})
    return {"messages": [AIMessage(f"You said {before}.")]}


def remember_blocking(state, *, store: BaseStore):
    before = [item.value["text"] for item in store.search(())]
    text = state["messages"][-1].text
    store.put(("said",), text, {"text": text})
    return {"messages": [AIMessage(f"You said {before}.")]}


one = StateGraph(MessagesState).add_node(remember).add_edge(START, "remember")
two = StateGraph(MessagesState).add_node(remember_blocking).add_edge(START, "remember_blocking")
"""

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    one: {path: remembering_agents.py:one}
    two: {path: remembering_agents.py:two}
"""


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp]) -> ASGIApp:
    return api_function("remembering_agents", AGENT, AION_YAML)


async def said_before(client: httpx.AsyncClient, token: str, agent: str, text: str, context: str) -> Any:
    """Send the text; return what the agent remembered of this caller before."""
    request = send(text, message_id=f"{context}-{text}", contextId=context)
    answer = await client.post(f"/agents/{agent}/", json=request, headers={"Authorization": f"Bearer {token}"})
    task = answer.json()["result"]["task"]
    return task["status"]["message"]["parts"][0]["text"]


async def test_agent_memory_is_shared_across_contexts_of_one_owner_only(
    app: ASGIApp, issuer: Issuer, tmp_path: Path
) -> None:
    # Use unique subjects, because the tests share the table.
    ann, bob = (issuer.token(sub=f"{name}-{tmp_path}") for name in ("ann", "bob"))
    async with http(app) as client:
        for agent in ("one", "two"):
            assert await said_before(client, ann, agent, "red", "c-1") == "You said []."
            assert await said_before(client, bob, agent, "blue", "c-1") == "You said []."
            assert await said_before(client, ann, agent, "green", "c-2") == "You said ['red']."
            assert await said_before(client, ann, agent, "green", "c-3") == "You said ['green', 'red']."
            assert await said_before(client, bob, agent, "black", "c-2") == "You said ['blue']."
