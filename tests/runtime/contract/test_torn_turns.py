"""A conversation has the same result if its connection is cut before any one request.

The conversations have emissions, replies in the state, and interrupts. A new agent resumes the turn with the recorded
log.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from langchain_core.runnables import RunnableConfig

from aion_core.engine.agent import Reply
from aion_core.engine.outcomes import TurnStarted
from aion_core.errors import LeaseLost, StoreError, StoreUnavailable
from aion_core.table import keys
from aion_core.table.keys import thread_id
from aion_core.table.port import Table
from aion_core.table.writes import SingleWrite, Write
from tests.runtime.contract.driven import DrivenConversation
from tests.runtime.contract.turns import ANSWERS, GRAPHS, Work
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import CuttableConnection, DynamoDBSavers, Savers, begin, memory_savers, taken_over

pytestmark = pytest.mark.timeout(300)


class Cut(Protocol):
    """Connection that can be cut before any request, until `restart`."""

    is_cut: bool

    def restart(self, cut_at: int | None = None) -> None: ...


class WriteLine(CuttableConnection):
    """Connection that can be cut before a write of the savers or of the log, but not before a read."""

    def _before_call(self, model: Any, params: Any, **_: Any) -> None:
        if self.is_cut or model.name != "Query":
            super()._before_call(model, params)


class Writes:
    """Writes of savers to a memory table, in order."""

    is_cut = False

    def restart(self, cut_at: int | None = None) -> None:
        self._count, self.is_cut, self._cut_at = 0, False, cut_at

    def request(self) -> None:
        self._count += 1
        self.is_cut = self.is_cut or self._count == self._cut_at
        if self.is_cut:
            raise StoreUnavailable("The line is cut.")


class CutTable:
    """Table with writes over a connection that may be cut."""

    def __init__(self, table: Table, line: Writes) -> None:
        self._table, self._line = table, line

    async def write(self, write: SingleWrite, **options: Any) -> Any:
        self._line.request()
        return await self._table.write(write, **options)

    async def transact(self, writes: Sequence[Write], **options: Any) -> None:
        self._line.request()
        await self._table.transact(writes, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


async def held(conversation: DrivenConversation, graph: Any, savers: Savers, *, last_first: bool = False) -> None:
    """Run the conversation until it needs no answer; with `last_first`, answer the last of several interrupts first."""
    while True:
        if isinstance(await conversation.run(graph, savers), Reply):
            return
        asks = list(conversation.asks.items())
        question, interrupt_id = asks[-1 if last_first else 0]
        await conversation.answer(ANSWERS[question], interrupt_id)


async def result(conversation: DrivenConversation, graph: Any, savers: Savers) -> dict[str, Any]:
    """Return the task as its client sees it, and the state as the graph's author sees it."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id(conversation.begun.lease.context)}}
    copy = graph.copy(update={"checkpointer": savers.saver()})
    state = await copy.aget_state(config)
    values = state.values if isinstance(state.values, dict) else {"messages": state.values}
    texts = [message.text for message in values.get("messages", [])]
    told = conversation.told
    return {
        "answer": told[-1],
        "told": sorted(told),
        "messages": sorted(conversation.messages),
        "state": {**values, "messages": texts, "trail": sorted(values.get("trail", []))},
        "left": state.tasks,
    }


AT_ONCE = {
    "parallel": {"a", "b", "c"},
    "answering_beside_asking": {"a", "x"},
    "asking_side_by_side": {"x", "y", "z"},
    "functional": {"one", "two"},
}
"""Nodes of one super-step, all of which may run again."""


async def swept(
    name: str, line: Cut, cut: Savers, others: Savers, clock: ManualClock, cost: Any, *, last_first: bool = False
) -> tuple[int, Any]:
    """Repeat the conversation, each time cut at a later request; return the number of cuts and the failures by cut."""
    conversation = DrivenConversation.of(await begin(others.tasks, clock))
    graph = GRAPHS[name](Work())
    await held(conversation, graph, others, last_first=last_first)
    right = await result(conversation, graph, others)
    wrong: dict[int, list[str]] = {}
    for at in itertools.count(1):
        first, second = Work(), Work()
        conversation = DrivenConversation.of(await begin(others.tasks, clock))
        conversation.before_recording = cost(conversation.begun)
        problems: list[str] = []
        line.restart(at)
        try:
            await held(conversation, GRAPHS[name](first), cut, last_first=last_first)
        except (LeaseLost, StoreError):
            pass
        except Exception as error:  # report every other error, because it would fail the turn
            problems.append(f"the agent raised {error!r}")
        if not line.is_cut:
            return at - 1, wrong
        line.restart()
        conversation.taken_over(await taken_over(others, clock, conversation.begun))
        await held(conversation, graph := GRAPHS[name](second), others, last_first=last_first)
        ended = await result(conversation, graph, others)
        problems += [f"{key}: {ended[key]}, not {right[key]}" for key in right if ended[key] != right[key]]
        again = [*(first.done & second.done).elements()]
        if len(again) > 1 and not {*again} <= AT_ONCE.get(name, set()):
            problems.append(f"more than a super-step ran again: {again}")
        if problems:
            wrong[at] = problems
    raise AssertionError


SIMPLE = {"replying", "four_nodes", "parallel", "tool_loop", "asking", "asking_in_a_tool", "functional", "with_outbox"}
"""Graphs with one structure each: the others combine these."""


@pytest.mark.parametrize(
    ("name", "last_first"),
    [
        *(pytest.param(name, False, marks=[pytest.mark.deep] * (name not in SIMPLE)) for name in GRAPHS),
        ("asking_side_by_side", True),
    ],
)
async def test_turn_result_is_unchanged_if_process_dies_before_any_write(
    name: str, last_first: bool, clock: ManualClock
) -> None:
    others, writes = memory_savers(clock), Writes()

    def cost(begun: TurnStarted) -> Any:
        async def record() -> None:
            writes.request()

        return record

    cut = Savers(others.tasks, CutTable(others.table, writes), others.blobs, clock)
    points, wrong = await swept(name, writes, cut, others, clock, cost, last_first=last_first)
    print(f"{name}: {points} points")
    assert wrong == {}
    assert points >= 5


@pytest.mark.long
# Run `asking_within` only in `deep`, like test_torn_writes.py, which cuts interrupted turns at each request.
@pytest.mark.parametrize("name", ["replying", pytest.param("asking_within", marks=pytest.mark.deep)])
async def test_turn_result_is_unchanged_if_process_dies_before_dynamodb_write(
    name: str, stack: Stack, clock: ManualClock
) -> None:
    savers, others = DynamoDBSavers(stack, clock), DynamoDBSavers(stack, clock)

    def cost(begun: TurnStarted) -> Any:
        async def record() -> None:
            await savers.table.get(keys.message_key(begun.lease.context, "log"))

        return record

    points, wrong = await swept(name, WriteLine(savers.client), savers, others, clock, cost)
    print(f"{name}: {points} points")
    assert wrong == {}
    assert points >= 10
