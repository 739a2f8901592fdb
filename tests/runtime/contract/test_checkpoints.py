"""Contract of the checkpoint saver on each table."""

import asyncio
import json
import operator
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypedDict, cast
from uuid import uuid4

import pytest
from botocore.awsrequest import AWSResponse
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, interrupt
from pydantic import SecretStr

from aion_core.engine.fenced_writes import Fence
from aion_core.engine.outcomes import TurnStarted
from aion_core.errors import AgentFailed, LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.state.langgraph.serializer import UnserializableState
from aion_core.table import keys, retries
from aion_core.table.item import LAST
from aion_core.table.keys import ContextKey
from aion_core.table.schema import VERSION
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import CuttableConnection, DynamoDBSavers, Savers, begin, fence_of, memory_savers, taken_over
from tests.support.stores import new_owner

Node = Any
DAY = 24 * 3600


@pytest.fixture
def savers(adapter: Stack | None, clock: ManualClock) -> Savers:
    return DynamoDBSavers(adapter, clock) if adapter else memory_savers(clock)


@pytest.fixture
def table(stack: Stack, clock: ManualClock) -> DynamoDBSavers:
    return DynamoDBSavers(stack, clock)


@pytest.fixture
def config() -> dict[str, Any]:
    """Return the config of a new thread."""
    return {"configurable": {"thread_id": f"t-{uuid4()}", "checkpoint_ns": ""}, "metadata": {"run_id": "turn-1"}}


@pytest.fixture
async def begun(savers: Savers, clock: ManualClock) -> TurnStarted:
    """Start a turn in a new context with the lease of `holder-1`, and return it."""
    return await begin(savers.tasks, clock)


class Trail(TypedDict):
    trail: Annotated[list[str], operator.add]


def chain(**nodes: Node) -> StateGraph[Any, Any, Any, Any]:
    """Return a graph of these nodes in sequence."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Trail)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for one, next_one in zip([START, *nodes], nodes, strict=False):
        builder.add_edge(one, next_one)
    return builder


def leaves(name: str) -> Node:
    return lambda _: {"trail": [name]}


async def put(saver: BaseCheckpointSaver[Any], config: Any, **values: Any) -> Any:
    """Store a checkpoint with these channel values; return its config."""
    versions: Any = dict.fromkeys(values, 1)
    checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    return await saver.aput(config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, versions)  # type: ignore[arg-type]


async def values(saver: BaseCheckpointSaver[Any], config: Any) -> dict[str, Any]:
    found = await saver.aget_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


async def pending(saver: BaseCheckpointSaver[Any], config: Any) -> list[Any]:
    found = await saver.aget_tuple(config)
    assert found is not None
    return found.pending_writes or []


# ── LangGraph's own suite ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_saver_passes_langgraph_conformance(savers: Savers) -> None:
    await conforms(savers.saver)


async def test_blocking_methods_pass_langgraph_conformance(savers: Savers) -> None:
    await conforms(lambda: Blocking(savers.saver()))


async def conforms(make: Callable[[], BaseCheckpointSaver[Any]]) -> None:
    @checkpointer_test(name=str(uuid4()))
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        yield make()

    report = await validate(saver)
    assert report.passed_all_base(), report.to_dict()
    assert report.conformance_level() == "FULL"


class Blocking(BaseCheckpointSaver[Any]):
    """Checkpoint saver that calls the synchronous methods of another saver, as a synchronous graph does."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver

    async def aput(self, *args: Any) -> Any:
        return await asyncio.to_thread(self._saver.put, *args)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        await asyncio.to_thread(self._saver.put_writes, *args, **options)

    async def aget_tuple(self, *args: Any) -> Any:
        return await asyncio.to_thread(self._saver.get_tuple, *args)

    async def alist(self, *args: Any, **options: Any) -> Any:
        for each in await asyncio.to_thread(lambda: list(self._saver.list(*args, **options))):
            yield each

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self._saver.delete_thread, thread_id)


# ── Writes of a LangGraph task ────────────────────────────────────────────────────────────────────────────────────────


async def test_last_write_to_langgraph_resume_channel_wins(savers: Savers, config: Any) -> None:
    saver = savers.saver()
    stored = await put(saver, config)
    await saver.aput_writes(stored, [(RESUME, ["a"]), ("x", 1), (RESUME, ["a", "b"])], "task-1")
    assert await pending(saver, config) == [("task-1", RESUME, ["a", "b"]), ("task-1", "x", 1)]


async def test_repeated_checkpoint_write_replaces_error_but_not_state_channel(savers: Savers, config: Any) -> None:
    saver = savers.saver()
    stored = await put(saver, config)
    await saver.aput_writes(stored, [("x", "first"), (ERROR, "first")], "task-1")
    await saver.aput_writes(stored, [("x", "again"), (ERROR, "again"), ("y", "more")], "task-1")
    assert sorted(await pending(saver, config)) == [
        ("task-1", ERROR, "again"),
        ("task-1", "x", "first"),
        ("task-1", "y", "more"),
    ]


async def test_pending_checkpoint_writes_are_sorted_by_langgraph_task_path(savers: Savers, config: Any) -> None:
    saver = savers.saver()
    stored = await put(saver, config)
    await saver.aput_writes(stored, [("x", 3)], "task-1", "~__pregel_pull, b")
    await saver.aput_writes(stored, [("x", 1), ("x", 2)], "task-2", "~__pregel_pull, a")
    assert [value for _, _, value in await pending(saver, config)] == [1, 2, 3]


async def test_many_checkpoint_writes_are_sent_in_one_request(table: DynamoDBSavers, config: Any) -> None:
    saver = table.saver()
    stored = await put(saver, config)
    line = CuttableConnection(table.client)
    many = [(f"c{number}", number) for number in range(250)]
    await saver.aput_writes(stored, [*many, (INTERRUPT, "?")], "task-1")
    assert line.requests == {"TransactWriteItems": 1}
    assert await pending(saver, config) == [("task-1", INTERRUPT, "?"), *(("task-1", *write) for write in many)]
    [(_, request), *_] = line.bodies
    # Check DynamoDB's limits of an expression here, because the emulator does not check them.
    for expression in (write["Update"]["UpdateExpression"] for write in request["TransactItems"]):
        assert len(expression) < 4096
        assert expression.count("if_not_exists") + expression.count("=") < 300


async def test_pending_writes_of_checkpoint_never_stored_are_ignored(table: DynamoDBSavers, config: Any) -> None:
    saver = table.saver()
    older = await put(saver, config, x=1)
    never_stored: RunnableConfig = {
        "configurable": {**older["configurable"], "checkpoint_id": empty_checkpoint()["id"]}
    }
    await saver.aput_writes(never_stored, [("x", 2)], "task-1")
    found = await saver.aget_tuple(config)
    assert found is not None
    assert (found.config["configurable"], found.pending_writes) == (older["configurable"], [])


# ── Fenced writes ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_former_lease_holder_cannot_write_checkpoints_after_takeover(
    savers: Savers, clock: ManualClock, config: Any, begun: TurnStarted
) -> None:
    frozen, thaws = asyncio.Event(), asyncio.Event()

    async def freezes(_: Any) -> Any:
        frozen.set()
        await thaws.wait()
        return {"trail": ["b of a late holder"]}

    late = chain(a=leaves("a"), b=freezes, c=leaves("c")).compile(savers.saver(fence=fence_of(begun)))
    a_turn = asyncio.create_task(late.ainvoke({"trail": []}, config, durability="sync"))
    await frozen.wait()

    taken = await taken_over(savers, clock, begun)
    graph = chain(a=leaves("a"), b=leaves("b"), c=leaves("c")).compile(savers.saver(fence=fence_of(taken)))
    assert await graph.ainvoke({"trail": []}, config, durability="sync") == {"trail": ["a", "b", "c"]}
    ended = await graph.aget_state(config)

    thaws.set()
    with pytest.raises(LeaseLost):
        await a_turn
    after = await graph.aget_state(config)
    assert (after.config, after.values, after.tasks) == (ended.config, {"trail": ["a", "b", "c"]}, ())


async def test_attempts_of_turn_are_counted_anew_after_checkpointed_step(
    savers: Savers, clock: ManualClock, config: Any, begun: TurnStarted
) -> None:
    """Count only the checkpoint after a step as progress, not the input's checkpoint or a parallel node's writes."""
    counted = []
    for step in ("loop", "loop", "loop", "input"):
        saver = savers.saver(fence=fence_of(begun))
        for number in range(2):
            stored = await saver.aput(config, empty_checkpoint(), {"source": step, "step": number}, {})
        await saver.aput_writes(stored, [("x", 1)], "task-1")
        begun = await taken_over(savers, clock, begun)
        counted.append((begun.lease.turn.tries, begun.lease.turn.handoffs))
    assert counted == [(2, 0), (2, 1), (2, 2), (3, 2)]


async def test_checkpoint_write_with_outdated_fencing_token_is_refused(
    savers: Savers, clock: ManualClock, config: Any, begun: TurnStarted
) -> None:
    stale = savers.saver(fence=fence_of(begun))
    stored = await put(stale, config, x="old")
    await stale.aput_writes(stored, [("x", 1)], "task-1")
    await taken_over(savers, clock, begun)
    writes: list[Callable[[], Awaitable[Any]]] = [
        lambda: put(stale, config, x="late"),
        lambda: stale.aput(stored, empty_checkpoint(), {"source": "loop"}, {}),
        lambda: stale.aput_writes(stored, [("x", 2)], "task-2"),
        lambda: stale.aput_writes(stored, [(f"c{number}", 0) for number in range(250)], "task-3"),
        lambda: stale.adelete_thread(config["configurable"]["thread_id"]),
        lambda: asyncio.to_thread(stale.put, stored, empty_checkpoint(), {}, {}),
        lambda: asyncio.to_thread(stale.put_writes, stored, [("x", 2)], "task-2"),
    ]
    for write in writes:
        with pytest.raises(LeaseLost):
            await write()
    reader = savers.saver()
    assert await values(reader, config) == {"x": "old"}
    assert await pending(reader, config) == [("task-1", "x", 1)]


async def test_checkpoint_write_in_missing_context_raises_lease_lost(savers: Savers, config: Any) -> None:
    saver = savers.saver(fence=Fence(ContextKey(new_owner(), "echo", "never"), 1))
    with pytest.raises(LeaseLost):
        await put(saver, config)


async def test_conflicting_checkpoint_write_is_retried(table: DynamoDBSavers, clock: ManualClock, config: Any) -> None:
    saver = table.saver(fence=fence_of(await begin(table.tasks, clock)))
    answers = Answers(table.client, CONFLICT, times=3)
    await put(saver, config, x=1)
    assert answers.left == 0
    assert await values(saver, config) == {"x": 1}


async def test_parallel_branches_write_checkpoints_without_conflict(
    table: DynamoDBSavers, clock: ManualClock, config: Any
) -> None:
    saver = table.saver(fence=fence_of(await begin(table.tasks, clock)))
    stored = await put(saver, config)
    under_way: list[int] = []
    at_most = 0

    def begins(**_: Any) -> None:
        nonlocal at_most
        under_way.append(1)
        at_most = max(at_most, len(under_way))

    table.client.meta.events.register("before-call.dynamodb", begins)
    table.client.meta.events.register("after-call.dynamodb", lambda **_: under_way.pop())
    line = CuttableConnection(table.client)
    await asyncio.gather(*(saver.aput_writes(stored, [("x", n)], f"task-{n}") for n in range(10)))
    assert at_most == 1
    written = [request["TransactItems"][1]["Update"]["Key"]["sk"]["S"].split("#")[3] for _, request in line.bodies]
    assert written == [f"task-{n}" for n in range(10)]


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("TransactionConflict", StoreUnavailable),
        ("ThrottlingError", StoreUnavailable),
        ("ConditionalCheckFailed", LeaseLost),
        ("ValidationError", StoreError),
    ],
)
async def test_dynamodb_cancellation_reason_of_checkpoint_write_decides_raised_error(
    table: DynamoDBSavers,
    clock: ManualClock,
    config: Any,
    reason: str,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries, "MAX_ATTEMPTS", 3)
    saver = table.saver(fence=fence_of(await begin(table.tasks, clock)))
    Answers(table.client, canceled(reason), times=1000)
    with pytest.raises(error) as caught:
        await put(saver, config)
    assert caught.type is error


def canceled(reason: str) -> bytes:
    """Return DynamoDB's error response for a transaction; `reason` is the cancellation reason of its first item."""
    return json.dumps(
        {
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": f"Transaction cancelled, please refer cancellation reasons for specific reasons [{reason}, None]",
            "CancellationReasons": [{"Code": reason, "Message": "…"}, {"Code": "None"}],
        }
    ).encode()


CONFLICT = canceled("TransactionConflict")


class Answers:
    """Replacement of DynamoDB's responses: the client's next `times` transactions get this error response."""

    def __init__(self, client: Any, body: bytes, *, times: int) -> None:
        self.left, self._body = times, body
        client.meta.events.register("before-send.dynamodb.TransactWriteItems", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse | None:
        if not self.left:
            return None
        self.left -= 1
        headers: Any = {"content-type": "application/x-amz-json-1.0"}
        response: Any = AWSResponse(request.url, 400, headers, None)
        response._content = self._body
        return cast("AWSResponse", response)


# ── Log before checkpoint ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_emitted_by_graph_are_recorded_before_its_checkpoint(savers: Savers, config: Any) -> None:
    reader = savers.saver()
    seen: list[Any] = []

    async def log_first() -> None:
        seen.append(await reader.aget_tuple(config))

    saver = savers.saver(log_first=log_first)
    stored = await put(saver, config)
    await saver.aput_writes(stored, [("x", 1)], "task-1")
    await asyncio.to_thread(saver.put_writes, stored, [("x", 2)], "task-2")
    await asyncio.to_thread(saver.put, stored, {**empty_checkpoint(), "id": "~"}, {}, {})
    assert seen[0] is None
    assert [len(found.pending_writes) for found in seen[1:]] == [0, 1, 2]
    assert [found.checkpoint["id"] for found in seen[1:]] == [stored["configurable"]["checkpoint_id"]] * 3


async def test_checkpoint_is_not_written_if_recording_emitted_events_fails(savers: Savers, config: Any) -> None:
    async def log_first() -> None:
        raise LeaseLost("Another holder runs this context now.")

    reader = savers.saver()
    stored = await put(reader, config, x=1)
    saver = savers.saver(log_first=log_first)
    with pytest.raises(LeaseLost):
        await put(saver, config, x=2)
    with pytest.raises(LeaseLost):
        await saver.aput_writes(stored, [("x", 2)], "task-1")
    assert await values(reader, config) == {"x": 1}
    assert await pending(reader, config) == []


async def test_parallel_branches_record_emitted_events_one_after_another(savers: Savers, config: Any) -> None:
    under_way: list[int] = []

    async def log_first() -> None:
        under_way.append(1)
        assert len(under_way) == 1
        await asyncio.sleep(0)
        under_way.pop()

    saver = savers.saver(log_first=log_first)
    stored = await put(saver, config)
    await asyncio.gather(*(saver.aput_writes(stored, [("x", n)], f"task-{n}") for n in range(5)))
    assert len(await pending(saver, config)) == 5


async def test_subgraph_called_by_node_records_events_before_its_checkpoint(savers: Savers, config: Any) -> None:
    emitted: list[str] = []
    recorded: list[str] = []

    async def log_first() -> None:
        recorded[:] = emitted

    def emits(_: Any) -> Any:
        emitted.append("inner")
        return {"trail": ["inner"]}

    def asks_for_what_is_recorded(_: Any) -> Any:
        return {"trail": [f"recorded {recorded}"]}

    inner = chain(emits=emits, reads=asks_for_what_is_recorded).compile(checkpointer=True)
    graph = chain(outer=lambda state: inner.invoke({"trail": []})).compile(savers.saver(log_first=log_first))
    assert await graph.ainvoke({"trail": []}, config, durability="sync") == {"trail": ["inner", "recorded ['inner']"]}


async def test_blocking_subgraph_call_in_event_loop_thread_raises_error(savers: Savers, config: Any) -> None:
    async def log_first() -> None: ...

    inner = chain(a=leaves("a")).compile(checkpointer=True)

    async def blocks(_: Any) -> Any:
        return inner.invoke({"trail": []})

    graph = chain(outer=blocks).compile(savers.saver(log_first=log_first))
    with pytest.raises(AgentFailed, match="ainvoke"):
        await graph.ainvoke({"trail": []}, config)


# ── Graphs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_graph_invoked_synchronously_stores_checkpoints_from_any_thread(savers: Savers, config: Any) -> None:
    graph = chain(a=leaves("a"), b=leaves("b")).compile(savers.saver())
    assert graph.invoke({"trail": []}, config) == {"trail": ["a", "b"]}  # called in the event loop's thread
    again: Any = {**config, "metadata": {"run_id": "turn-2"}}
    assert await asyncio.to_thread(lambda: graph.invoke({"trail": []}, again)) == {"trail": ["a", "b", "a", "b"]}
    assert len([*graph.get_state_history(config)]) == 8


async def test_interrupt_in_subgraph_is_resumed(savers: Savers, config: Any) -> None:
    def asks(_: Any) -> Any:
        return {"trail": [interrupt("well?")]}

    # Use "#" in node names, because "#" also separates the parts of keys.
    inner = chain(**{"a#": leaves("a"), "a": asks}).compile()
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Trail)
    builder.add_node("sub#%graph", inner)
    builder.add_edge(START, "sub#%graph")

    asking = builder.compile(savers.saver())
    await asking.ainvoke({"trail": []}, config)
    [question] = (await asking.aget_state(config)).interrupts
    answering = builder.compile(savers.saver())
    assert await answering.ainvoke(Command(resume={question.id: "yes"}), config) == {"trail": ["a", "yes"]}
    spaces = {found.config["configurable"]["checkpoint_ns"].split(":")[0] async for found in history(savers, config)}
    assert spaces == {"", "sub#%graph"}


async def history(savers: Savers, config: Any) -> AsyncGenerator[Any, None]:
    """Return every checkpoint of the thread, in all namespaces."""
    anywhere: RunnableConfig = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    async for found in savers.saver().alist(anywhere):
        yield found


async def test_checkpoints_of_all_namespaces_are_listed_newest_first(table: DynamoDBSavers, config: Any) -> None:
    saver = table.saver()
    made = []
    for ns in ("", "b", "a", "", "b"):
        named = {"configurable": {**config["configurable"], "checkpoint_ns": ns}}
        made.append((await put(saver, named))["configurable"]["checkpoint_id"])
    listed = [found.checkpoint["id"] async for found in history(table, config)]
    assert listed == made[::-1]
    with pytest.raises(NotImplementedError):
        await anext(saver.alist(None))


async def test_delta_channel_is_rebuilt_from_its_changes(savers: Savers, config: Any) -> None:
    builder: Any = StateGraph(Changes)
    for node in "abc":
        builder.add_node(node, lambda _, node=node: {"log": [node]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    for turn in range(5):
        said = {**config, "metadata": {"run_id": f"turn-{turn}"}}
        await builder.compile(savers.saver()).ainvoke({"log": [str(turn)]}, said, durability="sync")
    expected = [word for turn in range(5) for word in (str(turn), "a", "b", "c")]
    assert (await builder.compile(savers.saver()).aget_state(config)).values == {"log": expected}
    in_a_thread = await asyncio.to_thread(builder.compile(savers.saver()).get_state, config)
    assert in_a_thread.values == {"log": expected}


async def test_delta_channel_with_expired_changes_raises_store_corrupt(
    table: DynamoDBSavers, clock: ManualClock, config: Any
) -> None:
    builder: Any = StateGraph(Changes)
    builder.add_node("a", lambda _: {"log": ["a"]})
    builder.add_edge(START, "a")
    graph = builder.compile(table.saver(retention=timedelta(hours=1)))
    await graph.ainvoke({"log": ["0"]}, config, durability="sync")
    clock.move(3000)
    await graph.ainvoke({"log": ["1"]}, {**config, "metadata": {"run_id": "turn-2"}}, durability="sync")
    clock.move(3000)
    with pytest.raises(StoreCorrupt):
        await graph.aget_state(config)


@pytest.mark.parametrize("frequency", [3, 4, 6, 100])
async def test_checkpoint_does_not_outlive_history_of_delta_channel(
    savers: Savers, clock: ManualClock, begun: TurnStarted, config: Any, frequency: int
) -> None:
    """Read the state a second before the newest checkpoint expires. A turn may begin with a whole value, a snapshot."""
    schema: Any = TypedDict("schema", {"log": Annotated[list[str], DeltaChannel(extend, snapshot_frequency=frequency)]})
    builder: Any = StateGraph(schema)
    builder.add_node("a", lambda _: {"log": ["a"]})
    builder.add_edge(START, "a")
    for turn, days in enumerate((0, 1, 5, 11, 20, 3, 15, 9, 25, 10)):
        clock.move(days * DAY)
        graph = builder.compile(savers.saver(fence=fence_of(begun)))
        await graph.ainvoke({"log": [str(turn)]}, {**config, "metadata": {"run_id": f"turn-{turn}"}}, durability="sync")
        state = await builder.compile(savers.saver()).aget_state(config)
        page = await savers.table.query(keys.thread_partition(config["configurable"]["thread_id"]), "C", LAST)
        [newest] = [item for item in page.items if item["sk"].endswith(state.config["configurable"]["checkpoint_id"])]
        left = newest["expires"] - clock.now().timestamp() - 1
        clock.move(left)
        state = await builder.compile(savers.saver()).aget_state(config)
        assert state.values == {"log": [word for each in range(turn + 1) for word in (str(each), "a")]}
        clock.move(-left)


async def test_history_of_delta_channel_is_renewed_once_a_week(
    table: DynamoDBSavers, clock: ManualClock, config: Any
) -> None:
    fence = fence_of(await begin(table.tasks, clock))
    builder: Any = StateGraph(RareSnapshots)
    builder.add_node("a", lambda _: {"log": ["a"]})
    builder.add_edge(START, "a")
    line, writes = CuttableConnection(table.client), list[int]()
    for turn in range(12):
        line.restart()
        said = {**config, "metadata": {"run_id": f"turn-{turn}"}}
        await builder.compile(table.saver(fence=fence)).ainvoke({"log": [""]}, said, durability="sync")
        writes.append(line.writes)
        clock.move(DAY)
    usual = writes[0]
    assert writes == [usual, usual + 1, *[usual] * 7, usual + 1, *[usual] * 2]


def extend(log: Sequence[str], changes: Sequence[Sequence[str]]) -> list[str]:
    return [*log, *(word for change in changes for word in change)]


class Changes(TypedDict):
    log: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=7)]


class RareSnapshots(TypedDict):
    log: Annotated[list[str], DeltaChannel(extend)]


# ── Stored items ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_large_checkpoint_payload_is_stored_in_s3(table: DynamoDBSavers, config: Any) -> None:
    large = noise(50_000)
    saver = table.saver()
    stored = await put(saver, config, large=large, small="s")
    await saver.aput_writes(stored, [("one", noise(20_000)), ("two", noise(20_001)), (ERROR, "e")], "task-1")
    assert await values(saver, config) == {"large": large, "small": "s"}
    assert await values(saver, stored) == {"large": large, "small": "s"}
    assert [(channel, len(value)) for _, channel, value in await pending(saver, config)] == [
        (ERROR, 1),
        ("one", 20_000),
        ("two", 20_001),
    ]
    partition = f"THREAD#{config['configurable']['thread_id']}"
    found = table.client.query(
        TableName=table.table_name,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": partition}},
    )
    assert [len(json.dumps(item)) < 1500 for item in found["Items"]] == [True, True]


async def test_missing_s3_object_of_checkpoint_raises_store_corrupt(
    table: DynamoDBSavers, stack: Stack, config: Any
) -> None:
    saver = table.saver()
    await put(saver, config, large=noise(50_000))
    s3 = stack.client("s3")
    bucket = stack.environment("ApiFunction")["AION_BUCKET"]
    prefix = f"{keys.owner_folder('threads', '')}/{config['configurable']['thread_id']}/"
    [lost] = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    s3.delete_object(Bucket=bucket, Key=lost["Key"])
    with pytest.raises(StoreCorrupt, match="of a checkpoint or an ADK session is missing in the bucket"):
        await saver.aget_tuple(config)


def noise(size: int) -> str:
    """Return an incompressible text."""
    return random.Random(size).randbytes(size).decode("latin-1")  # not used for cryptography


async def test_expired_checkpoint_is_not_found(table: DynamoDBSavers, clock: ManualClock, config: Any) -> None:
    saver = table.saver(retention=timedelta(days=7))
    first = await put(saver, config, x=1)
    await saver.aput_writes(first, [("x", 2)], "task-1")
    clock.move(4 * DAY)
    assert await pending(saver, config) == [("task-1", "x", 2)]
    second = await put(saver, first, x=3)
    clock.move(4 * DAY)
    assert await saver.aget_tuple(first) is None
    assert [found.config async for found in saver.alist(config)] == [second]
    clock.move(4 * DAY)
    assert await saver.aget_tuple(config) is None


async def test_renewal_extends_newest_checkpoint_and_later_items(
    savers: Savers, clock: ManualClock, config: Any
) -> None:
    saver = savers.saver()
    older = await put(saver, config, x=1)
    clock.move(1)
    newest = await put(saver, older, x=2)
    await saver.aput_writes(newest, [("x", 3)], "task-1")
    within = {**config, "configurable": {**config["configurable"], "checkpoint_ns": "sub:1"}}
    nested = await put(saver, within, y=1)
    clock.move(20 * DAY)
    await savers.saver().renew(config)
    clock.move(20 * DAY)
    saver = savers.saver()
    assert await saver.aget_tuple(older) is None
    assert await pending(saver, newest) == [("task-1", "x", 3)]
    assert await values(saver, nested) == {"y": 1}


def versions(stack: Stack, config: Any) -> int:
    """Return the number of all versions of the thread's blobs."""
    bucket, prefix = (
        stack.environment("ApiFunction")["AION_BUCKET"],
        f"{keys.owner_folder('threads', '')}/{config['configurable']['thread_id']}/",
    )
    return len(stack.client("s3").list_object_versions(Bucket=bucket, Prefix=prefix)["Versions"])


async def test_renewal_stores_blob_of_checkpoint_again(
    table: DynamoDBSavers, stack: Stack, clock: ManualClock, config: Any
) -> None:
    await put(table.saver(), config, x=noise(40_000))
    clock.move(20 * DAY)
    await table.saver().renew(config)
    assert versions(stack, config) == 2
    assert len(await values(table.saver(), config)) == 1


async def test_renewal_stores_all_blobs_of_item_again(
    table: DynamoDBSavers, stack: Stack, clock: ManualClock, config: Any
) -> None:
    """A LangGraph task with a large question, and after the answer a large result, has two blobs in one item."""
    saver = table.saver()
    newest = await put(saver, config, x=1)
    await saver.aput_writes(newest, [(INTERRUPT, noise(40_000))], "task-1")
    await saver.aput_writes(newest, [("x", noise(50_000))], "task-1")
    clock.move(20 * DAY)
    await table.saver().renew(config)
    assert versions(stack, config) == 4


async def test_young_checkpoint_is_not_renewed(table: DynamoDBSavers, clock: ManualClock, config: Any) -> None:
    saver = table.saver()
    await put(saver, config, x=1)
    clock.move(DAY / 2)
    line = CuttableConnection(table.client)
    await saver.renew(config)
    assert line.writes == 0


async def test_interrupted_renewal_of_checkpoints_is_repeated(
    table: DynamoDBSavers, clock: ManualClock, config: Any
) -> None:
    """Cut the connection after 50 of 51 items: the next renewal begins again, because the newest checkpoint is last."""
    saver = table.saver()
    newest = await put(saver, config, x=1)
    for number in range(50):
        await saver.aput_writes(newest, [("x", number)], f"task-{number:02d}")
    clock.move(20 * DAY)
    line = CuttableConnection(table.client, cut_at=8)
    with pytest.raises(StoreUnavailable):
        await table.saver().renew(config)
    assert line.requests["TransactWriteItems"] == 1
    line.restart()
    await table.saver().renew(config)
    clock.move(20 * DAY)
    assert len(await pending(table.saver(), newest)) == 50


async def test_delete_thread_deletes_oldest_checkpoints_first(
    table: DynamoDBSavers, stack: Stack, clock: ManualClock, config: Any
) -> None:
    saver = table.saver()
    for number in range(60):
        await put(saver, config, x=number)
    line = CuttableConnection(table.client, cut_at=5)
    with pytest.raises(StoreUnavailable):
        await saver.adelete_thread(config["configurable"]["thread_id"])
    assert line.requests == {"Query": 3, "TransactWriteItems": 1}
    left = [found.checkpoint["channel_values"]["x"] async for found in history(DynamoDBSavers(stack, clock), config)]
    assert left == [*range(59, 49, -1)]


async def test_only_listed_classes_are_restored_from_checkpoint(savers: Savers, config: Any) -> None:
    held = {"message": HumanMessage("hi", id="m-1"), "place": Place("here"), "when": timedelta(seconds=3)}
    await put(savers.saver(), config, **held)
    assert await values(savers.saver(types=[Place]), config) == held
    assert await values(savers.saver(types=[(Place.__module__, "Place")]), config) == held
    assert await values(savers.saver(), config) == {**held, "place": {"name": "here"}}
    with pytest.raises(UnserializableState):
        await put(savers.saver(types=[OpenConnection]), config, connection=OpenConnection())


async def test_error_names_unserializable_value_and_its_containing_objects(savers: Savers, config: Any) -> None:
    with pytest.raises(UnserializableState, match=r"\(OpenConnection in Place in Interrupt\)"):
        await put(savers.saver(), config, asked=[Interrupt({"place": Place(OpenConnection())}, id="i-1")])  # type: ignore[arg-type]


async def test_secret_str_in_state_is_restored_as_secret_str(savers: Savers, config: Any) -> None:
    await put(savers.saver(), config, key=SecretStr("sk-1"))
    assert await values(savers.saver(), config) == {"key": SecretStr("sk-1")}


@dataclass
class Place:
    name: str


class OpenConnection:
    """Object that pickle can serialize, but the checkpoint serializer cannot."""


# ── Number of requests ────────────────────────────────────────────────────────────────────────────────────────────────


def fan(*names: str) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Trail)
    builder.add_node("join", leaves("join"))
    for name in names:
        builder.add_node(name, leaves(name))
        builder.add_edge(START, name)
    builder.add_edge(list(names), "join")
    return builder


def nested() -> StateGraph[Any, Any, Any, Any]:
    return chain(a=leaves("a"), sub=chain(b=leaves("b")).compile())


@pytest.mark.parametrize(
    ("graph", "writes", "reads"),
    [
        (chain(a=leaves("a")), 5, 1),
        (chain(a=leaves("a"), b=leaves("b")), 7, 1),
        (chain(**{name: leaves(name) for name in "abcdef"}), 15, 1),
        (fan(*"abcde"), 11, 1),
        (nested(), 12, 2),
    ],
    ids=["1 node", "2 nodes", "6 in a row", "5 branches and join", "a subgraph"],
)
async def test_turn_with_checkpoints_makes_limited_number_of_dynamodb_requests(
    table: DynamoDBSavers,
    clock: ManualClock,
    config: Any,
    graph: StateGraph[Any, Any, Any, Any],
    writes: int,
    reads: int,
) -> None:
    saver = table.saver(fence=fence_of(await begin(table.tasks, clock)))
    line = CuttableConnection(table.client)
    await graph.compile(saver).ainvoke({"trail": []}, config, durability="sync")
    assert line.writes <= writes, line.requests
    assert line.requests["Query"] <= reads, line.requests
    assert set(line.requests) == {"Query", "TransactWriteItems"}


async def test_newest_checkpoint_is_read_with_one_request(table: DynamoDBSavers, config: Any) -> None:
    graph = chain(a=leaves("a"), b=leaves("b")).compile(table.saver())
    for turn in range(4):
        this_turn: Any = {**config, "metadata": {"run_id": f"turn-{turn}"}}
        await graph.ainvoke({"trail": []}, this_turn)
    line = CuttableConnection(table.client)
    assert len((await graph.aget_state(config)).values["trail"]) == 8
    assert line.requests == {"Query": 1}


async def test_every_checkpoint_read_is_strongly_consistent(table: DynamoDBSavers, config: Any) -> None:
    line = CuttableConnection(table.client)
    saver = table.saver()
    stored = await put(saver, config)
    await saver.aget_tuple(config)
    await saver.aget_tuple(stored)
    _ = [found async for found in saver.alist(config)]
    await saver.adelete_thread(config["configurable"]["thread_id"])
    reads = [body for operation, body in line.bodies if operation == "Query"]
    assert len(reads) == 4
    assert all(body["ConsistentRead"] for body in reads)


async def test_checkpoint_items_have_version_and_ttl(savers: Savers, clock: ManualClock, config: Any) -> None:
    def a_week_from_now() -> int:
        return int((clock.now() + timedelta(days=7 + 1)).timestamp())

    saver, first = savers.saver(retention=timedelta(days=7)), a_week_from_now()
    await saver.aput_writes(await put(saver, config), [("x", 1)], "task-1")
    page = await savers.table.query(keys.thread_partition(config["configurable"]["thread_id"]), "C", LAST)
    assert [item["v"] for item in page.items] == [VERSION] * 2
    # The clock moves with each reading, also from one second to the next.
    assert all(first <= item["expires"] <= a_week_from_now() for item in page.items)
