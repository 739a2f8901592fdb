"""Agent code that would end the process fails its own task, from any place in a graph."""

import asyncio
import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint
from langgraph.func import task as durable_task
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages

from aion_core.engine.process.exits import exit_guard
from aion_core.errors import AgentFailed
from tests.runtime.golden.graphs import ScriptedModel, asks_for
from tests.support.rows import each_row
from tests.support.service import http, parts, send

State = dict[str, Any]


class ExitModel(ScriptedModel):
    def bind_tools(self, tools: Any, **_: Any) -> "ExitModel":
        return self


def exits(*_: Any) -> Any:
    sys.exit(3)


async def exits_later(*_: Any) -> Any:
    await asyncio.sleep(0)
    sys.exit(3)


def is_interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def one_node(node: Any, schema: Any = MessagesState) -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(schema).add_node("node", node).add_edge(START, "node")


def answers(state: State) -> State:
    return {"messages": [AIMessage("here")]}


def in_a_tool(asynchronous: bool) -> Any:
    @tool
    def leave() -> str:
        """End the process."""
        return str(exits())

    @tool
    async def leave_later() -> str:
        """Wait a moment, then end the process."""
        return str(await exits_later())

    leaves = leave_later if asynchronous else leave
    return create_agent(ExitModel(scripts=[[asks_for(leaves.name, "{}")], ["done"]]), [leaves])


def in_a_subgraph_that_a_node_calls() -> Any:
    inner = one_node(exits).compile()

    async def node(state: State) -> Any:
        return await inner.ainvoke(state)

    return one_node(node)


def in_a_conditional_edge() -> Any:
    return one_node(answers).add_conditional_edges("node", exits, ["node", END])


def in_one_of_two_nodes() -> Any:
    return one_node(exits_later).add_node("other", answers).add_edge(START, "other")


def in_a_task_of_a_functional_graph(work: Callable[..., Any]) -> Any:
    leaves = durable_task(work)

    @entrypoint()
    async def graph(given: Any) -> Any:
        return await leaves(given)

    return graph


def in_a_reducer() -> Any:
    class ReducedState(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        held: Annotated[int, lambda held, given: exits()]

    return one_node(lambda state: {"held": 1}, ReducedState)


def in_what_a_node_gathers() -> Any:
    async def node(state: State) -> Any:
        await asyncio.gather(exits_later(), asyncio.sleep(0))

    return one_node(node)


PLACES: dict[str, Callable[[], Any]] = {
    "a node": lambda: one_node(exits),
    "an async node": lambda: one_node(exits_later),
    "a node, by the keyboard": lambda: one_node(is_interrupted),
    "one of two nodes": in_one_of_two_nodes,
    "a tool": lambda: in_a_tool(False),
    "an async tool": lambda: in_a_tool(True),
    "a subgraph": lambda: one_node(one_node(exits).compile()),
    "a subgraph that a node calls": in_a_subgraph_that_a_node_calls,
    "a conditional edge": in_a_conditional_edge,
    "a conditional edge at the start": lambda: (
        StateGraph(MessagesState).add_node("node", answers).add_conditional_edges(START, exits, ["node"])
    ),
    "a task": lambda: in_a_task_of_a_functional_graph(exits),
    "an async task": lambda: in_a_task_of_a_functional_graph(exits_later),
    "a reducer": in_a_reducer,
    "what a node gathers": in_what_a_node_gathers,
}


@each_row("place", PLACES)
@each_row("method", ["SendMessage", "message/send"])
async def test_agent_that_exits_process_fails_only_its_task(place: str, method: str) -> None:
    async with http(parts(PLACES[place]()).app()) as client:
        answer = (await client.post("/", json=send(method=method))).json()["result"]
    status = answer.get("task", answer)["status"]
    assert status["state"] in ("TASK_STATE_FAILED", "failed")
    assert status["message"]["parts"][0]["text"] == "The agent tried to end its process."


# ── Code outside of the guard ─────────────────────────────────────────────────────────────────────────────────────────


async def test_exit_guard_covers_only_asyncio_tasks_of_turns() -> None:
    loop = asyncio.get_running_loop()
    go_on = asyncio.Event()

    async def turn() -> str:
        with exit_guard():
            await go_on.wait()
            return type(asyncio.create_task(asyncio.sleep(0)).get_coro()).__name__

    turns = [asyncio.create_task(turn()) for _ in range(2)]
    await asyncio.sleep(0)
    beside = asyncio.create_task(asyncio.sleep(0))
    assert asyncio.iscoroutine(beside.get_coro())
    assert type(beside.get_coro()).__name__ == "coroutine"
    go_on.set()
    assert await asyncio.gather(*turns) == ["_GuardedCoroutine", "_GuardedCoroutine"]
    assert loop.get_task_factory() is None


async def test_exit_guard_uses_existing_asyncio_task_factory() -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        made.append(type(work).__name__)
        return asyncio.Task(work, loop=loop, **options)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        with exit_guard(), pytest.raises(AgentFailed):
            await asyncio.create_task(exits_later(), name="mine")
        assert made == ["_GuardedCoroutine"]
        assert loop.get_task_factory() is factory
    finally:
        loop.set_task_factory(None)


async def test_exit_guard_keeps_asyncio_task_factory_set_later() -> None:
    loop = asyncio.get_running_loop()
    with exit_guard():
        ours: Any = loop.get_task_factory()
        loop.set_task_factory(lambda loop, work, **options: ours(loop, work, **options))
        around = loop.get_task_factory()
    try:
        assert loop.get_task_factory() is around
        assert await asyncio.create_task(asyncio.sleep(0, "made")) == "made"
    finally:
        loop.set_task_factory(None)


async def test_guarded_asyncio_task_returns_and_cancels_normally() -> None:
    with exit_guard():
        cancelled = asyncio.create_task(asyncio.sleep(60))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await asyncio.create_task(asyncio.sleep(0, 3)) == 3


async def test_exit_guard_ends_if_garbage_collector_closes_turn() -> None:
    """The garbage collector closes an abandoned turn in another context: the guard must still remove itself."""

    async def turn() -> None:
        with exit_guard():
            await asyncio.Future()

    abandoned = turn()
    copy_context().run(abandoned.send, None)
    assert asyncio.get_running_loop().get_task_factory() is not None
    abandoned.close()
    assert asyncio.get_running_loop().get_task_factory() is None
