"""`sleep` in graphs: nothing runs meanwhile, and an author's own interrupts keep their answers."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.func import task as langgraph_task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send, interrupt

from aion.shared.sleeping import sleep
from tests.support.clock import settle
from tests.support.waiting import Conversation, text_of

HOUR = timedelta(hours=1)


def one_node(code: Callable[[Conversation], Awaitable[str]]) -> Callable[[Conversation], Any]:
    """Return a graph whose only node runs the code and says what it returns."""

    def build(conversation: Conversation) -> Any:
        async def node(state: MessagesState) -> Any:
            return {"messages": [AIMessage(await code(conversation))]}

        return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()

    return build


async def sleeps_an_hour(conversation: Conversation) -> str:
    conversation.note("before")
    await sleep(HOUR)
    conversation.note("after")
    return "good morning"


async def test_graph_is_suspended_and_resumes_at_time() -> None:
    conversation = Conversation(one_node(sleeps_an_hour))
    task = await conversation.send()
    assert text_of(task) == "Waiting until 2030-01-01 01:00:00 UTC."
    task = await conversation.passes(task, 3599)
    assert conversation.notes == [("before", 0.0)], "no process has run"
    task = await conversation.passes(task, 1)
    assert text_of(task) == "good morning"
    assert conversation.notes == [("before", 0.0), ("before", 3600.0), ("after", 3600.0)]


async def test_sleep_passes_in_process_held_by_client() -> None:
    conversation = Conversation(one_node(sleeps_an_hour), lease_seconds=10_000)
    sending = asyncio.create_task(conversation.send(return_immediately=False))
    await settle()
    for _ in range(100):
        conversation.clock.move(1)
        await settle()
    assert conversation.notes == [("before", 0.0)]
    assert not sending.done()
    for _ in range(141):  # until the blocking send returns after four minutes
        conversation.clock.move(1)
        await settle()
    task = await sending
    assert text_of(task) == "Waiting until 2030-01-01 01:00:00 UTC."
    task = await conversation.passes(task, 3600 - 241)
    assert text_of(task) == "good morning"
    assert conversation.notes == [("before", 0.0), ("before", 3600.0), ("after", 3600.0)]


async def test_sleeps_of_one_node_follow_one_another() -> None:
    """The node computes each time anew when it runs again, and means the first."""

    async def code(conversation: Conversation) -> str:
        for number in range(3):
            await sleep(conversation.clock.now() + timedelta(minutes=10 * (number + 1)))
            conversation.note(str(number))
        return "done"

    conversation = Conversation(one_node(code))
    task = await conversation.passes(await conversation.send(), 3600)
    assert text_of(task) == "done"
    assert [at for what, at in conversation.notes if what == "2"] == [3600.0]


@pytest.mark.parametrize(
    ("place", "slow"), [(0, (True, True)), (1, (True, False)), (1, (False, True)), (2, (True, True))]
)
async def test_interrupt_around_sleeps_gets_its_own_answer(place: int, slow: tuple[bool, bool]) -> None:
    """An interrupt before, between or after two sleeps, each slow or over at once."""

    async def code(conversation: Conversation) -> str:
        answers = []
        for number in range(3):
            if number == place:
                answers.append(interrupt("Which?"))
            if number < 2:
                await sleep(HOUR if slow[number] else timedelta())
        answers.append(interrupt("And then?"))
        return " ".join(answers)

    conversation = Conversation(one_node(code))
    task = await conversation.passes(await conversation.send(), 7200)
    assert text_of(task) == "Which?"
    task = await conversation.passes(await conversation.answers(task, "red"), 7200)
    assert text_of(task) == "And then?"
    task = await conversation.answers(task, "blue")
    assert text_of(task) == "red blue"


async def test_question_of_one_branch_and_sleep_of_another() -> None:
    def build(conversation: Conversation) -> Any:
        async def asks(state: MessagesState) -> Any:
            return {"messages": [AIMessage(f"asked {interrupt('Which?')}")]}

        async def sleeps(state: MessagesState) -> Any:
            await sleep(HOUR)
            return {"messages": [AIMessage("slept")]}

        async def joins(state: MessagesState) -> Any:
            return {"messages": [AIMessage(", ".join(sorted(str(each.text) for each in state["messages"][1:])))]}

        graph = StateGraph(MessagesState).add_node("asks", asks).add_node("sleeps", sleeps).add_node("joins", joins)
        graph.add_conditional_edges(START, lambda state: [Send("asks", state), Send("sleeps", state)])
        return graph.add_edge(["asks", "sleeps"], "joins").compile()

    for first in ("answer", "time"):
        conversation = Conversation(build)
        task = await conversation.send()
        assert text_of(task) == "Which?"
        if first == "time":
            task = await conversation.passes(task, 3600)
            assert text_of(task) == "Which?"
        task = await conversation.answers(task, "red")
        if first == "answer":
            assert text_of(task).startswith("Waiting until")
            task = await conversation.passes(task, 3600)
        assert text_of(task) == "asked red, slept"


async def test_graph_within_node_is_suspended_too() -> None:
    def build(conversation: Conversation) -> Any:
        async def inner(state: MessagesState) -> Any:
            conversation.note("inner")
            await sleep(HOUR)
            return {"messages": [AIMessage("inner slept")]}

        async def first(state: MessagesState) -> Any:
            conversation.note("first")
            return {}

        nested = StateGraph(MessagesState).add_node("first", first).add_node("inner", inner)
        nested.add_edge(START, "first").add_edge("first", "inner")
        return StateGraph(MessagesState).add_node("nested", nested.compile()).add_edge(START, "nested").compile()

    conversation = Conversation(build)
    task = await conversation.passes(await conversation.send(), 3600)
    assert text_of(task) == "inner slept"
    assert conversation.notes == [("first", 0.0), ("inner", 0.0), ("inner", 3600.0)]


async def test_entrypoint_and_its_tasks_are_suspended() -> None:
    def build(conversation: Conversation) -> Any:
        @langgraph_task
        async def naps() -> str:
            conversation.note("task")
            await sleep(HOUR)
            return "task slept"

        @entrypoint()
        async def flow(messages: list[Any]) -> str:
            said = await naps()
            await sleep(HOUR)
            return f"{said}, and flow slept"

        return flow

    conversation = Conversation(build)
    task = await conversation.passes(await conversation.send(), 7200)
    assert text_of(task) == "task slept, and flow slept"
    assert conversation.notes == [("task", 0.0), ("task", 3600.0)]


async def test_synchronous_node_sleeps_by_event_loop_of_its_own() -> None:
    def build(conversation: Conversation) -> Any:
        def node(state: MessagesState) -> Any:
            asyncio.run(sleep(HOUR))
            return {"messages": [AIMessage("slept")]}

        return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()

    conversation = Conversation(build)
    task = await conversation.send()
    async with asyncio.timeout(60):
        while not text_of(task):
            await asyncio.sleep(0.01)
            task = await conversation.rests(task.id)
        conversation.clock.move(900)
        while text_of(task).startswith("Waiting"):
            await asyncio.sleep(0.01)
            conversation.clock.move(60)
            task = await conversation.rests(task.id)
    assert text_of(task) == "slept"


async def test_graph_with_checkpointer_in_memory_sleeps_in_its_process() -> None:
    def build(conversation: Conversation) -> Any:
        async def node(state: MessagesState) -> Any:
            return {"messages": [AIMessage(await sleeps_an_hour(conversation))]}

        graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
        return graph.compile(checkpointer=InMemorySaver())

    conversation = Conversation(build, lease_seconds=10_000)
    sending = asyncio.create_task(conversation.send())
    async with asyncio.timeout(60):
        while not sending.done():
            await asyncio.sleep(0)
            conversation.clock.move(1)
    assert text_of(await sending) == "good morning"
    assert [what for what, _ in conversation.notes] == ["before", "after"]


async def test_cancel_ends_sleep() -> None:
    conversation = Conversation(one_node(sleeps_an_hour))
    task = await conversation.send()
    canceled = await conversation.made.service.cancel(conversation.call, task.id)
    assert text_of(canceled) == "Canceled."
    await conversation.passes(task, 7200)
    assert conversation.notes == [("before", 0.0)]
    assert text_of(await conversation.send("again")).startswith("Waiting until 2030-01-01 03:00:00")


async def test_sleep_outside_of_graph_is_refused() -> None:
    with pytest.raises(RuntimeError, match="nodes and tools, and for the tools of an ADK agent"):
        await sleep(HOUR)


@pytest.mark.parametrize(("until", "error"), [(datetime(2030, 1, 1), ValueError), (5, TypeError)])
async def test_unsuitable_time_fails_turn(until: Any, error: type[Exception]) -> None:
    async def code(conversation: Conversation) -> str:
        with pytest.raises(error):
            await sleep(until)
        return "refused"

    assert text_of(await Conversation(one_node(code)).send()) == "refused"
