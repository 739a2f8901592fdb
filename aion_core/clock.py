"""Clock port, and the clock of the system."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


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
