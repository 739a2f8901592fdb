"""A turn's thread id, the fence of its writes, and the record of its emissions before each of them."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aion_core.errors import AgentFailed
from aion_core.ports import ContextKey


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's persistence id: of this owner, agent and context and of no other (R56)."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()


BeforePut = Callable[[], Awaitable[None]]
"""Records what the graph has emitted so far. It must not wait for the graph, which may be waiting for it."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The condition of a turn's writes: the context's fence is still the number that its holder was given."""

    context: ContextKey
    number: int


class LogFirst:
    """The step before each write of a saver: records what the graph has emitted.

    It precedes a task's writes as well as a checkpoint: LangGraph takes a node for finished, and never runs it again,
    as soon as one of its writes is readable.
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
        """Return when everything is recorded, for a synchronous graph in a thread of its own."""
        if self._loop is not None:
            self.check_thread()
            asyncio.run_coroutine_threadsafe(self(), self._loop).result()

    def check_thread(self) -> None:
        """Raise AgentFailed in the event loop's thread: while a graph blocks that, nothing can be recorded."""
        if self._loop is not None and self._loop is running_loop():
            raise AgentFailed(
                "An async node ran a subgraph by a blocking call. Use `await graph.ainvoke(...)`, or a plain def node."
            )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
