"""Circuit breaker for webhook receivers that do not answer.

An unanswered post takes twenty seconds of a process. Many of them would occupy every delivery process. After several
slow failures of a receiver in a row, its next attempts count as failed without a request, for a while. A receiver is
identified by its owner and host: the webhooks of one owner do not affect another owner's.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aion_core.ports import Delivered, PostOutcome, WebhookGone

SLOW_SECONDS = 5.0
"""Failed posts of at least this duration count. A post refused at once costs no time."""

FAILURES_TO_OPEN = 3
"""Slow failures in a row that open the circuit."""

OPEN_SECONDS = 120.0
"""Time for which a circuit stays open. Then one post is made as a probe."""

MAX_RECEIVERS = 1000
"""Number of remembered receivers; the longest unused ones are forgotten."""


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_until: datetime | None = None


@dataclass(slots=True)
class CircuitBreaker:
    """The circuits of this process's receivers, in memory only."""

    _circuits: dict[tuple[str, str], _Circuit] = field(default_factory=dict)

    def is_open(self, owner: str, url: str, now: datetime) -> bool:
        """Return True if an attempt to this URL must be skipped. The first attempt after OPEN_SECONDS is a probe."""
        circuit = self._circuits.get(_receiver(owner, url))
        if circuit is None or circuit.open_until is None:
            return False
        if now < circuit.open_until:
            return True
        # One probe at a time: other attempts are skipped until its outcome is recorded.
        circuit.open_until = now + timedelta(seconds=OPEN_SECONDS)
        return False

    def record(self, owner: str, url: str, outcome: PostOutcome, seconds: float, now: datetime) -> None:
        """Record the outcome and duration of a post, and open or close its receiver's circuit."""
        receiver = _receiver(owner, url)
        circuit = self._circuits.pop(receiver, _Circuit())
        if isinstance(outcome, Delivered | WebhookGone) or seconds < SLOW_SECONDS:
            return
        circuit.failures += 1
        if circuit.failures >= FAILURES_TO_OPEN:
            circuit.open_until = now + timedelta(seconds=OPEN_SECONDS)
        while len(self._circuits) >= MAX_RECEIVERS:
            del self._circuits[next(iter(self._circuits))]
        self._circuits[receiver] = circuit


def _receiver(owner: str, url: str) -> tuple[str, str]:
    """Return the key of a receiver: the owner, and the URL's scheme, host and port."""
    return owner, "/".join(url.split("/", 3)[:3]).lower()
