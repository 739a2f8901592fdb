"""`call_agent` in graphs and executors, against a remote agent on a real socket.

In `make test` this server serves the remote agent; test_durable_call.py has calls of the SDK's server.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from a2a.types import Message, Part

from aion.shared.remote import call_agent
from aion_core.authoring.remote import RemoteCaller, remote_caller_set
from aion_core.bootstrap import build_app
from aion_core.delegation.depth import DEPTH, MAX_DEPTH
from aion_core.settings import Settings
from aion_tools.testing import ENVIRONMENT, AgentClient, AgentReply, serve
from tests.runtime.unit.delegation.remote_servers import AGENTS, SERVERS, served_by_sdk
from tests.support.agents.remote import NOTES
from tests.support.listening import free_port, listening
from tests.support.rows import each_row

CALLERS = AGENTS / "delegating.yaml"
GRAPHS = ["node", "at_once", "nested", "tools", "functional"]
EACH = [*GRAPHS, "executor", "executor_at_once"]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.deep] * (name != "this server")) for name in SERVERS],
)
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with SERVERS[request.param]() as url:
        yield url


@pytest.fixture
def remote(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Serve the remote agent; return the file of its notes."""
    monkeypatch.setenv("REMOTE_URL", server)
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    return tmp_path / "notes"


def runs(notes: Path) -> list[str]:
    """Return what the remote agent has heard, in order."""
    return [line.partition(" ")[2] for line in notes.read_text().splitlines()]


async def answered(client: AgentClient, reply: AgentReply, *texts: str) -> AgentReply:
    """Answer the questions of a task one after another."""
    for text in texts:
        assert reply.state == "input-required"
        assert reply.task is not None
        reply = await client.ask(text, task_id=reply.task.id, context_id=reply.context_id)
    return reply


@pytest.mark.parametrize(
    "agent",
    [pytest.param(each, marks=[pytest.mark.deep] * (each in ("at_once", "tools", "executor"))) for each in EACH],
)
async def test_questions_reach_client_and_answers_remote(remote: Path, agent: str) -> None:
    async with serve(CALLERS, agent=agent) as client:
        asked = await client.ask("ask twice")
        assert asked.text == "Question 1 twice?"
        again = await answered(client, asked, "red")
        assert again.text == "Question 2 twice?"
        reply = await answered(client, again, "blue")
    assert (reply.state, reply.text) == ("completed", "Heard red and blue.")
    assert runs(remote) == ["ask twice", "red", "blue"]


@pytest.mark.parametrize("agent", ["at_once", "tools", "executor"])
async def test_several_calls_of_one_run_keep_apart(remote: Path, agent: str) -> None:
    async with serve(CALLERS, agent=agent) as client:
        asked = await client.ask("say one; ask twice; ask; say two")
        reply = await answered(client, asked, "red", "blue", "green")
    assert (reply.state, reply.text) == ("completed", "one! Heard red and blue. Heard green. two!")
    assert sorted(runs(remote)) == sorted(["say one", "ask twice", "ask", "say two", "red", "blue", "green"])


async def test_parallel_nodes_each_ask(remote: Path) -> None:
    async with serve(CALLERS, agent="parallel") as client:
        asked = await client.ask("ask left; ask right")
        assert asked.task is not None
        assert [question.text for question in asked.questions] == ["Question 1 left?", "Question 1 right?"]
        _, right = asked.questions
        part = Part(text="blue", metadata={"interruptId": right.id})
        asked = await client.ask(parts=[part], task_id=asked.task.id, context_id=asked.context_id)
        assert asked.text == "Question 1 left?"
        reply = await answered(client, asked, "red")
    assert (reply.state, reply.text) == ("completed", "Heard red. Heard blue.")
    assert sorted(runs(remote)) == ["ask left", "ask right", "blue", "red"]


@pytest.mark.parametrize("agent", ["node", "executor"])
async def test_authorization_reaches_client(remote: Path, agent: str) -> None:
    async with serve(CALLERS, agent=agent) as client:
        asked = await client.ask("authorize")
        assert (asked.state, asked.text) == ("auth-required", "Log in first.")
        assert asked.task is not None
        reply = await client.ask("done", task_id=asked.task.id, context_id=asked.context_id)
    assert (reply.state, reply.text) == ("completed", "Authorized.")


@pytest.mark.parametrize("agent", ["node", pytest.param("executor", marks=pytest.mark.deep)])
async def test_remote_that_goes_on_by_itself_is_followed(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the remote task end before the client says that it has logged in: only the SDK's server shows this state."""
    with served_by_sdk() as url:
        monkeypatch.setenv("REMOTE_URL", url)
        async with serve(CALLERS, agent=agent) as client:
            asked = await client.ask("await; say well")
            assert (asked.state, asked.text) == ("auth-required", "Log in there.")
            assert asked.task is not None
            await asyncio.sleep(1)
            reply = await client.ask("done", task_id=asked.task.id, context_id=asked.context_id)
    assert (reply.state, reply.text) == ("completed", "Seen your login. well!")


@pytest.mark.parametrize("agent", ["node", "executor"])
async def test_message_is_answer(remote: Path, agent: str) -> None:
    async with serve(CALLERS, agent=agent) as client:
        reply = await answered(client, await client.ask("greet; ask"), "red")
    assert (reply.state, reply.text) == ("completed", "Hello. Heard red.")


@pytest.mark.parametrize(
    ("agent", "text", "said"),
    [
        ("node", "fail", "The agent remote has failed: The lake is dry."),
        ("executor", "fail", "The agent remote has failed: The lake is dry."),
        ("node", "reject", "The agent remote has rejected the message: Not on Sundays."),
        ("executor", "cancel", "The agent remote has canceled its task."),
    ],
)
async def test_failure_fails_caller_with_its_reason(remote: Path, agent: str, text: str, said: str) -> None:
    async with serve(CALLERS, agent=agent) as client:
        reply = await client.ask(text)
    # With AION_REVEAL_ERRORS, LangGraph's note about the node follows.
    assert (reply.state, reply.text.partition(" During task")[0]) == ("failed", said)


async def test_author_may_catch_failure(remote: Path) -> None:
    async with serve(CALLERS, agent="catching") as client:
        reply = await client.ask("reject")
    assert (reply.state, reply.text) == ("completed", "remote rejected: Not on Sundays.")


@pytest.mark.parametrize("agent", ["tools", "executor"])
async def test_files_become_artifacts_once(remote: Path, agent: str) -> None:
    """Get a file before a question: the code that runs again with the answer does not send it again."""
    async with serve(CALLERS, agent=agent) as client:
        reply = await answered(client, await client.ask("file; ask"), "red")
    assert reply.text == "Here is the map. Heard red."
    assert reply.task is not None
    (artifact,) = reply.task.artifacts
    assert (artifact.name, artifact.parts[0].raw, artifact.parts[0].filename) == ("map", b"a map", "map.png")
    assert artifact.artifact_id != "map"


@pytest.mark.parametrize("agent", ["node", "executor"])
async def test_last_words_and_their_file_are_answer(remote: Path, agent: str) -> None:
    async with serve(CALLERS, agent=agent) as client:
        reply = await client.ask("chat")
    assert (reply.state, reply.text) == ("completed", "See this.")
    assert reply.task is not None
    assert [artifact.name for artifact in reply.task.artifacts] == ["sketch.png"]


async def test_text_of_artifacts_is_answer(remote: Path) -> None:
    async with serve(CALLERS, agent="node") as client:
        reply = await client.ask("data")
    assert (reply.state, reply.text) == ("completed", "Warm.")


async def test_request_has_own_context_and_depth(remote: Path) -> None:
    async with serve(CALLERS, agent="node") as client:
        first = await client.ask("request")
        second = await client.ask("request", context_id=first.context_id)
    sent, again = json.loads(first.text), json.loads(second.text)
    assert sent["metadata"] == {DEPTH: 1}
    assert sent["message"]["contextId"] not in ("", first.context_id)
    assert again["message"]["contextId"] == sent["message"]["contextId"]
    assert again["message"]["messageId"] != sent["message"]["messageId"]


async def test_sync_node_calls_from_its_thread(remote: Path) -> None:
    async with serve(CALLERS, agent="thread") as client:
        reply = await answered(client, await client.ask("say one; ask"), "red")
    assert (reply.state, reply.text) == ("completed", "one! Heard red.")


async def test_retried_node_calls_anew_after_failure(remote: Path) -> None:
    async with serve(CALLERS, agent="retrying") as client:
        reply = await client.ask("say one; fumble")
    assert (reply.state, reply.text) == ("completed", "one! Got it.")
    assert runs(remote) == ["say one", "fumble", "fumble"]


async def test_answer_outlives_remote_task(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Get an answer of a server that is gone when the node runs again with the client's answer."""
    async with serve(CALLERS, agent="node") as client:
        with served_by_sdk() as url:
            monkeypatch.setenv("OTHER_URL", url)
            asked = await client.ask("other: say hello; ask")
        reply = await answered(client, asked, "red")
    assert (reply.state, reply.text) == ("completed", "hello! Heard red.")


@contextmanager
def callers_served(monkeypatch: pytest.MonkeyPatch, remote: str) -> Iterator[None]:
    """Serve the callers on a real socket. The remote agent that they call is one of them."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    app = build_app(Settings.from_environ({**ENVIRONMENT, "AION_CONFIG": str(CALLERS), "AION_BASE_URL": url}))
    monkeypatch.setenv("REMOTE_URL", f"{url}/agents/{remote}")
    with listening(app, port=port):
        yield


async def test_several_questions_of_remote_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with callers_served(monkeypatch, "two_questions"):
        async with serve(CALLERS, agent="node") as client:
            asked = await client.ask("plan")
            assert asked.text == "Which city?"
            asked = await answered(client, asked, "Rome")
            assert asked.text == "Which day?"
            reply = await answered(client, asked, "Monday")
    assert (reply.state, reply.text) == ("completed", "city Rome, day Monday")


async def test_loop_of_agents_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an agent call itself: the ninth call fails, and the reason reaches the client."""
    with callers_served(monkeypatch, "executor"):
        async with serve(CALLERS, agent="executor") as client:
            reply = await client.ask("say hello")
    assert reply.state == "failed"
    assert reply.text.count("The agent remote has failed: ") == MAX_DEPTH
    assert "8 agents have called each other before, probably in a loop" in reply.text


async def test_call_outside_of_turn_is_refused() -> None:
    with pytest.raises(RuntimeError, match="No turn of an agent is running here"):
        await call_agent("remote", "hello")


@each_row("message", [[], Message(), 5, {"a": 1}, [5]])
async def test_unsuitable_message_is_refused(message: Any) -> None:
    with remote_caller_set(cast("RemoteCaller", None)), pytest.raises((TypeError, ValueError)):
        await call_agent("remote", message)
