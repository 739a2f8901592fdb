"""A worker that was frozen while it waited for the store begins no step of a turn that another worker has finished.

Each test freezes the first worker at one of its requests, after the request has succeeded. Meanwhile its lease runs out,
and another worker runs the turn to its end. Then the first worker continues. Its heartbeat stays frozen, so that only
the check before a step can stop it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from google.adk.agents import LlmAgent, SequentialAgent
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph

from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.task_store import TaskStore
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.local.memory.table import MemoryTable
from aion_core.protocol.types import Part, TaskState
from aion_core.state.adk.sessions import TableSessions
from aion_core.state.langgraph.checkpoints import TableSaver
from tests.support.adk import DecidingLlm, call, served
from tests.support.clock import ManualClock
from tests.support.frozen import frozen
from tests.support.savers import begin
from tests.support.stores import CIPHER, LEASE_SECONDS

LATE, HEIR = "late", "heir"


class FreezingTable:
    """Table of the worker that is frozen after its request number `at`, until `meanwhile` is done."""

    def __init__(self, table: MemoryTable, at: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._table, self._at, self._meanwhile = table, at, meanwhile
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)
        if name not in ("get", "query", "write", "transact"):
            return method

        async def request(*given: Any, **options: Any) -> Any:
            answer = await method(*given, **options)
            self.requests += 1
            if self.requests == self._at:
                await self._meanwhile()
            return answer

        return request


Steps = Callable[[str], None]
"""Function that notes the begin of a step by its name."""


def langgraph(begins: Steps, place: "Place") -> Any:
    def step(name: str) -> Any:
        async def node(state: MessagesState) -> dict[str, Any]:
            begins(name)
            return {"messages": [AIMessage(name)]}

        return node

    builder = StateGraph(MessagesState)
    for before, name in zip([START, "one", "two"], ["one", "two", "three"], strict=True):
        builder.add_node(name, step(name)).add_edge(before, name)
    return LangGraphAgent(builder.compile(), place.saver)


def functions(begins: Steps, place: "Place") -> Any:
    @task
    async def one() -> str:
        begins("one")
        return "one"

    @task
    async def two() -> str:
        begins("two")
        return "two"

    @entrypoint()
    async def main(given: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [AIMessage(await one() + await two())]}

    return LangGraphAgent(main, place.saver)


def adk(begins: Steps, place: "Place") -> Any:
    def agent(name: str) -> LlmAgent:
        async def act() -> str:
            """Act."""
            begins(f"{name} tool")
            return "done"

        def decide(seen: list[str]) -> Any:
            begins(f"{name} model {len(seen)}")
            return [f"{name}."] if any("act ->" in text for text in seen[-1:]) else [call("act", f"{name}-1")]

        return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=[act])

    root = SequentialAgent(name="root", sub_agents=[agent("first"), agent("second")])
    return served(root, place.sessions)


def executor(begins: Steps, place: "Place") -> Any:
    class Steps(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            begins("execute")
            updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
            for name in ("one", "two"):
                await updater.add_artifact([Part(text=name)], artifact_id=name)
                begins(f"after {name}")
            await updater.complete()

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    return ExecutorAgent(Steps(), place.tasks, resume=AfterCrash.RESTART)


KINDS = {"LangGraph": langgraph, "functions": functions, "ADK": adk, "executor": executor}


class Place:
    """Stores and a worker of one process, over a table."""

    def __init__(self, table: Any, blobs: MemoryBlobs, clock: ManualClock) -> None:
        self._table, self._blobs, self._clock = table, blobs, clock
        self.tasks = TaskStore(table, blobs, clock, cipher=CIPHER, lease_seconds=LEASE_SECONDS)

    def saver(self, fence: Any = None, **options: Any) -> TableSaver:
        return TableSaver(self._table, self._blobs, self._clock, fence=fence, **options)

    def sessions(self, fence: Any) -> TableSessions:
        return TableSessions(self._table, self._blobs, CIPHER, self._clock, fence=fence)

    async def run(self, agent: Any, begun: TurnStarted) -> None:
        queue = MemoryWorkQueue(self._clock)
        runner = TaskRunner(self.tasks, lambda _: agent, self._clock, queue, keep_lease=frozen)
        log = await self.tasks.log(begun.head.key)
        assert log is not None
        await Worker(self.tasks, runner, queue, self._clock).run(begun, EventBroadcast(log.events))


async def frozen_at(kind: str, at: int) -> tuple[list[tuple[str, str]], bool]:
    """Freeze the first worker after request number `at`. Return the steps begun after the thaw, and if it was frozen."""
    clock = ManualClock()
    table, blobs = MemoryTable(clock), MemoryBlobs()
    begun_steps: list[tuple[str, str]] = []
    thawed_at: list[int] = []
    ours = Place(table, blobs, clock)
    begun = await begin(ours.tasks, clock)

    async def meanwhile() -> None:
        clock.move(LEASE_SECONDS + 1)
        taken = await ours.tasks.begin(begun.lease.context, holder=HEIR)
        if isinstance(taken, TurnStarted):
            agent = KINDS[kind](lambda name: begun_steps.append((HEIR, name)), ours)
            # Another process doesn't have this one's context variables.
            await asyncio.create_task(ours.run(agent, taken), context=Context())
        else:
            assert not isinstance(taken, LeaseHeld)
        thawed_at.append(len(begun_steps))

    freezing = FreezingTable(table, at, meanwhile)
    late = Place(freezing, blobs, clock)
    await asyncio.wait_for(late.run(KINDS[kind](lambda name: begun_steps.append((LATE, name)), late), begun), 60)
    if not thawed_at:
        return [], False
    head = await ours.tasks.head(begun.head.key)
    assert head is not None
    assert head.state == TaskState.TASK_STATE_COMPLETED, f"request {at}"
    return begun_steps[thawed_at[0] :], True


@pytest.mark.parametrize("kind", KINDS)
async def test_thawed_worker_begins_no_step_of_finished_turn(kind: str) -> None:
    frozen_requests = 0
    for at in range(1, 200):
        late, was_frozen = await frozen_at(kind, at)
        if not was_frozen:
            break
        frozen_requests += 1
        assert late == [], f"begun after the freeze at request {at}"
    assert 3 < frozen_requests < 199
