"""A clock for tests: it moves when it is told to, and a little at each look if it is to."""

import asyncio
from datetime import UTC, datetime, timedelta

STEP_SECONDS = 0.05


class ManualClock:
    """`ports.Clock`; a sleeper sleeps until the clock has been moved far enough."""

    def __init__(self, *, step: float = 0.0) -> None:
        """`step`: seconds by which each `now()` moves the clock, as time passes between two looks at a real one."""
        self._step = timedelta(seconds=step)
        # The emulators know the machine's time only, and items expire by it.
        self._now = datetime.now(UTC)
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        self._now += self._step
        return self._now

    def move(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def sleep(self, seconds: float) -> None:
        until = self._now + timedelta(seconds=seconds)
        while self._now < until:
            await self._moved.wait()

    async def passes(self, seconds: float) -> None:
        """Let so much time pass in small steps, and in each let everything run that can."""
        for _ in range(round(seconds / STEP_SECONDS)):
            self.move(STEP_SECONDS)
            for _ in range(20):
                await asyncio.sleep(0)
