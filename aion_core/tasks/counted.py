"""What is counted of one turn while it is run in this process."""

import logging
from datetime import UTC, datetime

from aion_core.ports import Clock, Ended, Metric, Metrics, Numbered, Turn
from aion_core.protocol.types import Event, Task, TaskState, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)


class CountedTurn:
    """Counts as the turn goes on, and the most of it when the turn's run in this process is over."""

    def __init__(self, metrics: Metrics, clock: Clock, turn: Turn, asked: Numbered | None, *, agent: str) -> None:
        """`asked` is the event that holds the message; None where it is not known."""
        self._metrics, self._clock, self._turn, self._agent = metrics, clock, turn, agent
        self._arrived = time_of(asked.event) if asked is not None else None
        self._began = clock.now()
        self._deltas = 0
        self._first_token: float | None = None

    @property
    def _is_first(self) -> bool:
        return self._turn.tries <= 1 and not self._turn.hops

    def begins(self) -> None:
        """Count that it begins."""
        if self._turn.tries > 1:
            self._count(Metric.TURN_RETRIES)
        if self._is_first and self._arrived is not None:
            self._count(Metric.TURN_LAG, milliseconds(self._arrived, self._began))

    def speaks(self) -> None:
        """Count a chunk."""
        self._deltas += 1
        if self._first_token is None:
            self._first_token = milliseconds(self._began, self._clock.now())

    def rests(self, ended: Ended | None) -> None:
        """Count what there is to count at the end of its run here; None where that was not the turn's end."""
        if self._deltas:
            self._count(Metric.STREAM_DELTAS, self._deltas)
        if self._first_token is not None and self._is_first:
            self._count(Metric.FIRST_TOKEN_TIME, self._first_token)
        if ended is None:
            return
        since = self._began if self._is_first or self._arrived is None else self._arrived
        duration, state = milliseconds(since, self._clock.now()), ended.head.state
        self._count(Metric.TURNS)
        self._count(Metric.TURN_DURATION, duration)
        if state == TaskState.TASK_STATE_FAILED:
            self._count(Metric.TURNS_FAILED)
        words = TaskState.Name(state).removeprefix("TASK_STATE_").lower()
        logger.info("A turn has ended.", extra={"state": words, "duration_ms": round(duration), "chunks": self._deltas})

    def _count(self, metric: Metric, value: float = 1.0) -> None:
        self._metrics.count(metric, value, agent=self._agent)


def time_of(event: Event) -> datetime | None:
    """Return when the event happened; None of one that does not say."""
    if not isinstance(event, Task | TaskStatusUpdateEvent) or not event.status.HasField("timestamp"):
        return None
    return event.status.timestamp.ToDatetime(tzinfo=UTC)


def milliseconds(since: datetime, until: datetime) -> float:
    """Return how long it is from one to the other; two machines' clocks may differ, and none goes backwards here."""
    return max(0.0, (until - since).total_seconds() * 1000)
