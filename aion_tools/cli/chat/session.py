"""Conversation with an agent from the command line: target, streamed events, resumption."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from aion_tools.cli.chat.content import Answer
from aion_tools.cli.chat.tool_calls import ToolCalls

if TYPE_CHECKING:
    import httpx
    from a2a.types import AgentCard, Part, StreamResponse

    from aion_core.agent_client.checked import CheckedClient
    from aion_tools.cli.chat.endpoint import Endpoint

RECONNECT_SECONDS, RECONNECTS = 1.0, 60
"""Pause between two attempts to resume a stream, and number of attempts. Together they last longer than a lease, so
that another process can take over the turn."""
IDLE_SECONDS = 300.0
"""Time without a sign of life after which a stream is resumed. API Gateway cuts such a stream at this time too."""


class ChatSession:
    """Conversation with one agent in one context. After a lost connection, it subscribes to the task again."""

    def __init__(
        self,
        client: "CheckedClient",
        card: "AgentCard",
        calls: "ToolCalls",
        *,
        context_id: str = "",
        task_id: str = "",
    ) -> None:
        self.card, self.calls = card, calls
        # Without a contextId, a message belongs to the context of its task.
        self.context_id, self.task_id = context_id or ("" if task_id else str(uuid4())), task_id
        self.client = client

    async def say(self, parts: list["Part"]) -> AsyncIterator[Answer]:
        """Send a message and yield the answer received so far after each event.

        Raises A2AError for a refused message, and click.ClickException if the connection stays lost.
        """
        from a2a.types import Message, Role, SendMessageRequest
        from a2a.utils.errors import UnsupportedOperationError

        message = Message(
            message_id=str(uuid4()), role=Role.ROLE_USER, parts=parts, context_id=self.context_id, task_id=self.task_id
        )
        request = SendMessageRequest(message=message)
        try:
            async for answer in self._followed(lambda: self.client.send_message(request), Answer()):
                yield answer
        except UnsupportedOperationError:
            # The question no longer waits: it was answered elsewhere. The next message begins a new task.
            self.task_id = ""
            raise

    async def _followed(
        self, begin: Callable[[], AsyncIterator["StreamResponse"]], answer: Answer
    ) -> AsyncIterator[Answer]:
        """Yield the answer received so far after each event.

        After a lost connection, subscribe to the task again. If the task's id is not known yet, call `begin` again: the
        server recognises the repeated message.
        """
        import httpx
        from a2a.client.errors import A2AClientError

        from aion_core.agent_client.bounded import UnusableAnswer

        events, failures = begin(), 0
        while True:
            try:
                async for event in events:
                    failures = 0
                    answer.add(event)
                    yield answer
                if not (answer.state or answer.task_id):
                    raise UnusableAnswer("It has neither a task nor a message.")
                if answer.is_over or not answer.task_id:
                    break
            except A2AClientError as error:
                failures += 1
                never_connected = failures == 1 and isinstance(error.__cause__, httpx.ConnectError)
                if not _is_lost(error) or (never_connected and not answer.task_id):
                    raise
                if failures == RECONNECTS:
                    raise click.ClickException(f"The connection is lost: {error}") from error
            await asyncio.sleep(RECONNECT_SECONDS)
            events = self._rest_of(answer.task_id) if answer.task_id else begin()
        self.task_id = answer.task_id if answer.question else ""

    async def open_task(self) -> str:
        """Return the id of the context's newest task that has not ended, or "" if all tasks have ended."""
        from a2a.types import ListTasksRequest

        from aion_core.engine.task.states import TERMINAL

        found = await self.client.list_tasks(ListTasksRequest(context_id=self.context_id, page_size=10))
        return next((task.id for task in found.tasks if task.status.state not in TERMINAL), "")

    async def resume(self, task_id: str) -> AsyncIterator[Answer]:
        """Subscribe to an earlier task and yield the answer so far after each event. Raises the errors of `say`."""
        async for answer in self._followed(lambda: self._rest_of(task_id), Answer(task_id=task_id)):
            yield answer

    async def _rest_of(self, task_id: str) -> AsyncIterator["StreamResponse"]:
        """Yield the further events of a running task, or only the current state of an ended or interrupted task."""
        from a2a.types import GetTaskRequest, StreamResponse, SubscribeToTaskRequest

        from aion_core.engine.task.states import TERMINAL_OR_INTERRUPTED

        task = await self.client.get_task(GetTaskRequest(id=task_id))
        if task.status.state in TERMINAL_OR_INTERRUPTED:
            yield StreamResponse(task=task)
            return
        async for event in self.client.subscribe(SubscribeToTaskRequest(id=task_id)):
            yield event

    def begin_anew(self) -> None:
        """Begin a new context."""
        self.context_id, self.task_id = str(uuid4()), ""

    async def cancel(self, task_id: str) -> None:
        """Cancel the task. Raises A2AError if it cannot be canceled."""
        from a2a.types import CancelTaskRequest

        await self.client.cancel_task(CancelTaskRequest(id=task_id))


def _is_lost(error: Exception) -> bool:
    """Return True if the connection has failed, and False if the server has responded, or cannot be asked at all."""
    from aion_core.agent_client.bounded import is_connection_error

    return is_connection_error(error.__cause__)


def refusal_text(error: Exception) -> str:
    """Explain a refused or lost request in a sentence, with the next step for missing or wrong credentials."""
    import httpx
    from a2a.client.errors import A2AClientTimeoutError

    from aion_core.agent_client.bounded import UnusableAnswer
    from aion_core.push.pinned_client import retry_after

    cause = error.__cause__
    status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else 0
    if status == httpx.codes.UNAUTHORIZED:
        return (
            "The agent doesn't accept the credentials (401). Set TOKEN, API_KEY, or BASIC=name:password, or sign the "
            "requests (--sign). The agent's card (/.well-known/agent-card.json at its URL) lists the accepted schemes."
        )
    if status == httpx.codes.FORBIDDEN:
        return "These credentials don't give access to this agent (403). Ask its owner for access, or use other credentials."
    if status == httpx.codes.TOO_MANY_REQUESTS and isinstance(cause, httpx.HTTPStatusError):
        seconds = retry_after(cause.response.headers.get("retry-after", ""), datetime.now(UTC))
        when = "later" if seconds is None else f"in {seconds:.0f} s"
        return f"You have sent the agent too many requests (429). Try again {when}."
    if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        return "The message is too large (413). Send fewer or smaller files, or their URLs."
    if isinstance(error, UnusableAnswer | A2AClientTimeoutError) and not _is_lost(error):
        return f"The agent's answer can't be used. {error}"
    return f"{'The connection is lost' if _is_lost(error) else 'The message is refused'}: {error}"


def _no_card_text(url: str, error: Exception) -> str:
    """Explain in a sentence why the agent's card cannot be read."""
    import httpx
    from a2a.client.errors import A2AClientTimeoutError

    from aion_core.agent_client.bounded import UnusableAnswer

    if isinstance(error, UnusableAnswer | A2AClientTimeoutError):
        return f"The card of {url} cannot be used. {error}"
    cause = error.__cause__ or error
    if isinstance(cause, httpx.HTTPStatusError):
        if cause.response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return refusal_text(error)
        return f"There is no agent at {url}: {cause.request.url} answers with {cause.response.status_code}."
    if isinstance(cause, httpx.RequestError):
        return f"The agent at {url} doesn't answer: {cause}. Check the URL, and that its server is running."
    return f"There is no agent at {url}: {error}"


async def _missing_agent(http: "httpx.AsyncClient", url: str, agent: str) -> str:
    """Return a sentence about an unknown agent that suggests a known one, or "" if the server does not list agents."""
    import httpx
    from a2a.client.errors import A2AClientError

    from aion_core.agent_client.documents import document_of
    from aion_core.loading.suggestions import did_you_mean

    try:
        manifest = await document_of(http.get(f"{url}/.well-known/manifest.json"))
        known = list(map(str, manifest.raise_for_status().json()["endpoints"]))
    except (A2AClientError, httpx.HTTPError, ValueError, KeyError, TypeError):
        return ""
    if agent in known:
        return ""
    hint = did_you_mean(agent, known) or f"Its agents are {', '.join(known)}."
    return f"There is no agent {agent!r} at {url}. {hint}"


def _keep_own_origin(card: "AgentCard", url: str) -> None:
    """Remove the card's interfaces at other origins than the user's URL: only this one gets the credentials.

    Raises click.ClickException if no interface remains.
    """
    from aion_core.agent_client.origin import origin_of

    listed = list(card.supported_interfaces)
    kept = [each for each in listed if origin_of(each.url) == origin_of(url)]
    if listed and not kept:
        raise click.ClickException(
            f"The card of {url} sends requests to {listed[0].url}. Your credentials go only to the scheme, host and "
            "port of your URL: use the other URL if you trust it."
        )
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(kept)


@asynccontextmanager
async def chat_session(
    endpoint: "Endpoint", agent: str, *, context_id: str = "", task_id: str = "", streams: bool = True
) -> AsyncIterator[ChatSession]:
    """Read the agent's card and open a conversation. Without `streams`, each reply is awaited whole.

    Raises click.ClickException if there is no agent.
    """
    import os

    import httpx
    from a2a.client import ClientConfig, ClientFactory
    from a2a.client.errors import A2AClientError

    from aion_core.agent_client.checked import CheckedClient
    from aion_core.agent_client.documents import card_of, http_client
    from aion_core.agent_client.limits import OF_COMMANDS
    from aion_tools.cli.chat.credentials import ClientCredentials, NoCredentials

    url = endpoint.url.rstrip("/") + (f"/agents/{agent}" if agent else "")
    try:
        credentials = ClientCredentials.from_environ(os.environ, url, endpoint.sign)
        async with http_client(url, credentials, httpx.Timeout(30, read=IDLE_SECONDS), OF_COMMANDS) as http:
            try:
                card = await card_of(http, url)
            except A2AClientError:
                if agent and (text := await _missing_agent(http, endpoint.url.rstrip("/"), agent)):
                    raise click.ClickException(text) from None
                raise
            credentials.read_card(card)
            if credentials.has_any:
                _keep_own_origin(card, url)
            config = ClientConfig(httpx_client=http, streaming=streams and card.capabilities.streaming)
            try:
                client = ClientFactory(config).create(card)
            except ValueError as error:
                raise click.ClickException(f"The card of {url} has no interface for JSON-RPC.") from error
            calls = ToolCalls(http, url if endpoint.is_traced else "")
            yield ChatSession(CheckedClient(client), card, calls, context_id=context_id, task_id=task_id)
    except NoCredentials as error:
        raise click.UsageError(f"{error}.") from error
    except (A2AClientError, httpx.TransportError, httpx.InvalidURL) as error:
        raise click.ClickException(_no_card_text(url, error)) from error
