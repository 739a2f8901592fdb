"""Requests of the tests in both protocol versions, and graphs with one node."""

import sys
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from google.protobuf.json_format import MessageToDict
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


_dialect = "SendMessage"


@pytest.fixture(autouse=True, params=["SendMessage", "message/send"], ids=["v1", "v0.3"])
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test in both protocol versions; in v0.3 the SDK converts the response to v1."""
    monkeypatch.setattr(sys.modules[__name__], "_dialect", request.param)
    return str(request.param)


async def ask(client: httpx.AsyncClient, text: str = "hi", **message: Any) -> dict[str, Any]:
    """Return the task of a blocking send."""
    answer = (await client.post("/", json=send(text, method=_dialect, **message))).json()
    assert "result" in answer, answer
    if _dialect == "SendMessage":
        task: dict[str, Any] = answer["result"]["task"]
        return task
    return MessageToDict(conversions.to_core_task(v03.Task.model_validate(answer["result"])))


def said(task: dict[str, Any]) -> str | None:
    message = task["status"].get("message")
    return "".join(part.get("text", "") for part in message["parts"]) if message else None


def echo(state: State) -> State:
    return {"messages": [AIMessage(f"echo {state['messages'][-1].text}")]}
