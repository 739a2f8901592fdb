"""Heartbeat of a running turn: threads renew its lease, because an agent may block the event loop."""

import asyncio
import heapq
import itertools
import logging
import os
import threading
import time
import weakref
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from types import TracebackType
from typing import Protocol

from aion_core.engine.queues import WorkQueue
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.runner.renewal import LeaseRenewal, beating

logger = logging.getLogger(__name__)


class LeaseKeeper(Protocol):
    """Factory of context managers that renew a lease (right to run a turn) while its turn runs.

    `Heartbeat` renews in threads and real time; the simulation has its own, in virtual time.
    """

    def __call__(
        self, term: LeaseTerm, work_queue: WorkQueue, *, renew_seconds: float, wake_up_seconds: float
    ) -> AbstractAsyncContextManager[asyncio.Future[None]]:
        """Return a context manager that renews this lease. It yields a future that completes if the lease is lost."""
        ...


class Heartbeat:
    """`LeaseKeeper` that renews a lease (right to run a turn) in threads."""

    def __init__(self, term: LeaseTerm, work_queue: WorkQueue, *, renew_seconds: float, wake_up_seconds: float) -> None:
        self._renewal = LeaseRenewal(term, work_queue, renew_seconds=renew_seconds, wake_up_seconds=wake_up_seconds)
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        # Copy the context variables, so that the log records of a step have the turn's labels.
        self._context, self._name = copy_context(), f"lease-{term.lease.turn.id}"
        self.stopped = False
        """True after the end of the turn or the loss of the lease."""

    async def __aenter__(self) -> asyncio.Future[None]:
        """Schedule the first step. Return a future that completes if the lease is lost."""
        beating.add(id(self))
        self.schedule()
        return self._lost

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the steps without waiting. A renewal in progress does no harm: the store compares the fence."""
        beating.discard(id(self))
        self.stopped = True

    def schedule(self) -> None:
        """Schedule the next step."""
        _timer.schedule(self._renewal.pause, self)

    def start_step(self) -> None:
        """Run the next step in a new thread, because the store may take seconds to answer."""
        threading.Thread(target=self._context.run, args=(self._step,), name=self._name, daemon=True).start()

    def _step(self) -> None:
        if self._renewal.once():
            if not self.stopped:
                self.schedule()
        elif not self.stopped:
            self.stopped = True
            self._loop.call_soon_threadsafe(self._lost.set_result, None)


class _Timer:
    """One thread that starts the steps of all heartbeats of this process when they are due.

    The step itself runs in another thread, so a short turn without a step needs no thread of its own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, weakref.ref[Heartbeat]]] = []
        """Heap of the scheduled steps: time, number, heartbeat. A weak reference does not keep an ended turn's data."""
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def schedule(self, seconds: float, heartbeat: Heartbeat) -> None:
        """Start the heartbeat's next step after this number of seconds, unless the heartbeat is stopped first."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), weakref.ref(heartbeat)))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lease-timer", daemon=True)
                self._thread.start()
            elif self._due[0][2]() is heartbeat:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while (heartbeat := self._expired()) is None:
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
            try:
                heartbeat.start_step()
            except RuntimeError:
                logger.exception("No thread could be started to renew a lease; the next step tries again.")
                heartbeat.schedule()
            del heartbeat

    def _expired(self) -> Heartbeat | None:
        """Remove and return the first heartbeat if its step is due. Also remove ended heartbeats before it.

        Without the removal the thread would wake for each ended turn and interrupt the event loop.
        """
        while self._due:
            at, _, reference = self._due[0]
            heartbeat = reference()
            runs = heartbeat is not None and not heartbeat.stopped
            if runs and at > time.monotonic():
                return None
            heapq.heappop(self._due)
            if runs:
                return heartbeat
        return None


def _renew_timer() -> None:
    """Create the timer again in a forked process, because threads do not survive a fork."""
    global _timer
    _timer = _Timer()
    beating.clear()


_timer = _Timer()


os.register_at_fork(after_in_child=_renew_timer)
