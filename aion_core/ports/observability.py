"""Metrics and traces ports; values hold numbers, names, ids and times, never the content of messages."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Protocol


class Metric(StrEnum):
    """Metrics, with the names of alarms and dashboards. Names ending in Duration, Time or Lag are milliseconds."""

    TURNS = "Turns"
    """Ended turns: with an answer, an interrupt, or a failure."""
    TURN_DURATION = "TurnDuration"
    """From a turn's beginning to its recorded end; after a handoff or retry, from its message's arrival."""
    FIRST_TOKEN_TIME = "FirstTokenTime"  # noqa: S105  # a name
    """From a turn's beginning to its agent's first chunk of text."""
    STREAM_DELTAS = "StreamDeltas"
    """Text chunks of a turn in one process."""
    TURN_RETRIES = "TurnRetries"
    """Turns begun again after the death of their process."""
    TURN_LAG = "TurnLag"
    """From a message's arrival to the beginning of its turn."""
    TURNS_FAILED = "TurnsFailed"
    """Turns with a failed task."""
    SWEEP_FOUND = "SweepFound"
    """Overdue work found by a sweep, without planned webhook retries."""
    SWEEP_ENQUEUED = "SweepEnqueued"
    """Wake-up messages of a sweep, including webhook retries."""
    PUSH_DELIVERED = "PushDelivered"
    """Notifications accepted by a webhook."""
    PUSH_RETRIES = "PushRetries"
    """Posts to repeat later: failed, or postponed because their host does not respond."""
    PUSH_GIVEN_UP = "PushGivenUp"
    """Notifications given up after the last retry."""
    PUSH_LAG = "PushLag"
    """From a status update's timestamp to its delivery."""

    @property
    def in_milliseconds(self) -> bool:
        """True for times, false for counts."""
        return self.value.endswith(("Duration", "Time", "Lag"))


class Metrics(Protocol):
    """Counter of metrics. It never fails or waits: a value may be lost."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """Count the value; `agent` is the id of the turn's agent, if there is one."""
        ...

    def flush(self) -> None:
        """Emit the counts at the end of an invocation."""
        ...


class NullMetrics:
    """`Metrics` without an effect."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """See `Metrics.count`."""

    def flush(self) -> None:
        """See `Metrics.flush`."""


class SpanKind(StrEnum):
    """Side of a call, by OpenTelemetry."""

    SERVER = "server"
    """Handles a request."""
    CONSUMER = "consumer"
    """Handles a queued message."""
    CLIENT = "client"
    """Calls another system."""


class Span(Protocol):
    """A span of running work."""

    def note(self, name: str, value: str | int) -> None:
        """Set an attribute."""
        ...

    def failed(self, why: str) -> None:
        """Mark the span as failed; `why` is a fixed text or the class of an error."""
        ...


class Traces(Protocol):
    """Tracer. It never fails: a span may be lost."""

    def span(
        self, name: str, kind: SpanKind, *, traceparent: str = "", attributes: Mapping[str, str | int] | None = None
    ) -> AbstractContextManager[Span]:
        """Open a span for the block; spans within it, also of frameworks, are its children.

        Its parent is the current span, or `traceparent` (W3C) if that names another trace. An error out of the block is
        recorded by its class.
        """
        ...

    def flush(self) -> None:
        """Send the ended spans; blocking, for at most a few seconds."""
        ...


class NoopTraces:
    """`Traces` and `Span` without an effect."""

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
