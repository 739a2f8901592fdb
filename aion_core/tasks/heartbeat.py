"""Keeps a lease while its turn runs, from a thread of its own: a node may block the event loop."""

import asyncio
import logging
import threading
from types import TracebackType
from typing import Self

from aion_core.errors import StoreError
from aion_core.ports import Lease, TaskStore

logger = logging.getLogger(__name__)


class Heartbeat:
    """`async with Heartbeat(...) as beat:` renews the lease every `seconds`; `beat.lost` is set when it is gone."""

    def __init__(self, store: TaskStore, lease: Lease, *, seconds: float) -> None:
        self._store, self._lease, self._seconds = store, lease, seconds
        self.lost = asyncio.Event()
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._beat, name=f"lease-{lease.turn.id}", daemon=True)

    async def __aenter__(self) -> Self:
        """Start to renew."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop renewing; a renewal under way ends by itself and harms nobody, for the fence decides."""
        self._stop.set()

    def _beat(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                kept = self._store.renew(self._lease)
            except StoreError as error:
                # The lease outlives a few missed beats; the next one may come through.
                logger.warning("The lease could not be renewed: %s", error)
                continue
            if not kept and not self._stop.is_set():
                assert self._loop is not None  # noqa: S101  # set before the thread was started
                self._loop.call_soon_threadsafe(self.lost.set)
                return
