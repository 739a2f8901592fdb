"""Clock port, the clock of the system, and time limits by a clock."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol


class Timer(Protocol):
    """Callback that waits for its time."""

    def cancel(self) -> object:
        """Do not call the callback."""
        ...


class Clock(Protocol):
    """Clock for all waits and timestamps. Tests replace it."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds of the clock's time."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call the callback in the running event loop after this number of seconds of the clock's time."""
        ...


class SystemClock:
    """Clock with the time of the operating system."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call the callback in the running event loop after this number of seconds."""
        return asyncio.get_running_loop().call_later(seconds, callback)


async def within(
    clock: Clock, seconds: float | None, work: Coroutine[Any, Any, Any], leave: asyncio.Future[None] | None = None
) -> bool:
    """Await the work for at most these seconds of the clock's time (None for no limit), or until `leave` is done.

    Return True if the work has ended by itself; otherwise it is cancelled. Raises the error of the work.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:

            def stop(_: object = None) -> None:
                if limit.when() is None:
                    limit.reschedule(loop.time())

            timer = None if seconds is None else clock.call_later(seconds, stop)
            if leave is not None:
                leave.add_done_callback(stop)
            try:
                await work
            finally:
                if timer is not None:
                    timer.cancel()
                if leave is not None:
                    leave.remove_done_callback(stop)
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    return True
