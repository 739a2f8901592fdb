"""Keys, times, turns and conditions for tests of transitions."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from aion_core.engine.records import Head, Lease, Turn
from aion_core.engine.task import timestamps
from aion_core.protocol.types import TaskState, TaskStatus, TaskStatusUpdateEvent
from aion_core.table.conditions import Both, Condition, Either
from aion_core.table.item import Item, Key
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.semantics.changes import applied
from aion_core.table.semantics.conditions import holds
from aion_core.table.stamp import stamp
from aion_core.table.times import Times
from aion_core.table.writes import Change

CONTEXT = ContextKey("owner", "agent", "c")
TASK = TaskKey("owner", "t-1")
TIMES = Times(now=1_900_000_000_500, lease=30_000, retention=3600)
SECONDS = 1_900_000_000
EXPIRES = SECONDS + 3600
LEASE_UNTIL = 1_900_000_030_500
TTL = stamp("owner", EXPIRES)
LIVING, EXPIRED = SECONDS + 1, SECONDS
"""TTL of an unexpired and of an expired item."""
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)

KEY = Key("p", "s")
KEY_ATTRIBUTES = {"pk": KEY.partition, "sk": KEY.sort}

STATES = {name.removeprefix("TASK_STATE_"): cast("TaskState", value) for name, value in TaskState.items()}

Items = Mapping[str, Item | None]
"""Items by the name of their state; None is an absent item."""


def turn(number: int = 1, **more: Any) -> Turn:
    """Return a turn of the task `t-number`."""
    return replace(Turn(f"u-{number}", f"t-{number}", message_generation=1), **more)


def lease(number: int = 1, *, holder: str = "me", fence: int = 3, **more: Any) -> Lease:
    return Lease(CONTEXT, turn(number, **more), holder, fence)


def head(**more: Any) -> Head:
    """Return the head of a working task that has two events."""
    return replace(Head(TASK, CONTEXT, TaskState.TASK_STATE_WORKING, AT, generation=2, fence=3), **more)


def accepted_in(change: Change, items: Items) -> set[str]:
    """Return the names of the states that meet the condition of the change."""
    return _holding(change.only_if, items)


def made(change: Change, item: Item | None) -> Item:
    """Apply the change to the item, and return the item's attributes."""
    return {name: value for name, value in applied(change, KEY, item).items() if name not in KEY_ATTRIBUTES}


def needless(condition: Condition | None, items: Items) -> list[Condition]:
    """Return the parts of the condition without which the same states would meet it."""
    holding = _holding(condition, items)
    return [part for part, rest in _without(condition or Both(())) if _holding(rest, items) == holding]


def _holding(condition: Condition | None, items: Items) -> set[str]:
    return {
        name
        for name, item in items.items()
        if holds(condition, {**item, **KEY_ATTRIBUTES} if item is not None else None)
    }


def _without(condition: Condition) -> Iterator[tuple[Condition, Condition]]:
    """Yield each part of the condition, and the condition without it."""
    yield condition, Both(())
    match condition:
        case Both(parts) | Either(parts):
            for place, part in enumerate(parts):
                others = parts[:place] + parts[place + 1 :]
                if isinstance(condition, Either):
                    yield part, Either(others)
                for left_out, rest in _without(part):
                    yield left_out, type(condition)((*others, rest))


def status(state: str = "WORKING", *, seconds: int = 1) -> TaskStatusUpdateEvent:
    """Return a status update of the task, this many seconds after the status of its head."""
    at = timestamps.status_at(STATES[state], AT + timedelta(seconds=seconds))
    return TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at)


def at(state: str, when: datetime = AT) -> TaskStatus:
    """Return a status whose time is a whole number of milliseconds."""
    made = TaskStatus(state=STATES[state])
    made.timestamp.FromDatetime(when)
    return made
