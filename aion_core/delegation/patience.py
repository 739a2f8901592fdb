"""Limits of the time for which a turn waits for a remote agent: in its process, and in all."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from aion_core.engine.agent import TurnRequest
from aion_core.errors import RemoteAgentUnreachable
from aion_core.table.times import milliseconds

T = TypeVar("T")

SUSPEND_SECONDS = 1.0
"""Seconds for which a call may keep a process that no client holds. Then its turn is suspended."""


def check_limit(request: TurnRequest, call: str, agent: str) -> None:
    """Raise RemoteAgentUnreachable if the turn has waited for the call with this key as long as it may.

    `agent` is what the caller's client may read about the remote agent.
    """
    wait, sleeps = request.turn.wait, request.sleeps
    if wait is None or sleeps is None or all(each.key != call for each in wait.calls):
        return
    if milliseconds(sleeps.now()) >= wait.until:
        hours = (wait.until - wait.since) / 3_600_000
        text = f"The agent {agent} has not answered within {hours:.0f} hours."
        raise RemoteAgentUnreachable(text, agent=agent, reason="its task has not ended.")


class StopsWaiting(BaseException):
    """Signal that nobody waits any more. No handler of other code for Exception catches it."""


async def patient(
    source: AsyncGenerator[T, None], stops: Callable[[], bool], seconds: float | None
) -> AsyncGenerator[T, None]:
    """Yield what the source yields, and ask `stops` each so many seconds whether to stop. Without `seconds`, don't ask.

    The source runs in one asyncio task of its own, which has ended when this generator has. Raises StopsWaiting, and
    what the source and `stops` raise.
    """
    if seconds is None:
        async with aclosing(source) as items:
            async for item in items:
                yield item
        return
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[T | None](1)

    async def pump() -> None:
        async with aclosing(source) as items:
            async for item in items:
                await queue.put(item)
        await queue.put(None)

    running, ask_at = asyncio.create_task(pump()), loop.time() + seconds
    getting: asyncio.Task[T | None] = asyncio.create_task(queue.get())
    try:
        while True:
            left = max(0.0, ask_at - loop.time())
            await asyncio.wait({getting, running}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                if (received := getting.result()) is None:
                    return
                yield received
                getting = asyncio.create_task(queue.get())
            elif running.done():
                # The last item wakes the other task in the event loop's next step.
                await (running if queue.empty() else asyncio.sleep(0))
            if loop.time() >= ask_at:
                ask_at = loop.time() + seconds
                if queue.empty() and stops():
                    raise StopsWaiting
    finally:
        running.cancel()
        getting.cancel()
        await asyncio.gather(running, getting, return_exceptions=True)
