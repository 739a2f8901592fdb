"""Term of a running turn's lease: the time until which this process may act on the lease."""

from datetime import datetime, timedelta

from aion_core.clock import Clock
from aion_core.engine.records import Lease
from aion_core.engine.turn.store import TurnStore
from aion_core.errors import LeaseLost


class LeaseTerm:
    """A lease, and the time by the wall clock until which no other process can have taken it.

    A frozen process doesn't notice that time passes, and may continue after another process has finished its turn. Its
    monotonic clock may have stood still, as on Lambda; its wall clock hasn't.
    """

    def __init__(
        self, store: TurnStore, lease: Lease, clock: Clock, *, seconds: float, until: datetime | None = None
    ) -> None:
        """`until` is the end of the first term. Without it, the term of `seconds` begins now."""
        self.lease = lease
        self._store, self._clock, self._term = store, clock, timedelta(seconds=seconds)
        self._until = until or clock.now() + self._term

    def renew(self) -> bool:
        """Extend the lease for another term. Return False if it is lost. Blocks; may be called from any thread."""
        # Count the term from before the request, because the response may arrive much later.
        until = self._clock.now() + self._term
        if not self._store.renew(self.lease):
            return False
        self._until = until
        return True

    def holds(self) -> bool:
        """Return False if another process has the lease, or the task was canceled. Blocks."""
        return self._store.holds(self.lease)

    def check(self) -> None:
        """Renew the lease if its term is over. Call it before a step that may have side effects.

        The call blocks only after the term. Raises LeaseLost if the lease is lost, and StoreError if nobody can tell.
        """
        # Look at the clock again after the renewal, because the process may be frozen during its request too.
        while self._clock.now() >= self._until:
            if not self.renew():
                raise LeaseLost("The lease has run out, and another process has the turn.")
