"""The agent under test, called with the official A2A client."""

import asyncio
from dataclasses import dataclass
from uuid import uuid4

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import (
    AgentCard,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)

from aion_tools.smoke.credentials import SmokeCredentials

RUNNING = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
BINDING, VERSION = "JSONRPC", "1.0"
POLL = 0.2


class CheckFailed(Exception):
    """Error if the deployment fails a check. The message states the finding."""


class CheckSkipped(Exception):
    """Error if a check could not be made. The message states the reason."""


@dataclass
class AgentUnderTest:
    """An agent at a URL, with two official A2A clients. `blocking` waits for replies, `streaming` receives events."""

    url: str
    """URL of the agent, either the deployment's URL or /agents/<id> below it."""
    deployment: str
    text: str
    timeout: float
    card: AgentCard
    blocking: Client
    streaming: Client

    def request(self, *, waits: bool = True, webhook: TaskPushNotificationConfig | None = None) -> SendMessageRequest:
        """Return a request for a new task. With `waits=False` the agent replies at once, with a running task."""
        message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=self.text)])
        configuration = SendMessageConfiguration(return_immediately=not waits, task_push_notification_config=webhook)
        return SendMessageRequest(message=message, configuration=configuration)

    async def send(self, request: SendMessageRequest) -> StreamResponse:
        """Send the request and return the agent's reply. Raises CheckFailed without a reply."""
        async for answer in self.blocking.send_message(request):
            return answer
        raise CheckFailed("the message was not answered")

    async def begin(self, webhook: TaskPushNotificationConfig | None = None) -> Task:
        """Start a task and return it before its end. Raises CheckSkipped if the agent replies without a task."""
        answer = await self.send(self.request(waits=False, webhook=webhook))
        if not answer.HasField("task"):
            raise CheckSkipped("the agent answers with a message instead of a task")
        return answer.task

    async def task(self, task_id: str) -> Task:
        """Read the task with this id from the agent."""
        return await self.blocking.get_task(GetTaskRequest(id=task_id))

    async def wait_until_done(self, task_id: str) -> Task:
        """Wait, without a time limit, until the task no longer runs. Return the task."""
        while (task := await self.task(task_id)).status.state in RUNNING:  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(POLL)
        return task


def agent_under_test(
    url: str, deployment: str, card: AgentCard, http: httpx.AsyncClient, *, text: str, timeout: float
) -> AgentUnderTest:
    """Return the agent with this card. Requests go to `url`, not to the card's URL: no other host gets credentials."""
    here = AgentCard()
    here.CopyFrom(card)
    del here.supported_interfaces[:]
    interface = here.supported_interfaces.add()
    interface.url, interface.protocol_binding, interface.protocol_version = f"{url}/", BINDING, VERSION

    def client(streaming: bool) -> Client:
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[BINDING])
        return ClientFactory(config).create(here)

    return AgentUnderTest(url, deployment, text, timeout, card, client(False), client(True))


async def read_card(url: str, http: httpx.AsyncClient, credentials: SmokeCredentials) -> AgentCard:
    """Read the agent's card from its URL, and pass the card to the credentials."""
    card = await A2ACardResolver(http, url).get_agent_card()
    credentials.read_card(card)
    return card


def name_of(state: TaskState) -> str:
    """Return the name of a task state in prose, such as `input-required`."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def raise_if_failed(status: TaskStatus) -> None:
    """Raise CheckFailed if the status is failed or rejected, with the reason in its message."""
    if status.state in (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED):
        reason = " ".join(part.text for part in status.message.parts)
        raise CheckFailed(f"the task is {name_of(status.state)}: {reason or 'no reason was given'}")
