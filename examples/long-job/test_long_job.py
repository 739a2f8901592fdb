"""Job with short steps: two messages in one conversation, and a server that is killed during the job."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError

from aion_tools.testing import serve
from tests.support.server import aion_dev, serving

HERE = Path(__file__).parent


async def test_each_message_starts_job_that_reports_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_STEPS", "4")
    monkeypatch.setenv("JOB_STEP_SECONDS", "0")
    async with serve(HERE / "aion.yaml") as client:
        first = await client.ask("Begin.")
        second = await client.ask("Again.", context_id=first.context_id)
    for reply in (first, second):
        assert (reply.state, reply.text) == ("completed", "Done: 4 steps.")
        steps = [
            event.status_update.metadata["done"] for event in reply.events if "done" in event.status_update.metadata
        ]
        assert steps == [1, 2, 3, 4]


async def steps_of(events: AsyncIterator[StreamResponse]) -> AsyncIterator[tuple[str, int]]:
    """Yield the task id and the number of each finished step, until the stream or its connection ends."""
    with contextlib.suppress(A2AError):
        async for event in events:
            if "done" in event.status_update.metadata:
                yield event.status_update.task_id, int(event.status_update.metadata["done"])


async def test_long_job_continues_after_server_is_killed() -> None:
    """Kill the server by the console's request after the second of six steps; `aion dev` starts a new one."""
    command = aion_dev(str(HERE), "--no-reload")
    environ = {"JOB_STEPS": "6", "JOB_STEP_SECONDS": "0.5", "AION_LEASE_SECONDS": "2"}
    with serving(command, **environ) as server:
        async with httpx.AsyncClient(timeout=60) as http:
            card = await A2ACardResolver(http, server.url).get_agent_card()
            client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
            message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="Begin.")])
            task = Task()
            async for task.id, done in steps_of(client.send_message(SendMessageRequest(message=message))):
                if done == 2:
                    with pytest.raises(httpx.TransportError):
                        await http.post(f"{server.url}/agents/long-job/console/kill", json={})
            later: list[int] = []
            while task.status.state != TaskState.TASK_STATE_COMPLETED:
                later += [done async for _, done in steps_of(client.subscribe(SubscribeToTaskRequest(id=task.id)))]
                await asyncio.sleep(0.1)
                with contextlib.suppress(A2AError):
                    task = await client.get_task(GetTaskRequest(id=task.id))
    assert (task.status.state, task.status.message.parts[0].text) == (
        TaskState.TASK_STATE_COMPLETED,
        "Done: 6 steps.",
    )
    assert later
    assert min(later) > 2
