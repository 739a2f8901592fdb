"""Sleeps of an agent's code: nothing runs, and nothing is billed, until the time has come."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import datetime, timedelta

from aion_core.authoring.turn_variables import variable_set

Sleeper = Callable[[datetime | timedelta, str], Awaitable[None]]
"""Function that sleeps for a turn: until a time or for a duration, with the sleep's key."""


async def sleep(until: datetime | timedelta, *, key: str = "") -> None:
    """Wait until a time, or for a duration, in a node or tool of a LangGraph graph, or in a tool of an ADK agent.

    If no client holds the connection, the agent is suspended at this point, and no process runs meanwhile. When the time
    has come, the node or tool runs again from its beginning, and the sleep returns at once. So do everything with a side
    effect after the sleep, or in a node of its own. A sleep keeps the time that it has computed first.

    The sleeps of a node are recognised by their order, and those for a duration by the duration. If a node that runs
    again may make them in another order, name each by a `key`.

    Raises RuntimeError outside of a turn, TypeError for another type, and ValueError for a time without a time
    zone. The task fails if it would expire before this time.
    """
    try:
        sleeper = _current.get()
    except LookupError:
        raise RuntimeError(
            "No turn of a graph or an ADK agent is running here: sleep() is for a graph's nodes and tools, and for the "
            "tools of an ADK agent."
        ) from None
    if not isinstance(until, datetime | timedelta):
        raise TypeError(f"sleep() takes a datetime or a timedelta, not {type(until).__name__}.")
    if isinstance(until, datetime) and until.tzinfo is None:
        raise ValueError("sleep() takes a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1).")
    await sleeper(until, key)


_current: ContextVar[Sleeper] = ContextVar("aion_sleeper")


def sleeper_set(sleeper: Sleeper) -> AbstractContextManager[None]:
    """Return a context manager in which `sleep` sleeps by the given sleeper."""
    return variable_set(_current, sleeper)
