"""Lease heartbeat in virtual time, with the production `LeaseRenewal`."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.runner.renewal import WATCH_SECONDS, LeaseRenewal
from tests.simulation.table import unblocked

if TYPE_CHECKING:
    from tests.simulation.processes import Process


class SimHeartbeat:
    """Simulated `Heartbeat`: a frozen process stops it, a blocked event loop does not."""

    def __init__(
        self,
        process: "Process",
        term: LeaseTerm,
        work_queue: Any,
        *,
        renew_seconds: float,
        wake_up_seconds: float,
    ) -> None:
        self._process, watch_seconds = process, WATCH_SECONDS * process.world.deployment.watch_seconds
        self._renewal = LeaseRenewal(
            term,
            work_queue,
            renew_seconds=renew_seconds,
            wake_up_seconds=wake_up_seconds,
            watch=lambda: watch_seconds,
            now=process.monotonic,
        )
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopped = False

    async def __aenter__(self) -> asyncio.Future[None]:
        self._process.start(self._beat(), beside=True)
        return self._lost

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Set a flag instead of cancelling the asyncio task: a real heartbeat is a thread, and its running request still
        # reaches the table.
        self._stopped = True

    async def _beat(self) -> None:
        while not self._stopped:
            await asyncio.sleep(self._renewal.pause)
            if self._stopped:
                return
            if not await unblocked(self._renewal, self._renewal.once):
                if not self._stopped:
                    self._lost.set_result(None)
                return
