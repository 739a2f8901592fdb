"""Outcomes of the stores' operations: a turn has started, waits or has ended, or a message was not stored."""

from datetime import datetime

from msgspec import Struct

from aion_core.engine.records import Head, Lease, Turn, Wait


class TurnStarted(Struct, frozen=True):
    """Outcome: the caller now holds the lease of a turn (the right to run it) and must run the turn."""

    lease: Lease
    head: Head
    until: datetime | None = None
    """End of the lease, unless it is renewed; None if it is unknown."""


class TurnQueued(Struct, frozen=True):
    """Outcome: the turn is in the queue of its context."""

    head: Head
    until: datetime | None = None
    """End of the running turn's lease, if a turn runs and its lease is known; None otherwise."""


class ContextInUse(Struct, frozen=True):
    """Outcome: the message was not stored, because the context is busy."""

    task_id: str
    """Task of the running turn, or of the first waiting turn."""


class LeaseHeld(Struct, frozen=True):
    """Outcome: another process has the lease of the context (the right to run its turns)."""

    fence: int
    """Fence of the other holder's lease."""
    until: datetime
    """End of the other holder's lease, unless it is renewed."""


class TurnSuspended(Struct, frozen=True):
    """Outcome: the context's turn is suspended, and what it waits for has not come yet. Nobody holds its lease."""

    turn: Turn
    """The turn with its wait."""
    fence: int
    look_at: datetime
    """Time of the next look: a wake-up message arrives, and its receiver checks whether the wait is over."""

    @property
    def wait(self) -> Wait:
        """Wait of the turn. Every suspended turn has one."""
        assert self.turn.wait is not None  # noqa: S101  # see the docstring
        return self.turn.wait


class TurnFinished(Struct, frozen=True):
    """Outcome: the end of a turn is recorded."""

    head: Head
    next: TurnStarted | None = None
    """The next turn, leased by the same holder."""
    waiting: bool = False
    """True if a turn is queued without a holder: the caller must enqueue a wake-up message."""


class Duplicate(Struct, frozen=True):
    """Outcome: the message was already stored, with the task `task_id`."""

    task_id: str


class Interrupted(Struct, frozen=True):
    """Outcome: the message was not stored, because a task of the context requires input: the message must answer it."""

    task_id: str
