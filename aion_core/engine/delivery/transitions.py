"""Transitions of a delivery: claimed, advanced, failed, given up, settled. Pure."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from aion_core.engine.delivery.records import Delivery
from aion_core.errors import ClaimLost
from aion_core.table.keys import TaskKey


def registered(
    task: TaskKey, config_id: str, before: Delivery | None, *, after: int, due_at: datetime | None
) -> Delivery:
    """Return the delivery state of a push config registered after event `after`. `before` is the state it replaces."""
    if before is None:
        return Delivery(task, config_id, after, after, due_at=due_at)
    # Keep the count of dead letters, because the client may have replaced the URL to have them posted again.
    dead, dead_from = before.dead, before.dead_from
    return Delivery(task, config_id, before.after, before.cursor, dead=dead, dead_from=dead_from, due_at=due_at)


def claimed(delivery: Delivery, until: datetime) -> Delivery:
    """Return the delivery, claimed until this time. Its timer expires at the same time, in case the process dies."""
    return replace(delivery, claimed_until=until, due_at=until)


def advanced(delivery: Delivery, cursor: int, until: datetime) -> Delivery:
    """Return the delivery after a successful post: its cursor is moved and its claim is renewed."""
    return claimed(_succeeded(replace(delivery, cursor=cursor)), until)


def settled(delivery: Delivery, cursor: int, *, delivered: bool, due_at: datetime | None) -> Delivery:
    """Return the delivery with a moved cursor and without a claim. `due_at` is the timer for the later events."""
    after = replace(delivery, cursor=cursor, claimed_until=None, due_at=due_at)
    return _succeeded(after) if delivered else after


def failed(delivery: Delivery, failure: str, next_at: datetime, due_at: datetime) -> Delivery:
    """Return the delivery after a failed post: count the try, set the time of the next one, and end the claim."""
    return replace(
        delivery, tries=delivery.tries + 1, failure=failure, next_at=next_at, claimed_until=None, due_at=due_at
    )


def buried(delivery: Delivery, cursor: int, failure: str, until: datetime) -> Delivery:
    """Return the delivery with event `cursor` as a dead letter.

    Each later event is tried only once until a post succeeds.
    """
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
    """Return the delivery disabled, without claim and timer. The receiver's URL no longer exists (410)."""
    return replace(delivery, failure=failure, disabled=True, next_at=None, claimed_until=None, due_at=None)


def redriven(delivery: Delivery, due_at: datetime) -> Delivery:
    """Return the delivery reset to post again all events from the first dead letter on.

    The time is also that of a planned retry: if no wake-up message is sent, the sweep starts it.
    """
    cursor = delivery.dead_from - 1 if delivery.dead_from else delivery.cursor
    return Delivery(delivery.task, delivery.config_id, delivery.after, cursor, next_at=due_at, due_at=due_at)


def _succeeded(delivery: Delivery) -> Delivery:
    return replace(delivery, tries=0, next_at=None, failure="")


def lost() -> ClaimLost:
    """Return the error for a push config that another process has changed after this process claimed it."""
    return ClaimLost("Another process delivers for this config, or the config was deleted or replaced.")


def find(known: Sequence[Delivery], config_id: str) -> Delivery | None:
    """Return the delivery of the push config with this id; None if `known` does not contain it."""
    return next((delivery for delivery in known if delivery.config_id == config_id), None)
