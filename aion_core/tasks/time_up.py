"""Until when a turn may run in this process, and how long before that it is to stop. Pure but for the event in it."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

DRAIN_SECONDS, CUT_SECONDS = 30.0, 12.0
"""How long before its time is up a turn is asked to stop at a step boundary, and how long before it is cut."""

LEAST_CUT_SECONDS, LEAST_GRACE_SECONDS = 5.0, 3.0
"""How short the margins may be where there is little time in all."""


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Until when a turn may run in this process."""

    until: datetime | None = None
    """When the process ends, where that is known."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the turn is to be handed on at once."""
    grace: float | None = None
    """Seconds after `now` for a turn to reach a step boundary; None leaves that to the margins."""
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when streams end and blocking sends are answered with the task as it stands: the process is about to stop."""


def margins(time_up: TimeUp, now: datetime) -> tuple[float, float]:
    """Return how long before its time is up a turn is drained, and how long before it is cut.

    Where there is little time in all, most of it is for the agent; yet the cut comes before the runtime's own, which
    would leave the turn to its lease.
    """
    if time_up.until is None:
        return DRAIN_SECONDS, CUT_SECONDS
    left = (time_up.until - now).total_seconds()
    cut = min(CUT_SECONDS, max(LEAST_CUT_SECONDS, left / 8))
    return min(DRAIN_SECONDS, max(cut + LEAST_GRACE_SECONDS, left / 4)), cut
