"""ADK's RemoteA2aAgent in unchanged code: it calls its agent once, whatever becomes of the caller's process."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import httpx
import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.events import Event
from google.adk.tools.agent_tool import AgentTool
from starlette.types import ASGIApp

from aion_core.delegation.credentials import SecretHeader
from aion_core.delegation.remote import Remote
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import AgentArtifact, Emission, InputRequired, Reply, TurnRequest
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.agent_profile import AgentProfile
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.runner import renewal
from aion_core.protocol.types import Artifact, Message, Part, Role, TaskState
from aion_core.table.keys import TaskKey
from tests.runtime.unit.agents.adk.test_resumption import (
    answering,
    outcome,
    patient,
    run_drained,
    run_to_end,
    transferring_agent,
)
from tests.runtime.unit.delegation.remote_servers import served_here
from tests.support.adk import CrashingSessions, DecidingLlm, call, llm_agent, served, task_of
from tests.support.clock import ManualClock
from tests.support.listening import listening
from tests.support.rows import places, taking_turns
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

MAX_APPENDS = 20
LIST = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}


def with_tool(agent: BaseAgent) -> LlmAgent:
    """Return an agent that calls the given agent as a tool."""

    def decide(seen: list[str]) -> list[Any]:
        results = [line for line in seen if f"{agent.name} ->" in line]
        return ["The tool said: ", results[0]] if results else [call(agent.name, request="help")]

    return LlmAgent(name="root", model=DecidingLlm(decide=decide), tools=[AgentTool(agent)])


SHAPES: dict[str, Callable[[BaseAgent], Any]] = {
    "root": lambda agent: agent,
    "in a sequence": lambda agent: SequentialAgent(name="root", sub_agents=[agent, answering("writer")]),
    "last in a sequence": lambda agent: SequentialAgent(name="root", sub_agents=[answering("first"), agent]),
    "after a transfer": lambda agent: LlmAgent(
        name="root", model=transferring_agent(agent.name).model, sub_agents=[agent]
    ),
    "in a workflow": lambda agent: Workflow(name="root", edges=[("START", agent)]),
    "in parallel": lambda agent: ParallelAgent(name="root", sub_agents=[answering("other"), agent]),
    "in a loop": lambda agent: LoopAgent(name="root", sub_agents=[agent, answering("writer")], max_iterations=2),
    "as a tool": with_tool,
}


class Host:
    """Server on a socket for all remote agents of this module: the first part of a path names the agent."""

    def __init__(self) -> None:
        self.url, self._apps = "", dict[str, ASGIApp]()

    def add(self, app: ASGIApp) -> str:
        """Serve this agent too; return its URL."""
        name = str(len(self._apps))
        self._apps[name] = app
        return f"{self.url}/{name}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        _, name, path = scope["path"].split("/", 2)
        await self._apps[name]({**scope, "path": f"/{path}"}, receive, send)


host = Host()


@pytest.fixture(scope="module", autouse=True)
def listens() -> Iterator[None]:
    with listening(host) as url:
        host.url = url
        yield


@asynccontextmanager
async def remote_agent(
    agent: Any = None, *, streaming: bool = True
) -> AsyncIterator[tuple[str, Callable[..., RemoteA2aAgent]]]:
    """Serve an agent on a socket; yield its URL, and a function that makes the RemoteA2aAgent which calls it."""
    remote = parts(agent or served(llm_agent(*[["I ", "worked."]] * 60, name="remote")))
    remote.streaming = streaming
    url, card = host.add(remote.app()), remote.card
    for interface in card.supported_interfaces:
        interface.url = interface.url.replace("http://test", url)
    async with httpx.AsyncClient(timeout=30) as client:
        yield f"{url}/", lambda: RemoteA2aAgent(name="slow", agent_card=card, httpx_client=client)


async def tasks_of(url: str) -> list[dict[str, Any]]:
    """Return the tasks that the remote agent has got."""
    async with httpx.AsyncClient() as client:
        tasks: list[dict[str, Any]] = (await client.post(url, json=LIST)).json()["result"]["tasks"]
        return tasks


@taking_turns(shape=SHAPES, before=[False, True])
async def test_interrupted_caller_calls_remote_agent_once(shape: str, before: bool) -> None:
    """Cut the caller's turn at each of its events, after or before the event is stored."""
    async with remote_agent() as (_, make):
        sessions = CrashingSessions()
        whole = outcome(await run_to_end(served(SHAPES[shape](make()), sessions)))
    assert whole[0] == "COMPLETED"
    assert 1 < sessions.appends < MAX_APPENDS
    for place in places(sessions.appends):
        async with remote_agent() as (remote, make):
            agent = served(SHAPES[shape](make()), CrashingSessions(place, before=before))
            assert outcome(await run_to_end(agent)) == whole, place
            assert len(await tasks_of(remote)) == (2 if shape == "in a loop" else 1), place


@pytest.mark.parametrize("shape", SHAPES)
async def test_caller_handed_on_calls_remote_agent_once(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process must stop as soon as it starts, as at its time limit."""
    async with remote_agent() as (remote, make):
        task, _ = await run_drained(served(SHAPES[shape](make())), monkeypatch)
        assert outcome(task)[0] == "COMPLETED"
        assert len(await tasks_of(remote)) == (2 if shape == "in a loop" else 1)


class Wraps(BaseAgent):
    """Custom agent that runs its sub-agent. ADK cannot resume it."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@pytest.mark.parametrize("place", [1, 3])
async def test_restarted_caller_calls_remote_agent_once(place: int) -> None:
    """The turn starts over because of its custom agent, and gets the answer to the same message."""
    async with remote_agent() as (remote, make):
        agent = Wraps(name="root", sub_agents=[make()])
        task = await run_to_end(served(agent, CrashingSessions(place), resume=AfterCrash.RESTART))
        assert outcome(task)[:2] == ("COMPLETED", "I worked.")
        assert len(await tasks_of(remote)) == 1


class Says:
    """Agent with fixed emissions, one list for each turn."""

    def __init__(self, *turns: list[Emission]) -> None:
        self._turns = list(turns)
        self.asked: list[Message] = []

    def load(self) -> None: ...

    def profile(self) -> AgentProfile:
        return AgentProfile()

    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.asked.append(request.message)
        for emission in self._turns.pop(0):
            yield emission


def told(text: str) -> Message:
    return Message(role=Role.ROLE_AGENT, message_id="told", parts=[Part(text=text)])


def report() -> AgentArtifact:
    file = Part(raw=b"a,b", filename="report.csv", media_type="text/csv")
    return AgentArtifact(Artifact(artifact_id="report", name="report.csv", parts=[file]))


def asking(state: TaskState = TaskState.TASK_STATE_INPUT_REQUIRED) -> InputRequired:
    return InputRequired(Message(role=Role.ROLE_AGENT, message_id="asked", parts=[Part(text="Which day?")]), state)


FOUR = {shape: SHAPES[shape] for shape in ("root", "in a sequence", "after a transfer", "in a workflow")}
ENDS = {
    TaskState.TASK_STATE_FAILED: "The agent slow has failed: No money.",
    TaskState.TASK_STATE_REJECTED: "The agent slow has rejected the message: No money.",
    TaskState.TASK_STATE_CANCELED: "The agent slow has canceled its task: No money.",
}


@taking_turns(shape=FOUR, case=list(product([None, 3, 5], ENDS)))
async def test_failure_of_remote_agent_fails_caller(shape: str, case: tuple[int | None, TaskState]) -> None:
    """The reason names the agent and says what it said; the agents after it in a sequence do not run."""
    place, end = case
    async with remote_agent(Says([Reply(told("No money."), end)])) as (remote, make):
        sessions = CrashingSessions(*([place] if place else []))
        task = await run_to_end(served(SHAPES[shape](make()), sessions))
        assert outcome(task)[:2] == ("FAILED", ENDS[end])
        assert "No money." not in outcome(task)[2]
        assert len(await tasks_of(remote)) == 1


async def test_model_reads_why_its_tool_has_failed() -> None:
    failed = Reply(told("No money."), TaskState.TASK_STATE_FAILED)
    async with remote_agent(Says([failed])) as (_, make):
        task = await run_to_end(served(with_tool(make())))
    assert outcome(task)[0] == "COMPLETED"
    assert "The agent slow has failed: No money." in outcome(task)[1]


@taking_turns(shape=FOUR, streaming=[True, False])
async def test_file_of_remote_agent_becomes_artifact(shape: str, streaming: bool) -> None:
    said = Says([report(), Reply(told("See the report."))])
    async with remote_agent(said, streaming=streaming) as (_, make):
        task = await run_to_end(served(SHAPES[shape](make())))
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "report.csv"
    assert artifact["parts"] == [{"raw": "YSxi", "filename": "report.csv", "mediaType": "text/csv"}]
    assert "See the report." in [outcome(task)[1], *outcome(task)[2]]


@taking_turns(
    shape=FOUR,
    case=list(product([None, 2, 3, 5], [TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED])),
)
async def test_question_of_remote_agent_survives_crash(shape: str, case: tuple[int | None, TaskState]) -> None:
    """Cut the turn that asks, and the turn that passes on the answer."""
    place, state = case
    said = Says([asking(state)], [Reply(told("Booked."))])
    clock = ManualClock()
    async with remote_agent(said) as (remote, make):
        sessions = CrashingSessions(*([place] if place else []))
        made = parts(
            served(SHAPES[shape](make()), sessions),
            MemoryTaskStore(clock),
            clock,
            lease_seconds=10_000,
            blocking_wait=1e9,
        )
        async with http(made.app()) as client:
            question = task_of(await patient(client.post("/", json=send()), clock))
            assert question["status"]["state"] == TaskState.Name(state)
            assert question["status"]["message"]["parts"][0]["text"] == "Which day?"
            sessions.crash_at = {sessions.appends + place} if place else set()
            given = send("Monday", message_id="m-2", taskId=question["id"], contextId=question["contextId"])
            task = task_of(await patient(client.post("/", json=given), clock))
        assert len(await tasks_of(remote)) == 1
    assert outcome(task)[0] == "COMPLETED"
    assert "Booked." in [outcome(task)[1], *outcome(task)[2]]
    assert [message.parts[0].text for message in said.asked][1:] == ["Monday"]


async def test_missing_card_fails_at_once() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(not_found), base_url="http://test") as client:
        agent = RemoteA2aAgent(name="slow", agent_card="http://localhost/card.json", httpx_client=client)
        task = await run_to_end(served(agent))
    assert outcome(task)[:2] == ("FAILED", "The agent slow cannot be called: its card is missing or invalid.")


async def not_found(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("shape", [*FOUR, "as a tool"])
async def test_cancellation_reaches_remote_agent(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel the caller while the remote agent works."""
    monkeypatch.setattr(renewal, "WATCH_SECONDS", 0.05)
    works = threading.Event()

    class Works(Says):
        async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
            works.set()
            await asyncio.sleep(10)
            yield Reply(told("Too late."))

    async with remote_agent(Works()) as (remote, make):
        agent, keys = served(SHAPES[shape](make())), list[TaskKey]()

        def run(request: TurnRequest) -> AsyncGenerator[Emission, None]:
            assert request.calls is not None
            keys.append(request.calls.task)
            return type(agent).run(agent, request)

        monkeypatch.setattr(agent, "run", run)
        made = parts(agent)
        async with http(made.app()) as client:
            sending = asyncio.create_task(client.post("/", json=send()))
            assert await asyncio.to_thread(works.wait, 10)
            (listed,) = (await client.post("/", json=LIST)).json()["result"]["tasks"]
            cancel = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": listed["id"]}}
            assert "result" in (await client.post("/", json=cancel)).json()
            await sending
        (to_cancel,) = await made.store.remote_calls.to_cancel(keys[0])
        assert await agent.cancel_remote(to_cancel) is Canceled.DONE
        (task,) = await tasks_of(remote)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize("shape", ["root", "after a transfer", "in a workflow"])
async def test_remote_agent_by_name_has_its_url_and_credentials(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a remote of aion.yaml in place of the card's URL: ADK itself would take the name for a file."""
    monkeypatch.setenv("WEATHER_KEY", "s3cret")
    seen: list[str | None] = []
    with served_here() as url:
        remote = Remote("weather", url, lambda: Seen(SecretHeader("weather", "X-Key", str, "WEATHER_KEY"), seen))
        named = RemoteA2aAgent(name="slow", agent_card="weather")
        agent = served(SHAPES[shape](named), remotes=Remotes({"weather": remote}))
        async with http(parts(agent).app()) as client:
            task = task_of((await client.post("/", json=send("say hello"))).json())
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        assert "hello!" in str(task["status"]["message"])
        assert len(await tasks_of(url)) == 1
    assert set(seen) == {"s3cret"}


class Seen(httpx.Auth):
    """Authentication that records the key of each request."""

    def __init__(self, inner: httpx.Auth, seen: list[str | None]) -> None:
        self._inner, self._seen = inner, seen

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        for authenticated in self._inner.auth_flow(request):
            self._seen.append(authenticated.headers.get("x-key"))
            yield authenticated
