"""ADK's `RemoteA2aAgent` as client of `aion dev`, created from the URL of each agent's card."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from tests.support.server import ROOT, ServerProcess, aion_dev, serving

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

AGENTS = ROOT / "tests" / "support" / "e2e" / "agents" / "booking.yaml"
each_way = pytest.mark.parametrize("use_legacy", [True, False], ids=["as ADK does by default", "by its new extension"])


@pytest.fixture(scope="module")
def agents() -> Iterator[ServerProcess]:
    """Serve three agents: one echoes, one requires input, and one cannot be loaded."""
    with serving(aion_dev("--store", "memory", "--config", str(AGENTS))) as server:
        yield server


class RemoteSession:
    """ADK session of a user with a remote agent."""

    def __init__(self, server: ServerProcess, name: str, *, use_legacy: bool = True, **client: Any) -> None:
        agent = RemoteA2aAgent(
            name=name,
            agent_card=f"{server.url}/agents/{name}/.well-known/agent-card.json",
            use_legacy=use_legacy,
            a2a_client_factory=ClientFactory(ClientConfig(httpx_client=httpx.AsyncClient(timeout=60), **client)),
        )
        self._sessions = InMemorySessionService()
        self._runner = Runner(app_name="test", agent=agent, session_service=self._sessions, auto_create_session=True)

    async def send(self, part: types.Part) -> list[Event]:
        """Send a message with this part; return the agent's events."""
        message = types.Content(role="user", parts=[part])
        return [
            event async for event in self._runner.run_async(user_id="me", session_id="session", new_message=message)
        ]

    async def stored_texts(self) -> list[str]:
        """Return the texts of the session's events."""
        session = await self._sessions.get_session(app_name="test", user_id="me", session_id="session")
        assert session is not None
        return [text for event in session.events if (text := text_of(event))]


def text_of(event: Event) -> str:
    return "".join(part.text or "" for part in (event.content.parts or [] if event.content else []))


def question(events: list[Event]) -> types.FunctionCall:
    """Return the agent's request for input. ADK represents it as a call of a long-running tool."""
    (call,) = [
        part.function_call
        for event in events
        for part in (event.content.parts or [] if event.content else [])
        if part.function_call
    ]
    return call


@each_way
async def test_remote_agent_streams_answer(agents: ServerProcess, use_legacy: bool) -> None:
    """Stream the answer in partial events, and store its text in the session once."""
    conversation = RemoteSession(agents, "echo", use_legacy=use_legacy)
    events = await conversation.send(types.Part(text="one two \U0001f600 four"))
    streamed = [text_of(event) for event in events if event.partial]
    assert len(streamed) == 4
    assert "".join(streamed) == "one two \U0001f600 four"
    assert [text for event in events if not event.partial and (text := text_of(event))] == ["one two \U0001f600 four"]
    assert not any(event.error_message for event in events)
    assert await conversation.stored_texts() == ["one two \U0001f600 four"] * 2, "what the user said, and the answer"


@each_way
async def test_remote_agent_gets_whole_answer(agents: ServerProcess, use_legacy: bool) -> None:
    """Get the answer in one event, without streaming."""
    conversation = RemoteSession(agents, "echo", use_legacy=use_legacy, streaming=False)
    (event,) = await conversation.send(types.Part(text="all at once"))
    assert text_of(event) == "all at once"
    assert not event.partial


@each_way
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "send"])
async def test_remote_agent_resumes_task_with_answer(agents: ServerProcess, use_legacy: bool, streaming: bool) -> None:
    """Resume the task with the user's answer; the next task is in the same context."""
    conversation = RemoteSession(agents, "booking", use_legacy=use_legacy, streaming=streaming)
    for times, day in ((1, "Monday"), (2, "Tuesday")):
        asked = question(await conversation.send(types.Part(text="Book a room")))
        assert asked.args == {"input_required": "Which day?"}
        answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"result": day})
        events = await conversation.send(types.Part(function_response=answer))
        assert text_of(events[-1]) == f"Booked for {day}. You have asked {times} times."


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "send"])
async def test_remote_agent_resumes_task_over_http_json(agents: ServerProcess, streaming: bool) -> None:
    """Resume the task with a client that prefers HTTP+JSON to JSON-RPC."""
    rest: dict[str, Any] = {"supported_protocol_bindings": ["HTTP+JSON"], "use_client_preference": True}
    conversation = RemoteSession(agents, "booking", streaming=streaming, **rest)
    asked = question(await conversation.send(types.Part(text="Book a room")))
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"result": "Monday"})
    events = await conversation.send(types.Part(function_response=answer))
    assert text_of(events[-1]) == "Booked for Monday. You have asked 1 times."


async def test_remote_agent_reports_failed_turn(agents: ServerProcess) -> None:
    """The error message names the error's class and, because the server is `aion dev`, its text."""
    events = await RemoteSession(agents, "broken").send(types.Part(text="hello"))
    told = " ".join(text_of(event) + (event.error_message or "") for event in events)
    assert "ValueError" in told
    assert "all rooms are taken" in told
