"""State of a push config's delivery: its transitions, and the changes of the config's item in the table. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from aion_core.engine.delivery.records import Delivery
from aion_core.errors import ClaimLost
from aion_core.table.conditions import Equals
from aion_core.table.item import Item
from aion_core.table.keys import TaskKey
from aion_core.table.times import milliseconds, moment
from aion_core.table.writes import Change

_FIELDS = ("after", "cursor", "tries", "failure", "dead", "dead_from", "disabled", "revision")
"""Fields of a delivery, each in an attribute of its name. The item also has those of _TIMES that are not None."""
_TIMES = ("next_at", "claimed_until", "due_at")
ATTRIBUTES = (*_FIELDS, *_TIMES)
"""The attributes of an item that hold its delivery."""
_OPTIONAL = (*_TIMES, "due_shard")

# ── Transitions; the store gives each new state a revision of its own ─────────────────────────────────────────────────


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
    """Return the delivery reset to post again all events from the first dead letter on."""
    cursor = delivery.dead_from - 1 if delivery.dead_from else delivery.cursor
    return Delivery(delivery.task, delivery.config_id, delivery.after, cursor, due_at=due_at)


def _succeeded(delivery: Delivery) -> Delivery:
    return replace(delivery, tries=0, next_at=None, failure="")


def lost() -> ClaimLost:
    """Return the error for a push config that another process has changed after this process claimed it."""
    return ClaimLost("Another process delivers for this config, or the config was deleted or replaced.")


def find(known: Sequence[Delivery], config_id: str) -> Delivery | None:
    """Return the delivery of the push config with this id; None if `known` does not contain it."""
    return next((delivery for delivery in known if delivery.config_id == config_id), None)


# ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def attributes_of(delivery: Delivery, shard: str) -> Item:
    """Return the item attributes of the delivery. `shard` is the timer index partition of its task."""
    found: Item = {name: getattr(delivery, name) for name in _FIELDS}
    for name in _TIMES:
        if (at := getattr(delivery, name)) is not None:
            found[name] = milliseconds(at)
    return found if delivery.due_at is None else {**found, "due_shard": shard}


def delivery_of(task: TaskKey, config_id: str, item: Item) -> Delivery:
    """Parse the delivery from the item of a push config."""
    fields: dict[str, Any] = {name: item[name] for name in _FIELDS}
    fields |= {name: moment(item[name]) for name in _TIMES if name in item}
    return Delivery(task, config_id, **fields)


def change(before: Delivery, after: Delivery, shard: str, **more: Any) -> Change:
    """Return the change of a push config's item from `before` to `after`. `more` sets further attributes."""
    values: Mapping[str, Any] = {**attributes_of(after, shard), **more}
    gone = tuple(name for name in _OPTIONAL if name not in values)
    return Change(values=values, remove=gone, only_if=Equals("revision", before.revision))
