"""Clock with the time of this machine."""

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """`ports.Clock` with the machine's time."""

    def now(self) -> datetime:
        """See `ports.Clock.now`."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """See `ports.Clock.sleep`."""
        await asyncio.sleep(seconds)
