"""Deadline of a process, and the time that its turns have to stop before it."""

import asyncio
from datetime import datetime

from msgspec import Struct, field

from aion_core.clock import Clock, within

DRAIN_SECONDS, CUT_SECONDS = 30.0, 12.0
"""Seconds before the deadline: first a turn is asked to stop at its next step boundary, then it is cancelled."""

LEAST_CUT_SECONDS, LEAST_GRACE_SECONDS = 5.0, 3.0
"""Minimum seconds to cancel a turn and, before that, to drain it to a step boundary, in a process with little time."""


class Deadline(Struct, frozen=True):
    """Deadline for the turns of one process, and events to stop them earlier."""

    until: datetime | None = None
    """End of the process, None if it is unknown."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to suspend running turns before the deadline."""
    grace: float | None = None
    """Seconds after `now` for a turn to reach a step boundary; None for the time computed by `margins`."""
    leave: asyncio.Future[None] | None = None
    """Future, completed before the process stops: streams then end, and blocking sends return the current task."""


async def wait_for_deadline(deadline: Deadline, clock: Clock, drain: asyncio.Event) -> None:
    """Set `drain` shortly before the deadline, and return when the turn must be cancelled."""
    drain_before, cut_before = margins(deadline, clock.now())
    if deadline.until is None:
        await deadline.now.wait()
    else:
        left = (deadline.until - clock.now()).total_seconds()
        await within(clock, left - drain_before, deadline.now.wait())
    drain.set()
    grace = drain_before - cut_before
    if deadline.grace is not None and deadline.now.is_set():
        grace = deadline.grace
    if deadline.until is not None:
        left = (deadline.until - clock.now()).total_seconds()
        grace = min(grace, max(0.0, left - cut_before))
    await clock.sleep(grace)


def margins(deadline: Deadline, now: datetime) -> tuple[float, float]:
    """Return two margins in seconds before the deadline: to drain a turn to a step boundary, and to cancel it.

    In a process with little time, the agent gets most of it. But the turn is always cancelled before the runtime stops
    the process: otherwise the next holder would have to wait until the lease expires.
    """
    if deadline.until is None:
        return DRAIN_SECONDS, CUT_SECONDS
    left = (deadline.until - now).total_seconds()
    cut = min(CUT_SECONDS, max(LEAST_CUT_SECONDS, left / 8))
    return min(DRAIN_SECONDS, max(cut + LEAST_GRACE_SECONDS, left / 4)), cut
