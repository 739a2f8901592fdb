"""Workers that lose their lease: a frozen worker writes nothing more; a turn with progress outlives dead workers.

The runner, the LangGraph adapter, the checkpoints and the log run on the production adapters, on each database.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_message
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.engine.call import CallContext
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.queues import WakeUp
from aion_core.engine.runner.failures import MAX_TRIES
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.service import TaskService
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.task import projection
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import TaskState
from aion_core.table.keys import ContextKey, TaskKey, thread_id
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.frozen import frozen
from tests.support.histories import messages_of
from tests.support.requests import request
from tests.support.savers import DynamoDBSavers, begin, taken_over
from tests.support.stores import new_owner


@dataclass
class Frozen:
    """Graph of three steps; the second step blocks in the worker `late` until the test sets `go`."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    stands: asyncio.Event = field(default_factory=asyncio.Event)
    ran: list[str] = field(default_factory=list)

    def graph(self, worker: str) -> Any:
        def step(name: str) -> Any:
            async def node(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
                self.ran.append(f"{worker} {name}")
                if name == "two" and worker == "late":
                    self.stands.set()
                    await self.go.wait()
                emit_message(writer, AIMessage(f"{worker} did {name}"))
                return {"messages": [AIMessage(f"{worker}: {name}")]}

            return node

        builder = StateGraph(MessagesState)
        names = ["one", "two", "three"]
        for name in names:
            builder.add_node(name, step(name))
        for before, after in zip([START, *names], names, strict=False):
            builder.add_edge(before, after)
        return builder.compile()


async def test_worker_with_lost_lease_cannot_write_events_or_checkpoints(stack: Stack) -> None:
    """Keep the second worker's answer; the next turn's model reads the same messages as the client."""
    clock = ManualClock()
    savers = DynamoDBSavers(stack, clock)
    graphs = Frozen()
    work_queue = MemoryWorkQueue(clock)
    context = ContextKey(new_owner(), "test", "c")

    def agent(worker: str) -> LangGraphAgent:
        return LangGraphAgent(
            graphs.graph(worker),
            savers.saver,
        )

    def worker(name: str) -> Worker:
        agents = {"test": agent(name)}
        runner = TaskRunner(savers.tasks, agents.__getitem__, clock, work_queue, keep_lease=frozen)
        return Worker(savers.tasks, runner, work_queue, clock)

    late, heir = worker("late"), worker("heir")
    service = TaskService(savers.tasks, late, work_queue, clock)
    call = CallContext(context.owner, "test")
    sending = asyncio.create_task(service.send(call, request("go")))
    await asyncio.wait_for(graphs.stands.wait(), 60)

    clock.move(31)
    begun = await savers.tasks.begin(context, holder="heir")
    assert isinstance(begun, TurnStarted)
    log = await savers.tasks.log(begun.head.key)
    assert log is not None
    await heir.run(begun, EventBroadcast(log.events))
    ended = await savers.tasks.log(begun.head.key)
    assert ended is not None
    assert ended.head.state == TaskState.TASK_STATE_COMPLETED

    graphs.go.set()
    await call.background.wait()
    assert await savers.tasks.log(begun.head.key) == ended, "nothing was added"
    task = projection.fold(ended.events)
    said = [message.parts[0].text for message in messages_of(task)]
    assert said == ["go", "late did one", "late: one", "heir did two", "heir: two", "heir did three", "heir: three"]
    assert graphs.ran == ["late one", "late two", "heir two", "heir three"]

    reader = graphs.graph("reader").copy(update={"checkpointer": savers.saver()})
    state = await reader.aget_state({"configurable": {"thread_id": thread_id(context)}})
    kept = [message.content for message in state.values["messages"]]
    assert [text for text in kept if text in ("heir: two", "heir: three")] == ["heir: two", "heir: three"]
    assert not [text for text in kept if text.startswith("late: two")]
    sending.cancel()
    await work_queue.enqueue(WakeUp(context))
    head = await savers.tasks.head(TaskKey(context.owner, task.id))
    assert head is not None
    assert head.generation == ended.head.generation


STEPS = [f"step {number}" for number in range(2 * MAX_TRIES)]


class BlockingGraph:
    """Chain of nodes, one for each of `STEPS`. The node `blocked` blocks until the test cancels its worker."""

    def __init__(self) -> None:
        self.blocked = ""
        self.reached = asyncio.Event()
        self.ran: list[str] = []

    def graph(self) -> Any:
        builder = StateGraph(MessagesState)
        for name in STEPS:
            builder.add_node(name, self._step(name))
        for before, after in zip([START, *STEPS], STEPS, strict=False):
            builder.add_edge(before, after)
        return builder.compile()

    def _step(self, name: str) -> Any:
        async def node(state: MessagesState) -> dict[str, Any]:
            self.ran.append(name)
            if name == self.blocked:
                self.reached.set()
                await asyncio.get_running_loop().create_future()
            return {"messages": [AIMessage(name)]}

        return node


@pytest.mark.parametrize("advances", [True, False], ids=["with progress", "without progress"])
async def test_task_fails_only_if_workers_die_in_same_step(stack: Stack, advances: bool) -> None:
    """Kill each worker in its second step, or all workers in one step: the task fails only in the second case."""
    clock = ManualClock()
    savers, graph = DynamoDBSavers(stack, clock), BlockingGraph()
    agents = {"echo": LangGraphAgent(graph.graph(), savers.saver)}
    work_queue = MemoryWorkQueue(clock)
    runner = TaskRunner(savers.tasks, agents.__getitem__, clock, work_queue, keep_lease=frozen)
    worker = Worker(savers.tasks, runner, work_queue, clock)

    async def run(begun: TurnStarted) -> None:
        log = await savers.tasks.log(begun.head.key)
        assert log is not None
        await worker.run(begun, EventBroadcast(log.events))

    begun = await begin(savers.tasks, clock)
    for death in range(len(STEPS) - 1 if advances else MAX_TRIES):
        graph.blocked = STEPS[death + 1 if advances else 1]
        graph.reached.clear()
        running = asyncio.create_task(run(begun))
        async with asyncio.timeout(60):
            await graph.reached.wait()
        running.cancel()
        await asyncio.wait({running})
        begun = await taken_over(savers, clock, begun)
    graph.blocked = ""
    await run(begun)
    ended = await savers.tasks.log(begun.head.key)
    assert ended is not None
    task = projection.fold(ended.events)
    if advances:
        assert task.status.state == TaskState.TASK_STATE_COMPLETED, task.status
        assert graph.ran == [STEPS[0], *(name for name in STEPS[1:] for _ in range(2))]
    else:
        assert task.status.state == TaskState.TASK_STATE_FAILED
        assert "without progress" in task.status.message.parts[0].text
        assert graph.ran == [STEPS[0], *([STEPS[1]] * MAX_TRIES)]
