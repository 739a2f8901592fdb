"""Sleeps of an author's code in one turn, in code of any framework that can be suspended."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

from aion_core.engine.turn.sleeps import TurnSleeps


class SleepingTurn(Protocol):
    """Give what differs between frameworks: the run of the author's code, and how to suspend it."""

    def site(self) -> tuple[str, str]:
        """Return the name of the run of the code that sleeps, the same if it runs again; and its attempt."""
        ...

    @property
    def may_suspend(self) -> bool:
        """True if the turn can wait without a process, and `suspend_until` can be called."""
        ...

    def suspend_until(self, until: datetime) -> BaseException:
        """Return the exception that suspends the turn until this time."""
        ...


class AuthorSleeps:
    """Sleeps of the code of one turn. They may come from any thread and event loop."""

    def __init__(self, sleeps: TurnSleeps | None, turn: SleepingTurn) -> None:
        self._sleeps, self._turn = sleeps, turn
        self._loop = asyncio.get_running_loop()
        self._made: dict[tuple[str, str, str], int] = {}
        """Number of the sleeps of each run of the code, by the run's attempt and what they have in common."""

    async def sleep(self, until: datetime | timedelta, key: str) -> None:
        """Sleep, or suspend the turn. See `aion_core.authoring.sleeping.sleep`."""
        if self._sleeps is None:
            raise RuntimeError("sleep() needs the store of a server: this turn has none.")
        site = self._turn.site()
        if asyncio.get_running_loop() is self._loop:
            at = await self._sleep(self._sleeps, site, until, key)
        else:
            elsewhere = self._sleep(self._sleeps, site, until, key)
            at = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(elsewhere, self._loop))
        if at is not None:
            raise self._turn.suspend_until(at.astimezone(UTC))

    async def _sleep(
        self, sleeps: TurnSleeps, site: tuple[str, str], until: datetime | timedelta, key: str
    ) -> datetime | None:
        """Return after the sleep, or return its end if the turn is to be suspended until then."""
        run, attempt = site
        # A time may be computed anew in each run of the code, but a duration is the same.
        what = f"{key}/{until.total_seconds()}" if isinstance(until, timedelta) else key
        number = self._made[run, attempt, what] = self._made.get((run, attempt, what), -1) + 1
        end = sleeps.after(until) if isinstance(until, timedelta) else until
        at = await sleeps.begin(f"{run}/{what}/{number}", end)
        return None if await sleeps.pass_until(at, may_suspend=self._turn.may_suspend) else at
