"""ADK's RemoteA2aAgent in unchanged code: it calls its agent once, whatever becomes of the caller's process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.tools.agent_tool import AgentTool

from tests.runtime.unit.agents.adk.test_resumption import answering, outcome, run_to_end, transferring_agent
from tests.support.adk import CrashingSessions, DecidingLlm, call, llm_agent, served
from tests.support.service import ServiceParts, http, parts

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

MAX_APPENDS = 20


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


class Elsewhere(httpx.ASGITransport):
    """Transport to an app of another process: it goes on with a request whose client is gone."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.shield(asyncio.create_task(super().handle_async_request(request)))


@asynccontextmanager
async def remote_agent(agent: Any = None) -> AsyncIterator[tuple[ServiceParts, Callable[..., RemoteA2aAgent]]]:
    """Serve an agent; return its service, and a function that makes the RemoteA2aAgent which calls it."""
    remote = parts(served(agent or llm_agent(*[["I ", "worked."]] * 60, name="remote")))
    async with httpx.AsyncClient(transport=Elsewhere(remote.app()), base_url="http://test") as client:
        yield remote, lambda: RemoteA2aAgent(name="slow", agent_card=remote.card, httpx_client=client)


async def tasks_of(remote: ServiceParts) -> int:
    """Return how many tasks the remote agent has got."""
    async with http(remote.app()) as client:
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
        return int(answer.json()["result"]["totalSize"])


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_interrupted_caller_calls_remote_agent_once(shape: str, before: bool) -> None:
    """Cut the caller's turn at each of its events, after or before the event is stored."""
    async with remote_agent() as (_, make):
        sessions = CrashingSessions()
        whole = outcome(await run_to_end(served(SHAPES[shape](make()), sessions)))
    assert whole[0] == "COMPLETED"
    assert 1 < sessions.appends < MAX_APPENDS
    for place in range(1, sessions.appends + 1):
        async with remote_agent() as (remote, make):
            agent = served(SHAPES[shape](make()), CrashingSessions(place, before=before))
            assert outcome(await run_to_end(agent)) == whole, place
            assert await tasks_of(remote) == (2 if shape == "in a loop" else 1), place
