"""`aion deploy` to an emulated AWS whose Lambda runs the uploaded packages in containers.

The emulator's own Function URL, event source mappings and schedule invoke the functions, and it stores their logs.
"""

import asyncio
import base64
import time
from collections.abc import Iterator

import httpx
import pytest
from a2a.types import Message, Part, Role, SendMessageConfiguration, SendMessageRequest, TaskPushNotificationConfig
from botocore.credentials import Credentials

from aion_core.clock import SystemClock
from aion_core.engine.task import projection
from aion_core.protocol.types import TaskState
from aion_tools.cli.chat.credentials import ClientCredentials, Signer
from aion_tools.cli.steps import INDENT
from tests.support.containers.engine import DockerEngine
from tests.support.e2e.clients import official_client
from tests.support.e2e.rest_api import CALLER, REGION
from tests.support.receiver import receiving
from tests.support.server import ROOT
from tests.support.service import send
from tests.support.stores import dynamodb_store
from tests.support.tasks import orphan
from tests.tools.e2e.containers.deployment import STACK, TIMEOUT, Deployment, deployed

pytestmark = [
    pytest.mark.deep,
    # Allow half an hour, because the first test may build Lambda's image, install SAM, and build four packages.
    pytest.mark.timeout(1800),
]

ECHO = (ROOT / "examples" / "echo" / "agent.py").read_text()
AGENTS = {
    "agent.py": ECHO,
    "edited.py": ECHO,
    "counting.py": (ROOT / "aion_tools" / "project" / "files" / "adk" / "agent.py").read_text(),
}
CONFIG = """
aion:
  agents:
    echo: {path: agent.py:graph}
    edited: {path: edited.py:graph}
    counting: {path: counting.py:root_agent}
"""
TEXT = "Grüße, \u05e9\u05dc\u05d5\u05dd"
ANSWERS = {"echo": TEXT, "counting": "Your message has 2 words."}
AUTH = ClientCredentials(signer=Signer(Credentials(*CALLER.values()), "lambda", REGION))


@pytest.fixture(scope="module")
def deployment(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Deploy a stack for all tests. After them, destroy it with its data."""
    with deployed(engine, tmp_path_factory.mktemp("deployed"), CONFIG, AGENTS) as deployment:
        deployment.allow_webhooks_on_bridge()
        project = deployment.project
        table = project.outputs(STACK)["TableName"]
        yield deployment
        done = project.run("destroy", "--stack", STACK, "--data", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert project.status(STACK) == ""
        assert table not in deployment.client("dynamodb").list_tables()["TableNames"]
        assert deployment.client("lambda").list_functions()["Functions"] == []


def message(text: str, message_id: str) -> Message:
    return Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)])


def test_deploy_prints_streamed_reply_of_container(deployment: Deployment) -> None:
    assert f"{INDENT}Hello, who is there?\n" in deployment.printed
    assert "ok       first reply: echo answered, streamed, after " in deployment.printed
    assert f"  URL   {deployment.url}\n" in deployment.printed
    deployment.logged("api", "REPORT RequestId")


@pytest.mark.parametrize("agent", ANSWERS)
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_official_client_gets_answer_of_deployed_agent(deployment: Deployment, agent: str, binding: str) -> None:
    url = f"{deployment.url}/agents/{agent}"
    async with official_client(url, binding=binding, streaming=True, auth=AUTH) as client:
        request = SendMessageRequest(message=message(TEXT, f"streamed-{agent}-{binding}"))
        streamed = [event async for event in client.send_message(request)]
    async with official_client(url, binding=binding, streaming=False, auth=AUTH) as client:
        request = SendMessageRequest(message=message(TEXT, f"sent-{agent}-{binding}"))
        (sent,) = [event async for event in client.send_message(request)]
    assert streamed[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert sent.task.status.state == TaskState.TASK_STATE_COMPLETED
    assert sent.task.status.message.parts[0].text == ANSWERS[agent]


async def test_queued_turn_is_delivered_to_webhook(deployment: Deployment) -> None:
    """Send a message without waiting: TaskFunction runs its turn, and PushFunction posts signed notifications."""
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    async with (
        receiving(address=deployment.engine.gateway) as receiver,
        official_client(deployment.url, streaming=False, auth=AUTH) as client,
    ):
        webhook = TaskPushNotificationConfig(url=receiver.url(), token=secret)
        configuration = SendMessageConfiguration(return_immediately=True, task_push_notification_config=webhook)
        request = SendMessageRequest(message=message("later", "queued"), configuration=configuration)
        (started,) = [event async for event in client.send_message(request)]
        assert started.task.status.state != TaskState.TASK_STATE_COMPLETED
        end = time.monotonic() + TIMEOUT
        while not any(b"TASK_STATE_COMPLETED" in post.body for post in receiver.posts):
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
    assert all(post.is_signed_by(secret) for post in receiver.posts)
    for function in ("task", "push"):
        await asyncio.to_thread(deployment.logged, function, started.task.id)


async def test_schedule_rescues_turn_of_dead_worker(deployment: Deployment) -> None:
    """Leave a turn without worker and wake-up message: the sweep finds it at its next scheduled time."""
    head = await orphan(deployment, "who is there?")
    store, end = dynamodb_store(deployment, SystemClock()), time.monotonic() + TIMEOUT
    while (log := await store.log(head.key)) is None or log.head.state != TaskState.TASK_STATE_COMPLETED:
        assert time.monotonic() < end
        await asyncio.sleep(0.5)
    assert projection.fold(log.events).status.message.parts[0].text == "who is there?"
    await asyncio.to_thread(deployment.logged, "sweep", "REPORT RequestId")


def test_sync_changes_reply_of_edited_agent(deployment: Deployment) -> None:
    assert said(deployment, "one") == "one"
    file = deployment.project.folder / "edited.py"
    file.write_text(ECHO.replace("str(messages[-1].text))", "str(messages[-1].text).upper())"))
    deployment.sam(
        "sync", "--code", "--stack-name", STACK, typed="y\n"
    )  # SAM asks whether the stack is for development
    assert said(deployment, "two") == "TWO"


def said(deployment: Deployment, text: str) -> str:
    """Send a message to the edited agent, and return the text of the reply."""
    url, headers = f"{deployment.url}/agents/edited", {"A2A-Version": "1.0"}
    answer = httpx.post(url, json=send(text, message_id=text), headers=headers, auth=AUTH, timeout=TIMEOUT).json()
    return str(answer["result"]["task"]["status"]["message"]["parts"][0]["text"])
