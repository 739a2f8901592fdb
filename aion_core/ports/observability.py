"""Metrics and spans of the work, for whoever operates it: numbers, names, ids and times, never words."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
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
    SWEEP_ENQUEUED = "SweepEnqueued"
    """For how much a sweep has rung, webhooks' retries among it."""
    PUSH_DELIVERED = "PushDelivered"
    """Notifications that a webhook has taken."""
    PUSH_RETRIES = "PushRetries"
    """Posts that have failed, or were put off since their host does not answer, and are made again later."""
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


class NullMetrics:
    """`Metrics` where nobody counts."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """See `Metrics.count`."""

    def flush(self) -> None:
        """See `Metrics.flush`."""


class SpanKind(StrEnum):
    """On which side of a call a span is."""

    SERVER = "server"
    """It answers a request."""
    CONSUMER = "consumer"
    """It does what was asked for earlier."""
    CLIENT = "client"
    """It calls another system."""


class Span(Protocol):
    """What is noted of a piece of work while it is under way."""

    def note(self, name: str, value: str | int) -> None:
        """Note an attribute."""
        ...

    def failed(self, why: str) -> None:
        """Note that it failed: `why` is a word of ours, or the class of an error."""
        ...


class Traces(Protocol):
    """Follows the work. It never fails: what cannot be told of is lost, the work is not."""

    def span(
        self, name: str, kind: SpanKind, *, traceparent: str = "", attributes: Mapping[str, str | int] | None = None
    ) -> AbstractContextManager[Span]:
        """Let a span last as long as the block; what is begun within it, frameworks' spans too, is its child.

        It belongs to the span around it, and where `traceparent` (W3C) names another trace, to that. An error that
        leaves the block is noted by its class.
        """
        ...

    def flush(self) -> None:
        """Send what has ended; blocking, for a few seconds at the most."""
        ...


class NoopTraces:
    """`Traces` where nobody follows; it is a `Span` too, of which nothing is noted."""

    def span(
        self, name: str, kind: SpanKind, *, traceparent: str = "", attributes: Mapping[str, str | int] | None = None
    ) -> AbstractContextManager[Span]:
        """See `Traces.span`."""
        return nullcontext(self)

    def note(self, name: str, value: str | int) -> None:
        """See `Span.note`."""

    def failed(self, why: str) -> None:
        """See `Span.failed`."""

    def flush(self) -> None:
        """See `Traces.flush`."""
