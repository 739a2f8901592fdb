"""ADK's RemoteA2aAgent with an agent of this server, of the official SDK's, and of ADK's `to_a2a`."""

import json
from itertools import product
from typing import Any

import httpx
import pytest
from a2a.types import AgentCard, AgentInterface
from google.adk.a2a import _compat
from google.adk.a2a.agent.config import A2aRemoteAgentConfig, RequestInterceptor
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.sessions import InMemorySessionService
from google.protobuf.json_format import MessageToDict, ParseDict

from aion_core.agents.adk.remote_agents import run
from aion_core.agents.adk.remote_agents.running_task import follow_task
from aion_core.agents.adk.remote_agents.whole_responses import WholeResponses
from aion_core.clock import SystemClock
from aion_core.delegation.durable_call import Patience
from aion_core.protocol.stream_artifacts import STREAM_DELTA_ID
from aion_core.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from tests.runtime.unit.agents.adk.test_remote_agents import FOUR
from tests.runtime.unit.agents.adk.test_resumption import outcome, patient
from tests.runtime.unit.delegation.remote_servers import SERVERS
from tests.support.adk import CrashingSessions, llm_agent, served, task_of
from tests.support.clock import ManualClock
from tests.support.downgraded import downgraded
from tests.support.listening import free_port, listening
from tests.support.rows import each_row, taking_turns
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

SAID = {
    "say hello": ("COMPLETED", "hello!"),
    "ask": ("INPUT_REQUIRED", "Question 1 ?"),
    "authorize": ("AUTH_REQUIRED", "Log in first."),
    "fail": ("FAILED", "The agent remote has failed: The lake is dry."),
    "reject": ("FAILED", "The agent remote has rejected the message: Not on Sundays."),
    "cancel": ("FAILED", "The agent remote has canceled its task."),
    "file": ("COMPLETED", "Here is the map."),
    "data": ("COMPLETED", "Warm."),
}


async def answered(
    url: str, text: str, *crash_at: int, shape: str = "root", config: A2aRemoteAgentConfig | None = None
) -> dict[str, Any]:
    """Return the caller's task for a message with this text, which it sends to the remote agent at this URL."""
    clock = ManualClock()
    agent = RemoteA2aAgent(name="remote", agent_card=f"{url}/.well-known/agent-card.json", config=config)
    made = parts(
        served(FOUR[shape](agent), CrashingSessions(*crash_at)),
        MemoryTaskStore(clock),
        clock,
        lease_seconds=10_000,
        blocking_wait=1e9,
    )
    async with http(made.app()) as client:
        return task_of(await patient(client.post("/", json=send(text)), clock))


@taking_turns(word=SAID, case=list(product(SERVERS, [None, 2, 3])))
async def test_caller_tells_what_remote_agent_says(word: str, case: tuple[str, int | None]) -> None:
    """The caller's process may be lost after its second or third event."""
    server, crash_at = case
    with SERVERS[server]() as url:
        task = await answered(url, word, *([crash_at] if crash_at else []))
    state, text, _ = outcome(task)
    assert (state, text) == SAID[word]
    files = [part for artifact in task.get("artifacts", ()) for part in artifact["parts"]]
    assert [part["filename"] for part in files] == (["map.png"] if word == "file" else [])


@pytest.mark.parametrize("shape", FOUR)
async def test_caller_passes_on_answer_of_adks_server(shape: str) -> None:
    port = free_port()
    app = to_a2a(llm_agent(["I ", "worked."], name="remote"), port=port, host="127.0.0.1")
    with listening(app, port=port) as url:
        task = await answered(url, "hi", shape=shape)
    assert outcome(task)[0] == "COMPLETED"
    assert [outcome(task)[1], *outcome(task)[2]].count("I worked.") == 1


async def test_session_has_no_copies_of_request_and_task() -> None:
    """ADK would put the whole request and the whole task so far into the metadata of each event."""
    found: list[dict[str, Any]] = []

    def note(callback_context: CallbackContext) -> None:
        found.extend(dict(event.custom_metadata or {}) for event in callback_context.session.events)

    with SERVERS["this server"]() as url:
        agent = RemoteA2aAgent(
            name="remote", agent_card=f"{url}/.well-known/agent-card.json", after_agent_callback=note
        )
        clock = ManualClock()
        made = parts(served(agent), MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        async with http(made.app()) as client:
            task = task_of(await patient(client.post("/", json=send("file")), clock))
    assert outcome(task)[0] == "COMPLETED"
    copies = [(each["a2a:request"], each["a2a:response"]) for each in found if "a2a:response" in each]
    assert copies
    for request, response in copies:
        assert set(request) == {"messageId", "contextId", "taskId"}
        assert set(response) == {"id", "contextId", "status"}
        assert set(response["status"]) == {"state"}


async def test_interceptor_reads_whole_task() -> None:
    """Without an interceptor ADK gets the task without its content; see `follow_task`."""
    files: list[str] = []

    async def note(ctx: Any, response: Any, event: Any) -> Any:
        if isinstance(response, tuple):
            files.extend(part.filename for artifact in response[0].artifacts for part in artifact.parts)
        return event

    config = A2aRemoteAgentConfig(request_interceptors=[RequestInterceptor(after_request=note)])
    with SERVERS["this server"]() as url:
        task = await answered(url, "file", config=config)
    assert outcome(task)[:2] == SAID["file"]
    assert "map.png" in files


def test_followed_task_has_ids_state_and_metadata_of_adks() -> None:
    said = Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text="Soon.")])
    working = TaskStatus(state=TaskState.TASK_STATE_WORKING, message=said)
    file = Artifact(artifact_id="a", parts=[Part(raw=b"1", filename="a.bin")])
    begun = Task(id="t", context_id="c", status=working, artifacts=[file], metadata={"begun": True})
    ended = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    updates = [
        StreamResponse(
            status_update=TaskStatusUpdateEvent(
                task_id="t", context_id="c", status=working, metadata={"a": {"b": 1}, "c": 1}
            )
        ),
        StreamResponse(artifact_update=TaskArtifactUpdateEvent(task_id="t", artifact=file, metadata={"d": 1})),
        StreamResponse(status_update=TaskStatusUpdateEvent(task_id="t", status=ended, metadata={"a": {"e": 2}})),
    ]
    for responses in (updates, [StreamResponse(task=begun), *updates], [*updates, StreamResponse(task=begun)]):
        ours, adks = follow_task(), _compat.make_stream_normalizer()
        for response in responses:
            (task, update), (whole, same_update) = ours(response), adks(response)
            assert update == same_update
            assert (task.id, task.context_id, task.metadata) == (whole.id, whole.context_id, whole.metadata)
            assert task.status.state == whole.status.state
            assert update is None or not (task.history or task.artifacts or task.status.HasField("message"))
    assert follow_task()(StreamResponse(message=said)) == said


async def test_remote_agent_that_is_gone_fails_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no server at the URL, neither for the card nor for the message."""
    monkeypatch.setattr(run, "PATIENCE", Patience(first_wait=0.1, longest_wait=0.1, first_contact=0.3))
    url = f"http://127.0.0.1:{free_port()}"
    no_card = outcome(await answered(url, "hi"))
    assert no_card[0] == "FAILED"
    assert str(no_card[1]).startswith("The agent remote could not be reached for ")
    with SERVERS["this server"]() as there:
        card: dict[str, Any] = httpx.get(f"{there}/.well-known/agent-card.json").json()
    for interface in card["supportedInterfaces"]:
        interface["url"] = f"{url}/"
    clock = ManualClock()
    agent = RemoteA2aAgent(name="remote", agent_card=ParseDict(card, AgentCard(), ignore_unknown_fields=True))
    made = parts(served(agent), MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
    async with http(made.app()) as client:
        no_server = outcome(task_of(await patient(client.post("/", json=send()), clock)))
    assert no_server[0] == "FAILED"
    assert "there is no connection to it." in str(no_server[1])


@pytest.mark.parametrize("begins_with_task", [True, False])
def test_answer_in_artifact_and_status_reaches_adk_once(begins_with_task: bool) -> None:
    """Call an Aion agent with `answer: both`: ADK stores each message and each whole artifact."""
    artifact = Artifact(artifact_id="a", parts=[Part(text="Sunny.")])
    message = Message(message_id="a", role=Role.ROLE_AGENT, parts=[Part(text="Sunny.")])
    status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=message)
    if begins_with_task:
        given = [StreamResponse(task=Task(id="t", status=status, artifacts=[artifact], history=[message]))]
    else:
        update = TaskArtifactUpdateEvent(task_id="t", artifact=artifact, last_chunk=True)
        marked = TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=True, last_chunk=True)
        marked.artifact.parts[0].text = ""
        given = [
            StreamResponse(artifact_update=update),
            StreamResponse(artifact_update=marked),
            StreamResponse(status_update=TaskStatusUpdateEvent(task_id="t", status=status)),
        ]
    whole = WholeResponses()
    received = [each for response in given for each in whole.of(response)]
    assert [each.WhichOneof("payload") for each in received] == ["artifact_update", "status_update"]
    assert not received[-1].status_update.status.HasField("message")
    assert given[-1].WhichOneof("payload") == "task" or given[-1].status_update.status.HasField("message")


def test_chunks_reach_adk_alone_and_then_whole() -> None:
    """A chunk that continues another would make ADK copy all earlier ones, for each chunk."""

    def chunk(text: str, *, first: bool = False, last: bool = False, artifact_id: str = "a") -> StreamResponse:
        artifact = Artifact(artifact_id=artifact_id, parts=[Part(text=text)])
        update = TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=not first, last_chunk=last)
        return StreamResponse(artifact_update=update)

    given = [chunk("a", first=True), chunk("b"), chunk("c", last=True), chunk("x", artifact_id=STREAM_DELTA_ID)]
    before = [each.SerializeToString() for each in given]
    whole = WholeResponses()
    updates = [each.artifact_update for response in given for each in whole.of(response)]
    assert [[part.text for part in each.artifact.parts] for each in updates] == [["a"], ["b"], ["abc"], ["x"]]
    assert [each.last_chunk for each in updates] == [False, False, True, False]
    assert not any(each.append for each in updates)
    assert [each.SerializeToString() for each in given] == before


@each_row("what", downgraded("https://weather.example/"))
async def test_address_in_card_like_its_own_gets_no_credentials(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADK checks the addresses in the card of an agent that is given by URL, and the author's client has credentials."""
    own, other = "https://weather.example/", downgraded("https://weather.example/")[what]
    urls, seen = [own], list[httpx.Request]()

    async def answer(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.method == "POST":
            said = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "sunny"}]}}
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": json.loads(request.content)["id"], "result": said})
        interfaces = [AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0") for url in urls]
        card = AgentCard(name="far", description="d", version="1", supported_interfaces=interfaces)
        return httpx.Response(200, json=MessageToDict(card))

    async def asked() -> str:
        """Return the state of a new task that asks the remote agent, by a new client of the author."""
        client = httpx.AsyncClient(headers={"Authorization": "Bearer an-expensive-secret"})
        agent = RemoteA2aAgent("remote", f"{own}.well-known/agent-card.json", httpx_client=client)
        made = parts(served(agent, InMemorySessionService()), MemoryTaskStore(SystemClock()))
        async with http(made.app()) as app:
            return str(task_of((await app.post("/", json=send("hello"))).json())["status"]["state"])

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    assert await asked() == "TASK_STATE_COMPLETED"
    urls[:] = [other]
    assert await asked() == "TASK_STATE_FAILED"
    assert [str(each.url) for each in seen] == [
        f"{own}.well-known/agent-card.json",
        own,
        f"{own}.well-known/agent-card.json",
    ]
