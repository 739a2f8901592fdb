"""Metrics of a turn: tries, duration, time to the first chunk."""

import logging

from aion_core.clock import Clock
from aion_core.engine.outcomes import TurnFinished
from aion_core.engine.records import Numbered, Turn
from aion_core.engine.task import states, timestamps
from aion_core.protocol.types import TaskState
from aion_core.telemetry import Metric, Metrics

logger = logging.getLogger(__name__)


class TurnMetrics:
    """Metrics of one turn in this process: duration, lag, chunks and failures."""

    def __init__(self, metrics: Metrics, clock: Clock, turn: Turn, inbound: Numbered | None, *, agent: str) -> None:
        """`inbound` is the log entry with the client's message, None if that is unknown."""
        self._metrics, self._clock, self._turn, self._agent = metrics, clock, turn, agent
        self._arrived = timestamps.time_of(inbound.event) if inbound is not None else None
        self._began = clock.now()
        self._deltas = 0
        self._first_token: float | None = None

    @property
    def _is_first(self) -> bool:
        return self._turn.tries <= 1 and not self._turn.handoffs

    def begin(self) -> None:
        """Count a retry of the turn, or at its first try the lag since the client's message."""
        if self._turn.tries > 1:
            self._count(Metric.TURN_RETRIES)
        if self._is_first and self._arrived is not None:
            self._count(Metric.TURN_LAG, timestamps.milliseconds(self._arrived, self._began))

    def count_chunk(self) -> None:
        """Count a streamed text chunk. Measure the time to the first chunk."""
        self._deltas += 1
        if self._first_token is None:
            self._first_token = timestamps.milliseconds(self._began, self._clock.now())

    def end(self, ended: TurnFinished | None) -> None:
        """Record the metrics of this try. `ended` is None if the turn was suspended or lost and may run again."""
        if self._deltas:
            self._count(Metric.STREAM_DELTAS, self._deltas)
        if self._first_token is not None and self._is_first:
            self._count(Metric.FIRST_TOKEN_TIME, self._first_token)
        if ended is None:
            return
        since = self._began if self._is_first or self._arrived is None else self._arrived
        duration, state = timestamps.milliseconds(since, self._clock.now()), ended.head.state
        self._count(Metric.TURNS)
        self._count(Metric.TURN_DURATION, duration)
        if state == TaskState.TASK_STATE_FAILED:
            self._count(Metric.TURNS_FAILED)
        fields = {"state": states.state_name(state), "duration_ms": round(duration), "chunks": self._deltas}
        logger.info("A turn has ended.", extra=fields)

    def _count(self, metric: Metric, value: float = 1.0) -> None:
        self._metrics.count(metric, value, agent=self._agent)
