"""A turn cut before any one request and resumed by another lease holder has the same result."""

import asyncio
import itertools
import operator
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import boto3
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import Command, Interrupt, Send, StateSnapshot, interrupt

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import SystemClock
from aion_core.engine.fenced_writes import Fence
from aion_core.engine.outcomes import TurnStarted
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.table import keys
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import CuttableConnection, DynamoDBSavers, begin, fence_of, taken_over

KILLED = 7


class Shop(TypedDict):
    bought: Annotated[list[str], operator.add]


class TornState(Shop):
    messages: Annotated[list[AnyMessage], add_messages]
    trail: Annotated[list[str], operator.add]
    known: Annotated[dict[str, str], operator.or_]


STEPS = [{"plan"}, {"search"}, {"fetch 0", "fetch 1"}, {"ask", "pay", "note"}, {"answer"}]
"""Nodes of each super-step; `ask` and `pay` are in a subgraph, which is one node."""

ANSWERS = {"which one?": "the red one", "sure?": "yes"}


class TornWork:
    """Graph that records which of its nodes have completed."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def graph(self, saver: BaseCheckpointSaver[Any]) -> Any:
        shop: Any = StateGraph(Shop)
        shop.add_node("ask", self._ask)
        shop.add_node("pay", self._pay)
        shop.add_edge(START, "ask")
        shop.add_edge("ask", "pay")

        builder: Any = StateGraph(TornState)
        for name in ("plan", "search", "note", "answer"):
            builder.add_node(name, self._node(name))
        builder.add_node("fetch", self._fetch)
        builder.add_node("shop", shop.compile())
        builder.add_edge(START, "plan")
        builder.add_conditional_edges("plan", lambda state: "search" if "plan" in state["known"] else "answer")
        builder.add_conditional_edges("search", lambda _: [Send("fetch", page) for page in range(2)])
        builder.add_edge("fetch", "shop")
        builder.add_edge("fetch", "note")
        builder.add_edge(["shop", "note"], "answer")
        return builder.compile(saver)

    def _node(self, name: str) -> Any:
        async def node(_: TornState) -> Any:
            self.done.append(name)
            # Write three channels, so that the test detects a reader that finds only some of these writes.
            return {"messages": [AIMessage(name)], "trail": [name], "known": {name: "…"}}

        return node

    async def _fetch(self, page: int) -> Any:
        self.done.append(f"fetch {page}")
        return {"trail": [f"fetch {page}"], "known": {f"page {page}": "…"}}

    async def _ask(self, _: Shop) -> Any:
        heard = [interrupt(question) for question in ANSWERS]
        self.done.append("ask")
        return {"bought": heard}

    async def _pay(self, _: Shop) -> Any:
        self.done.append("pay")
        return {"bought": ["paid"]}


def turn_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}, "metadata": {"run_id": "turn-1"}}


async def run(graph: Any, config: Any) -> Any:
    """Run or resume the turn to its end, answer its interrupts, and return the state."""
    while True:
        state = await graph.aget_state(config, subgraphs=True)
        if state.created_at and not state.tasks and state.metadata["run_id"] == "turn-1":
            return summary(state.values)
        answers = {question.id: ANSWERS[question.value] for question in questions(state)}
        # Send a message without an id: the graph would merge a message that is added twice under one id.
        given: Any = Command(resume=answers) if answers else {"messages": [HumanMessage("hi")], "trail": ["turn"]}
        async for _ in graph.astream(given, config, durability="sync"):
            pass


def questions(state: StateSnapshot) -> Iterator[Interrupt]:
    """Yield the interrupts of the innermost graphs.

    A subgraph's interrupt is stored with the subgraph, then with its parent node. A turn cut between the two
    leaves an answered interrupt in the parent; LangGraph would take its answer for the next one.
    """
    for task in state.tasks:
        yield from questions(task.state) if isinstance(task.state, StateSnapshot) else task.interrupts


def summary(values: Any) -> Any:
    return {**values, "messages": [message.content for message in values["messages"]]}


@pytest.fixture
async def right() -> Any:
    """Return the state after a turn without a cut."""
    return await run(TornWork().graph(InMemorySaver()), turn_of("t"))


@pytest.mark.deep
@pytest.mark.long
async def test_turn_result_is_unchanged_if_process_dies_before_any_request(
    stack: Stack, clock: ManualClock, right: Any
) -> None:
    savers, others = DynamoDBSavers(stack, clock), DynamoDBSavers(stack, clock)
    line = CuttableConnection(savers.client)
    wrong: dict[int, list[str]] = {}
    for at in itertools.count(1):
        line.restart(at)
        problems = await cut_off(savers, line, others, clock, right)
        if not line.is_cut:
            break
        if problems:
            wrong[at] = problems
    assert wrong == {}
    assert at > 40  # fewer requests mean that the graph has changed


async def cut_off(
    savers: DynamoDBSavers, line: CuttableConnection, others: DynamoDBSavers, clock: ManualClock, right: Any
) -> list[str]:
    """Cut the connection during a turn and let another holder end it; return the differences from an uncut turn."""
    begun = await begin(others.tasks, clock)
    config = turn_of(str(uuid4()))
    first, second = TornWork(), TornWork()
    recorded: list[str] = []

    async def log_first() -> None:
        news = [*first.done]
        if news != recorded:
            # Send an extra request before the emissions are recorded, so that the test can also cut the turn there.
            await savers.table.get(keys.message_key(begun.lease.context, "log"))
            recorded[:] = news

    with suppress(StoreUnavailable):
        await run(first.graph(savers.saver(fence=fence_of(begun), log_first=log_first)), config)
    taken = await taken_over(others, clock, begun)
    ended = await run(second.graph(others.saver(fence=fence_of(taken))), config)

    again = {*first.done} & {*second.done}
    problems = []
    if ended != right:
        problems.append(f"it ended as {ended}")
    if not any(again <= step for step in STEPS):
        problems.append(f"more than a super-step ran again: {again}")
    if unheard := {*first.done} - {*second.done} - {*recorded}:
        problems.append(f"nobody recorded what these emitted, and they never run again: {unheard}")
    return problems


@pytest.mark.deep
@pytest.mark.long
async def test_turn_result_is_unchanged_if_its_process_is_killed(stack: Stack, clock: ManualClock, right: Any) -> None:
    savers = DynamoDBSavers(stack, clock)
    killed = await asyncio.gather(*(die(stack, savers, clock, at) for at in (6, 17, 28)))
    for begun, config in killed:
        taken = await taken_over(savers, clock, begun)
        assert await run(TornWork().graph(savers.saver(fence=fence_of(taken))), config) == right


async def die(stack: Stack, savers: DynamoDBSavers, clock: ManualClock, at: int) -> tuple[TurnStarted, Any]:
    """Begin a turn in a new process that is killed before its request number `at`."""
    begun = await begin(savers.tasks, clock)
    thread_id = str(uuid4())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, savers.table_name, begun.lease.context.owner, str(begun.lease.fence)),
        *(thread_id, str(at)),
        env={**os.environ, **stack.environment("ApiFunction")},
    )
    assert await process.wait() == KILLED
    return begun, turn_of(thread_id)


async def main(table: str, owner: str, fence: str, thread_id: str, at: str) -> None:
    client = boto3.client("dynamodb")
    CuttableConnection(client, cut_at=int(at), cut=lambda: os._exit(KILLED))
    saver = TableSaver(
        DynamoDBTable(AwsClient("dynamodb", ThreadPoolExecutor(4), client=client), name=table),
        MemoryBlobs(),
        SystemClock(),
        fence=Fence(ContextKey(owner, "echo", "c-1"), int(fence)),
    )
    await run(TornWork().graph(saver), turn_of(thread_id))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
