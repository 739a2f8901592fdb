"""Transactions of a graph's turn.

The first transaction stores the checkpoint before the first node. The result of a step with a single node is stored in the
transaction of the next checkpoint.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.channels import DeltaChannel
from langgraph.func import entrypoint
from langgraph.func import task as durable_task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from aion_core.table import keys
from aion_core.table.writes import Put, Update, Write
from tests.runtime.contract.driven import DrivenConversation
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.savers import Savers, begin, memory_savers


class WrittenTable:
    """Table that lists what each transaction stores: `state` for a checkpoint, `writes` for a LangGraph task's."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.written: list[list[str]] = []

    async def transact(self, writes: Sequence[Write], **options: Any) -> None:
        stored = [each for each in writes if isinstance(each, Put | Update) and each.key.partition.startswith("THREAD")]
        self.written.append(["writes" if keys.checkpoint_of(each.key.sort).task_id else "state" for each in stored])
        await self._table.transact(writes, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def leaves(name: str) -> Any:
    return lambda _: {"messages": [AIMessage(name)]}


def chain(**nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState).add_sequence(list(nodes.items()))
    return builder.add_edge(START, next(iter(nodes)))


def fan() -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    for name in "ab":
        builder.add_node(name, leaves(name)).add_edge(START, name)
    return builder


def asking() -> StateGraph[Any, Any, Any, Any]:
    return chain(a=leaves("a"), asks=lambda _: {"messages": [interrupt("Which?")]})


class Log(MessagesState):
    log: Annotated[
        list[str], DeltaChannel(lambda log, changes: [*log, *(each for change in changes for each in change)])
    ]


def rebuilt() -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log).add_node("a", leaves("a"))
    return builder.add_edge(START, "a")


def functional() -> Any:
    @durable_task
    async def one() -> str:
        return "one"

    @entrypoint()
    async def graph(given: Any) -> str:
        return await one()

    return graph


@each_row(
    ("graph", "expected"),
    [
        (lambda: chain(a=leaves("a")), [["state"], ["writes", "state"]]),
        (lambda: chain(a=leaves("a"), b=leaves("b")), [["state"], ["writes", "state"], ["writes", "state"]]),
        (fan, [["state"], ["writes"], ["writes"], ["state"]]),
        (asking, [["state"], ["writes", "state"], ["writes"]]),
        (rebuilt, [["state"], ["writes", "state"], ["writes", "state"]]),
        (functional, [["state"], ["writes"], ["writes", "state"]]),
    ],
)
async def test_result_and_checkpoint_of_single_node_are_stored_together(graph: Any, expected: list[list[str]]) -> None:
    clock = ManualClock()
    others = memory_savers(clock)
    table = WrittenTable(others.table)
    made = graph()
    conversation = DrivenConversation.of(await begin(others.tasks, clock))
    await conversation.run(
        made.compile() if isinstance(made, StateGraph) else made, Savers(others.tasks, table, others.blobs, clock)
    )
    assert table.written == expected
