"""Time as the machine tells it."""

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """`ports.Clock` of the machine."""

    def now(self) -> datetime:
        """See `ports.Clock.now`."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """See `ports.Clock.sleep`."""
        await asyncio.sleep(seconds)
