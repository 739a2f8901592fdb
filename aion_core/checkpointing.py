"""What the checkpoint savers of `aws` and `memory` have in common: the serializer, and the log that comes first."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from aion_core.authoring.types import A2AOutbox
from aion_core.errors import AgentFailed
from aion_core.ports import ContextKey
from aion_core.protocol.types import Message, Task

BeforePut = Callable[[], Awaitable[None]]
"""Records what the graph has emitted so far. It must not wait for the graph, which may be waiting for it."""

StoredType = tuple[str, str] | type
"""A class whose instances a checkpoint may hold: itself, or its module and name."""

OUR_TYPES: tuple[StoredType, ...] = (
    ("aion_core.authoring.types", "A2AInbox"),
    ("aion_core.authoring.types", "A2AOutbox"),
)


@dataclass(frozen=True, slots=True)
class Fence:
    """What a saver's writes depend on: that the context's fence is still the number its holder was given."""

    context: ContextKey
    number: int


def serializer(types: Iterable[StoredType] = ()) -> JsonPlusSerializer:
    """Return LangGraph's serializer without pickle, which makes objects of listed classes and of no others.

    Listed are LangGraph's own safe types (messages, dates, `Send`, `Interrupt` and the like), ours, and `types`. An
    object of another class is stored all the same and comes back as the plain data it was made of.
    """
    return _Serializer(pickle_fallback=False, allowed_msgpack_modules=(*OUR_TYPES, *types))


class _Serializer(JsonPlusSerializer):
    """LangGraph's, which knows no protobuf: an author may leave the SDK's own Message or Task as the outbox (D16)."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the object's type and bytes; a protobuf Message or Task in it comes back as an A2AOutbox."""
        return super().dumps_typed(_without_protobuf(obj))


def _without_protobuf(value: Any) -> Any:
    match value:
        case Message():
            return A2AOutbox(message=value)
        case Task():
            return A2AOutbox(task=value)
        case dict() if type(value) is dict:
            return {key: _without_protobuf(held) for key, held in value.items()}
        case list() if type(value) is list:
            return [_without_protobuf(held) for held in value]
        case _:
            return value


class LogFirst:
    """The step before each write of a saver: what the graph has emitted is recorded (DESIGN decision 3), once at a time.

    It precedes a task's writes as well as a checkpoint: LangGraph takes a node for finished, and never runs it again,
    as soon as one of its writes can be read.
    """

    def __init__(self, before_put: BeforePut | None) -> None:
        """To be made on the event loop that `before_put` belongs to."""
        self._before_put = before_put
        self._loop = asyncio.get_running_loop() if before_put else None
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> None:
        """Return when everything is recorded."""
        if self._before_put is not None:
            async with self._one_at_a_time:
                await self._before_put()

    def blocking(self) -> None:
        """Return when everything is recorded, for a synchronous graph, which runs in a thread of its own.

        Raises AgentFailed on the event loop's own thread: the loop could not record anything while it waits.
        """
        if self._loop is None:
            return
        if self._loop is running_loop():
            raise AgentFailed(
                "An async node ran a subgraph by a blocking call. Use `await graph.ainvoke(...)`, or a plain def node."
            )
        asyncio.run_coroutine_threadsafe(self(), self._loop).result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
