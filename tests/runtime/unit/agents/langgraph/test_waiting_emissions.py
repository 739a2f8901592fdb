"""Emissions of a node that wait at the same time: they share transactions, and none is held back."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_data, emit_message
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.clock import SystemClock
from aion_core.engine.call import CallContext
from aion_core.engine.records import Head, Lease
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.protocol.types import Event, Task
from aion_core.state.langgraph.checkpoints import TableSaver
from tests.support.requests import request
from tests.support.service import parts
from tests.support.stores import MemoryTaskStore

State = dict[str, Any]


class CountingStore(MemoryTaskStore):
    """Task store that counts the events of each transaction."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.sizes: list[int] = []
        self.saver = partial(TableSaver, self.table, MemoryBlobs(), self.clock, retention=timedelta(days=30))

    async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
        head = await super().append(lease, head, *events, keys=keys)
        self.sizes.append(len(events))
        return head


def talkative(state: State, writer: StreamWriter) -> State:
    for number in range(30):
        emit_message(writer, AIMessage(f"word {number}"))
        emit_data(writer, {"n": number}, name=f"data {number}")
    return {"messages": [AIMessage("Done.")]}


def graph_of(node: Callable[..., Any], saver: Any = None) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(saver)


async def task_of(agent: LangGraphAgent, store: MemoryTaskStore) -> Task:
    task = await parts(agent, store).service.send(CallContext("owner", "test"), request())
    assert isinstance(task, Task)
    return task


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "without a checkpointer"])
async def test_emissions_of_node_share_transactions_in_order(durable: bool) -> None:
    store = CountingStore()
    agent = LangGraphAgent(graph_of(talkative), store.saver if durable else None)
    task = await task_of(agent, store)
    said = [message.parts[0].text for message in task.history if message.parts[0].text.startswith("word")]
    assert said == [f"word {number}" for number in range(30)]
    assert [artifact.name for artifact in task.artifacts] == [f"data {number}" for number in range(30)]
    assert sum(store.sizes) == 60
    assert len(store.sizes) < 10


async def test_own_checkpointer_stores_no_step_before_its_emissions() -> None:
    """LangGraph does not wait for an author's checkpointer: the graph must not run ahead of the log."""
    store = CountingStore()
    await task_of(LangGraphAgent(graph_of(talkative, InMemorySaver())), store)
    assert store.sizes == [1] * 60


async def test_emission_is_recorded_while_its_node_goes_on() -> None:
    store = CountingStore()

    async def patient(state: State, writer: StreamWriter) -> State:
        emit_message(writer, AIMessage("One moment."))
        emit_message(writer, AIMessage("I look it up."))
        async with asyncio.timeout(30):
            while not store.sizes:
                await asyncio.sleep(0.01)
        return {"messages": [AIMessage("Found.")]}

    task = await task_of(LangGraphAgent(graph_of(patient), store.saver), store)
    assert task.status.message.parts[0].text == "Found."
    assert store.sizes == [2]


async def test_failure_of_node_comes_after_its_emissions() -> None:
    store = CountingStore()

    def fails(state: State, writer: StreamWriter) -> State:
        talkative(state, writer)
        raise ValueError("broken")

    task = await task_of(LangGraphAgent(graph_of(fails), store.saver), store)
    assert sum(store.sizes) == 60
    assert len(task.artifacts) == 30
