"""Time, as the core asks for it."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time, so that a test may own it."""

    def now(self) -> datetime:
        """Return the present in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        ...
