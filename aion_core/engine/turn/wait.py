"""Rules of a suspended turn: how long it may wait, and when the next look is. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from aion_core.engine.queues import LONGEST_DELAY
from aion_core.engine.records import AwaitedCall, Turn, Wait
from aion_core.errors import AgentFailed
from aion_core.table.times import milliseconds, moment

DEFAULT_LIMIT = timedelta(days=1)
"""Longest wait for remote agents, unless the agent has set a limit."""

FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=5), timedelta(minutes=5)
"""Shortest and longest time between two looks at a remote agent. In between it is half of the time waited so far."""

FIRST_NET_LOOK, LONGEST_NET_LOOK = timedelta(minutes=15), timedelta(hours=1)
"""The same for remote agents that report the end of their tasks: these looks only find an end whose callback is lost.

In between it is twice the time waited so far, so that a task of 40 minutes costs one of them.
"""

BEFORE_EXPIRY = timedelta(minutes=10)
"""Time before a task's TTL at which no turn of the task waits any more, so that its last turn can still be recorded."""

_MILLISECOND = timedelta(milliseconds=1)


def new_wait(
    turn: Turn, key: str, until: datetime | None, calls: Sequence[AwaitedCall], *, now: int, expires: int
) -> Wait:
    """Return the wait of a turn that suspends itself. `expires` is the TTL of its task in seconds.

    See `Suspended` for the other arguments. A turn that suspends again under the same key goes on with its wait. Raises
    AgentFailed if the task would expire before the time for which the turn waits.
    """
    before = turn.wait if turn.wait is not None and turn.wait.key == key else None
    since, last = before.since if before else now, expires * 1000 - BEFORE_EXPIRY // _MILLISECOND
    if until is None:
        limit = before.until if before else min(since + DEFAULT_LIMIT // _MILLISECOND, last)
        return Wait(key, since, limit, tuple(calls))
    if milliseconds(until) > last:
        raise AgentFailed(
            f"The agent wants to wait until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC, but its task is stored until "
            f"{moment(expires * 1000):%Y-%m-%d %H:%M} UTC only. Let it wait for a shorter time, or store tasks for longer."
        )
    return Wait(key, since, milliseconds(until), tuple(calls))


def suspended_turn(turn: Turn, wait: Wait) -> Turn:
    """Return the turn as it is suspended. Its tries begin again, unless it has only come back to the same wait."""
    same = turn.wait is not None and turn.wait.key == wait.key
    return replace(turn, wait=wait, tries=turn.tries if same else 0)


def next_look(wait: Wait, now: int) -> int:
    """Return the time of the next look at a suspended turn, in milliseconds.

    A time is met to the second: the looks before it only renew a wake-up message that can't be delayed for longer.
    """
    if wait.expects_callbacks:
        look = now + _within(2 * (now - wait.since), FIRST_NET_LOOK, LONGEST_NET_LOOK)
    elif wait.calls:
        look = next_look_at_calls(wait.since, now)
    else:
        look = now + int(LONGEST_DELAY * 1000)
    return min(look, max(wait.until, now))


def next_look_at_calls(since: int, now: int) -> int:
    """Return the time of the next look at remote agents that a turn has awaited since this time, in milliseconds.

    Their end is noticed within half of the time waited until then, but not before FIRST_LOOK, and at the latest after
    LONGEST_LOOK.
    """
    return now + _within((now - since) // 2, FIRST_LOOK, LONGEST_LOOK)


def _within(milliseconds: int, least: timedelta, most: timedelta) -> int:
    return min(max(milliseconds, least // _MILLISECOND), most // _MILLISECOND)
