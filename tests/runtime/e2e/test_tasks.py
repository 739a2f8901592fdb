"""Tasks of non-blocking messages on `make dev`, with the official client in both protocol versions."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    SendMessageConfiguration,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict

from tests.support.e2e.clients import official_client
from tests.support.server import ServerProcess
from tests.tools.e2e.test_dev import LONG, VERSIONS, answers_of, message

T = TypeVar("T")

CANCELED, COMPLETED, WORKING = (
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_WORKING,
)


async def while_it_runs(client: Client, use: Callable[[Task], Awaitable[T]]) -> tuple[str, T]:
    """Start a task and call `use` on it while it runs; return text and result. Retry if the task ends too early."""
    for text in (LONG[: len(LONG) // 4], LONG, LONG * 4):
        task = await start_task(client, text)
        try:
            if used := await use(task):
                return text, used
        except (UnsupportedOperationError, TaskNotCancelableError):
            assert (await client.get_task(GetTaskRequest(id=task.id))).status.state == COMPLETED
    raise AssertionError("each task had ended before its use")


async def check_subscription(sender: Client, subscriber: Client) -> None:
    """Subscribe to the sender's running task; check that the task and its later events arrive."""

    async def subscribe(task: Task) -> list[StreamResponse]:
        heard = [response async for response in subscriber.subscribe(SubscribeToTaskRequest(id=task.id))]
        # Return nothing if no chunk arrived, because the subscription began too late: the test tries a longer text.
        return heard if any(response.HasField("artifact_update") for response in heard) else []

    whole, heard = await while_it_runs(sender, subscribe)
    assert heard[0].task.status.state == WORKING
    assert heard[-1].status_update.task_id == heard[0].task.id
    assert heard[-1].status_update.status.state == COMPLETED
    text = "".join(
        response.artifact_update.artifact.parts[0].text for response in heard if response.HasField("artifact_update")
    )
    assert text
    assert whole.endswith(text)


async def check_cancel(client: Client) -> None:
    """Cancel a running task; check that it stays stored and cannot be cancelled again."""
    _, canceled = await while_it_runs(client, lambda task: client.cancel_task(CancelTaskRequest(id=task.id)))
    assert canceled.status.state == CANCELED
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=canceled.id))
    assert await client.get_task(GetTaskRequest(id=canceled.id)) == canceled


async def start_task(client: Client, text: str) -> Task:
    """Send a non-blocking message; return the running task."""
    request = message(Part(text=text), context_id=f"c-{uuid.uuid4()}")
    request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
    (answer,) = await answers_of(client, request)
    return answer.task


@pytest.mark.parametrize("version", VERSIONS)
async def test_task_continues_after_client_disconnects(server: ServerProcess, version: str) -> None:
    """Send with `returnImmediately` (v0.3: `blocking: false`); poll the task until it completes."""
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
    """Subscribe with a second client: receive the current task, then its later events."""
    async with (
        official_client(server.url, version=version, streaming=False) as sender,
        official_client(server.url, version=version) as subscriber,
    ):
        await check_subscription(sender, subscriber)


@pytest.mark.parametrize("version", VERSIONS)
async def test_official_client_cancels_task(server: ServerProcess, version: str) -> None:
    async with official_client(server.url, version=version, streaming=False) as client:
        await check_cancel(client)


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
