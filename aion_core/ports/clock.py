"""Clock port: current time and sleep."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Clock for all waits and timestamps; tests replace it with their own."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for these seconds, as measured by this clock."""
        ...
