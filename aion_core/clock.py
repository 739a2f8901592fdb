"""Clock with the time of this machine."""

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """`ports.Clock` with the machine's time."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
        await asyncio.sleep(seconds)
