"""Circuit breaker for webhook receivers that do not respond.

A post without a response takes twenty seconds. Many such posts would occupy every delivery process. After several slow
failures of a receiver in a row, its circuit opens: for a while, its attempts count as failed without a request. A
receiver is identified by its owner and host, so that the webhooks of one owner do not affect another owner's.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aion_core.push.client import Delivered, PostOutcome, WebhookGone

SLOW_SECONDS = 5.0
"""Failed posts count only if they take at least this long. A post refused at once costs no time."""

FAILURES_TO_OPEN = 3
"""Number of consecutive slow failures that open the circuit."""

OPEN_SECONDS = 120.0
"""Time for which a circuit stays open. Then one post is made as a probe."""

MAX_RECEIVERS = 1000
"""Maximum number of receivers in memory; those unused for longest are removed."""


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_until: datetime | None = None


class CircuitBreaker:
    """Circuits of all receivers to which this process posts. They are stored only in memory."""

    def __init__(self) -> None:
        self._circuits: dict[tuple[str, str], _Circuit] = {}

    def is_open(self, owner: str, url: str, now: datetime) -> bool:
        """Return True if an attempt to post to this URL must be skipped. After OPEN_SECONDS, one attempt is a probe."""
        circuit = self._circuits.get(_receiver(owner, url))
        if circuit is None or circuit.open_until is None:
            return False
        if now < circuit.open_until:
            return True
        # Allow this attempt as a probe. Skip other attempts until the outcome of the probe is recorded.
        circuit.open_until = now + timedelta(seconds=OPEN_SECONDS)
        return False

    def record(self, owner: str, url: str, outcome: PostOutcome, seconds: float, now: datetime) -> None:
        """Record the outcome and duration of a post. Open or close the circuit of its receiver."""
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
    """Return the key of a receiver: its owner and the scheme, host and port of its URL."""
    return owner, "/".join(url.split("/", 3)[:3]).lower()
