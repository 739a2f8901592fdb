"""Tasks without a waiting client on `make dev`, by the official client of either version."""

import asyncio
import uuid

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import ParseDict

from tests.e2e.clients import official_client
from tests.e2e.test_dev import LONG, VERSIONS, answers_of, message
from tests.support.server import ServerProcess

CANCELED, COMPLETED, WORKING = (
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_WORKING,
)


async def start_task(client: Client, text: str = LONG) -> Task:
    """Send a non-blocking message; return its running task."""
    request = message(Part(text=text), context_id=f"c-{uuid.uuid4()}")
    request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
    (answer,) = await answers_of(client, request)
    return answer.task


@pytest.mark.parametrize("version", VERSIONS)
async def test_task_continues_after_client_disconnects(server: ServerProcess, version: str) -> None:
    """Send with `returnImmediately`, in v0.3 `blocking: false`."""
    async with official_client(server.url, version=version, streaming=False) as client:
        task = await start_task(client, "Hello, who is there?")
        assert task.status.state == WORKING
        async with asyncio.timeout(60):
            while task.status.state == WORKING:
                await asyncio.sleep(0.1)
                task = await client.get_task(GetTaskRequest(id=task.id))
    assert task.status.state == COMPLETED
    assert task.status.message.parts[0].text == "Hello, who is there?"


@pytest.mark.parametrize("version", VERSIONS)
async def test_late_subscriber_receives_rest_of_task(server: ServerProcess, version: str) -> None:
    """Subscribe at another process: the current task, then its following events."""
    async with official_client(server.url, version=version, streaming=False) as client:
        task = await start_task(client, LONG * 4)
    async with official_client(server.url, version=version) as client:
        heard = [response async for response in client.subscribe(SubscribeToTaskRequest(id=task.id))]
    assert heard[0].task.id == task.id
    assert heard[-1].status_update.status.state == COMPLETED
    text = "".join(
        response.artifact_update.artifact.parts[0].text for response in heard if response.HasField("artifact_update")
    )
    assert (LONG * 4).endswith(text)


@pytest.mark.parametrize("version", VERSIONS)
async def test_official_client_cancels_task(server: ServerProcess, version: str) -> None:
    async with official_client(server.url, version=version, streaming=False) as client:
        task = await start_task(client, LONG * 20)
        canceled = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert canceled.status.state == CANCELED
        with pytest.raises(A2AError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
        await asyncio.sleep(1.5)
        assert await client.get_task(GetTaskRequest(id=task.id)) == canceled


async def test_tasks_of_context_are_listed(server: ServerProcess) -> None:
    async with official_client(server.url, streaming=False) as client:
        context_id = f"c-{uuid.uuid4()}"
        ids = []
        for n in range(3):
            (answer,) = await answers_of(client, message(Part(text=f"{n}"), context_id=context_id))
            ids.append(answer.task.id)
        listed = await client.list_tasks(ParseDict({"contextId": context_id, "pageSize": 2}, ListTasksRequest()))
        assert [task.id for task in listed.tasks] == [ids[2], ids[1]]
        assert listed.total_size == 3
        rest = await client.list_tasks(
            ParseDict({"contextId": context_id, "pageSize": 2, "pageToken": listed.next_page_token}, ListTasksRequest())
        )
        assert [task.id for task in rest.tasks] == [ids[0]]
        assert not rest.next_page_token
