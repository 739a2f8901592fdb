"""Renewal and checks of one lease (right to run a turn), in steps."""

import logging
import time
from collections.abc import Callable

from aion_core.engine.queues import WakeUp, WorkQueue
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.errors import StoreError

logger = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""Shortest pause between two checks of a lease. After a cancel in another process, a turn may run this long."""

LOOKS_PER_SECOND = 20
"""Number of lease checks per second in one process. With many turns each lease is checked less often."""

beating: set[int] = set()
"""Ids of the running heartbeats of this process."""


def watch_seconds() -> float:
    """Return the seconds between two checks of one lease. The pause grows with the number of leases in this process."""
    return max(WATCH_SECONDS, len(beating) / LOOKS_PER_SECOND)


class LeaseRenewal:
    """Renewal and checks of one lease (right to run a turn), in steps. It has no thread: its caller waits between them.

    The first step enqueues a delayed wake-up message that arrives after the lease could expire. If this process dies,
    the receiver of the message takes over the turn. A turn that ends before its first step enqueues no message. A
    retried turn (`tries` > 1) has its first step at once, because this process may die early too.
    """

    def __init__(
        self,
        term: LeaseTerm,
        work_queue: WorkQueue,
        *,
        renew_seconds: float,
        wake_up_seconds: float,
        watch: Callable[[], float] = watch_seconds,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Renew every `renew_seconds`, check every `watch()` seconds, delay the message by `wake_up_seconds`."""
        self._term, self._work_queue, self._lease = term, work_queue, term.lease
        self._renew_seconds, self._wake_up_seconds, self._watch = renew_seconds, wake_up_seconds, watch
        self._now, self._renewed_at, self._enqueued = now, now(), False
        self._hurries = term.lease.turn.tries > 1

    @property
    def pause(self) -> float:
        """Seconds to wait before the next call of `once`."""
        return 0.0 if self._hurries else min(self._watch(), self._renew_seconds)

    def once(self) -> bool:
        """Renew the lease if a renewal is due, otherwise check it. Return False if the lease is lost.

        The call blocks. After a StoreError the lease is regarded as held, and the next step tries again.
        """
        # Read the clock instead of adding up the pauses, because a check takes seconds if the store is slow.
        at, self._hurries = self._now(), False
        # Renew 0.01 s early, to allow for rounding errors and for a pause that ends a little early.
        renews = at - self._renewed_at > self._renew_seconds - 0.01
        try:
            held = self._term.renew() if renews else self._term.holds()
            if held and not self._enqueued:
                message = WakeUp(self._lease.context, self._lease.fence)
                self._work_queue.enqueue_from_thread(message, delay=self._wake_up_seconds)
                self._enqueued = True
        except StoreError as error:
            logger.warning("The lease could not be renewed or checked; the next step tries again: %s", error)
            return True
        if renews:
            self._renewed_at = at
        return held
