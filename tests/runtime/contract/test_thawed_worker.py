"""A worker that was frozen begins no step of a turn that another worker has finished, and changes no artifact.

Each test freezes the first worker at one of its requests, after the request has succeeded, or within one of its steps.
Meanwhile its lease runs out, and another worker runs the turn to its end. Then the first worker continues. Its heartbeat
stays frozen, so that only the check before a step can stop it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import Workflow
from google.genai import types as genai
from langchain_core.messages import AIMessage
from langgraph.config import get_store
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph

from aion_core.agents.adk.agent import build_agent as build_adk_agent
from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.agent import build_agent as build_langgraph_agent
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.task_store import TaskStore
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.local.memory.table import MemoryTable
from aion_core.protocol.types import Part, TaskState
from aion_core.state.adk.sessions import TableSessions
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.table.item import PARTITION
from tests.support.adk import DecidingLlm, call, content, served
from tests.support.clock import ManualClock
from tests.support.frozen import frozen
from tests.support.savers import begin
from tests.support.stores import CIPHER, LEASE_SECONDS

LATE, HEIR = "late", "heir"


class FreezingStore:
    """Table or blobs of a worker that may be frozen after any of its requests: `requested` is awaited there."""

    def __init__(self, store: Any, requested: Callable[[], Awaitable[None]]) -> None:
        self._store, self._requested = store, requested

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not iscoroutinefunction(method):
            return method

        async def request(*given: Any, **options: Any) -> Any:
            answer = await method(*given, **options)
            await self._requested()
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


class Custom(BaseAgent):
    """Custom ADK agent of three steps, with an event after each."""

    begins: Steps

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in range(3):
            self.begins(f"{self.name} {number}")
            text = content(genai.Part(text=f"{self.name} did {number}."))
            yield Event(invocation_id=ctx.invocation_id, author=self.name, branch=ctx.branch, content=text)


def custom(begins: Steps, place: "Place") -> Any:
    return served(Custom(name="custom", begins=begins), place.sessions, resume=AfterCrash.RESTART)


def sub_agents(begins: Steps, place: "Place") -> Any:
    subs: list[BaseAgent] = [Custom(name=name, begins=begins) for name in ("first", "second")]
    return served(SequentialAgent(name="root", sub_agents=subs), place.sessions, resume=AfterCrash.RESTART)


def agent_tool(begins: Steps, place: "Place") -> Any:
    def decide(seen: list[str]) -> Any:
        begins(f"model {len(seen)}")
        return ["Done."] if any("inner ->" in text for text in seen[-1:]) else [call("inner", "call-1", request="go")]

    inner = AgentTool(Custom(name="inner", begins=begins))
    return served(LlmAgent(name="root", model=DecidingLlm(decide=decide), tools=[inner]), place.sessions)


def workflow(begins: Steps, place: "Place") -> Any:
    async def one() -> str:
        begins("one")
        return "one"

    async def two() -> None:
        begins("two")

    def three() -> str:
        begins("three")
        return "three"

    edges: Any = [("START", one), (one, two), (two, three)]
    return served(Workflow(name="root", edges=edges), place.sessions)


class Saving(BaseAgent):
    """Custom ADK agent that saves an artifact, then deletes and saves it again."""

    begins: Steps

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        assert ctx.artifact_service is not None
        of: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "filename": "report.txt"}
        of["session_id"] = ctx.session.id
        self.begins("saves")
        for text in ("A draft.", "A report."):
            version = await ctx.artifact_service.save_artifact(**of, artifact=genai.Part(text=text))
        changes = EventActions(artifact_delta={"report.txt": version})
        yield Event(invocation_id=ctx.invocation_id, author=self.name, actions=changes)
        self.begins("replaces")
        await ctx.artifact_service.delete_artifact(**of)
        await ctx.artifact_service.save_artifact(**of, artifact=genai.Part(text="A new report."))
        yield Event(invocation_id=ctx.invocation_id, author=self.name, content=content(genai.Part(text="Replaced.")))


def artifacts(begins: Steps, place: "Place") -> Any:
    config = AgentConfig(path="agent.py", resume=AfterCrash.RESTART)
    return build_adk_agent(LoadedObject(Saving(name="saving", begins=begins), None), config, place.dependencies())


def memory(begins: Steps, place: "Place") -> Any:
    async def node(state: MessagesState) -> dict[str, Any]:
        begins("node")
        for number in range(2):
            await get_store().aput(("notes",), str(number), {"text": "A note."})
        return {"messages": [AIMessage("Noted.")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
    return build_langgraph_agent(LoadedObject(graph, None), AgentConfig(path="agent.py"), place.dependencies())


KINDS = {
    "LangGraph": langgraph,
    "functions": functions,
    "ADK": adk,
    "custom agent": custom,
    "custom sub-agents": sub_agents,
    "agent as a tool": agent_tool,
    "Workflow": workflow,
    "executor": executor,
    "artifacts": artifacts,
    "long-term memory": memory,
}


class Place:
    """Stores and a worker of one process, over a table."""

    def __init__(self, table: Any, blobs: Any, clock: ManualClock) -> None:
        self._table, self._blobs, self._clock = table, blobs, clock
        self.tasks = TaskStore(table, blobs, clock, cipher=CIPHER, lease_seconds=LEASE_SECONDS)

    def saver(self, fence: Any = None, **options: Any) -> TableSaver:
        return TableSaver(self._table, self._blobs, self._clock, fence=fence, **options)

    def sessions(self, fence: Any) -> TableSessions:
        return TableSessions(self._table, self._blobs, CIPHER, self._clock, fence=fence)

    def dependencies(self) -> AgentDependencies:
        return AgentDependencies(self.tasks, self._table, self._blobs, CIPHER, self._clock, timedelta(days=30))

    async def run(self, agent: Any, begun: TurnStarted) -> None:
        queue = MemoryWorkQueue(self._clock)
        runner = TaskRunner(self.tasks, lambda _: agent, self._clock, queue, keep_lease=frozen)
        log = await self.tasks.log(begun.head.key)
        assert log is not None
        await Worker(self.tasks, runner, queue, self._clock).run(begun, EventBroadcast(log.events))


class FrozenTurn:
    """Turn of an agent of some kind. Its first worker is frozen once, until another one has finished the turn."""

    def __init__(self, kind: str) -> None:
        self._kind, self._clock = KINDS[kind], ManualClock()
        self._table, self._blobs = MemoryTable(self._clock), MemoryBlobs()
        self._requests = 0
        self._steps: list[tuple[str, str]] = []
        """Workers and the steps that they have begun, in order."""
        self._before_thaw: tuple[int, Any] | None = None
        """Number of the steps begun and the record when the first worker continued; None if it was not frozen."""

    async def run(self, *, request: int = 0, step: int = 0) -> list[tuple[str, str]] | None:
        """Freeze the first worker after its request or within its step with this number, counted from 1.

        Return the steps begun after it continued, or None if it was not frozen.
        """
        self._begun = await begin(self._place().tasks, self._clock)

        async def requested() -> None:
            self._requests += 1
            if self._requests == request:
                await self._meanwhile()

        def begins(name: str) -> None:
            self._steps.append((LATE, name))
            if len(self._steps) == step:
                # Block the thread of the first worker's event loop: nothing of a frozen process runs on.
                with ThreadPoolExecutor(1) as another:
                    another.submit(asyncio.run, self._meanwhile()).result()

        late = Place(FreezingStore(self._table, requested), FreezingStore(self._blobs, requested), self._clock)
        await asyncio.wait_for(late.run(self._kind(begins, late), self._begun), 60)
        if self._before_thaw is None:
            return None
        head = await self._place().tasks.head(self._begun.head.key)
        assert head is not None
        assert head.state == TaskState.TASK_STATE_COMPLETED, f"request {request}, step {step}"
        begun, record = self._before_thaw
        assert await self._record() == record, f"recorded after the freeze at request {request}, step {step}"
        return self._steps[begun:]

    def _place(self) -> Place:
        return Place(self._table, self._blobs, self._clock)

    async def _meanwhile(self) -> None:
        self._clock.move(LEASE_SECONDS + 1)
        heir = self._place()
        taken = await heir.tasks.begin(self._begun.lease.context, holder=HEIR)
        if isinstance(taken, TurnStarted):
            agent = self._kind(lambda name: self._steps.append((HEIR, name)), heir)
            # Another process doesn't have this one's context variables.
            await asyncio.create_task(heir.run(agent, taken), context=Context())
        else:
            assert not isinstance(taken, LeaseHeld)
        self._clock.move(1)  # what the first worker writes has another time
        self._before_thaw = len(self._steps), await self._record()

    async def _record(self) -> Any:
        # Leave out the chunks of streamed text: a reader passes over those of an earlier holder.
        items = [item for item in (await self._table.scan()).items if not item[PARTITION].startswith("DELTA#")]
        return items, {name: await self._blobs.get(name) for name in await self._blobs.names("")}


@pytest.mark.parametrize("kind", KINDS)
async def test_thawed_worker_begins_no_step_of_finished_turn(kind: str) -> None:
    for at in range(1, 200):
        late = await FrozenTurn(kind).run(request=at)
        if late is None:
            break
        assert late == [], f"begun after the freeze at request {at}"
    assert 4 < at < 199


@pytest.mark.parametrize("kind", KINDS)
async def test_worker_frozen_within_step_begins_no_other(kind: str) -> None:
    for step in range(1, 50):
        late = await FrozenTurn(kind).run(step=step)
        if late is None:
            break
        assert late == [], f"begun after the freeze within step {step}"
    assert 1 < step < 49
