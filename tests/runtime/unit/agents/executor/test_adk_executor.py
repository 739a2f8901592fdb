"""ADK's own AgentExecutor, unchanged, on this engine."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.agents import BaseAgent, InvocationContext
from google.adk.apps import App
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from tests.runtime.unit.agents.executor.executors import served
from tests.support.service import http, send


class MessageCounter(BaseAgent):
    """Agent that answers with the number of user messages in its session."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        messages = [event for event in ctx.session.events if event.author == "user"]
        part = types.Part(text=f"message {len(messages)}")
        yield Event(
            author=self.name, invocation_id=ctx.invocation_id, content=types.Content(role="model", parts=[part])
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("header", [{}, {"A2A-Extensions": "https://google.github.io/adk-docs/a2a/a2a-extension/"}])
async def test_adk_executor_answers_and_keeps_sessions(header: dict[str, str]) -> None:
    """Test both implementations in ADK's executor; the extensions that the client requests select one."""
    runner = Runner(
        app=App(name="app", root_agent=MessageCounter(name="counting")), session_service=InMemorySessionService()
    )
    made = served(A2aAgentExecutor(runner=runner))
    async with http(made.parts.app()) as client:

        async def task_of(**message: Any) -> dict[str, Any]:
            answer = await client.post("/", json=send(contextId="c", **message), headers=header)
            return dict(answer.json()["result"]["task"])

        first, second = await task_of(message_id="m-1"), await task_of(message_id="m-2")
    for number, task in enumerate((first, second), start=1):
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        (artifact,) = task["artifacts"]
        assert "".join(part["text"] for part in artifact["parts"]) == f"message {number}"
        assert task["metadata"]["adk_session_id"] == "c"
    assert ("https://google.github.io/adk-docs/a2a/a2a-extension/" in first["metadata"]) == bool(header)
