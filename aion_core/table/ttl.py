"""TTLs of items, and of items that a later turn of their conversation still needs."""

from datetime import timedelta

from aion_core.clock import Clock

STATE_GRACE = timedelta(days=1)
"""Time for which an agent's state outlives its task, but at most a seventh of the retention.

A client may answer in the last second of a task. The answer extends the task at once, the state only when the turn runs.
"""


class Ttl:
    """Computes TTLs from the clock and the deployment's retention."""

    def __init__(self, clock: Clock, retention: timedelta = timedelta()) -> None:
        self._clock, self._retention = clock, retention
        self._grace = min(STATE_GRACE, retention / 7)

    def now(self) -> int:
        """Return the current time in seconds. Items with this TTL or an earlier one have expired."""
        return self.after(timedelta())

    def after(self, life: timedelta) -> int:
        """Return the TTL of an item that is written now and expires after `life`."""
        return int((self._clock.now() + life).timestamp())

    def end(self, retentions: float = 1) -> int:
        """Return the TTL of an item that is written now and expires after this number of retention periods."""
        return self.after(retentions * self._retention)

    def state_end(self, graces: float = 1) -> int:
        """Return the TTL of an agent's state that is written now. It is later than the TTL of the task."""
        return self.after(self._retention + graces * self._grace)

    def history_end(self, share: float = 1) -> int:
        """Return the TTL, or a share of its time after one retention, of items on which a newer state depends.

        It is at most 15 days later than that of a task, because the bucket deletes the items' blobs then.
        """
        return self.after(self._retention + share * min(timedelta(days=15), self._retention / 2))
