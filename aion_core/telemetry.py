"""Ports for the metrics and traces of a process, and implementations that do nothing."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Protocol


class Metric(StrEnum):
    """Names of the metrics, as in alarms and dashboards. Metrics named Duration, Time or Lag are in milliseconds."""

    TURNS = "Turns"
    """Number of turns that ended with an answer, an interrupt or a failure."""
    TURN_DURATION = "TurnDuration"
    """Time from a turn's beginning to its recorded end; after a handoff or retry, from the arrival of its message."""
    FIRST_TOKEN_TIME = "FirstTokenTime"  # noqa: S105  # a metric's name, no password
    """Time from a turn's beginning to the agent's first text chunk, in the first try only."""
    STREAM_DELTAS = "StreamDeltas"
    """Number of text chunks of a turn in one process."""
    TURN_RETRIES = "TurnRetries"
    """Number of times that a turn began again because its process died or its last try made no progress."""
    TURN_LAG = "TurnLag"
    """Time from the arrival of a message to the beginning of its turn's first try."""
    TURNS_FAILED = "TurnsFailed"
    """Number of turns that ended with a failed task."""
    INTERNAL_ERRORS = "InternalErrors"
    """Number of requests that the server could not serve, in JSON-RPC also with HTTP status 200."""
    SWEEP_FOUND = "SweepFound"
    """Number of expired timers found by a sweep, without planned webhook retries."""
    SWEEP_ENQUEUED = "SweepEnqueued"
    """Number of wake-up messages enqueued by a sweep, including webhook retries."""
    PUSH_DELIVERED = "PushDelivered"
    """Number of notifications accepted by a webhook."""
    PUSH_RETRIES = "PushRetries"
    """Number of posts to repeat later, because they failed or were skipped for an unresponsive host."""
    PUSH_GIVEN_UP = "PushGivenUp"
    """Number of notifications given up after the last retry."""
    PUSH_LAG = "PushLag"
    """Time from a status update's timestamp to its delivery."""

    @property
    def in_milliseconds(self) -> bool:
        """True for a metric in milliseconds, False for a count."""
        return self.value.endswith(("Duration", "Time", "Lag"))


class Metrics(Protocol):
    """Recorder of metrics. It never raises and never waits, so a value may be lost."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """Record a value of a metric. `agent` is the id of the turn's agent, "" outside of turns."""
        ...

    def flush(self) -> None:
        """Write the recorded values at the end of an invocation."""
        ...


class NullMetrics:
    """`Metrics` that records nothing."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """Ignore the value; see `Metrics.count`."""

    def flush(self) -> None:
        """Do nothing; see `Metrics.flush`."""


class SpanKind(StrEnum):
    """Kind of a span, as in OpenTelemetry."""

    SERVER = "server"
    """The span handles a request."""
    CONSUMER = "consumer"
    """The span handles a queued message."""
    CLIENT = "client"
    """The span calls another system."""


class Span(Protocol):
    """A span of a trace: a piece of work that is still running."""

    def note(self, name: str, value: str | int) -> None:
        """Set an attribute of the span."""
        ...

    @property
    def traceparent(self) -> str:
        """Return the `traceparent` (W3C) for children of the span in another process."""
        ...

    def failed(self, why: str) -> None:
        """Mark the span as failed. `why` is a fixed text or the name of an error's class."""
        ...


class Traces(Protocol):
    """Tracer of spans. It never raises, so a span may be lost."""

    def span(
        self,
        name: str,
        kind: SpanKind,
        *,
        traceparent: str = "",
        tracestate: str = "",
        attributes: Mapping[str, str | int] | None = None,
    ) -> AbstractContextManager[Span]:
        """Open a span for a `with` block. Spans opened within the block, also by frameworks, are its children.

        Its parent is the current span, or `traceparent` with `tracestate` (W3C) if that belongs to another trace. If the
        block raises an error, the span records the error's class.
        """
        ...

    def flush(self) -> None:
        """Send the ended spans. The call blocks for at most a few seconds."""
        ...


class NoopTraces:
    """`Traces` and `Span` that record nothing."""

    traceparent = ""
    """No parent; see `Span.traceparent`."""

    def span(self, name: str, kind: SpanKind, **_: object) -> AbstractContextManager[Span]:
        """Return a context manager that does nothing; see `Traces.span`."""
        return nullcontext(self)

    def note(self, name: str, value: str | int) -> None:
        """Ignore the attribute; see `Span.note`."""

    def failed(self, why: str) -> None:
        """Ignore the failure; see `Span.failed`."""

    def flush(self) -> None:
        """Do nothing; see `Traces.flush`."""
