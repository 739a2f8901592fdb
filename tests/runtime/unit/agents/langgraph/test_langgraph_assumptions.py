"""Behaviour of LangGraph that the engine depends on, documented or not: a release that changes it fails here first."""

import asyncio
import importlib
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError, GraphDrained, UnknownInterruptError
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel._loop import PregelLoop
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot, interrupt

from tests.support.rows import each_row


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


async def test_turn_without_checkpoint_is_unfinished() -> None:
    graph = chain([], "a").compile(InMemorySaver())
    state = await graph.aget_state(turn("turn-1"))
    assert (state.created_at, state.tasks, finished(state, "turn-1")) == (None, (), False)
    with pytest.raises(EmptyInputError):
        await run(graph, None, turn("turn-1"))

    await run(graph, {"trail": []}, turn("turn-1"))
    state = await graph.aget_state(turn("turn-2"))  # turn-2 has written nothing yet
    assert (state.next, state.tasks) == ((), ())
    assert (finished(state, "turn-1"), finished(state, "turn-2")) == (True, False)


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


# ── Stopping at a step boundary ───────────────────────────────────────────────────────────────────────────────────────


async def test_drain_request_stops_langgraph_after_current_step() -> None:
    ran: list[str] = []
    saver = InMemorySaver()
    handoffs = 0
    while True:
        control = RunControl()  # one control for each attempt
        graph = chain(ran, "abc").compile(saver)
        try:
            async for event in graph.astream(
                {"trail": []}, turn("turn-1"), stream_mode="tasks", durability="sync", control=control
            ):
                if "input" in event:  # a node has begun
                    control.request_drain("deadline")
        except GraphDrained:
            handoffs += 1
            state = await graph.aget_state(turn("turn-1"))
            assert (len(ran), len(state.next), finished(state, "turn-1")) == (handoffs, 1, False)
        else:
            break
    assert (ran, handoffs) == (["a", "b", "c"], 2)
    state = await graph.aget_state(turn("turn-1"))
    assert (finished(state, "turn-1"), state.values) == (True, {"trail": ["a", "b", "c"]})


async def test_langgraph_runs_no_node_if_drain_was_already_requested() -> None:
    """Because of this, the number of handoffs is limited: a turn that is drained at once makes no progress."""
    ran: list[str] = []
    control = RunControl()
    control.request_drain("deadline")
    graph = chain(ran, "a").compile(InMemorySaver())
    with pytest.raises(GraphDrained):
        await run(graph, {"trail": []}, turn("turn-1"), control=control)
    assert (ran, (await graph.aget_state(turn("turn-1"))).next) == ([], ("__start__",))


async def test_langgraph_checks_drain_request_before_each_step() -> None:
    """The adapter relies on this: a drain request during a blocked event loop takes effect at the next step."""
    ran: list[str] = []
    looked: list[int] = []

    class Control(RunControl):
        @property
        def drain_requested(self) -> bool:
            looked.append(len(ran))
            return bool(ran)

    with pytest.raises(GraphDrained):
        await run(chain(ran, "ab").compile(InMemorySaver()), {"trail": []}, turn("turn-1"), control=Control())
    assert (ran, looked) == (["a"], [0, 0, 1])


async def test_checkpoint_is_stored_before_its_node_runs() -> None:
    """The adapter relies on this: a node repeated after a crash has the same task id, the key of its emissions."""
    order: list[str] = []

    class Slow(InMemorySaver):
        async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            await asyncio.sleep(0.01)
            order.append(f"step {metadata['step']}")
            return await super().aput(config, checkpoint, metadata, new_versions)

    await run(chain(order, "ab").compile(Slow()), {"trail": []}, turn("turn-1"), durability="sync")
    assert order == ["step -1", "step 0", "a", "step 1", "b", "step 2"]


async def test_langgraph_emits_checkpoint_event_before_its_nodes_run() -> None:
    """Our checkpointer relies on this: it must know how many nodes a step has before they write."""
    order: list[str] = []
    stream = (
        chain(order, "ab")
        .compile(InMemorySaver())
        .astream({"trail": []}, turn("turn-1"), stream_mode=["checkpoints", "values"], durability="sync")
    )
    async for mode, event in stream:
        if mode == "checkpoints":
            order.append(f"next {event['next']}")
    assert order == ["next ['__start__']", "next ['a']", "a", "next ['b']", "b", "next []"]


async def test_langgraph_stores_config_metadata_in_each_checkpoint() -> None:
    """The adapter relies on this: a resumed turn reads the graph's node names from the checkpoint."""
    config = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": "turn-1", "aion:nodes": "a\nb"}}
    graph = chain([], "ab").compile(InMemorySaver())
    await run(graph, {"trail": []}, config)
    snapshots = [snapshot async for snapshot in graph.aget_state_history({"configurable": {"thread_id": "t"}})]
    assert {(snapshot.metadata or {}).get("aion:nodes") for snapshot in snapshots} == {"a\nb"}


# ── Attaching our saver ───────────────────────────────────────────────────────────────────────────────────────────────


class Tenant(TypedDict):
    name: str


@each_row("own", [None, False, True, InMemorySaver()])
async def test_copied_graph_uses_the_given_checkpointer(own: Any) -> None:
    async def a(state: TrailState, runtime: Any) -> Any:
        return {"trail": ["a"]}

    builder: Any = StateGraph(TrailState, context_schema=Tenant)
    builder.add_node("a", lambda _: {"trail": ["a"]})
    builder.add_edge(START, "a")
    graph = builder.compile(own, name="theirs").with_config({"tags": ["author"]})
    ours = InMemorySaver()
    copy = graph.copy(update={"checkpointer": ours})
    await run(copy, {"trail": []}, turn("turn-1"), context={"name": "x"})
    assert (await copy.aget_state(turn("turn-1"))).values == {"trail": ["a"]}
    assert type(copy) is CompiledStateGraph
    assert (copy.builder, copy.context_schema, copy.name) == (builder, Tenant, "theirs")
    assert copy.config is not None
    assert copy.config["tags"] == ["author"]
    assert graph.checkpointer is own
    assert "t" in ours.storage
    assert not isinstance(own, InMemorySaver) or "t" not in own.storage


async def test_copied_entrypoint_uses_the_given_checkpointer() -> None:
    @entrypoint()
    async def work(given: str) -> str:
        return given.upper()

    ours = InMemorySaver()
    copy = work.copy(update={"checkpointer": ours})
    assert await copy.ainvoke("hi", turn("turn-1")) == "HI"
    assert isinstance(copy, Pregel)
    assert work.checkpointer is None
    assert "t" in ours.storage
    assert finished(await copy.aget_state(turn("turn-1")), "turn-1")


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


async def test_langgraph_applies_repeated_answer_to_next_interrupt() -> None:
    """Because of this, the adapter compares the answer's id with the open interrupts before it runs the graph."""
    config = turn("turn-1")
    graph = asking("x")
    await graph.ainvoke({"trail": []}, config)
    first = await questions(graph, config)
    await graph.ainvoke(Command(resume={first["x?"]: "1"}), config)
    assert (await questions(graph, config)).keys() == {"x??"}
    assert await graph.ainvoke(Command(resume={first["x?"]: "1"}), config) == {"trail": ["x11"]}


async def test_langgraph_stores_interrupt_in_subgraph_before_parent() -> None:
    """Because of this, the innermost interrupt counts after a crash: the parent's may already be answered."""
    order: list[str] = []

    class Listens(InMemorySaver):
        async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            order.extend(f"{config['configurable']['checkpoint_ns'].split(':')[0]}: {channel}" for channel, _ in writes)
            await super().aput_writes(config, writes, task_id, task_path)

    inner: Any = StateGraph(TrailState)
    inner.add_node("asks", lambda _: {"trail": [interrupt("x?") + interrupt("x??")]})
    inner.add_edge(START, "asks")
    builder: Any = StateGraph(TrailState)
    builder.add_node("sub", inner.compile())
    builder.add_edge(START, "sub")
    graph = builder.compile(Listens())
    await graph.ainvoke({"trail": []}, turn("turn-1"))
    asked = await questions(graph, turn("turn-1"))
    order.clear()
    await graph.ainvoke(Command(resume={asked["x?"]: "1"}), turn("turn-1"))
    assert order == ["sub: __interrupt__", "sub: __resume__", ": __interrupt__"]


async def test_answer_is_stored_only_after_its_node_ends() -> None:
    """Because of this, the turn itself stores the answer: a crash in the node would repeat the interrupt."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def asks(_: TrailState) -> Any:
        answer = interrupt("x?")
        begun.set()
        await stopped.wait()
        return {"trail": [answer]}

    builder: Any = StateGraph(TrailState)
    builder.add_node("asks", asks)
    builder.add_edge(START, "asks")
    graph = builder.compile(InMemorySaver())
    await graph.ainvoke({"trail": []}, turn("turn-1"))
    asked = await questions(graph, turn("turn-1"))
    answering = asyncio.create_task(graph.ainvoke(Command(resume={asked["x?"]: "1"}), turn("turn-1")))
    await begun.wait()
    answering.cancel()
    await asyncio.wait({answering})
    assert await questions(graph, turn("turn-1")) == asked


async def test_langgraph_fails_for_subgraph_without_checkpointer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If LangGraph no longer fails here, remove `_NothingToStore` from `aion_core/agents/langgraph/turn.py`."""
    importlib.import_module("aion_core.agents.langgraph.turn")
    monkeypatch.delattr(PregelLoop, "_put_checkpoint_fut")
    builder: Any = StateGraph(TrailState)
    builder.add_node("sub", chain([], "a").compile(checkpointer=False))
    builder.add_edge(START, "sub")
    with pytest.raises(AttributeError, match="_put_checkpoint_fut"):
        await builder.compile(InMemorySaver()).ainvoke({"trail": []}, turn("turn-1"), durability="sync")
