"""The agent that is checked, as the official client reaches it."""

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

from aion_core.smoke.credentials import SmokeCredentials

RUNNING = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
BINDING, VERSION = "JSONRPC", "1.0"
POLL = 0.2


class CheckFailed(Exception):
    """The deployment does not do what it has to; the message says what was seen."""


class CheckSkipped(Exception):
    """It could not be found out; the message says why."""


@dataclass
class AgentUnderTest:
    """An agent at a URL; `blocking` and `streaming` are the official client, told to wait for answers or to hear them."""

    url: str
    """Where the agent is: the deployment's URL, or /agents/<id> below it."""
    deployment: str
    text: str
    patience: float
    card: AgentCard
    blocking: Client
    streaming: Client

    def request(self, *, waits: bool = True, webhook: TaskPushNotificationConfig | None = None) -> SendMessageRequest:
        """Return a request that begins a task of its own; who does not wait gets it as it begins."""
        message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=self.text)])
        configuration = SendMessageConfiguration(return_immediately=not waits, task_push_notification_config=webhook)
        return SendMessageRequest(message=message, configuration=configuration)

    async def send(self, request: SendMessageRequest) -> StreamResponse:
        """Send it, and return the answer."""
        async for answer in self.blocking.send_message(request):
            return answer
        raise CheckFailed("the message was not answered")

    async def begin(self, webhook: TaskPushNotificationConfig | None = None) -> Task:
        """Begin a task that nobody waits for; raises Skipped where the agent answers without a task."""
        answer = await self.send(self.request(waits=False, webhook=webhook))
        if not answer.HasField("task"):
            raise CheckSkipped("the agent answers with a message, and no task")
        return answer.task

    async def task(self, task_id: str) -> Task:
        """Read the task."""
        return await self.blocking.get_task(GetTaskRequest(id=task_id))

    async def wait_until_done(self, task_id: str) -> Task:
        """Wait until nobody works on the task; how long is the caller's to limit."""
        while (task := await self.task(task_id)).status.state in RUNNING:  # noqa: ASYNC110 - what changes is elsewhere
            await asyncio.sleep(POLL)
        return task


def agent_under_test(
    url: str, deployment: str, card: AgentCard, http: httpx.AsyncClient, *, text: str, patience: float
) -> AgentUnderTest:
    """Return the agent of the card, reached at this URL whatever its card says: no credentials go elsewhere."""
    here = AgentCard()
    here.CopyFrom(card)
    del here.supported_interfaces[:]
    interface = here.supported_interfaces.add()
    interface.url, interface.protocol_binding, interface.protocol_version = f"{url}/", BINDING, VERSION

    def client(streaming: bool) -> Client:
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[BINDING])
        return ClientFactory(config).create(here)

    return AgentUnderTest(url, deployment, text, patience, card, client(False), client(True))


async def read_card(url: str, http: httpx.AsyncClient, credentials: SmokeCredentials) -> AgentCard:
    """Return the agent's card, and tell the credentials what it declares."""
    card = await A2ACardResolver(http, url).get_agent_card()
    credentials.card_read(card)
    return card


def name_of(state: TaskState) -> str:
    """Return what the state is called, in prose."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def raise_if_failed(status: TaskStatus) -> None:
    """Raise Failed with the reason that the status gives."""
    if status.state in (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED):
        said = " ".join(part.text for part in status.message.parts)
        raise CheckFailed(f"the task is {name_of(status.state)}: {said or 'it says no reason'}")
