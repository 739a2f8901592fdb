"""A turn that is drained at each step and resumed in another process has the same result as an undrained turn."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from aion_core.engine.agent import InputRequired, Paused, Reply
from tests.runtime.contract.driven import DrivenConversation
from tests.runtime.contract.turns import ANSWERS, GRAPHS, Work
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import DynamoDBSavers, Savers, begin, memory_savers


@pytest.fixture
def savers(adapter: Stack | None, clock: ManualClock) -> Savers:
    return DynamoDBSavers(adapter, clock) if adapter else memory_savers(clock)


async def held(graph: str, savers: Savers, clock: ManualClock, work: Work) -> tuple[DrivenConversation, int]:
    """Run the conversation until its last turn ends; return it with the number of handoffs."""
    conversation = DrivenConversation.of(await begin(savers.tasks, clock))
    handoffs = 0
    while True:
        work.drain = asyncio.Event()
        ending = await conversation.run(GRAPHS[graph](work), savers, work.drain)
        if isinstance(ending, Reply):
            return conversation, handoffs
        if isinstance(ending, Paused):
            handoffs += 1
            assert handoffs < 20, "it does not get on"
        elif isinstance(ending, InputRequired):
            question, interrupt_id = next(iter(conversation.asks.items()))
            await conversation.answer(ANSWERS[question], interrupt_id)


HANDOFFS = {
    "four_nodes": 3,
    "replying": 2,
    "streaming": 2,
    "streaming_into_messages": 1,
    "streaming_twice": 3,
    "emitting_chunks": 1,
    "with_outbox": 1,
    "nested": 4,
    "streaming_within": 2,
    "structured_within": 2,
    "returning_together": 1,
    "returning_within": 2,
    "planning": 3,
    "declaring": 3,
    "ending_with_a_tool": 2,
    "parallel": 1,
    "tool_loop": 2,
    "functional": 0,
    "asking": 3,
    "answering_then_asking": 3,
    "answering_beside_asking": 1,
    "asking_within": 3,
    "asking_then_streaming": 3,
    "asking_deep_within": 0,
    "asking_in_a_tool": 3,
    "reviewed": 3,
    "asking_side_by_side": 1,
}


@pytest.mark.long
@pytest.mark.parametrize("graph", GRAPHS)
async def test_result_is_unchanged_if_turn_is_suspended_after_each_step(
    graph: str, savers: Savers, clock: ManualClock
) -> None:
    """Expect that every node runs once, every message is emitted once, and the answer is that of an undrained turn."""
    undrained, draining = Work(), Work(drains=True)
    right, none = await held(graph, savers, clock, undrained)
    conversation, handoffs = await held(graph, savers, clock, draining)
    assert (none, handoffs) == (0, HANDOFFS[graph])
    assert draining.done == undrained.done
    assert sorted(conversation.told) == sorted(right.told)
    assert conversation.told[-1] == right.told[-1]
    assert len({*conversation.keys}) == len(conversation.keys)
    assert sorted(conversation.messages) == sorted(right.messages)
    assert spoken(conversation) == spoken(right)
    if graph != "parallel":
        assert conversation.told == right.told


def spoken(conversation: DrivenConversation) -> list[str]:
    """Return the streamed texts of the model calls."""
    texts: dict[str, str] = {}
    for chunk in conversation.chunks:
        texts[chunk.message_id] = texts.get(chunk.message_id, "") + chunk.text
    return sorted(texts.values())


async def test_graph_state_contains_client_message_once(clock: ManualClock) -> None:
    savers, seen = memory_savers(clock), list[Any]()

    async def looks(state: Any) -> Any:
        seen.append([message.text for message in state["messages"]])
        return {}

    def graph(work: Work) -> Any:
        builder = GRAPHS["four_nodes"](work).builder
        builder.add_node("looks", looks)
        builder.add_edge("ends", "looks")
        return builder.compile()

    work = Work(drains=True)
    conversation = DrivenConversation.of(await begin(savers.tasks, clock))
    while isinstance(await conversation.run(graph(work), savers, work.drain), Paused):
        work.drain = asyncio.Event()
    assert seen == [["hi", "the answer "]]


@pytest.mark.parametrize("name", ["four_nodes", "streaming", "streaming_within", "with_outbox"])
async def test_graph_with_own_checkpointer_can_be_suspended_between_steps(name: str, clock: ManualClock) -> None:
    savers, own = memory_savers(clock), InMemorySaver()
    right, _ = await held(name, savers, clock, Work())
    conversation, handoffs = DrivenConversation.of(await begin(savers.tasks, clock)), 0
    while True:
        work = Work(drains=True)
        graph = GRAPHS[name](work).copy(update={"checkpointer": own})
        if isinstance(await conversation.run(graph, savers, work.drain), Reply):
            break
        handoffs += 1
    assert handoffs == HANDOFFS[name]
    assert conversation.told == right.told


async def test_graph_without_checkpointer_is_not_suspended(clock: ManualClock) -> None:
    work = Work(drains=True)
    conversation = DrivenConversation.of(await begin(memory_savers(clock).tasks, clock))

    from aion_core.agents.langgraph.agent import LangGraphAgent
    from aion_core.engine.agent import TurnRequest

    asked = TurnRequest(
        conversation.begun.lease.context,
        conversation.turn,
        1,
        conversation.task,
        conversation.message,
        drain=work.drain,
    )
    said = [emission async for emission in LangGraphAgent(GRAPHS["four_nodes"](work)).run(asked)]
    assert isinstance(said[-1], Reply)
    assert work.drain.is_set()


async def test_turn_suspended_before_its_start_runs_no_graph_node(clock: ManualClock) -> None:
    savers, work = memory_savers(clock), Work()
    conversation = DrivenConversation.of(await begin(savers.tasks, clock))
    work.drain.set()
    for _ in range(2):
        assert isinstance(await conversation.run(GRAPHS["four_nodes"](work), savers, work.drain), Paused)
    assert not work.done
    assert isinstance(await conversation.run(GRAPHS["four_nodes"](work), savers), Reply)
    assert work.done == dict.fromkeys(("says", "sends", "answers", "ends"), 1)
