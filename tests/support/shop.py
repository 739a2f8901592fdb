"""Deployments of one LangGraph agent, each with its own sources, in the test's process and with one store."""

import sys
from types import ModuleType
from typing import Any

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.clock import Clock
from tests.support.savers import Savers
from tests.support.service import http, parts, send

MODELS = "class Order(BaseModel):\n    item: str\n    count: int\n"

HEAD = """
import dataclasses, enum, operator
from typing import Annotated, Any, TypedDict
from langgraph.channels import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Send, interrupt
from pydantic import BaseModel
"""

GRAPH = """
class State(TypedDict):
    messages: Annotated[list, add_messages]
    order: Order | None

def take(state):
    return {"order": Order(item="lamp", count=3)} if state.get("order") is None else {}

def ask(state):
    return {"messages": [("ai", f"{interrupt('Confirm?')}: {state['order']!r}")]}

graph = StateGraph(State).add_node("take", take).add_node("ask", ask)
graph = graph.add_edge(START, "take").add_edge("take", "ask").add_edge("ask", END).compile()
"""
"""The graph of an order that waits for its confirmation."""


class Shop:
    """Deployments of one agent, by the sources of its modules, with one store."""

    def __init__(self, savers: Savers, clock: Clock) -> None:
        self._savers, self._clock = savers, clock
        self._modules: list[str] = []

    def deploy(self, agent: str, **sources: str) -> None:
        """Replace the agent's modules: those with `sources`, then `shop_agent`."""
        self.close()
        for name, source in {**sources, "shop_agent": agent}.items():
            module = sys.modules[name] = ModuleType(name)
            self._modules.append(name)
            exec(HEAD + source, vars(module))  # noqa: S102

    async def says(self, text: str, **message: Any) -> dict[str, Any]:
        """Send a message to the deployed agent, and return its task."""
        module = sys.modules["shop_agent"]
        agent = LangGraphAgent(vars(module)["graph"], self._savers.saver, module=module)
        async with http(parts(agent, self._savers.tasks, self._clock, blocking_wait=1e9).app()) as client:
            answer = await client.post("/", json=send(text, **message))
            task: dict[str, Any] = answer.json()["result"]["task"]
            return task

    def close(self) -> None:
        for name in self._modules:
            sys.modules.pop(name, None)
        self._modules.clear()


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"].removeprefix("TASK_STATE_"))


def text(task: dict[str, Any]) -> str:
    return str(task["status"]["message"]["parts"][0].get("text"))


def importing(place: str, graph: str = GRAPH) -> str:
    return f"from {place} import Order\n{graph}"


async def waiting(shop: Shop, graph: str = GRAPH, models: str = MODELS) -> dict[str, Any]:
    """Deploy the first version, send a message, and return the task that waits for its answer."""
    shop.deploy(importing("shop_models", graph), shop_models=models)
    task = await shop.says("hi", message_id="m-1")
    assert state(task) == "INPUT_REQUIRED", task["status"]
    return task
