"""Clock port, and the clock of the system."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Clock for all waits and timestamps. Tests replace it."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds of the clock's time."""
        ...


class SystemClock:
    """Clock with the time of the operating system."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
        await asyncio.sleep(seconds)
