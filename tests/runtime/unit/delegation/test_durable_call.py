"""One call of a remote agent over real sockets: connections are cut, and servers are restarted."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from datetime import timedelta
from pathlib import Path

import pytest
from a2a.server.routes import create_agent_card_routes
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.delegation.cancel import cancel_remote_task
from aion_core.delegation.durable_call import DurableCall, Patience
from aion_core.delegation.outcome import Outcome, is_transient_artifact, outcome_of
from aion_core.delegation.remotes import Remotes
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallState, CallToCancel, RemoteCall
from aion_core.engine.remote_calls.turn_calls import TurnCalls
from aion_core.engine.task_store import TaskStore
from aion_core.errors import RemoteAgentRefused, RemoteAgentUnreachable
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.protocol.types import Message, Part, Role, TaskState
from tests.runtime.unit.delegation.remote_servers import sdk_app
from tests.support.agents.remote import NOTES
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.e2e.cut import Cut, cuttable
from tests.support.histories import messages_of
from tests.support.listening import free_port, listening
from tests.support.stores import LEASE_SECONDS, table_of

QUICK = Patience(first_wait=0.05, longest_wait=0.2, first_contact=0.5, silence=1.0)


class Far:
    """The official SDK's server behind a proxy. It can be stopped and started, with or without its tasks."""

    def __init__(self, notes: Path) -> None:
        self.port, self.notes = free_port(), notes
        self.url = ""
        self._app = sdk_app("")
        self._running = ExitStack()

    def start(self, *, streaming: bool = True, forgets: bool = False) -> None:
        if forgets or not self._app.state._state.get("begun"):
            self._app = sdk_app(self.url, streaming=streaming)
            self._app.state.begun = True
        self._running.enter_context(listening(self._app, port=self.port))

    def stop(self) -> None:
        self._running.close()

    def runs(self) -> list[str]:
        """Return the texts that the agent has run for."""
        return [line.partition(" ")[2] for line in self.notes.read_text().splitlines()] if self.notes.exists() else []


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    server = Far(tmp_path / "notes")
    yield server
    server.stop()


@pytest.fixture
def between(far: Far) -> Iterator[Cut]:
    with cuttable(far.port) as (port, proxy):
        far.url = f"http://127.0.0.1:{port}"
        yield proxy


@pytest.fixture
async def calls() -> TurnCalls:
    """Return the calls of a running turn in a store in memory."""
    clock = ManualClock()
    store = TaskStore(
        table_of(None, clock), MemoryBlobs(), clock, lease_seconds=LEASE_SECONDS, retention=timedelta(days=1)
    )
    turn = await StoreConversation(store, clock).starts()
    return TurnCalls(store.remote_calls, turn.lease, lambda: None)


def call_of(far: Far, text: str, *, task_id: str = "") -> RemoteCall:
    message = Message(message_id=f"m-{text}", role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id)
    return RemoteCall(f"call-{text}", far.url, message)


async def made(
    calls: TurnCalls, call: RemoteCall, *, patience: Patience = QUICK, stop_after: int = 1000
) -> Outcome | None:
    """Make the call; return its outcome, or None if it was left after some responses, as in a lost process."""
    async with Remotes().client(call.remote) as client:
        durable = DurableCall(client, calls, call, name="far", patience=patience)
        responses = []
        async with aclosing(durable.responses()) as stream:
            async for response in stream:
                if not is_transient_artifact(response):
                    responses.append(response)
                if len(responses) == stop_after:
                    return None
    return outcome_of(responses)


def said(outcome: Outcome | None) -> list[str]:
    """Return what the remote agent has said, in order."""
    assert outcome is not None
    assert outcome.task is not None
    agent = [message for message in messages_of(outcome.task) if message.role == Role.ROLE_AGENT]
    return [part.text for message in agent for part in message.parts]


@pytest.mark.parametrize("streaming", [True, False], ids=["with streams", "without"])
async def test_call_goes_on_after_cut_connection(far: Far, between: Cut, calls: TurnCalls, streaming: bool) -> None:
    far.start(streaming=streaming)
    patient = Patience(first_wait=0.05, longest_wait=0.2)
    running = asyncio.create_task(made(calls, call_of(far, "work 3"), patience=patient))
    while not far.runs():
        await asyncio.sleep(0.02)
    for _ in range(3):
        await asyncio.sleep(0.2)
        between.cut()
        await asyncio.sleep(0.1)
        between.mend()
    heard = said(await running)
    assert heard[-1] == "Worked 3 steps."
    assert len(heard) == len(set(heard)), "nothing is said twice"
    assert far.runs() == ["work 3"]


async def test_call_has_the_answer_that_another_process_stores_meanwhile(
    far: Far, between: Cut, calls: TurnCalls
) -> None:
    """The first process was frozen when its lease ended, and stores the answer while the second one makes the call."""
    far.start()
    for _ in range(2):
        async with Remotes().client(far.url) as client:
            durable = DurableCall(client, calls, call_of(far, "work 1"), name="far", patience=QUICK, keeps_answer=True)
            async with aclosing(durable.responses()) as stream:
                assert [response async for response in stream]
        assert said(durable.outcome)[-1] == "Worked 1 steps."
    assert far.runs() == ["work 1"]


async def test_call_that_begins_again_follows_its_task(far: Far, between: Cut, calls: TurnCalls) -> None:
    far.start()
    call = call_of(far, "work 3")
    assert await made(calls, call, stop_after=2) is None
    (begun,) = await calls.all()
    assert begun.remote_task
    assert said(await made(calls, call))[-1] == "Worked 3 steps."
    (ended,) = await calls.all()
    assert (ended.state, ended.remote_task) == (CallState.ENDED, begun.remote_task)
    assert said(await made(calls, call))[-1] == "Worked 3 steps.", "its answer stays known"
    assert far.runs() == ["work 3"]


async def test_server_that_starts_later_gets_message(far: Far, between: Cut, calls: TurnCalls) -> None:
    running = asyncio.create_task(made(calls, call_of(far, "say hello"), patience=Patience(first_wait=0.05)))
    await asyncio.sleep(0.4)
    far.start()
    assert said(await running) == ["hello!"]
    assert far.runs() == ["say hello"]


async def test_server_that_never_starts_is_unreachable(far: Far, between: Cut, calls: TurnCalls) -> None:
    with pytest.raises(RemoteAgentUnreachable, match="The agent far could not be reached for"):
        await made(calls, call_of(far, "say hello"))
    (call,) = await calls.all()
    assert call.state is CallState.OPEN


async def test_server_that_never_says_anything_is_unreachable(calls: TurnCalls) -> None:
    """Let the server end each of its streams at once, as behind a proxy that drops their content."""

    async def empty(_: Request) -> Response:
        return Response(media_type="text/event-stream")

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    card = AgentCard(
        name="far",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    )
    app = Starlette(routes=[*create_agent_card_routes(card), Route("/", empty, methods=["POST"])])
    call = RemoteCall("call", url, Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="go")]))
    with listening(app, port=port), pytest.raises(RemoteAgentUnreachable, match="end without an answer"):
        await asyncio.wait_for(made(calls, call), 10)


@pytest.mark.parametrize("content", ["<html>", "[]", '{"skills": 5}'])
async def test_invalid_card_is_refused_without_its_address(calls: TurnCalls, content: str) -> None:
    async def card(_: Request) -> Response:
        return Response(content, media_type="application/json")

    with listening(Starlette(routes=[Route("/.well-known/agent-card.json", card)]), port=(port := free_port())):
        call = RemoteCall("call", f"http://127.0.0.1:{port}", Message(message_id="m", parts=[Part(text="go")]))
        with pytest.raises(RemoteAgentRefused, match="its card is missing or invalid") as raised:
            await asyncio.wait_for(made(calls, call), 10)
    assert str(port) not in str(raised.value)


async def test_restarted_server_without_task_is_named(far: Far, between: Cut, calls: TurnCalls) -> None:
    far.start()
    call = call_of(far, "work 2")
    await made(calls, call, stop_after=2)
    far.stop()
    far.start(forgets=True)
    with pytest.raises(RemoteAgentUnreachable, match="no longer knows the task"):
        await made(calls, call)


@pytest.mark.parametrize(
    ("code", "times"),
    [pytest.param(-32603, 1, id="the agent's code fails"), pytest.param(-32053, 3, id="the server's store is busy")],
)
async def test_error_of_a_send_is_repeated_if_that_is_safe(calls: TurnCalls, code: int, times: int) -> None:
    """Another vendor's server would run a failing message again each time that it comes."""
    sent: list[str] = []

    async def refuses(request: Request) -> Response:
        asked = await request.json()
        sent.append(asked["params"]["message"]["messageId"])
        error = {"code": code if len(sent) < times or times == 1 else -32602, "message": "No."}
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": error})

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    interface = AgentInterface(url=f"{url}/", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(name="far", capabilities=AgentCapabilities(), supported_interfaces=[interface])
    app = Starlette(routes=[*create_agent_card_routes(card), Route("/", refuses, methods=["POST"])])
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="hi")])
    with listening(app, port=port), pytest.raises(RemoteAgentRefused):
        await made(calls, RemoteCall("call", url, message))
    assert sent == ["m-1"] * times


async def test_refused_message_is_not_repeated(far: Far, between: Cut, calls: TurnCalls) -> None:
    far.start()
    call = call_of(far, "say hello", task_id="unknown")
    with pytest.raises((RemoteAgentRefused, RemoteAgentUnreachable)):
        await made(calls, call)
    assert far.runs() == []


async def test_answer_is_sent_once(far: Far, between: Cut, calls: TurnCalls) -> None:
    """Lose the caller after it has sent an answer: the remote agent, which does not know repeats, hears it once."""
    far.start()
    asked = await made(calls, call_of(far, "ask"))
    assert asked is not None
    assert asked.task is not None
    assert asked.asks
    answer = call_of(far, "red", task_id=asked.task.id)
    await made(calls, answer, stop_after=1)
    assert said(await made(calls, answer))[-1] == "Heard red."
    assert far.runs() == ["ask", "red"]


@pytest.mark.parametrize("knows_id", [True, False], ids=["known id", "unknown id"])
async def test_cancel_finds_remote_task(far: Far, between: Cut, calls: TurnCalls, knows_id: bool) -> None:
    far.start()
    call = call_of(far, "work 20")
    await made(calls, call, stop_after=2)
    (begun,) = await calls.all()
    lost = begun if knows_id else call
    to_cancel = CallToCancel(calls.task, calls.context, lost, canceled_at=0, due_at=0)
    async with Remotes().client(far.url) as client:
        assert await cancel_remote_task(client, to_cancel, now=1) is Canceled.DONE
    outcome = await made(calls, call)
    assert outcome is not None
    assert outcome.state == TaskState.TASK_STATE_CANCELED
