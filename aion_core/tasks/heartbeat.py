"""Keeps a lease while its turn runs, from a thread of its own: a node may block the event loop."""

import asyncio
import logging
import threading
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from types import TracebackType
from typing import Protocol, Self

from aion_core.errors import StoreError
from aion_core.ports import Bell, Bells, Lease, TaskStore

logger = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""How often it is looked whether the turn is still its holder's: so long may one run on that was canceled elsewhere."""

LOOKS_PER_SECOND = 20
"""Lease checks per second of one process for all its turns: with many turns each is checked less often."""

_beating: set[int] = set()
"""The heartbeats of this process."""


class LeaseKept(Protocol):
    """Tells when a lease is gone."""

    lost: asyncio.Event


class KeepLease(Protocol):
    """Makes what keeps a lease while its turn runs."""

    def __call__(
        self, store: TaskStore, bells: Bells, lease: Lease, *, renew_seconds: float, bell_seconds: float
    ) -> AbstractAsyncContextManager[LeaseKept]:
        """Return what renews the lease so often, and lets a bell be heard after so long; see `Heartbeat`."""
        ...


class Heartbeat:
    """`async with Heartbeat(...) as beat:` renews the lease; `beat.lost` is set when it is gone.

    At the first renewal a bell is rung that is heard when the lease could have run out: should this process die,
    whoever hears it takes the turn over. A turn that ends before costs neither.
    """

    def __init__(
        self, store: TaskStore, bells: Bells, lease: Lease, *, renew_seconds: float, bell_seconds: float
    ) -> None:
        """`renew_seconds`: how often the lease is renewed; `bell_seconds`: when the bell is heard."""
        self._store, self._bells, self._lease = store, bells, lease
        self._renew_seconds = renew_seconds
        self._bell_seconds = bell_seconds
        self.lost = asyncio.Event()
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        # What it logs is about the same turn.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._beat,), name=f"lease-{lease.turn.id}", daemon=True
        )

    async def __aenter__(self) -> Self:
        """Start to renew."""
        _beating.add(id(self))
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop renewing; a renewal under way ends by itself and harms nobody, for the fence decides."""
        _beating.discard(id(self))
        self._stop.set()

    @property
    def pause(self) -> float:
        """Seconds until the lease is checked again."""
        return min(max(WATCH_SECONDS, len(_beating) / LOOKS_PER_SECOND), self._renew_seconds)

    def _beat(self) -> None:
        since_renewal = 0.0
        rung = False
        while not self._stop.wait(pause := self.pause):
            since_renewal += pause
            # The tolerance is that of adding up pauses.
            renews = since_renewal > self._renew_seconds - 0.01
            if renews:
                since_renewal = 0.0
            try:
                kept = self._store.renew(self._lease) if renews else self._store.holds(self._lease)
                if kept and renews and not rung:
                    watching = Bell(self._lease.context, self._lease.fence)
                    self._bells.ring_from_thread(watching, delay=self._bell_seconds)
                    rung = True
            except StoreError as error:
                # The lease outlives a few missed beats; the next one may come through.
                logger.warning("The lease could not be looked after: %s", error)
                continue
            if not kept and not self._stop.is_set():
                assert self._loop is not None  # noqa: S101  # set before the thread was started
                self._loop.call_soon_threadsafe(self.lost.set)
                return
