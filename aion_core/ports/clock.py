"""Clock port."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time and sleep; tests control them."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after these seconds of this clock."""
        ...
