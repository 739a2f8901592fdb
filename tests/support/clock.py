"""Clocks that a test moves: the service's clock, and the clock of the event loop."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aion_core.clock import Timer

STEP_SECONDS = 0.05


async def settle() -> None:
    """Run all asyncio tasks that are ready, until each task waits for a clock, an event, a thread or a socket."""
    loop: Any = asyncio.get_running_loop()
    idle = 0
    for _ in range(30):
        await asyncio.sleep(0)
        # Wait for three idle iterations: an event of a socket or of another thread may make a task ready.
        idle = 0 if loop._ready else idle + 1
        if idle == 3:
            return


class ManualClock:
    """`Clock` that the test moves; `sleep` returns once the clock has moved far enough."""

    def __init__(self, *, step: float = 0.0, at: datetime | None = None) -> None:
        """Move the clock by `step` seconds at each `now()`, as real time passes between two readings."""
        self._step = timedelta(seconds=step)
        # Begin at the machine's time by default, because the emulators expire items by that time.
        self._now = at or datetime.now(UTC)
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        self._now += self._step
        return self._now

    def move(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def sleep(self, seconds: float) -> None:
        await self._reach(self._now + timedelta(seconds=seconds))

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        until = self._now + timedelta(seconds=seconds)

        async def call() -> None:
            await self._reach(until)
            callback()

        return asyncio.ensure_future(call())

    async def _reach(self, until: datetime) -> None:
        while self._now < until:
            await self._moved.wait()

    async def passes(self, seconds: float) -> None:
        """Move the clock in small steps; run all ready asyncio tasks after each step."""
        for _ in range(round(seconds / STEP_SECONDS)):
            self.move(STEP_SECONDS)
            await settle()


class LoopClock:
    """Clock of the running event loop, which the test can move ahead so that timers expire.

    A test can use time limits that a slow machine does not reach, and let them expire when it has seen an event.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop, self._ahead = asyncio.get_running_loop(), 0.0
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + self._ahead)

    def move(self, seconds: float) -> None:
        self._ahead += seconds
