"""Record of a context: the running turn and its lease, the waiting turns, the task that requires input. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from aion_core.engine.outcomes import LeaseHeld, TurnSuspended
from aion_core.engine.records import AwaitedCall, Lease, StoppedBy, Turn, Wait
from aion_core.errors import StoreCorrupt
from aion_core.table.item import Item
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import moment


class ContextRecord(Struct, frozen=True):
    """Record of a context as read from the table; times are milliseconds since 1970."""

    fence: int = 0
    queue_version: int = 0
    """Number of changes of the queue of waiting turns, for conditional writes."""
    holder: str = ""
    until: int = 0
    """End of the lease; of a suspended turn, the time of its next look; 0 for a turn that another process may resume."""
    running: Turn | None = None
    waiting: tuple[Turn, ...] = ()
    interrupted: str | None = None
    """Id of the context's task that requires input; None without such a task."""
    advanced: int = 0
    """Fence of the lease under which an agent last stored a step; 0 before the first step."""
    exists: bool = False
    expired: bool = False
    """True if the record's TTL has passed: only its fence and queue version are valid then."""

    @property
    def busy(self) -> bool:
        """Return True if a turn runs or waits in the context."""
        return self.running is not None or bool(self.waiting)

    @property
    def wait(self) -> Wait | None:
        """Wait of the context's turn; None if the turn is not suspended."""
        is_suspended = self.running is not None and not self.holder and self.until > 0
        return self.running.wait if self.running is not None and is_suspended else None

    @property
    def active_task(self) -> str:
        """Return the task id of the running turn, or of the first waiting turn; "" if the context is free."""
        turn = self.running or next(iter(self.waiting), None)
        return turn.task_id if turn else ""

    def runs(self, task_id: str) -> bool:
        """Return True if the running turn of the context belongs to this task."""
        return self.running is not None and self.running.task_id == task_id

    def waits_for(self, task_id: str) -> bool:
        """Return True if the context's queue has a turn of this task."""
        return any(turn.task_id == task_id for turn in self.waiting)

    def without(self, task_id: str) -> tuple[Turn, ...]:
        """Return the queued turns of the context, except those of this task."""
        return tuple(turn for turn in self.waiting if turn.task_id != task_id)

    def held_until(self) -> datetime | None:
        """Return the end of the running turn's lease; None if no turn runs or the turn is suspended."""
        return moment(self.until) if self.holder else None

    def lease(self, context: ContextKey) -> Lease:
        """Return the lease of the turn running in the context; call it only if a turn runs."""
        assert self.running is not None  # noqa: S101  # see the docstring
        return Lease(context, self.running, self.holder, self.fence)

    def has(self, turn: Turn, holder: str | None) -> bool:
        """Return True if this turn is running and this process holds its lease."""
        return self.running is not None and self.running.id == turn.id and self.holder == holder


def task_of(context: ContextKey, turn: Turn) -> TaskKey:
    """Return the key of the task to which this turn belongs. The turn is one of the context's turns."""
    return TaskKey(context.owner, turn.task_id)


def turn_to_begin(record: ContextRecord, now: int, *, ended_wait: int = 0) -> Turn | LeaseHeld | TurnSuspended | None:
    """Return the next turn to begin in the context: the turn of an expired lease, else the first queued turn.

    Return LeaseHeld while a lease is in force; TurnSuspended while the turn waits, unless `ended_wait` is its fence;
    None if the queue is empty, or while a task of the context requires input.
    """
    if record.running is not None:
        if record.wait is not None:
            is_over = record.wait.until <= now or record.fence == ended_wait
            return record.running if is_over else TurnSuspended(record.running, record.fence, moment(record.until))
        return LeaseHeld(record.fence, moment(record.until)) if record.until > now else record.running
    return None if record.interrupted is not None else next(iter(record.waiting), None)


def record_of(item: Item | None, seconds: int) -> ContextRecord:
    """Parse a context's record from its item. `seconds` is the current time since 1970.

    An expired item gives only the fence and the queue version, because the next lease needs a higher fence. Raises
    StoreCorrupt if the item is invalid.
    """
    if item is None:
        return ContextRecord()
    try:
        fence, queue_version = item["fence"], item.get("queue_version", 0)
        if item["expires"] <= seconds:
            return ContextRecord(fence, queue_version, exists=True, expired=True)
        return ContextRecord(
            fence=fence,
            queue_version=queue_version,
            holder=item.get("holder", ""),
            until=item.get("until", 0),
            running=turn_of(item["running"]) if "running" in item else None,
            waiting=tuple(turn_of(turn) for turn in item.get("waiting", [])),
            interrupted=item.get("interrupted"),
            advanced=item.get("advanced", 0),
            exists=True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreCorrupt("The record of a context cannot be read.") from error


def turn_of(fields: Mapping[str, Any]) -> Turn:
    """Parse a turn from a context's item."""
    stopped_by = next((cause for cause in StoppedBy if cause == fields.get("stopped_by")), None)
    return Turn(
        fields["id"],
        fields["task_id"],
        fields["message_generation"],
        fields["tries"],
        fields["handoffs"],
        stopped_by,
        wait_of(fields["wait"]) if "wait" in fields else None,
    )


def wait_of(fields: Mapping[str, Any]) -> Wait:
    """Parse a turn's wait from a context's item."""
    calls = (
        AwaitedCall(
            call["key"], call["remote"], call["remote_task"], call.get("agent", ""), call.get("calls_back", False)
        )
        for call in fields.get("calls", ())
    )
    return Wait(fields["key"], fields["since"], fields["until"], tuple(calls))


def turn_value(turn: Turn) -> dict[str, Any]:
    """Return the turn in the form stored in a context's item."""
    return {
        "id": turn.id,
        "task_id": turn.task_id,
        "message_generation": turn.message_generation,
        "tries": turn.tries,
        "handoffs": turn.handoffs,
        **({"stopped_by": turn.stopped_by.value} if turn.stopped_by else {}),
        **({"wait": wait_value(turn.wait)} if turn.wait else {}),
    }


def wait_value(wait: Wait) -> dict[str, Any]:
    """Return the wait in the form stored in a context's item."""
    calls = {"calls": [to_builtins(call) for call in wait.calls]} if wait.calls else {}
    return {"key": wait.key, "since": wait.since, "until": wait.until, **calls}
