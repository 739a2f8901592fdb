"""Store errors during turns: they use up no tries needlessly, and one error does not hide another result."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from google.adk.agents import ParallelAgent
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from msgspec.structs import replace

from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.engine.agent import Chunk, Emission, Reply, TurnRequest
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.call import CallContext
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.engine.records import StoppedBy
from aion_core.engine.runner import renewal
from aion_core.engine.runner.failures import LAST_STOP, MAX_TRIES, UNREADABLE
from aion_core.engine.sweep import Sweep
from aion_core.errors import StoreCorrupt, StoreError, StoreUnavailable
from aion_core.local.memory.queues import MemoryPushQueue, MemoryWorkQueue
from aion_core.protocol.errors import SERVICE_UNAVAILABLE
from aion_core.protocol.types import TaskState
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.telemetry import Metric
from tests.support.adk import llm_agent, served
from tests.support.agents.scripted import Stubborn, says
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.failing import Failing
from tests.support.metrics import MemoryMetrics
from tests.support.requests import request
from tests.support.service import ServiceParts, http, parts, send, send_task
from tests.support.stores import MemoryPushConfigs, MemoryTaskList, MemoryTaskStore

CALL = partial(CallContext, "owner", "test")
"""A new context for each call: its deadline belongs to one event loop."""
CONTEXT = ContextKey("owner", "test", "c")
MANY = MAX_TRIES + 3
DENIED = StoreError("Query: AccessDeniedException")


class AgentWithRefusedCheckpoints:
    """Agent whose checkpoints the store refuses for a while, before or after the first chunk."""

    def __init__(self, times: int, *, speaks: bool = False, error: BaseException | None = None) -> None:
        self.left, self._streams = times, speaks
        self._error = error or StoreUnavailable("GetItem: ThrottlingException")

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        if self._streams:
            yield Chunk("word", "call")
        if self.left:
            self.left -= 1
            raise self._error
        yield Reply(says("answer"))


class HangingAgent:
    """Agent that never ends after its first chunk. If a test sets `refused`, it raises a store's error instead."""

    refused = False

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("word", "call")
        if self.refused:
            raise DENIED
        await asyncio.get_running_loop().create_future()


async def _unsaved(made: ServiceParts, method: str) -> list[Any]:
    """Send a message while the store refuses every write of its turn; return the JSON-RPC responses."""
    store: Any = made.store
    store.refuse(append=MANY, finish=MANY, pause=MANY)
    async with http(made.app()) as client, asyncio.timeout(60):
        response = await client.post("/agents/test/", json=send(method=method))
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if '"jsonrpc"' in line]


def _unreadable(operation: Callable[..., Any], task_id: str) -> Callable[..., Any]:
    """Return a replacement of the store's operation that cannot read one of the tasks."""

    def call(key: TaskKey, **options: Any) -> Any:
        if key.task_id == task_id:
            raise StoreCorrupt("The blob of an event is gone.")
        return operation(key, **options)

    return call


def _keeps(messages: list[Any]) -> Any:
    """Return a queue operation that appends the messages to a list."""

    async def enqueue(wake_up: Any, *, delay: float = 0.0, urgent: bool = False) -> None:
        messages.append(wake_up)

    return enqueue


async def outcome(made: ServiceParts, clock: ManualClock) -> str:
    """Handle all wake-up messages of the task despite store errors; return the task's state."""
    made.work_queue.close()
    task = await send_task(made.service, CALL(), request(return_immediately=True))
    for _ in range(MANY + 2):
        await made.worker.handle(WakeUp(CONTEXT))
        clock.move(60)
    return str((await made.service.get(CALL(), task.id)).status)


async def test_store_error_before_agent_output_does_not_count_as_attempt(clock: ManualClock) -> None:
    made = parts(AgentWithRefusedCheckpoints(MANY), MemoryTaskStore(clock), clock)
    assert "COMPLETED" in await outcome(made, clock)


REFUSED = StoreUnavailable("GetItem: ThrottlingException")


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("g", [REFUSED]),
        BaseExceptionGroup("g", [KeyError(), ExceptionGroup("h", [ValueError(), REFUSED])]),
    ],
    ids=["one", "nested and mixed"],
)
async def test_store_error_in_group_does_not_count_as_attempt(error: BaseException, clock: ManualClock) -> None:
    made = parts(AgentWithRefusedCheckpoints(MANY, error=error), MemoryTaskStore(clock), clock)
    assert "COMPLETED" in await outcome(made, clock)


async def test_corrupt_record_in_group_fails_task(clock: ManualClock) -> None:
    error = ExceptionGroup("g", [StoreCorrupt("The blob of an event is gone.")])
    made = parts(AgentWithRefusedCheckpoints(1, error=error), MemoryTaskStore(clock), clock)
    assert UNREADABLE in await outcome(made, clock)


class RefusedOnce:
    """Call of a store in a task group, which the store refuses once."""

    is_refused = False

    async def __call__(self, *_: Any, **__: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._refuse())

    async def _refuse(self) -> None:
        if not self.is_refused:
            self.is_refused = True
            raise REFUSED


def _graph() -> Any:
    call = RefusedOnce()

    async def node(_: MessagesState) -> Any:
        await call()
        return {"messages": [AIMessage("done")]}

    builder: Any = StateGraph(MessagesState)
    return builder.add_node("node", node).add_edge(START, "node").compile()


def _parallel_agents() -> Any:
    call = RefusedOnce()
    # The other agent may call its model in the refused attempt too.
    agents: list[Any] = [llm_agent(["one"], ["one"], name=name, before_model_callback=call) for name in ("one", "two")]
    return served(ParallelAgent(name="root", sub_agents=agents))


def _executor() -> Any:
    call = RefusedOnce()

    class Executor(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: Any) -> None:
            await call()
            await event_queue.enqueue_event(says("done"))

        async def cancel(self, context: RequestContext, event_queue: Any) -> None: ...

    return ExecutorAgent(Executor(), MemoryTaskStore(ManualClock()), resume=AfterCrash.RESTART)


@pytest.mark.parametrize("agent", [_graph, _parallel_agents, _executor])
async def test_turn_runs_again_after_store_error_in_group(agent: Callable[[], Any], clock: ManualClock) -> None:
    made = parts(agent(), MemoryTaskStore(clock), clock)
    assert "COMPLETED" in await outcome(made, clock)


async def test_store_error_after_agent_output_counts_as_attempt(clock: ManualClock) -> None:
    made = parts(AgentWithRefusedCheckpoints(MANY, speaks=True), MemoryTaskStore(clock), clock)
    status = await outcome(made, clock)
    assert "FAILED" in status
    assert f"begun {MAX_TRIES} times" in status
    assert LAST_STOP[StoppedBy.STORE] in status


@pytest.mark.parametrize("last", StoppedBy)
async def test_failure_reason_names_cause_of_last_stop(
    last: StoppedBy, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of three tries stops for another cause: the task's failure names the last one."""
    agent = HangingAgent()
    made = parts(agent, MemoryTaskStore(clock), clock)
    made.work_queue.close()
    task = await send_task(made.service, CALL(), request(return_immediately=True))
    for cause in sorted(StoppedBy, key=lambda each: each is last):
        if cause is StoppedBy.WORKER:
            await made.store.begin(CONTEXT, holder="dies")
        else:
            agent.refused = cause is StoppedBy.STORE
            deadline = Deadline(grace=0.0)
            if cause is StoppedBy.DEADLINE:
                deadline.now.set()
            await made.worker.handle(WakeUp(CONTEXT), deadline=deadline)
        clock.move(60)
    await made.worker.handle(WakeUp(CONTEXT))
    status = str((await made.service.get(CALL(), task.id)).status)
    assert "FAILED" in status
    named = {cause for cause, sentence in LAST_STOP.items() if sentence in status}
    assert named == {last}
    assert LAST_STOP[last].strip() in caplog.text


async def test_unreadable_task_log_does_not_count_as_attempt(clock: ManualClock) -> None:
    store: Any = Failing(MemoryTaskStore(clock))
    made = parts(AgentWithRefusedCheckpoints(0), store, clock)
    made.work_queue.close()
    task = await send_task(made.service, CALL(), request(return_immediately=True))
    for _ in range(MANY):
        store.refuse(log=1)
        await made.worker.handle(WakeUp(CONTEXT))
        clock.move(60)
    store.heal()
    await made.worker.handle(WakeUp(CONTEXT))
    assert "COMPLETED" in str((await made.service.get(CALL(), task.id)).status)


async def test_turn_with_unreadable_log_is_suspended(clock: ManualClock) -> None:
    """Suspend the turn and release its lease, so that another process can begin the turn at once."""
    store: Any = Failing(MemoryTaskStore(clock))
    made = parts(AgentWithRefusedCheckpoints(0), store, clock)
    made.work_queue.close()
    await send_task(made.service, CALL(), request(return_immediately=True))
    store.refuse(log=1)
    await made.worker.handle(WakeUp(CONTEXT))
    assert isinstance(await store.begin(CONTEXT, holder="another"), TurnStarted), "at once"


@pytest.mark.parametrize("noticed_by", ["heartbeat", "write"])
async def test_lost_lease_is_logged_once(
    noticed_by: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent ignores the stop, and its later write is refused too: the lost lease is logged only once."""
    if noticed_by == "heartbeat":
        monkeypatch.setattr(renewal, "WATCH_SECONDS", 0.01)
    caplog.set_level(logging.INFO, "aion_core")
    agent = Stubborn()
    made = parts(agent, clock=clock)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await asyncio.wait_for(agent.spoke.wait(), 60)
    clock.move(31)
    taken = await made.store.begin(CONTEXT, holder="heir")
    assert isinstance(taken, TurnStarted)
    if noticed_by == "write":
        agent.go.set()
    async with asyncio.timeout(60):
        while not (lines := [each for each in caplog.records if "or another worker took it over" in each.message]):
            await asyncio.sleep(0.01)
    agent.go.set()
    await asyncio.gather(*call.background)
    sending.cancel()
    [line] = [each for each in caplog.records if "or another worker took it over" in each.message]
    assert line is lines[0]
    assert line.levelno == logging.INFO
    assert vars(line)["fence"] == taken.lease.fence - 1
    assert vars(line)["holder"] not in ("", "heir")


async def test_unreadable_task_is_omitted_from_history(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    inner = MemoryTaskStore(clock)
    store: Any = Failing(inner)
    made, tasks = parts(AgentWithRefusedCheckpoints(0), store, clock), MemoryTaskList(inner)
    ids = []
    for number in range(3):
        clock.move(1)
        ids.append((await send_task(made.service, CALL(), request(f"text {number}", message_id=f"m-{number}"))).id)
    store.log = _unreadable(store.log, ids[1])
    history = await Conversations(store, tasks).history(TaskKey("owner", ids[2]), CONTEXT, 10, None)
    said = [part.text for message in history for part in message.parts]
    assert said == ["text 0", "answer", "text 2", "answer"]
    assert ids[1] in caplog.text


async def test_context_of_unreadable_task_is_not_listed(clock: ManualClock) -> None:
    inner = MemoryTaskStore(clock)
    store: Any = Failing(inner)
    made = parts(AgentWithRefusedCheckpoints(0), store, clock, task_list=MemoryTaskList(inner))
    one = await send_task(made.service, CALL(), request("one", context_id="c-1"))
    await send_task(made.service, CALL(), request("two", context_id="c-2", message_id="m-2"))
    store.head = _unreadable(store.head, one.id)
    assert list(await made.conversations.ids(CALL(), length=10, offset=0)) == ["c-2"]


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_response_ends_with_error_if_turn_cannot_be_saved(method: str, clock: ManualClock) -> None:
    """Refuse all writes of the turn, as on a full disk: neither its answer nor its suspension is saved."""
    store: Any = Failing(MemoryTaskStore(clock))
    responses = await _unsaved(parts(AgentWithRefusedCheckpoints(0), store, clock), method)
    assert responses[-1]["error"]["code"] == SERVICE_UNAVAILABLE


async def test_sweep_resumes_turn_not_saved_during_store_outage(clock: ManualClock) -> None:
    inner = MemoryTaskStore(clock)
    store: Any = Failing(inner)
    made = parts(AgentWithRefusedCheckpoints(0), store, clock)
    task = (await _unsaved(made, "SendStreamingMessage"))[0]["result"]["task"]
    store.heal()
    clock.move(1000)
    woken: list[Any] = []
    work_queue, push_queue = MemoryWorkQueue(clock), MemoryPushQueue(clock)
    work_queue.enqueue = _keeps(woken)  # type: ignore[method-assign]
    await Sweep(store, work_queue, MemoryPushConfigs(inner, clock), push_queue, metrics=MemoryMetrics()).once()
    [wake_up] = woken
    await made.worker.handle(wake_up)
    call = CallContext(wake_up.context.owner, "test")
    assert (await made.service.get(call, task["id"])).status.state == TaskState.TASK_STATE_COMPLETED


@pytest.mark.parametrize("failing", ["dead_leases", "expired_plans", "overdue_waits"])
async def test_sweep_continues_with_other_timers_after_store_error(clock: ManualClock, failing: str) -> None:
    inner = MemoryTaskStore(clock)
    store: Any = Failing(inner)
    configs: Any = Failing(MemoryPushConfigs(inner, clock))
    chat = StoreConversation(store, clock)
    await store.create(replace(chat.message("m-1"), push=PushConfig("p-1", "https://hooks.test/")), holder="gone")
    clock.move(1000)
    woken: list[Any] = []
    work_queue, push_queue = MemoryWorkQueue(clock), MemoryPushQueue(clock)
    work_queue.enqueue, push_queue.enqueue = _keeps(woken), _keeps(woken)  # type: ignore[method-assign]
    is_of_contexts = failing == "dead_leases"
    (store if is_of_contexts else configs).refuse(DENIED, **{failing: 1})
    metrics = MemoryMetrics()
    with pytest.raises(StoreError, match="AccessDenied"):
        await Sweep(store, work_queue, configs, push_queue, metrics=metrics).once()
    kinds = {type(wake_up) for wake_up in woken}
    assert (WakeUp in kinds, PushWakeUp in kinds) == (not is_of_contexts, failing != "overdue_waits")
    assert metrics.total(Metric.SWEEP_ENQUEUED) == len(woken)
