"""ADK's RemoteA2aAgent in unchanged code, whose remote agent works for longer than a process."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from google.adk.a2a.agent.config import A2aRemoteAgentConfig, RequestInterceptor
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from aion_core.delegation.looks import have_answers
from aion_core.delegation.remote import Remote as RemoteOfYaml
from aion_core.delegation.remotes import Remotes
from aion_core.protocol.types import Message, Part, Task
from tests.runtime.unit.agents.adk.test_remote_agents import SHAPES
from tests.runtime.unit.agents.adk.test_waits import (
    Talk,
    caller,
    hasty,
    remote,
    results,
    server,
    with_losses,
)
from tests.runtime.unit.delegation.remote_servers import sdk_app
from tests.support.adk import call
from tests.support.agents.remote import NOTES
from tests.support.held_remote import Remote, held_remote
from tests.support.listening import free_port, listening
from tests.support.rows import taking_turns
from tests.support.waiting import suspend_after, text_of

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

__all__ = ["hasty", "remote", "server"]


def far(url: str, name: str = "far", *, says: str = "", streaming: bool = True) -> RemoteA2aAgent:
    """Return an agent that sends the client's text to the remote agent, or always the same one."""

    async def replaced(ctx: Any, message: Message, parameters: Any) -> Any:
        if says and not message.task_id:
            del message.parts[:]
            message.parts.append(Part(text=says))
        return message, parameters

    config = A2aRemoteAgentConfig(request_interceptors=[RequestInterceptor(before_request=replaced)])
    card = AgentCard(
        name="remote",
        capabilities=AgentCapabilities(streaming=streaming),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    )
    return RemoteA2aAgent(name=name, agent_card=card, config=config)


def as_tool(agent: BaseAgent, remote: Remote) -> LlmAgent:
    return caller([call(agent.name, request=remote.hold("job"))], AgentTool(agent))


def shaped(shape: str, agent: BaseAgent, remote: Remote) -> Any:
    return as_tool(agent, remote) if shape == "as a tool" else SHAPES[shape](agent)


def said(task: Task) -> list[str]:
    """Return the texts of the task's messages, without what it waited for."""
    messages = {each.message_id: each for each in (*task.history, task.status.message)}
    found = ["".join(part.text for part in each.parts) for each in messages.values()]
    return [text for text in found if not text.startswith("Waiting for")]


@pytest.mark.parametrize("shape", SHAPES)
async def test_caller_is_suspended_until_answer(remote: Remote, shape: str) -> None:
    talk = Talk(lambda talk: shaped(shape, far(remote.url, says=remote.hold("job")), remote))
    task = await talk.send(remote.hold("job"))
    assert text_of(task) == "Waiting for far."
    asked = remote.requests["/"]
    task = await talk.passes(task, 2400, step=60)
    assert text_of(task) == "Waiting for far."
    assert remote.requests["/"] - asked <= 16
    assert len(talk.woken) <= 17
    remote.end("job")
    task = await talk.passes(task, 300, step=60)
    assert task.status.state == 3, text_of(task)
    rounds = 2 if shape == "in a loop" else 1
    if shape == "as a tool":
        assert text_of(task) == results(far={"result": "Held."})
    else:
        assert said(task).count("Held.") == rounds
    assert remote.heard() == ["job"] * rounds
    assert len(talk.made.store.task_keys()) == 1  # type: ignore[attr-defined]
    calls = [each for event in talk.events() for each in event.get_function_calls()]
    assert len(calls) == len({each.id for each in calls})


# An AgentTool passes on no question, and a loop asks twice.
@pytest.mark.parametrize("shape", sorted({*SHAPES} - {"as a tool", "in a loop"}))
async def test_question_after_wait_reaches_client(remote: Remote, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(lambda talk: shaped(shape, far(remote.url, says=f"{remote.hold('job')} ask"), remote))
    task = await talk.passes(await talk.send(), 10, step=5)
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert text_of(task) == "Which?", text_of(task)
    suspend_after(60.0, monkeypatch)
    task = await talk.answers(task, "red")
    assert "Held for red." in said(task)
    assert len(remote.heard()) == 2


@pytest.mark.parametrize("shape", ["in a sequence", "in a workflow", "as a tool"])
async def test_cancel_reaches_awaited_agent(remote: Remote, shape: str) -> None:
    talk = Talk(lambda talk: shaped(shape, far(remote.url, says=remote.hold("job")), remote))
    task = await talk.send()
    await talk.made.service.cancel(talk.call, task.id)
    (found,) = await talk.made.store.remote_calls.to_cancel(talk.made.store.task_keys()[0])  # type: ignore[attr-defined]
    assert (found.call.agent, bool(found.call.remote_task)) == ("far", True)
    task = await talk.passes(task, 600, step=60)
    assert text_of(task) == "Canceled."


async def test_remotes_at_once_each_get_their_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: Remote
) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    with held_remote(other_folder) as other:
        talk = Talk(lambda talk: ParallelAgent(name="root", sub_agents=[far(remote.url, "a"), far(other.url, "b")]))
        task = await talk.send(remote.hold("job"))
        assert text_of(task) in ("Waiting for a and for b.", "Waiting for b and for a.")
        remote.end("job")
        task = await talk.passes(task, 60, step=5)
    assert task.status.state == 3
    assert said(task).count("Held.") == 2
    assert remote.heard() == ["job", "job"]


def asking_beside(agent: BaseAgent) -> ParallelAgent:
    """Return an agent that asks the client, and at the same time runs another one."""

    async def silent() -> None:
        """Say nothing yet."""

    asks = caller([call("silent")], LongRunningFunctionTool(silent), name="asks")
    return ParallelAgent(name="root", sub_agents=[asks, agent])


async def test_branch_that_asks_gets_its_answer_while_remote_works(remote: Remote) -> None:
    talk = Talk(lambda _: asking_beside(far(remote.url)))
    task = await talk.send(remote.hold("job"))
    assert task.status.state == 6, text_of(task)
    task = await talk.answers(task, "blue")
    assert text_of(task) == "Waiting for far.", text_of(task)
    remote.end("job")
    task = await talk.passes(task, 60, step=5)
    assert task.status.state == 3, text_of(task)
    assert said(task).count("Held.") == 1
    assert results(silent={"result": "blue"}) in said(task)
    assert remote.heard() == ["job"]


async def test_remote_that_ends_before_answer_of_other_branch(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(lambda _: asking_beside(far(remote.url)))
    task = await talk.send(remote.hold("job"))
    remote.end("job")
    suspend_after(60.0, monkeypatch)
    task = await talk.answers(task, "blue")
    assert task.status.state == 3, text_of(task)
    assert said(task).count("Held.") == 1
    assert remote.heard() == ["job"]


async def test_forgotten_task_fails_with_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    talk = Talk(lambda talk: far(url))
    with listening(sdk_app(url), port=port):
        task = await talk.send(f"hold {tmp_path / 'job'}")
        assert text_of(task) == "Waiting for far."
    task = await talk.passes(task, 60, step=5)
    assert text_of(task) == "Waiting for far.", "it may only restart"
    with listening(sdk_app(url), port=port):
        task = await talk.passes(task, 60, step=5)
    assert text_of(task).endswith("no longer knows the task that it had begun.")


async def test_agent_that_does_not_answer_within_day_fails_turn(remote: Remote) -> None:
    talk = Talk(lambda talk: far(remote.url))
    task = await talk.passes(await talk.send(remote.hold("job")), 24 * 3600 - 600, step=3600)
    assert text_of(task) == "Waiting for far."
    task = await talk.passes(task, 1200, step=300)
    assert (task.status.state, text_of(task)) == (4, "The agent far has not answered within 24 hours.")


async def test_blocking_client_gets_answer_without_suspension(remote: Remote) -> None:
    talk = Talk(lambda talk: far(remote.url))
    sending = asyncio.create_task(talk.send(remote.hold("job"), return_immediately=False))
    async with asyncio.timeout(60):
        while not remote.requests["/"]:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)  # longer than a call may keep a process that nobody holds
    remote.end("job")
    assert "Held." in said(await sending)
    assert not any("Waiting" in "".join(part.text for part in each.parts) for each in (await sending).history)


async def test_answer_stays_known_when_agent_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look that finds the answer stores it, and the agent is gone when the turn goes on."""
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    server = ExitStack()
    remote = server.enter_context(held_remote(tmp_path))
    talk = Talk(lambda talk: shaped("in a sequence", far(remote.url), remote))
    task = await talk.send(remote.hold("job"))
    remote.end("job")
    looks = talk.made.worker._looks
    assert looks is not None

    async def last_look(*given: Any) -> bool:
        found = await looks(*given)
        if found:
            await asyncio.to_thread(server.close)
        return found

    talk.made.worker._looks = last_look
    task = await talk.passes(task, 60, step=5)
    assert task.status.state == 3, text_of(task)
    assert said(task).count("Held.") == 1


async def test_remote_of_aion_yaml_waits_with_its_credentials(remote: Remote) -> None:
    """Its name in aion.yaml stands for its URL, also in what the client reads, and in the looks."""
    remotes = Remotes({"weather": RemoteOfYaml("weather", remote.url)})
    talk = Talk(lambda talk: RemoteA2aAgent(name="far", agent_card="weather"), remotes=remotes)
    talk.made.worker._looks = partial(have_answers, remotes.client, talk.made.store.remote_calls)
    task = await talk.send(remote.hold("job"))
    assert text_of(task) == "Waiting for weather."
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert "Held." in said(task)
    assert remote.heard() == ["job"]


@taking_turns(
    shape=["in a sequence", "in parallel", "after a transfer", "as a tool", "in a workflow"], before=[False, True]
)
async def test_killed_process_loses_no_wait_and_no_answer(
    shape: str, before: bool, server: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lose the process at events of the session, after or before the event is stored."""

    def build(_: Talk, remote: Remote) -> Any:
        return shaped(shape, far(remote.url, says=remote.hold("job")), remote)

    place = 0
    async for place, _, task, called in with_losses(build, server, tmp_path, monkeypatch, before=before):
        assert task.status.state == 3, (place, text_of(task))
        assert called.heard() == ["job"], place
        assert sum("Held." in text for text in said(task)) == 1, (place, said(task))
    assert place > 2
