"""Log before checkpoint: what a step emitted is in the log before its checkpoint is written."""

import asyncio
from collections.abc import Awaitable, Callable

from aion_core.errors import AgentFailed
from aion_core.state.langgraph.event_loops import running_loop


class LogFirst:
    """Hook before each write of a checkpointer. It waits until the graph's emissions so far are recorded.

    It runs before a checkpoint and before the writes of a LangGraph task. Once a write of a node is stored, LangGraph
    never runs the node again, so unrecorded emissions of the node would be lost in a crash.
    """

    def __init__(self, log_first: Callable[[], Awaitable[None]] | None) -> None:
        """Make the hook on the event loop that runs `log_first`, which waits until the emissions are recorded.

        `log_first` must not wait for the graph itself, because the graph may be waiting for it.
        """
        self._log_first = log_first
        self._loop = asyncio.get_running_loop() if log_first else None
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> None:
        """Wait until all emissions are recorded."""
        if self._log_first is not None:
            async with self._one_at_a_time:
                await self._log_first()

    def blocking(self) -> None:
        """Wait in the thread of a synchronous graph until all emissions are recorded."""
        if self._loop is not None:
            self.check_thread()
            asyncio.run_coroutine_threadsafe(self(), self._loop).result()

    def check_thread(self) -> None:
        """Raise AgentFailed in the event loop's thread, because waiting there would prevent the recording forever."""
        if self._loop is not None and self._loop is running_loop():
            raise AgentFailed(
                "An async node ran a subgraph with a blocking call. Use `await graph.ainvoke(...)`, or a plain def node."
            )
