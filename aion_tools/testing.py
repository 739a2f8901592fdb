"""Server for tests that runs the agents of an aion.yaml in the test process, and a client for it.

```python
async with serve("aion.yaml") as client:
    reply = await client.ask("Hello")
assert reply.state == "completed"
```
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import (
    AgentCard,
    Artifact,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
)

from aion_core.bootstrap import build_app
from aion_core.engine.task.states import INTERRUPTED, state_name
from aion_core.errors import ConfigurationError
from aion_core.protocol.interrupts import OpenQuestion, questions_of
from aion_core.protocol.stream_artifacts import STREAM_DELTA_ID
from aion_core.settings import DEFAULT_BASE_URL, Settings

ENVIRONMENT = {
    "AION_STORE": "memory",
    "AION_AUTH": "off",
    "AION_SECRETS": "off",
    "AION_REVEAL_ERRORS": "true",
    "AION_BASE_URL": DEFAULT_BASE_URL,
    # Allow webhooks over http on this machine, because tests use local webhooks.
    "AION_PUSH_HTTP": "true",
    "AION_PUSH_NETWORKS": "127.0.0.0/8,::1/128",
}
"""Settings of the served app, in place of the process's environment variables."""


@dataclass(frozen=True, slots=True)
class AgentReply:
    """Answer to one message, once the agent has finished, failed, or asked for input."""

    state: str
    """State of the task, such as `completed`, `failed` or `input-required`. It is `completed` for a plain message."""
    text: str
    """Text of the task's final message, or else of its artifacts. For a failed task, it is the reason."""
    chunks: tuple[str, ...] = field(repr=False)
    """Streamed pieces of text, in order."""
    context_id: str = field(repr=False)
    """Id of the conversation, for `ask(..., context_id=...)`."""
    task: Task | None = field(repr=False)
    """Task as returned by GetTask; None if the agent answers with plain messages (`reply: message`)."""
    events: tuple[StreamResponse, ...] = field(repr=False)
    """All events of the response stream, in order."""

    @property
    def questions(self) -> list[OpenQuestion]:
        """Questions of a task that requires input: the id, text, schema and choices of each.

        An answer to one of several names its id: `ask(parts=[Part(text="yes", metadata={"interruptId": id})])`.
        """
        waits = self.task is not None and self.task.status.state in INTERRUPTED
        return questions_of(self.task.status.message) if self.task is not None and waits else []


@dataclass(frozen=True, slots=True)
class AgentClient:
    """Test client for an agent that `serve` runs."""

    a2a: Client
    """Client of the a2a-sdk, for requests other than `ask`, such as cancelling a task."""
    card: AgentCard
    """Public card of the agent."""
    http: httpx.AsyncClient
    """Plain HTTP client of the server: `await client.http.get("/.well-known/agent-card.json")`."""

    async def ask(
        self, text: str = "", *, parts: Sequence[Part] = (), context_id: str = "", task_id: str = ""
    ) -> AgentReply:
        """Send a message, read its response stream to the end, and return the reply.

        `parts`, such as files and data, follow the text. `context_id` continues a conversation. `task_id` answers a
        task that requires input. Raises the a2a-sdk's errors for a refused message.
        """
        said = [*([Part(text=text)] if text else []), *parts]
        message = Message(
            message_id=str(uuid4()), role=Role.ROLE_USER, parts=said, context_id=context_id, task_id=task_id
        )
        events = [event async for event in self.a2a.send_message(SendMessageRequest(message=message))]
        for event in events:
            if event.HasField("message"):
                answer = event.message
                return AgentReply("completed", _text(answer.parts), (), answer.context_id, None, tuple(events))
        task = await self.a2a.get_task(GetTaskRequest(id=_task_id(events)))
        text = _text(task.status.message.parts) or "\n".join(_text(artifact.parts) for artifact in task.artifacts)
        return AgentReply(state_name(task.status.state), text, _chunks(events), task.context_id, task, tuple(events))


@asynccontextmanager
async def serve(config: str | Path = "aion.yaml", *, agent: str = "") -> AsyncIterator[AgentClient]:
    """Serve the agents of an aion.yaml in this process. Yield a client of `agent`, or of the default agent.

    Tasks, conversations and checkpoints are stored in memory until the block ends. The server opens no port and
    authenticates no caller. The `environment` of aion.yaml is set until the block ends. Its `secrets` and .env are not
    read: a test sets the variables for its agent. A stream is returned as a whole, after its end. If an agent's turn or
    import fails, its task fails, and the reply's text has the reason. Raises ConfigurationError for an unusable
    aion.yaml and for an unknown agent.
    """
    before = dict(os.environ)
    try:
        async with _served(config, agent) as client:
            yield client
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@asynccontextmanager
async def _served(config: str | Path, agent: str) -> AsyncIterator[AgentClient]:
    app = build_app(Settings.from_environ({**ENVIRONMENT, "AION_CONFIG": str(config)}))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=DEFAULT_BASE_URL, timeout=None) as http,  # noqa: S113 - the test's own limit
    ):
        agents = (await http.get("/.well-known/manifest.json")).json()["endpoints"]
        if agent and agent not in agents:
            raise ConfigurationError(f"{config} has no agent {agent!r}. Its agents are {', '.join(agents)}.")
        card = await A2ACardResolver(
            http, f"{DEFAULT_BASE_URL}/agents/{agent}" if agent else DEFAULT_BASE_URL
        ).get_agent_card()
        # Name the extensions that the card requires: the server refuses a message without them.
        if required := [each.uri for each in card.capabilities.extensions if each.required]:
            http.headers["A2A-Extensions"] = ",".join(required)
        config_of_client = ClientConfig(httpx_client=http, streaming=card.capabilities.streaming)
        yield AgentClient(ClientFactory(config_of_client).create(card), card, http)


def _task_id(events: Sequence[StreamResponse]) -> str:
    first = events[0]
    return first.task.id or first.status_update.task_id or first.artifact_update.task_id


def _chunks(events: Sequence[StreamResponse]) -> tuple[str, ...]:
    """Return the text chunks that a model has streamed. If there are none, return the texts of the artifacts."""
    artifacts = [event.artifact_update.artifact for event in events if event.HasField("artifact_update")]
    deltas = _texts([artifact for artifact in artifacts if artifact.artifact_id == STREAM_DELTA_ID])
    return deltas or _texts(artifacts)


def _texts(artifacts: Sequence[Artifact]) -> tuple[str, ...]:
    return tuple(text for artifact in artifacts if (text := _text(artifact.parts)))


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts)
