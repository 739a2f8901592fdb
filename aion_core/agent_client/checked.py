"""The SDK's client of another agent, with one kind of error for all unusable answers."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import httpx
from a2a.client.client import Client, ClientCallContext
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from google.protobuf.json_format import ParseError

from aion_core.agent_client.bounded import UnusableAnswer
from aion_core.agent_client.json_size import MEGABYTE

MAX_KEPT_BYTES = 32 * MEGABYTE
"""Maximum size of everything that is kept of the answer to one message, over all its events."""

_OVERHEAD = 256
"""Bytes that a kept part, message or artifact needs beside its content."""


@contextmanager
def usable() -> Iterator[None]:
    """Raise UnusableAnswer for what the SDK raises for an answer in another form than that of A2A."""
    try:
        yield
    except httpx.InvalidURL as error:
        raise UnusableAnswer(f"It names a URL that cannot be used: {error}") from error
    except RecursionError as error:
        raise UnusableAnswer("Its JSON has too many levels.") from error
    except (ParseError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnusableAnswer(f"It is no valid A2A: {error}") from error


class CheckedClient:
    """Client of another agent. Its methods raise A2AError for any answer, and NotImplementedError for what its card lacks.

    Responses without content are left out: otherwise an agent could keep a call going with nothing.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    async def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Send a message and yield the responses."""
        with usable():
            async with _closing((await self._connected()).send_message(request, context=context)) as responses:
                async for response in responses:
                    if response.WhichOneof("payload") is not None:
                        yield response

    async def subscribe(
        self, request: SubscribeToTaskRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Yield the responses of a task that has begun before."""
        with usable():
            async with _closing((await self._connected()).subscribe(request, context=context)) as responses:
                async for response in responses:
                    if response.WhichOneof("payload") is not None:
                        yield response

    async def get_task(self, request: GetTaskRequest, *, context: ClientCallContext | None = None) -> Task:
        """Return a task."""
        with usable():
            return await (await self._connected()).get_task(request, context=context)

    async def list_tasks(
        self, request: ListTasksRequest, *, context: ClientCallContext | None = None
    ) -> ListTasksResponse:
        """Return the tasks of a context."""
        with usable():
            return await (await self._connected()).list_tasks(request, context=context)

    async def cancel_task(self, request: CancelTaskRequest, *, context: ClientCallContext | None = None) -> Task:
        """Cancel a task."""
        with usable():
            return await (await self._connected()).cancel_task(request, context=context)

    async def _connected(self) -> Client:
        """Return the SDK's client. A subclass may make it at the first request."""
        assert self._client is not None  # noqa: S101  # a subclass without a client overrides this
        return self._client


class Kept:
    """Size of what is kept of one answer, by the ids of its messages and artifacts."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._total = 0

    def put(self, name: str, size: int, *, parts: int = 0, append: bool = False) -> None:
        """Note the bytes and parts that are now kept under a name. Raises UnusableAnswer above MAX_KEPT_BYTES."""
        before = self._sizes.get(name, 0)
        now = size + _OVERHEAD * parts + (before if append and before else _OVERHEAD + len(name))
        self._sizes[name] = now
        self._total += now - before
        if self._total > MAX_KEPT_BYTES:
            raise UnusableAnswer(f"It is larger than {MAX_KEPT_BYTES // MEGABYTE} MB in all.")


def _closing(responses: Any) -> Any:
    """Return a context manager that closes the generator of responses, and so its connection."""
    return aclosing(responses)
