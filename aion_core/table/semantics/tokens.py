"""Idempotency tokens of recent transactions, by DynamoDB's documented rules."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta

from aion_core.clock import Clock
from aion_core.table.refusals import TokenReused
from aion_core.table.semantics.writes import fingerprint
from aion_core.table.writes import Write

TOKEN_LIFE = timedelta(minutes=10)
"""Time after a transaction during which its token is known."""

MAX_TOKENS = 200
"""Number of known tokens. A caller repeats a transaction soon or never."""


class RecentTokens:
    """Tokens of the transactions that this process has made in a table, for all of its threads.

    They are not stored: only the call that makes a transaction repeats it, with a token that no other process knows.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._made: OrderedDict[str, tuple[Sequence[Write], datetime]] = OrderedDict()
        """Writes and times of the transactions by their tokens, the oldest first."""

    def add(self, token: str, writes: Sequence[Write]) -> None:
        """Note a transaction that was made with this token; an empty token stands for none."""
        if token:
            with self._lock:
                self._made.pop(token, None)
                self._made[token] = list(writes), self._clock.now()

    def have(self, token: str, writes: Sequence[Write]) -> bool:
        """Return True if these writes were made with this token. Raise TokenReused if other writes were."""
        expired = self._clock.now() - TOKEN_LIFE
        with self._lock:
            while self._made:
                oldest = next(iter(self._made))
                if self._made[oldest][1] > expired and len(self._made) < MAX_TOKENS:
                    break
                del self._made[oldest]
            known = self._made.get(token)
        if known is not None and fingerprint(known[0]) != fingerprint(writes):
            raise TokenReused("IdempotentParameterMismatchException")
        return known is not None
