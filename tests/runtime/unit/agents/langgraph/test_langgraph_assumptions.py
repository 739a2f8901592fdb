"""Behaviour of LangGraph that the engine depends on, documented or not: a release that changes it fails here first."""

import importlib
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import UnknownInterruptError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel._loop import PregelLoop
from langgraph.types import Command, StateSnapshot, interrupt


class TrailState(TypedDict):
    trail: Annotated[list[str], operator.add]


def chain(ran: list[str], names: str) -> Any:
    """Return a graph of nodes in a row, one for each letter; each node records that it has run."""
    builder: Any = StateGraph(TrailState)

    def node(name: str) -> Any:
        async def node(_: TrailState) -> Any:
            ran.append(name)
            return {"trail": [name]}

        return node

    for name in names:
        builder.add_node(name, node(name))
    for one, next_one in zip([START, *names], names, strict=False):
        builder.add_edge(one, next_one)
    return builder


def turn(run_id: str) -> Any:
    return {"configurable": {"thread_id": "t"}, "metadata": {"run_id": run_id}}


def finished(state: StateSnapshot, run_id: str) -> bool:
    return bool(state.created_at and not state.tasks and (state.metadata or {}).get("run_id") == run_id)


async def run(graph: Any, given: Any, config: Any, **options: Any) -> list[Any]:
    return [event async for event in graph.astream(given, config, **options)]


async def cut_after(graph: Any, node: str, given: Any, config: Any) -> None:
    """Abandon the turn after the node has ended and before LangGraph has stored its step."""
    # Add the stream mode `messages`: with it, LangGraph yields a node's event before it has stored the step.
    events = graph.astream(given, config, stream_mode=["updates", "messages"])
    async for mode, event in events:
        if mode == "updates" and node in event:
            break
    await events.aclose()


# ── Run id of a turn ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_langgraph_resumes_unfinished_run_when_called_again() -> None:
    ran: list[str] = []

    def node(name: str) -> Any:
        async def node(_: MessagesState) -> Any:
            ran.append(name)
            return {"messages": [AIMessage(name)]}

        return node

    builder: Any = StateGraph(MessagesState)
    builder.add_node("a", node("a"))
    builder.add_node("b", node("b"))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    graph = builder.compile(InMemorySaver())
    given = {"messages": [HumanMessage("hi")]}  # no message id, so that a message appended twice appears twice

    await cut_after(graph, "a", given, turn("turn-1"))
    state = await graph.aget_state(turn("turn-1"))
    assert (state.next, [task.name for task in state.tasks]) == ((), ["a"])
    assert not finished(state, "turn-1")

    await run(graph, given, turn("turn-1"))
    assert len(await run(graph, given, turn("turn-1"), stream_mode="values")) == 1
    state = await graph.aget_state(turn("turn-1"))
    assert finished(state, "turn-1")
    assert ran == ["a", "b"]
    assert [message.content for message in state.values["messages"]] == ["hi", "a", "b"]


async def test_langgraph_discards_unfinished_run_when_run_id_changes() -> None:
    ran: list[str] = []
    graph = chain(ran, "ab").compile(InMemorySaver())
    await cut_after(graph, "a", {"trail": ["1"]}, turn("turn-1"))
    await run(graph, {"trail": ["2"]}, turn("turn-2"))
    assert ran == ["a", "a", "b"]
    assert finished(await graph.aget_state(turn("turn-2")), "turn-2")


async def test_langgraph_treats_node_with_partly_stored_writes_as_finished() -> None:
    """Our saver relies on this: it stores a LangGraph task's writes in one request, after recording its emissions."""
    ran: list[str] = []
    saver = InMemorySaver()
    graph = chain(ran, "ab").compile(saver)
    await cut_after(graph, "a", {"trail": []}, turn("turn-1"))
    [writes] = [
        writes for writes in saver.writes.values() if any(write[1] == "branch:to:b" for write in writes.values())
    ]
    for slot in [slot for slot, write in writes.items() if write[1] == "branch:to:b"]:
        del writes[slot]  # simulate a crash between two requests
    await run(graph, {"trail": []}, turn("turn-1"))
    state = await graph.aget_state(turn("turn-1"))
    assert (ran, finished(state, "turn-1"), state.values) == (["a"], True, {"trail": ["a"]})


async def test_run_ends_immediately_if_next_node_was_renamed() -> None:
    """Because of this, each turn stores the graph's node names, and a resumed turn compares them."""
    ran: list[str] = []
    saver = InMemorySaver()
    graph = chain(ran, "ab").compile(saver, interrupt_before=["b"])
    await run(graph, {"trail": []}, turn("turn-1"))
    assert (await graph.aget_state(turn("turn-1"))).next == ("b",)
    renamed = chain(ran, "ac").compile(saver)
    await run(renamed, {"trail": []}, turn("turn-1"))
    state = await renamed.aget_state(turn("turn-1"))
    assert (ran, state.tasks) == (["a"], ())


# ── Interrupts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def asking(*names: str) -> Any:
    """Return a graph of parallel nodes with two interrupts each."""
    builder: Any = StateGraph(TrailState)
    for name in names:
        builder.add_node(name, lambda _, name=name: {"trail": [name + interrupt(f"{name}?") + interrupt(f"{name}??")]})
        builder.add_edge(START, name)
    return builder.compile(InMemorySaver())


async def questions(graph: Any, config: Any) -> dict[str, str]:
    return {asked.value: asked.id for asked in (await graph.aget_state(config)).interrupts}


async def test_langgraph_strict_resume_refuses_answer_without_known_interrupt() -> None:
    strict = {"configurable": {"thread_id": "t", "__pregel_strict_resume": True}}
    graph = asking("x", "y")
    await graph.ainvoke({"trail": []}, strict)
    asked = await questions(graph, strict)
    assert set(asked) == {"x?", "y?"}
    for answer, reason in (("v", "ambiguous"), ({"0" * 32: "v"}, "not_pending"), ({}, "empty_map")):
        with pytest.raises(UnknownInterruptError) as refused:
            await graph.ainvoke(Command(resume=answer), strict)
        assert refused.value.reason == reason
    assert await questions(graph, strict) == asked

    await graph.ainvoke(Command(resume={asked["x?"]: "1"}), strict)
    then = await questions(graph, strict)
    assert (set(then), then["y?"]) == ({"x??", "y?"}, asked["y?"])
    with pytest.raises(UnknownInterruptError) as refused:
        await graph.ainvoke(Command(resume={asked["x?"]: "1"}), strict)
    assert refused.value.reason == "not_pending"


async def test_langgraph_fails_for_subgraph_without_checkpointer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If LangGraph no longer fails here, remove `_NothingToStore` from `aion_core/agents/langgraph/turn.py`."""
    importlib.import_module("aion_core.agents.langgraph.turn")
    monkeypatch.delattr(PregelLoop, "_put_checkpoint_fut")
    builder: Any = StateGraph(TrailState)
    builder.add_node("sub", chain([], "a").compile(checkpointer=False))
    builder.add_edge(START, "sub")
    with pytest.raises(AttributeError, match="_put_checkpoint_fut"):
        await builder.compile(InMemorySaver()).ainvoke({"trail": []}, turn("turn-1"), durability="sync")
