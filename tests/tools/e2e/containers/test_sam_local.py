"""`sam build && sam local start-api`, and `aion sam-local`, with the functions in containers.

Each test runs for a LangGraph and an ADK project of `aion new`, installed from the wheel, and for a clone of the repository.
"""

import asyncio
import base64
import time
from collections.abc import Iterator

import httpx
import pytest
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
)

from aion_core.protocol.types import TaskState
from tests.support.containers.engine import DockerEngine
from tests.support.e2e.clients import official_client
from tests.support.installed import Installed, installed
from tests.support.receiver import receiving
from tests.support.service import send
from tests.tools.e2e.containers.local_project import (
    KEY,
    LocalProject,
    LocalServer,
    cloned_project,
    complete,
    new_project,
    plain,
)

pytestmark = [
    pytest.mark.deep,
    # Allow half an hour, because the first test may build Lambda's image, install SAM, and build four packages.
    pytest.mark.timeout(1800),
]

V1 = {"A2A-Version": "1.0"}
WAYS = ["plain_server", "complete_server"]
TIMEOUT = 180


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(tmp_path_factory.mktemp("tools"), "local")


@pytest.fixture(scope="module", params=["langgraph", "adk", "repository"])
def project(
    request: pytest.FixtureRequest, engine: DockerEngine, tools: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalProject]:
    folder = tmp_path_factory.mktemp(request.param)
    project = (
        cloned_project(engine, folder)
        if request.param == "repository"
        else new_project(engine, folder, tools, request.param)
    )
    yield project
    if left := project.containers():  # of a killed server
        engine.docker("rm", "--force", "--volumes", *left)


@pytest.fixture(scope="module")
def plain_server(project: LocalProject) -> Iterator[LocalServer]:
    with plain(project) as server:
        yield server


@pytest.fixture(scope="module")
def complete_server(project: LocalProject) -> Iterator[LocalServer]:
    """Run the command for several tests. After them, Ctrl-C removes its containers and files."""
    with complete(project) as server:
        yield server
        assert server.interrupt() == 0
        assert project.containers(".aion/") == []
        assert not list((project.folder / ".aion").glob("sam-local/*"))
        assert KEY not in "".join(server.printed)


@pytest.fixture
def server(request: pytest.FixtureRequest, project: LocalProject) -> LocalServer:
    """Return the server of the fixture that the test names, for each project."""
    served: LocalServer = request.getfixturevalue(request.param)
    return served


def text(message_id: str, version: str) -> SendMessageRequest:
    message = Message(message_id=f"{message_id}-{version}", role=Role.ROLE_USER, parts=[Part(text="two words")])
    return SendMessageRequest(message=message)


def answer(task: Task) -> str:
    """Return the text of the answer: new projects have `answer: artifact`, and the repository's agent has a message."""
    return (task.artifacts or [task.status.message])[0].parts[0].text


@pytest.mark.parametrize("server", WAYS, indirect=True)
@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_official_client_gets_answer(
    server: LocalServer, project: LocalProject, binding: str, version: str
) -> None:
    """Use the URL in the card, which is that of the server."""
    async with official_client(server.url, binding=binding, version=version, streaming=True) as client:
        streamed = [event async for event in client.send_message(text(f"streamed-{binding}", version))]
    async with official_client(server.url, binding=binding, version=version, streaming=False) as client:
        (sent,) = [event async for event in client.send_message(text(f"sent-{binding}", version))]
        again = await client.get_task(GetTaskRequest(id=sent.task.id))
    assert streamed[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert len([event for event in streamed if event.HasField("artifact_update")]) > 1
    assert sent.task.status.state == TaskState.TASK_STATE_COMPLETED
    assert answer(sent.task) == project.answer
    assert again == sent.task


@pytest.mark.parametrize("server", WAYS, indirect=True)
def test_responses_have_media_types_of_bindings(server: LocalServer) -> None:
    """Errors of HTTP+JSON, and a text of a megabyte, arrive whole."""
    with httpx.Client(base_url=server.url, headers=V1, timeout=TIMEOUT) as http:
        card = http.get("/.well-known/agent-card.json")
        assert {each["url"].rstrip("/") for each in card.json()["supportedInterfaces"]} == {server.url}
        missing = http.get("/tasks/nope", headers={"Accept": "application/a2a+json"})
        assert (missing.status_code, missing.headers["content-type"]) == (404, "application/a2a+json")
        assert missing.json()["error"]["status"] == "NOT_FOUND"
        large = http.post("/", json=send("x" * 1_000_000, message_id="large"))
        assert large.headers["content-type"] == "application/json"
        assert large.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_queued_turn_is_delivered_to_webhook(complete_server: LocalServer, project: LocalProject) -> None:
    """TaskFunction runs the turn in its container, and PushFunction posts signed notifications from another one."""
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    async with (
        receiving(address=project.engine.gateway) as receiver,
        official_client(complete_server.url, streaming=False) as client,
    ):
        webhook = TaskPushNotificationConfig(url=receiver.url(), token=secret)
        request = text("queued", "1.0")
        request.configuration.CopyFrom(
            SendMessageConfiguration(return_immediately=True, task_push_notification_config=webhook)
        )
        (started,) = [event async for event in client.send_message(request)]
        assert started.task.status.state != TaskState.TASK_STATE_COMPLETED
        end = time.monotonic() + TIMEOUT
        while not any(b"TASK_STATE_COMPLETED" in post.body for post in receiver.posts):
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        done: Task = await client.get_task(GetTaskRequest(id=started.task.id))
    assert answer(done) == project.answer
    assert all(post.is_signed_by(secret) for post in receiver.posts)
    printed = "".join(complete_server.printed)
    assert "Invoking handlers.run_task.handler" in printed
    assert "Invoking handlers.deliver_push.handler" in printed
