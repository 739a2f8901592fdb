"""Second read of a turn's first checkpoint."""

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from msgspec.structs import replace

from aion_core.engine.agent import Reply
from aion_core.state.langgraph.checkpoints import TableSaver
from tests.runtime.contract.driven import DrivenConversation
from tests.support.clock import ManualClock
from tests.support.savers import begin, fence_of, memory_savers

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}, "metadata": {"run_id": "turn-1"}}


async def stored(values: dict[str, Any], *, writes: bool = False) -> TableSaver:
    """Store a checkpoint with these values. Return the saver of the thread's next turn."""
    clock = ManualClock()
    savers = memory_savers(clock)
    fence = fence_of(await begin(savers.tasks, clock))
    first = savers.saver(fence=fence)
    put = await first.aput(CONFIG, {**empty_checkpoint(), "channel_values": values}, {"source": "loop", "step": 1}, {})
    if writes:
        await first.aput_writes(put, [("channel", "value")], "task-1")
    return savers.saver(fence=fence)


async def test_second_read_has_own_containers_and_same_messages() -> None:
    saver = await stored(
        {"messages": [HumanMessage("hi", id="m-1"), AIMessage("ho", id="m-2")], "notes": {"list": [1]}}
    )
    first, second, third = [await saver.aget_tuple(CONFIG) for _ in range(3)]
    assert first is not None
    assert second is not None
    assert third is not None
    assert first == second == third
    ours, theirs, later = (each.checkpoint["channel_values"] for each in (first, second, third))
    assert [one is other for one, other in zip(ours["messages"], theirs["messages"], strict=True)] == [True, True]
    assert ours["messages"] is not theirs["messages"]
    theirs["notes"]["list"].append(2)
    theirs["messages"][0].content = "changed"
    assert ours["notes"] == {"list": [1]}
    assert later["messages"][0].content == "hi"


@pytest.mark.parametrize(("value", "writes"), [(datetime(2026, 11, 29, tzinfo=UTC), False), ([1], True)])
async def test_other_objects_and_pending_writes_are_loaded_twice(value: Any, *, writes: bool) -> None:
    saver = await stored({"messages": [HumanMessage("hi", id="m-1")], "value": value}, writes=writes)
    first, second = await saver.aget_tuple(CONFIG), await saver.aget_tuple(CONFIG)
    assert first is not None
    assert second is not None
    assert first == second
    assert first.checkpoint["channel_values"]["messages"][0] is not second.checkpoint["channel_values"]["messages"][0]


async def test_message_edited_in_place_is_answer() -> None:
    """Let the second turn's node change the message that the first turn has returned, and return it again."""

    def node(state: MessagesState) -> dict[str, Any]:
        said = [message for message in state["messages"] if isinstance(message, AIMessage)]
        answer = said[-1] if said else AIMessage("first", id="a-1")
        if said:
            answer.content = "second"
        return {"messages": [answer]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
    clock = ManualClock()
    savers = memory_savers(clock)
    conversation = DrivenConversation.of(await begin(savers.tasks, clock))
    answers = []
    for number in range(2):
        conversation.turn = replace(conversation.turn, id=f"turn-{number}")
        conversation.message.message_id = f"m-{number}"
        ending = await conversation.run(graph, savers)
        assert isinstance(ending, Reply)
        assert ending.message is not None
        answers.append(ending.message.parts[0].text)
    assert answers == ["first", "second"]
