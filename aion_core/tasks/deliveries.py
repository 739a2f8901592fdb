"""How the delivery of a push config goes from one state to the next, wherever it is kept. Pure.

A revision is given by whoever keeps what comes of it.
"""

from dataclasses import replace
from datetime import datetime

from aion_core.errors import ClaimLost
from aion_core.ports import Delivery, TaskKey


def registered(
    task: TaskKey, config_id: str, before: Delivery | None, *, after: int, due_at: datetime | None
) -> Delivery:
    """Return the delivery of a config that is registered after this event, or in the place of one that stood before."""
    if before is None:
        return Delivery(task, config_id, after, after, due_at=due_at)
    # What was given up stays to be seen, and driven again: perhaps it is given another URL for that very reason.
    dead, dead_from = before.dead, before.dead_from
    return Delivery(task, config_id, before.after, before.cursor, dead=dead, dead_from=dead_from, due_at=due_at)


def claimed(delivery: Delivery, until: datetime) -> Delivery:
    """Somebody posts for it: should it be heard of no more, it is due at the end of the claim."""
    return replace(delivery, claimed_until=until, due_at=until)


def advanced(delivery: Delivery, cursor: int, until: datetime) -> Delivery:
    """The last post was no failure, and the claim goes on."""
    return claimed(_succeeded(replace(delivery, cursor=cursor)), until)


def settled(delivery: Delivery, cursor: int, *, delivered: bool, due_at: datetime | None) -> Delivery:
    """The claim is given back: everything is passed, or the rest is due at `due_at`."""
    after = replace(delivery, cursor=cursor, claimed_until=None, due_at=due_at)
    return _succeeded(after) if delivered else after


def failed(delivery: Delivery, failure: str, next_at: datetime, due_at: datetime) -> Delivery:
    """The post has failed and is tried again."""
    return replace(
        delivery, tries=delivery.tries + 1, failure=failure, next_at=next_at, claimed_until=None, due_at=due_at
    )


def buried(delivery: Delivery, cursor: int, failure: str, until: datetime) -> Delivery:
    """The event is given up; those behind it are tried once each, until one succeeds."""
    after = replace(
        delivery,
        cursor=cursor,
        failure=failure,
        next_at=None,
        dead=delivery.dead + 1,
        dead_from=delivery.dead_from or cursor,
    )
    return claimed(after, until)


def disabled(delivery: Delivery, failure: str) -> Delivery:
    """The receiver is gone."""
    return replace(delivery, failure=failure, disabled=True, next_at=None, claimed_until=None, due_at=None)


def redriven(delivery: Delivery, due_at: datetime) -> Delivery:
    """It is posted again from the first event on that was given up."""
    cursor = delivery.dead_from - 1 if delivery.dead_from else delivery.cursor
    return Delivery(delivery.task, delivery.config_id, delivery.after, cursor, due_at=due_at)


def lost() -> ClaimLost:
    """Return what happened where a config is no longer as its claim has it."""
    return ClaimLost("Another delivers for this config, or it is gone.")


def _succeeded(delivery: Delivery) -> Delivery:
    return replace(delivery, tries=0, next_at=None, failure="")
