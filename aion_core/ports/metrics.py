"""What is counted of the work, for whoever operates it: numbers, never words."""

from enum import StrEnum
from typing import Protocol


class Metric(StrEnum):
    """What is counted, by the names that alarms and dashboards use. Those that end in Duration, Time or Lag are ms."""

    TURNS = "Turns"
    """Turns that have ended: with an answer, a question, or a failure."""
    TURN_DURATION = "TurnDuration"
    """From a turn's beginning to its recorded end; where it was handed on or begun again, from its message's arrival."""
    FIRST_TOKEN_TIME = "FirstTokenTime"  # noqa: S105  # a name
    """From a turn's beginning to the first chunk of text that its agent speaks; none where it speaks none."""
    STREAM_DELTAS = "StreamDeltas"
    """Chunks of text that a turn has spoken in one process."""
    TURN_RETRIES = "TurnRetries"
    """Turns that were begun again, since whoever had begun them did not come to their end."""
    TURN_LAG = "TurnLag"
    """From a message's arrival to the beginning of its turn."""
    TURNS_FAILED = "TurnsFailed"
    """Turns whose task has failed."""
    SWEEP_FOUND = "SweepFound"
    """What a sweep has found overdue that should have happened by itself: no retry of a webhook, which it is there for."""
    SWEEP_RUNG = "SweepRung"
    """For how much a sweep has rung, webhooks' retries among it."""
    PUSH_DELIVERED = "PushDelivered"
    """Notifications that a webhook has taken."""
    PUSH_RETRIES = "PushRetries"
    """Posts that have failed, and are made again later."""
    PUSH_GIVEN_UP = "PushGivenUp"
    """Notifications that are not tried any more."""
    PUSH_LAG = "PushLag"
    """From an event's time to its delivery; of status updates, which have one."""

    @property
    def in_milliseconds(self) -> bool:
        """Whether its values are a time, and no number of things."""
        return self.value.endswith(("Duration", "Time", "Lag"))


class Metrics(Protocol):
    """Counts. It never fails, and never waits: a number that cannot be kept is lost, the work is not."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """Note the value; `agent` is the id of the agent whose turn it is of, where there is one."""
        ...

    def flush(self) -> None:
        """Let go of what has been counted: an invocation ends. Where nothing was, nothing happens."""
        ...


class Uncounted:
    """`Metrics` where nobody counts."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """See `Metrics.count`."""

    def flush(self) -> None:
        """See `Metrics.flush`."""
