"""Which receivers have kept this process waiting in vain, so that those of others do not wait behind them.

A post that nobody answers takes twenty seconds, and so many of them at once would hold every process that delivers. Of
a receiver that has just kept us waiting several times in a row, the next tries are noted as failed without being made,
for a while. It is known by its owner too: what one client registers costs no other client a try.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aion_core.ports import Delivered, PostOutcome, WebhookGone

SLOW_SECONDS = 5.0
"""A post that failed and took so long has kept us waiting; one that is refused at once costs nothing."""

FAILURES_TO_OPEN = 3
"""After so many in a row the next ones are spared."""

OPEN_SECONDS = 120.0
"""For so long; then one is made, by which the receiver may show that it is well again."""

MAX_RECEIVERS = 1000
"""How many are remembered, those that were heard of last."""


@dataclass(slots=True)
class _Waited:
    failures: int = 0
    open_until: datetime | None = None


@dataclass(slots=True)
class CircuitBreaker:
    """What this process has lived through with receivers; it forgets with the process."""

    _receivers: dict[tuple[str, str], _Waited] = field(default_factory=dict)

    def is_open(self, owner: str, url: str, now: datetime) -> bool:
        """Tell whether a try is to be spared; where it is not, and was until now, it is the one that is made."""
        waited = self._receivers.get(_receiver(owner, url))
        if waited is None or waited.open_until is None:
            return False
        if now < waited.open_until:
            return True
        # One at a time: those beside it, or behind it, are spared until it is known how it went.
        waited.open_until = now + timedelta(seconds=OPEN_SECONDS)
        return False

    def note(self, owner: str, url: str, outcome: PostOutcome, seconds: float, now: datetime) -> None:
        """Note how a post went, and how long it took."""
        receiver = _receiver(owner, url)
        waited = self._receivers.pop(receiver, _Waited())
        if isinstance(outcome, Delivered | WebhookGone) or seconds < SLOW_SECONDS:
            return
        waited.failures += 1
        if waited.failures >= FAILURES_TO_OPEN:
            waited.open_until = now + timedelta(seconds=OPEN_SECONDS)
        while len(self._receivers) >= MAX_RECEIVERS:
            del self._receivers[next(iter(self._receivers))]
        self._receivers[receiver] = waited


def _receiver(owner: str, url: str) -> tuple[str, str]:
    """Return whose receiver it is, and at which host and port."""
    return owner, "/".join(url.split("/", 3)[:3]).lower()
