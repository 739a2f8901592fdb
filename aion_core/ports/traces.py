"""Spans of the work, for whoever follows a request through several systems: names, ids and times, never words."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Protocol


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


class Untraced:
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
