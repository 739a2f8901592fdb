"""Official client over HTTP+JSON against `make dev`, in both protocol versions; its errors also over JSON-RPC."""

import json
import uuid
from collections.abc import AsyncIterator

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Part,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils import errors
from google.protobuf.json_format import ParseDict

from tests.runtime.e2e.test_tasks import check_cancel, check_subscription
from tests.support.e2e.clients import official_client
from tests.support.receiver import answers, receiving
from tests.support.server import ServerProcess
from tests.tools.e2e.test_dev import ODD, VERSIONS, answers_of, message, text_of

REST = "HTTP+JSON"


@pytest.fixture(params=VERSIONS)
async def streaming(request: pytest.FixtureRequest, server: ServerProcess) -> AsyncIterator[Client]:
    async with official_client(server.url, version=request.param, binding=REST) as client:
        yield client


@pytest.fixture(params=VERSIONS)
async def client(request: pytest.FixtureRequest, server: ServerProcess) -> AsyncIterator[Client]:
    async with official_client(server.url, version=request.param, binding=REST, streaming=False) as client:
        yield client


@pytest.mark.parametrize("text", ["Hello, who is there?", ODD], ids=["short", "odd characters"])
async def test_rest_client_streams_answer(streaming: Client, text: str) -> None:
    """Stream an answer from the task to its final status."""
    responses = await answers_of(streaming, message(Part(text=text)))
    kinds = [response.WhichOneof("payload") for response in responses]
    assert kinds[:2] == ["task", "status_update"]
    assert set(kinds[2:-1]) == {"artifact_update"}
    assert kinds[-1] == "status_update"
    chunks = [response.artifact_update for response in responses[2:-1]]
    assert [chunk.append for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.last_chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join(chunk.artifact.parts[0].text for chunk in chunks) == text
    assert text_of(responses[-1].status_update.status.message) == text


async def test_rest_client_gets_whole_task(client: Client) -> None:
    """Get a completed task with its answer and history."""
    file = Part(raw=bytes(range(256)), filename="all.bin", media_type="application/octet-stream")
    data = ParseDict({"data": {"numbers": [1, 2.5], "none": None}}, Part())
    (response,) = await answers_of(client, message(Part(text=ODD), file, data))
    assert response.task.status.state == TaskState.TASK_STATE_COMPLETED
    stored = await client.get_task(GetTaskRequest(id=response.task.id))
    assert list(stored.history[0].parts) == [Part(text=ODD), file, data]
    assert stored.status == response.task.status


async def test_rest_client_subscribes_to_running_task(client: Client, streaming: Client) -> None:
    """Subscribe to a running task; sender and subscriber may have different protocol versions."""
    await check_subscription(client, streaming)


async def test_rest_client_cancels_task(client: Client) -> None:
    await check_cancel(client)


async def test_rest_client_lists_tasks_of_context(server: ServerProcess) -> None:
    context_id = f"c-{uuid.uuid4()}"
    async with official_client(server.url, binding=REST, streaming=False) as client:
        ids = [(await answers_of(client, message(Part(text=text), context_id=context_id)))[0].task.id for text in "abc"]
        asked = {"contextId": context_id, "pageSize": 2, "status": "TASK_STATE_COMPLETED"}
        page = await client.list_tasks(ParseDict(asked, ListTasksRequest()))
        rest = await client.list_tasks(ParseDict({**asked, "pageToken": page.next_page_token}, ListTasksRequest()))
    assert [task.id for task in [*page.tasks, *rest.tasks]] == ids[::-1]
    assert (page.total_size, rest.next_page_token) == (3, "")


@pytest.mark.parametrize("binding", ["JSONRPC", REST])
@pytest.mark.parametrize("version", VERSIONS)
async def test_rest_client_raises_matching_sdk_error_class(server: ServerProcess, version: str, binding: str) -> None:
    """Raise the SDK's class for each error."""
    async with official_client(server.url, version=version, binding=binding, streaming=False) as client:
        (response,) = await answers_of(client, message(Part(text="done")))
        task_id = response.task.id
        with pytest.raises(errors.TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="nope"))
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task_id))
        async with official_client(server.url, version=version, binding=binding) as streaming:
            with pytest.raises(errors.UnsupportedOperationError):
                _ = [event async for event in streaming.subscribe(SubscribeToTaskRequest(id=task_id))]
        with pytest.raises(errors.InvalidParamsError):
            await answers_of(client, message())
        private = TaskPushNotificationConfig(task_id=task_id, id="p", url="https://10.0.0.1/hook")
        with pytest.raises(errors.InvalidParamsError, match="not public"):
            await client.create_task_push_notification_config(private)
        with pytest.raises(errors.TaskNotFoundError):
            await client.get_task_push_notification_config(
                GetTaskPushNotificationConfigRequest(task_id=task_id, id="p")
            )


@pytest.mark.parametrize("binding", ["JSONRPC", REST])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_official_client_manages_push_config_and_webhook_gets_notifications(
    server: ServerProcess, version: str, binding: str
) -> None:
    """Create a push config with the message; then read, replace, list and delete it."""
    async with receiving(answers(200)) as receiver:
        config = TaskPushNotificationConfig(id="p", url=receiver.url(), token="token")
        config.authentication.scheme, config.authentication.credentials = "Bearer", "secret"
        async with official_client(server.url, version=version, binding=binding, streaming=False) as client:
            request = message(Part(text="done"))
            request.configuration.task_push_notification_config.CopyFrom(config)
            (response,) = await answers_of(client, request)
            config.task_id = response.task.id
            await receiver.heard(2)
            which = GetTaskPushNotificationConfigRequest(task_id=config.task_id, id="p")
            assert await client.get_task_push_notification_config(which) == config
            config.token = "another"
            assert await client.create_task_push_notification_config(config) == config
            # Skip v0.3 over HTTP+JSON, because the SDK's client cannot list or delete push configs there.
            if (version, binding) != ("0.3", REST):
                every = ListTaskPushNotificationConfigsRequest(task_id=config.task_id)
                listed = await client.list_task_push_notification_configs(every)
                assert list(listed.configs) == [config]
                await client.delete_task_push_notification_config(
                    DeleteTaskPushNotificationConfigRequest(task_id=config.task_id, id="p")
                )
                assert not (await client.list_task_push_notification_configs(every)).configs
    assert receiver.ids == [f"{config.task_id}_{number}_p" for number in (2, 3)]
    for post in receiver.posts:
        assert post.headers["authorization"] == "Bearer secret"
        assert post.headers["x-a2a-notification-token"] == "token"
        assert post.is_signed_by("token")
    last = json.loads(receiver.posts[-1].body)
    if version == "0.3":
        assert (last["kind"], last["id"], last["status"]["state"]) == ("task", config.task_id, "completed")
    else:
        assert ParseDict(last, StreamResponse()).status_update.status.state == TaskState.TASK_STATE_COMPLETED


@pytest.mark.parametrize("binding", ["JSONRPC", REST])
@pytest.mark.parametrize("version", VERSIONS)
async def test_rest_client_falls_back_to_public_card(server: ServerProcess, version: str, binding: str) -> None:
    """Request the extended card of an agent without one: the client returns the public card."""
    async with official_client(server.url, version=version, binding=binding) as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert card.name == "Echo"
    assert [skill.id for skill in card.skills] == ["echo"]
