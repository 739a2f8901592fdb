"""The SDK's client of another agent, with one kind of error for all unusable answers."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from a2a.client.client import Client, ClientCallContext
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Part,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from google.protobuf.json_format import ParseError
from google.protobuf.message import Message as AnyMessage

from aion_core.agent_client.bounded import UnusableAnswer
from aion_core.agent_client.limits import MEGABYTE

MAX_EMPTY = 10_000
"""Maximum number of responses without content in one stream."""

_ITERATIONS = 40
"""Iterations of the event loop in which asyncio closes the generators of a stream, with some to spare."""

_OVERHEAD = 256
"""Bytes that are counted for a kept part beside its content."""

_NAME_BYTES = 4096
"""Bytes that are counted for a kept message or artifact beside its content: the commands look at each for every event."""

VALUE_BYTES = 64
"""Bytes that are counted for a value beside its content."""

PART_BYTES = 512
"""Bytes that are counted for a part beside its values: each framework has an object of its own for it."""


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

    Responses without content are left out, and too many of them are an unusable answer: otherwise an agent could keep a
    call going with nothing. So is a response about another task: it may be meant for another caller.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    async def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Send a message and yield the responses."""
        with usable():
            async with _ClosingStream((await self._connected()).send_message(request, context=context)) as responses:
                async for response in _checked(responses):
                    yield response

    async def subscribe(
        self, request: SubscribeToTaskRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Yield the responses of a task that has begun before."""
        with usable():
            async with _ClosingStream((await self._connected()).subscribe(request, context=context)) as responses:
                async for response in _checked(responses, request.id):
                    yield response

    async def get_task(self, request: GetTaskRequest, *, context: ClientCallContext | None = None) -> Task:
        """Return a task."""
        with usable():
            task = await (await self._connected()).get_task(request, context=context)
            _id_of(task, request.id)
            return task

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

    def __init__(self, most: int) -> None:
        """`most` is the maximum size of everything, in bytes."""
        self._most, self._sizes, self._total = most, dict[str, int](), 0

    def put(self, name: str, size: int, *, parts: int = 0, append: bool = False) -> None:
        """Note the bytes and parts that are now kept under a name. Raises UnusableAnswer if everything is too much."""
        before = self._sizes.get(name, 0)
        now = size + _OVERHEAD * parts + (before if append and before else _NAME_BYTES + len(name))
        self._sizes[name] = now
        self._total += now - before
        if self._total > self._most:
            raise UnusableAnswer(f"It is larger than {self._most // MEGABYTE} MB in all.")


def size_of(message: AnyMessage) -> int:
    """Return the memory that is counted for a protobuf message, in bytes.

    A file counts as its base64. Anything else counts fourfold, because Python may need four bytes for each character of a
    text. Values and parts count VALUE_BYTES and PART_BYTES more.
    """
    overhead, files = _overhead_and_files(message)
    return overhead + 4 * files // 3 + 4 * (message.ByteSize() - files)


def _overhead_and_files(message: AnyMessage) -> tuple[int, int]:
    """Return what is counted for the values and parts in a message, and the size of its files."""
    overhead, files = VALUE_BYTES + PART_BYTES * isinstance(message, Part), 0
    for field, value in message.ListFields():
        if field.message_type is None:
            overhead += VALUE_BYTES * (len(value) if field.is_repeated else 1)
            files += len(value) if field.type == field.TYPE_BYTES else 0
            continue
        # The values of a map are messages too: the members of JSON's objects.
        for each in (value.values() if isinstance(value, Mapping) else value) if field.is_repeated else (value,):
            more, larger = _overhead_and_files(each)
            overhead, files = overhead + more, files + larger
    return overhead, files


async def _checked(
    responses: AsyncGenerator[StreamResponse, None], task_id: str = ""
) -> AsyncGenerator[StreamResponse, None]:
    """Yield the responses with content. Raises UnusableAnswer above MAX_EMPTY others, and for one about another task.

    `task_id` is the id of the task; by default that of the first response. An update without an id is accepted, as some
    servers send it.
    """
    empty = 0
    async for response in responses:
        match response.WhichOneof("payload"):
            case None:
                if (empty := empty + 1) > MAX_EMPTY:
                    raise UnusableAnswer(f"It has more than {MAX_EMPTY} responses without content.")
                continue
            case "task":
                task_id = _id_of(response.task, task_id)
            case "status_update":
                task_id = _same(response.status_update.task_id or task_id, task_id)
            case "artifact_update":
                task_id = _same(response.artifact_update.task_id or task_id, task_id)
        yield response


def _id_of(task: Task, expected: str) -> str:
    """Return the id of a task. Raises UnusableAnswer if it has none, or another than `expected`, if that is not empty."""
    if not task.id:
        raise UnusableAnswer("Its task has no id.")
    return _same(task.id, expected)


def _same(task_id: str, expected: str) -> str:
    if expected not in ("", task_id):
        raise UnusableAnswer("It is about another task.")
    return task_id


class _ClosingStream:
    """Context manager that closes the generator of responses, and so its connection, before the caller goes on.

    The SDK's client and httpx read a stream by a dozen generators, and some of them hold the last event's whole text.
    asyncio closes each after the one around it, in a later iteration of its loop.
    """

    def __init__(self, responses: Any) -> None:
        self._responses = responses

    async def __aenter__(self) -> Any:
        return self._responses

    async def __aexit__(self, *_: object) -> None:
        await self._responses.aclose()
        for _iteration in range(_ITERATIONS):
            await asyncio.sleep(0)
