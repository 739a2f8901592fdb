"""Requests of the tests, and graphs with one node."""

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import httpx
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, MessagesState, StateGraph, add_messages

from aion.shared.types import A2AInbox, A2AOutbox
from tests.support.service import send

State = dict[str, Any]


class RequestEnvelope(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    a2a_inbox: A2AInbox | None
    a2a_outbox: A2AOutbox | None


def one_node(node: Callable[..., Any], schema: Any = MessagesState, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(schema, **options).add_node("node", node).add_edge(START, "node")


async def ask(client: httpx.AsyncClient, text: str = "hi", **message: Any) -> dict[str, Any]:
    """Return the task of a blocking send."""
    answer = (await client.post("/", json=send(text, **message))).json()
    assert "result" in answer, answer
    task: dict[str, Any] = answer["result"]["task"]
    return task


def said(task: dict[str, Any]) -> str | None:
    message = task["status"].get("message")
    return "".join(part.get("text", "") for part in message["parts"]) if message else None


def echo(state: State) -> State:
    return {"messages": [AIMessage(f"echo {state['messages'][-1].text}")]}
