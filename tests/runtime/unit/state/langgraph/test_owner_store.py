"""Store of a graph: aion's store for each turn, unless the author compiled the graph with a store."""

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedStore, ToolRuntime
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_store
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from aion_core.engine.call import CallContext
from aion_core.engine.runner import renewal
from aion_core.protocol.types import Task
from aion_core.state.langgraph.owner_store import OwnerStore
from tests.runtime.golden.graphs import ScriptedModel, asks_for
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http, parts, send

NS = ("said",)
State = dict[str, Any]


async def talk(graph: Any, *texts: str) -> list[tuple[str, str]]:
    """Send each message in a context of its own; return the state and the answer of each task."""
    answers = []
    async with http(parts(graph).app()) as client:
        for n, text in enumerate(texts):
            sent = send(text, message_id=f"m-{n}", contextId=f"c-{n}")
            task = (await client.post("/", json=sent)).json()["result"]["task"]
            answers.append((task["status"]["state"], task["status"]["message"]["parts"][0]["text"]))
    return answers


def said(state: State) -> str:
    return str(state["messages"][-1].text)


async def remember(store: BaseStore, text: str) -> State:
    before = [item.key for item in await store.asearch(NS)]
    await store.aput(NS, text, {"text": text})
    return {"messages": [AIMessage(f"{before}")]}


def remember_blocking(store: BaseStore, text: str) -> State:
    before = [item.key for item in store.search(NS)]
    store.put(NS, text, {"text": text})
    return {"messages": [AIMessage(f"{before}")]}


async def by_parameter(state: MessagesState, *, store: BaseStore) -> State:
    return await remember(store, said(dict(state)))


def by_parameter_blocking(state: MessagesState, *, store: BaseStore) -> State:
    return remember_blocking(store, said(dict(state)))


async def by_runtime(state: MessagesState, runtime: Runtime[Any]) -> State:
    assert runtime.store is not None
    return await remember(runtime.store, said(dict(state)))


def by_runtime_blocking(state: MessagesState, runtime: Runtime[Any]) -> State:
    assert runtime.store is not None
    return remember_blocking(runtime.store, said(dict(state)))


async def by_function(state: MessagesState) -> State:
    return await remember(get_store(), said(dict(state)))


def by_function_blocking(state: MessagesState) -> State:
    return remember_blocking(get_store(), said(dict(state)))


def one_node(node: Any) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")


def in_subgraph(node: Any) -> Any:
    return one_node(one_node(node).compile())


def called_subgraph(node: Any) -> Any:
    inner = one_node(node).compile()

    async def call(state: MessagesState) -> Any:
        return await inner.ainvoke(state)

    return one_node(call)


NODES = [
    by_parameter,
    by_parameter_blocking,
    by_runtime,
    by_runtime_blocking,
    by_function,
    by_function_blocking,
]


@each_row("graph", [one_node, in_subgraph, called_subgraph])
@each_row("node", NODES)
async def test_agent_reads_its_memory_in_another_context(graph: Callable[[Any], Any], node: Any) -> None:
    assert await talk(graph(node), "red", "blue") == [
        ("TASK_STATE_COMPLETED", "[]"),
        ("TASK_STATE_COMPLETED", "['red']"),
    ]


async def test_entrypoint_and_its_langgraph_tasks_use_one_store() -> None:
    @task
    async def keep(text: str) -> list[str]:
        store = get_store()
        await store.aput(NS, text, {})
        return [item.key for item in await store.asearch(NS)]

    @entrypoint()
    async def graph(given: State, *, store: BaseStore) -> str:
        before = [item.key for item in await store.asearch(NS)]
        return f"{before} {await keep(said(given))}"

    assert [answer for _, answer in await talk(graph, "red", "blue")] == ["[] ['red']", "['red'] ['blue', 'red']"]


class StoreModel(ScriptedModel):
    def bind_tools(self, tools: Any, **_: Any) -> "StoreModel":
        return self


async def test_tools_of_prebuilt_langgraph_agent_receive_store() -> None:
    @tool
    async def first(store: Annotated[Any, InjectedStore()]) -> str:
        """Store a value."""
        await store.aput(NS, "first", {})
        return "kept"

    @tool
    def second(runtime: ToolRuntime) -> str:
        """Store a second value."""
        assert runtime.store is not None
        runtime.store.put(NS, "second", {})
        return "kept"

    @tool
    async def look(runtime: ToolRuntime) -> str:
        """Read the stored values."""
        assert runtime.store is not None
        return str([item.key for item in await runtime.store.asearch(NS)])

    seen: list[str] = []

    async def check(state: MessagesState, *, store: BaseStore) -> State:
        seen.extend(item.key for item in await store.asearch(NS))
        return {"messages": [AIMessage(state["messages"][-2].text)]}

    scripts: list[list[Any]] = [
        [asks_for("first", "{}")],
        [asks_for("second", "{}")],
        [asks_for("look", "{}")],
        ["done"],
    ]
    agent = create_agent(StoreModel(scripts=scripts), [first, second, look])
    graph = StateGraph(MessagesState).add_node("agent", agent).add_node("check", check)
    graph.add_edge(START, "agent").add_edge("agent", "check")
    assert await talk(graph, "hi") == [("TASK_STATE_COMPLETED", "['first', 'second']")]
    assert seen == ["first", "second"]


async def test_prebuilt_agent_tool_reads_value_stored_by_earlier_turn() -> None:
    @tool
    async def look(store: Annotated[Any, InjectedStore()]) -> str:
        """Read the stored values, then store another one."""
        before = [item.key for item in await store.asearch(NS)]
        await store.aput(NS, f"n{len(before)}", {})
        seen.append(before)
        return "looked"

    seen: list[list[str]] = []
    scripts: list[list[Any]] = [[asks_for("look", "{}")], ["done"]] * 2
    await talk(create_agent(StoreModel(scripts=scripts), [look]), "hi", "hi")
    assert seen == [[], ["n0"]]


async def test_graph_uses_store_that_its_author_configured() -> None:
    own = InMemoryStore()
    graph = one_node(by_parameter).compile(store=own)
    assert [answer for _, answer in await talk(graph, "red", "blue")] == ["[]", "['red']"]
    assert [item.key for item in own.search(NS)] == ["red", "blue"]
    assert graph.store is own


async def test_subgraph_with_own_store_uses_store_of_served_graph() -> None:
    """LangGraph itself passes a graph's store to its subgraphs."""
    own = InMemoryStore()
    graph = one_node(one_node(by_parameter).compile(store=own))
    assert [answer for _, answer in await talk(graph, "red", "blue")] == ["[]", "['red']"]
    assert own.search(()) == []


async def test_serving_graph_does_not_set_store_attribute_of_graph() -> None:
    graph = one_node(by_parameter).compile()
    await talk(graph, "red")
    assert graph.store is None


async def test_two_apps_serving_one_graph_share_no_memory() -> None:
    graph = one_node(by_parameter).compile()
    for _ in range(2):
        assert await talk(graph, "red") == [("TASK_STATE_COMPLETED", "[]")]


async def test_error_of_blocking_store_call_suggests_async_method() -> None:
    raised: list[str] = []

    async def node(state: MessagesState, *, store: BaseStore) -> State:
        with pytest.raises(asyncio.InvalidStateError) as error:
            store.put(NS, "k", {})
        raised.append(str(error.value))
        return {"messages": [AIMessage("done")]}

    assert await talk(one_node(node), "hi") == [("TASK_STATE_COMPLETED", "done")]
    assert "`await store.aput(...)`" in raised[0]


async def test_parallel_nodes_write_memory_concurrently() -> None:
    graph = StateGraph(MessagesState)
    for n in range(8):

        async def put(state: MessagesState, *, store: BaseStore, n: int = n) -> None:
            await store.aput(NS, f"async {n}", {})

        def put_blocking(state: MessagesState, *, store: BaseStore, n: int = n) -> None:
            store.put(NS, f"sync {n}", {})

        graph.add_node(f"a{n}", put).add_node(f"s{n}", put_blocking)
        graph.add_edge(START, f"a{n}").add_edge(START, f"s{n}")

    async def look(state: MessagesState, *, store: BaseStore) -> State:
        return {"messages": [AIMessage(str(len(await store.asearch(NS, limit=100))))]}

    graph.add_node("look", look)
    graph.add_edge([f"{kind}{n}" for kind in "as" for n in range(8)], "look")
    assert await talk(graph, "hi") == [("TASK_STATE_COMPLETED", "16")]


async def test_node_of_canceled_task_cannot_write_to_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel a synchronous node: its thread cannot be stopped, but its later memory write is refused."""
    monkeypatch.setattr(renewal, "WATCH_SECONDS", 0.05)
    loop, began, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    outcome: queue.Queue[str] = queue.Queue()

    def node(state: MessagesState, *, store: BaseStore) -> State:
        if said(dict(state)) == "slow":
            loop.call_soon_threadsafe(began.set)
            go.wait(60)
            try:
                store.put(NS, "late", {})
            except Exception as error:
                outcome.put(type(error).__name__)
            else:
                outcome.put("written")
        return {"messages": [AIMessage(str([item.key for item in store.search(NS)]))]}

    made = parts(one_node(node), lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.service.send(call, request("slow", context_id="c-1")))
    await asyncio.wait_for(began.wait(), 60)
    [key] = made.store.task_keys()  # type: ignore[attr-defined]
    await made.service.cancel(call, key.task_id)
    await asyncio.wait_for(sending, 60)
    for message_id in ("m-2", "m-3"):
        answer = await made.service.send(call, request("quick", message_id=message_id, context_id="c-1"))
        assert isinstance(answer, Task)
        assert answer.status.message.parts[0].text == "[]"
        if not go.is_set():
            go.set()
            assert await asyncio.to_thread(outcome.get, timeout=60) == "LeaseLost"


@dataclass
class StoredThing:
    x: int


async def test_task_fails_if_node_stores_value_without_json_form() -> None:
    async def node(state: MessagesState, *, store: BaseStore) -> State:
        await store.aput(NS, "k", {"x": object()})
        return {}

    [(state, text)] = await talk(one_node(node), "hi")
    assert state == "TASK_STATE_FAILED"
    assert "Type is not JSON serializable: object" in text


async def test_node_receives_owner_store_that_accepts_a_ttl() -> None:
    async def node(state: MessagesState, *, store: BaseStore) -> State:
        assert isinstance(store, OwnerStore)
        await store.aput(NS, "k", {"at": StoredThing(1)}, ttl=5)
        item = await store.aget(NS, "k")
        assert item is not None
        return {"messages": [AIMessage(str(item.value))]}

    assert await talk(one_node(node), "hi") == [("TASK_STATE_COMPLETED", "{'at': {'x': 1}}")]
