"""ADK turns on stored sessions, in memory and on DynamoDB: another process can continue a conversation."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types as genai

from aion.shared.sleeping import sleep
from aion.shared.types import A2AOutbox
from aion_core.agents.adk.agent import AdkAgent
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.call import CallContext
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.queues import WakeUp
from aion_core.engine.runner.failures import MAX_TRIES
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Message, Part, Role, TaskState, TaskStatusUpdateEvent
from aion_core.state.adk.artifacts import BlobArtifacts
from aion_core.table.keys import ContextKey
from tests.runtime.contract.sessions import DynamoDBSessionPlace, SessionPlace, memory_sessions
from tests.support.adk import DecidingLlm, answer_text, ask, call, earlier, scripted_model, served, texts
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.frozen import frozen
from tests.support.requests import request
from tests.support.savers import begin
from tests.support.service import ServiceParts, http, parts, send, send_task
from tests.support.stores import LEASE_SECONDS, new_owner

DIALECT = "SendMessage"


@pytest.fixture
def place(adapter: Stack | None, clock: ManualClock) -> SessionPlace:
    if adapter is None:
        return memory_sessions(clock)
    return DynamoDBSessionPlace(adapter, clock)


def process(place: SessionPlace, clock: ManualClock, agent: BaseAgent) -> ServiceParts:
    """Return the service of a new process; it shares only the tables of `place` with other processes."""

    def adapter_of(agent: BaseAgent) -> AdkAgent:
        return served(agent, lambda fence: place.service(fence=fence))

    return parts(adapter_of(agent), place.tasks, clock, blocking_wait=1e9)


async def test_adk_conversation_continues_in_another_process(place: SessionPlace, clock: ManualClock) -> None:
    """The second process reads the state and events of the first; an outbox is never part of the stored state."""
    context = new_owner()

    def note(tool_context: ToolContext, text: str) -> str:
        tool_context.state["noted"] = text
        tool_context.state["a2a_outbox"] = A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="Noted.")]))
        return "noted"

    def read(tool_context: ToolContext) -> dict[str, Any]:
        return {key: tool_context.state.get(key) for key in ("noted", "a2a_outbox")}

    first = scripted_model([call("note", text="milk")], ["I noted it."])
    async with http(process(place, clock, LlmAgent(name="root", model=first, tools=[note])).app()) as client:
        task = await ask(client, DIALECT, contextId=context, message_id="m-1")
        assert answer_text(task) == "Noted."
    second = scripted_model([call("read")], ["Milk."])
    async with http(process(place, clock, LlmAgent(name="root", model=second, tools=[read])).app()) as client:
        task = await ask(client, DIALECT, "and?", contextId=context, message_id="m-2")
        assert answer_text(task) == "Milk."
    assert texts(second.seen[1])[-1] == "user: read -> {'noted': 'milk', 'a2a_outbox': None}"
    assert "model: I noted it." in texts(second.seen[0])


async def test_another_process_accepts_answers_to_adk_interrupts(place: SessionPlace, clock: ManualClock) -> None:
    """A tool call waits for a confirmation, then another for its result; a new process receives each answer."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def approve() -> None:
        """Wait for an approval."""

    def tree() -> SequentialAgent:
        def decide(seen: list[str]) -> list[Any]:
            if any("approve ->" in line for line in seen):
                return ["Approved."]
            if any("pay -> {'result'" in line for line in seen):
                return [call("approve", "call-2")]
            return [call("pay", "call-1", amount=5)]

        tools: list[Any] = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(func=approve)]
        return SequentialAgent(
            name="root",
            sub_agents=[
                LlmAgent(name="asks", model=DecidingLlm(decide=decide), tools=tools),
                LlmAgent(name="last", model=scripted_model(["Done."])),
            ],
        )

    async with http(process(place, clock, tree()).app()) as client:
        task = await ask(client, DIALECT, contextId=new_owner(), message_id="m-1")
        assert "pay(amount=5)" in str(answer_text(task))
    async with http(process(place, clock, tree()).app()) as client:
        task = await ask(client, DIALECT, "yes", taskId=task["id"], message_id="m-2")
        assert (task["status"]["state"], paid) == ("TASK_STATE_INPUT_REQUIRED", [5])
        assert "approve()" in str(answer_text(task))
    async with http(process(place, clock, tree()).app()) as client:
        task = await ask(client, DIALECT, "go", taskId=task["id"], message_id="m-3")
    assert (answer_text(task), earlier(task)[-1], paid) == ("Done.", "Approved.", [5])


async def test_adk_tool_result_after_task_cancel_is_not_stored(place: SessionPlace, clock: ManualClock) -> None:
    """A tool returns after the cancel of its task; the next turn's model does not receive the tool's result."""
    context = new_owner()
    running, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait, ignoring every cancellation."""
        running.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "too late"

    model = scripted_model([call("wait", "call-1")], ["Not heard."])
    late = process(place, clock, LlmAgent(name="root", model=model, tools=[wait]))
    following = scripted_model(["Next."])
    async with http(late.app()) as client:
        request = send(contextId=context)
        request["params"]["configuration"] = {"returnImmediately": True}
        task = (await client.post("/", json=request)).json()["result"]["task"]
        await running.wait()
        cancel = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task["id"]}}
        assert "result" in (await client.post("/", json=cancel)).json()
        async with http(process(place, clock, LlmAgent(name="root", model=following)).app()) as other:
            go.set()
            await ended.wait()
            task = await ask(other, DIALECT, "and?", contextId=context, message_id="m-2")
        assert answer_text(task) == "Next."
    assert texts(following.seen[0]) == [
        "user: hi",
        "model: wait({})",
        "user: wait -> {'error': 'canceled'}",
        "user: and?",
    ]


async def test_task_fails_if_tool_call_repeatedly_kills_its_process(clock: ManualClock) -> None:
    """Let each process die in the same tool call: repeating the call is no progress, so the tries run out."""
    place, reached, runs = memory_sessions(clock), asyncio.Event(), 0

    async def deadly() -> str:
        """Wait until the test kills the worker that runs this tool."""
        nonlocal runs
        runs += 1
        reached.set()
        await asyncio.get_running_loop().create_future()
        return ""

    model = DecidingLlm(decide=lambda seen: [call("deadly", f"call-{runs}")])
    first = LlmAgent(name="first", model=scripted_model(["First."]))
    root = SequentialAgent(name="root", sub_agents=[first, LlmAgent(name="asks", model=model, tools=[deadly])])
    agents = {"echo": served(root, lambda fence: place.service(fence=fence))}
    work_queue = MemoryWorkQueue(clock)
    runner = TaskRunner(place.tasks, agents.__getitem__, clock, work_queue, keep_lease=frozen)
    worker = Worker(place.tasks, runner, work_queue, clock)
    begun = await begin(place.tasks, clock)
    for _ in range(MAX_TRIES + 1):
        log = await place.tasks.log(begun.head.key)
        assert log is not None
        reached.clear()
        running = asyncio.create_task(worker.run(begun, EventBroadcast(log.events)))
        waiting = asyncio.create_task(reached.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
            clock.move(LEASE_SECONDS + 1)
            taken = await place.tasks.begin(begun.lease.context, holder="heir")
            assert isinstance(taken, TurnStarted)
            begun = taken
    head = await place.tasks.head(begun.head.key)
    assert head is not None
    assert (runs, head.state) == (MAX_TRIES, TaskState.TASK_STATE_FAILED)


class Counting(BaseAgent):
    """Agent that stores its runs in the state and in an artifact; its first run hangs."""

    hanging: list[asyncio.Event]

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        assert ctx.artifact_service is not None
        key: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
        known = await ctx.artifact_service.load_artifact(**key, filename="run.txt")
        seen = len(ctx.session.events), ctx.session.state.get("run"), known and known.text
        version = await ctx.artifact_service.save_artifact(**key, filename="run.txt", artifact=genai.Part(text="saved"))
        changes = EventActions(state_delta={"run": "begun", "mine": None}, artifact_delta={"run.txt": version})
        yield Event(author=self.name, actions=changes)
        if self.hanging:
            self.hanging.pop().set()
            await asyncio.get_running_loop().create_future()
        yield Event(author=self.name, content=genai.ModelContent(f"{seen}"))


async def test_restarted_adk_turn_uses_session_before_it(place: SessionPlace, clock: ManualClock) -> None:
    """Stop the worker of a turn after its first event: another worker takes the event and its artifact back."""
    reached, artifacts = asyncio.Event(), BlobArtifacts(place.blobs, clock)
    agent = served(
        Counting(name="counting", hanging=[reached]),
        lambda fence: place.service(fence=fence),
        artifacts=artifacts,
        resume=AfterCrash.RESTART,
    )
    work_queue = MemoryWorkQueue(clock)
    runner = TaskRunner(place.tasks, {"echo": agent}.__getitem__, clock, work_queue, keep_lease=frozen)
    worker = Worker(place.tasks, runner, work_queue, clock)
    begun = await begin(place.tasks, clock)
    log = await place.tasks.log(begun.head.key)
    assert log is not None
    running = asyncio.create_task(worker.run(begun, EventBroadcast(log.events)))
    hangs = asyncio.create_task(reached.wait())
    await asyncio.wait({running, hangs}, return_when=asyncio.FIRST_COMPLETED)
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})
    clock.move(LEASE_SECONDS + 1)
    taken = await place.tasks.begin(begun.lease.context, holder="heir")
    assert isinstance(taken, TurnStarted)
    log = await place.tasks.log(begun.head.key)
    assert log is not None
    await worker.run(taken, EventBroadcast(log.events))
    log = await place.tasks.log(begun.head.key)
    assert log is not None
    ended = log.events[-1].event
    assert isinstance(ended, TaskStatusUpdateEvent)
    assert [part.text for part in ended.status.message.parts] == ["(1, None, None)"]


async def test_another_process_goes_on_with_tool_that_waited(place: SessionPlace, clock: ManualClock) -> None:
    """One tool sleeps for an hour, beside one that has ended and a long-running one. Each runs once more at most."""
    context, runs = new_owner(), list[str]()

    async def nap() -> str:
        runs.append("nap")
        await sleep(timedelta(hours=1))
        return "rested"

    def book() -> dict[str, Any]:
        runs.append("book")
        return {"map": genai.Part.from_bytes(data=b"a map", mime_type="image/png"), "booked": True}

    def agent(*scripts: Any) -> LlmAgent:
        return LlmAgent(name="root", model=scripted_model(*scripts), tools=[nap, book])

    owner = CallContext("owner", "test")
    first = process(place, clock, agent([call("nap"), call("book")]))
    message = request(message_id="m-1", context_id=context, return_immediately=True)
    task = await send_task(first.service, owner, message)
    async with asyncio.timeout(60):
        while not (waits := await first.service.get(owner, task.id)).status.HasField("message"):
            await asyncio.sleep(0.01)
    assert waits.status.message.parts[0].text.startswith("Waiting until")
    first.work_queue.handled_by(_lost)
    clock.move(3601)
    second = process(place, clock, last := agent(["Good morning."]))
    await second.worker.handle(WakeUp(ContextKey("owner", "test", context)))
    assert (await second.service.get(owner, task.id)).status.message.parts[0].text == "Good morning."
    assert runs == ["nap", "book", "nap"]
    model: Any = last.model
    assert texts(model.seen[0])[1:] == [
        "model: nap({})",
        "model: book({})",
        "user: nap -> {'result': 'rested'}",
        "user: book -> {'booked': True}",
    ]
    (file,) = model.seen[0][-1].parts[-1].function_response.parts
    assert file.inline_data.data == b"a map"


async def _lost(_: WakeUp) -> None:
    """Lose the message, as a process that is gone."""
