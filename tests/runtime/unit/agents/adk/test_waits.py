"""Tools of ADK agents that sleep or call a remote agent: no process runs meanwhile, and each tool gets its own result."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from aion.shared.remote import RemoteAgentError, call_agent, call_agents
from aion.shared.sleeping import sleep
from aion_core.protocol.types import Task
from tests.support.adk import CrashingSessions, DecidingLlm, call, served
from tests.support.agents.remote import NOTES
from tests.support.held_remote import Remote, held_remote
from tests.support.waiting import Conversation, text_of

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

HOUR = timedelta(hours=1)


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    with held_remote(tmp_path) as made:
        yield made


def caller(calls: list[Any], *tools: Any, name: str = "root", **options: Any) -> LlmAgent:
    """Return an agent whose model makes these calls in one message, and then says their results."""

    def decide(seen: list[str]) -> list[Any]:
        results = [line.partition(": ")[2] for line in seen if " -> " in line]
        return ["; ".join(results)] if results else calls

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=list(tools), **options)


def results(**by_tool: Any) -> str:
    return "; ".join(f"{name} -> {result}" for name, result in by_tool.items())


class Talk(Conversation):
    """Conversation with an ADK agent, and its stored session."""

    def __init__(self, build: Callable[["Talk"], Any], sessions: InMemorySessionService | None = None) -> None:
        self.sessions = sessions or CrashingSessions()
        super().__init__(lambda made: served(build(made), self.sessions))  # type: ignore[arg-type]

    def events(self) -> list[Any]:
        return self.sessions.stored()  # type: ignore[attr-defined]

    def history(self) -> list[str]:
        """Return the tool calls and responses of the stored session, in order."""
        said = []
        for event in self.events():
            said += [f"{each.name}()" for each in event.get_function_calls()]
            said += [f"-> {each.name}" for each in event.get_function_responses()]
        return said


async def test_sleeping_tool_is_suspended_and_resumes_at_time() -> None:
    def build(talk: Talk) -> Any:
        async def nap() -> str:
            """Sleep for an hour."""
            talk.note("before")
            await sleep(HOUR)
            talk.note("after")
            return "good morning"

        return caller([call("nap")], nap)

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task) == "Waiting until 2030-01-01 01:00:00 UTC."
    task = await talk.passes(task, 3599)
    assert talk.notes == [("before", 0.0)], "no process has run"
    task = await talk.passes(task, 1)
    assert text_of(task) == results(nap={"result": "good morning"})
    assert talk.notes == [("before", 0.0), ("before", 3600.0), ("after", 3600.0)]
    assert talk.history() == ["nap()", "-> nap"]
    assert talk.made.agent.root.model.calls == 2  # type: ignore[attr-defined]


async def test_calling_tool_is_suspended_until_answer(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        async def ask(text: str) -> str:
            """Ask."""
            talk.note("begun")
            return (await call_agent(remote.url, text)).text

        return caller([call("ask", text=remote.hold("job"))], ask)

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task) == f"Waiting for {remote.url}."
    task = await talk.passes(task, 2400, step=30)
    assert talk.notes == [("begun", 0.0)]
    remote.end("job")
    task = await talk.passes(task, 300, step=30)
    assert text_of(task) == results(ask={"result": "Held."})
    assert remote.heard() == ["job"]
    assert talk.history() == ["ask()", "-> ask"]
