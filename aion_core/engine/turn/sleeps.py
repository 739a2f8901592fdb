"""Sleeps of an agent's code in one running turn."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from aion_core.clock import Clock
from aion_core.engine.records import Lease
from aion_core.engine.turn.store import TurnStore

SHORT = timedelta(seconds=1)
"""Longest rest of a sleep for which a turn is not suspended: a suspension costs a second too."""

STEP_SECONDS = 1.0
"""Pause between two looks whether a client still holds this process."""


class TurnSleeps:
    """Sleeps of a running turn. While a client holds the turn's process anyway, they pass in it."""

    def __init__(
        self, store: TurnStore, lease: Lease, clock: Clock, is_held: Callable[[], bool], drain: asyncio.Event
    ) -> None:
        """`is_held` returns True while a client of this process waits for the turn. `drain` is `TurnRequest.drain`."""
        self._store, self._lease, self._clock, self._is_held, self._drain = store, lease, clock, is_held, drain

    def now(self) -> datetime:
        """Return the present time."""
        return self._clock.now()

    def after(self, pause: timedelta) -> datetime:
        """Return the time after a pause that begins now."""
        return self._clock.now() + pause

    async def begin(self, key: str, until: datetime) -> datetime:
        """Return the time at which the sleep with this key ends: `until`, or the time of an earlier try of the code.

        Raises LeaseLost, and StoreError.
        """
        return await self._store.sleep_until(self._lease, key, until)

    def may_suspend(self) -> bool:
        """Return True if a wait should suspend the turn: no client holds this process, or it must end soon."""
        return self._drain.is_set() or not self._is_held()

    async def pass_until(self, until: datetime, *, may_suspend: bool) -> bool:
        """Wait until this time. Return False early if nobody holds this process, so that the turn should be suspended.

        Without `may_suspend` the process waits in any case.
        """
        while (left := until - self._clock.now()) > timedelta():
            if may_suspend and left > SHORT and self.may_suspend():
                return False
            await self._clock.sleep(min(left.total_seconds(), STEP_SECONDS))
        return True
