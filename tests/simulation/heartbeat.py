"""The twin of `tasks.heartbeat`: the same beats, on the virtual clock, under a life of their own as a thread has."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aion_core.errors import StoreError
from aion_core.ports import Bell, Lease
from aion_core.tasks import heartbeat

if TYPE_CHECKING:
    from tests.simulation.processes import Process


class SimHeartbeat:
    """`tasks.heartbeat.Heartbeat` without a thread; a blocked event loop does not stop it, a frozen process does."""

    def __init__(
        self, process: "Process", store: Any, bells: Any, lease: Lease, *, renew_seconds: float, bell_seconds: float
    ) -> None:
        self._process, self._store, self._bells, self._lease = process, store, bells, lease
        watch_seconds = heartbeat.WATCH_SECONDS * process.world.watch_seconds
        self._ticks = max(1, round(renew_seconds / watch_seconds))
        self._tick, self._bell_seconds = min(watch_seconds, renew_seconds), bell_seconds
        self.lost = asyncio.Event()
        self._beating: asyncio.Task[Any] | None = None
        self._stopped = False

    async def __aenter__(self) -> Self:
        self._beating = self._process.start(self._beat(), beside=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A thread is not cancelled: a beat that is under way still arrives.
        self._stopped = True

    async def _beat(self) -> None:
        ticks, rung = 0, False
        while not self._stopped:
            await asyncio.sleep(self._tick)
            if self._stopped:
                return
            ticks += 1
            renews = ticks % self._ticks == 0
            try:
                kept = await (self._store.renew(self._lease) if renews else self._store.holds(self._lease))
                if kept and renews and not rung:
                    await self._bells.ring(Bell(self._lease.context, self._lease.fence), delay=self._bell_seconds)
                    rung = True
            except StoreError:
                continue
            if not kept and not self._stopped:
                self.lost.set()
                return
