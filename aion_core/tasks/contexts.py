"""Record of a context and its changes in the table. Pure.

A record has the lease (right to run a turn), the queue of waiting turns, and the task that requires input. The
condition of each change covers those parts of the record that the decision depends on. `fence` (fencing token) counts
the leases; `line` (`queue_version`) counts the changes of the queue.

    acquired, acquired_for_input, acquired_next,    a turn runs: for a new message, for an answer, from the queue,
    acquired_abandoned, acquired_interrupting       after a suspension or a dead holder, or in place of a running turn
    queued, queued_anew, queued_first               a turn waits
    renewed                                         the holder of the lease is alive
    released, released_for_input                    the turn has ended: the queue is empty, or waits for input
    transferred, released_for_next                  the turn has ended: its holder, or another holder, runs the next
    advanced                                        the running turn has stored a step
    suspended                                       the turn has not ended, but its holder's deadline is near
    removed                                         the task has ended: it neither runs nor waits
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from msgspec import Struct

from aion_core.errors import StoreCorrupt
from aion_core.ports import MAX_WAITING, Clock, ContextKey, Lease, LeaseHeld, StoppedBy, TaskKey, Turn
from aion_core.ports.table import (
    Absent,
    AtMost,
    Both,
    Change,
    Condition,
    Either,
    Equals,
    Exists,
    Item,
    NotEmpty,
    ShorterThan,
)

VERSION = 2
"""Version of the context items. Since version 2 a context has a queue counter and a timer, and a turn has `hops`."""


class Times(Struct, frozen=True):
    """Current time, lease term (time to expiry) and retention for one write attempt. The clock is read only once."""

    now: int
    """Current time in milliseconds since 1970."""
    lease: int
    """Term of a lease in milliseconds."""
    retention: int
    """Seconds to the TTL of an item written now."""

    @classmethod
    def read(cls, clock: Clock, lease_seconds: float, retention: timedelta = timedelta()) -> Self:
        """Return the times for an attempt that begins now."""
        return cls(milliseconds(clock.now()), int(lease_seconds * 1000), int(retention.total_seconds()))

    @property
    def seconds(self) -> int:
        """Return the current time in seconds. An item has expired if its TTL is not greater."""
        return self.now // 1000

    @property
    def expires(self) -> int:
        """Return the TTL of an item written now, in seconds."""
        return self.seconds + self.retention

    @property
    def lease_until(self) -> int:
        """Return the end of a lease acquired now. Claims and wake-up messages set their timers to the same time."""
        return self.now + self.lease

    @property
    def ttl(self) -> dict[str, int]:
        """Return the schema version and the TTL, as attributes of an item written now."""
        return {"v": VERSION, "expires": self.expires}


class ContextRecord(Struct, frozen=True):
    """Record of a context as read from the table; times are milliseconds since 1970."""

    fence: int = 0
    queue_version: int = 0
    """Number of changes of the queue of waiting turns, for conditional writes."""
    holder: str = ""
    until: int = 0
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


def milliseconds(at: datetime) -> int:
    """Return the time as whole milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def moment(since_1970: int) -> datetime:
    """Return the datetime in UTC of these milliseconds since 1970."""
    return datetime.fromtimestamp(since_1970 / 1000, UTC)


def turn_to_begin(record: ContextRecord, now: int) -> Turn | LeaseHeld | None:
    """Return the next turn to begin in the context: the turn of an expired lease, else the first queued turn.

    Return LeaseHeld while a lease is in force; None if the queue is empty, or while a task of the context requires
    input.
    """
    if record.running is not None:
        return LeaseHeld(record.fence, moment(record.until)) if record.until > now else record.running
    return None if record.interrupted is not None else next(iter(record.waiting), None)


# ── The item ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def record_of(item: Item | None, seconds: int) -> ContextRecord:
    """Parse a context's record from its item. `seconds` is the current time since 1970.

    An expired item gives only the fence and the queue version, because the next lease needs a higher fence. Raises
    StoreCorrupt if the item is invalid.
    """
    if item is None:
        return ContextRecord()
    try:
        fence, queue_version = item.get("fence", 0), item.get("line", 0)
        if item.get("expires", seconds + 1) <= seconds:
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
    """Parse a turn from a context's item. Items of version 1 have no `hops`."""
    stopped_by = next((cause for cause in StoppedBy if cause == fields.get("stopped_by")), None)
    return Turn(fields["id"], fields["task_id"], fields["asked"], fields["tries"], fields.get("hops", 0), stopped_by)


def turn_value(turn: Turn) -> dict[str, Any]:
    """Return the turn in the form stored in a context's item."""
    return {
        "id": turn.id,
        "task_id": turn.task_id,
        "asked": turn.message_generation,
        "tries": turn.tries,
        "hops": turn.handoffs,
        **({"stopped_by": turn.stopped_by.value} if turn.stopped_by else {}),
    }


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────

NOTHING_RUNS = Absent("running")
NO_INPUT_REQUIRED = Absent("interrupted")
NOTHING_WAITS = ShorterThan("waiting", 1)
HAS_ROOM = ShorterThan("waiting", MAX_WAITING)
IS_BUSY = Either((Exists("running"), NotEmpty("waiting")))
LEASE_ATTRIBUTES = ("holder", "until", "running")

MAY_WAIT = Both((HAS_ROOM, NO_INPUT_REQUIRED))
MAY_WAIT_BEHIND_OTHERS = Both((HAS_ROOM, NO_INPUT_REQUIRED, IS_BUSY))
MAY_WAIT_ALONE = Both((NOTHING_RUNS, NO_INPUT_REQUIRED, NOTHING_WAITS))


def fence_is(fence: int) -> Condition:
    """Return the condition that the context's newest lease has this fence."""
    return Equals("fence", fence)


def _is_mine(lease: Lease) -> Condition:
    return Both((fence_is(lease.fence), Equals("holder", lease.holder)))


def _queue_as_read(record: ContextRecord) -> Condition:
    # Expect no `line` for version 0: items of schema version 1 and items with an unchanged queue lack this attribute.
    return Equals("line", record.queue_version) if record.queue_version else Absent("line")


def _has_expired(record: ContextRecord, times: Times) -> Condition:
    return Both((fence_is(record.fence), AtMost("expires", times.seconds)))


# ── A turn runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _leased(lease: Lease, times: Times, **more: Any) -> dict[str, Any]:
    return {
        "fence": lease.fence,
        "holder": lease.holder,
        "until": times.lease_until,
        "running": turn_value(lease.turn),
        "due_at": times.lease_until,
        **more,
    }


def acquired(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease the turn of a new message. The context is free, new or expired."""
    values = _leased(lease, times, **times.ttl)
    if not record.exists:
        return Change(values, only_if=Absent())
    if record.expired:
        return Change(values, remove=("waiting", "interrupted"), only_if=_has_expired(record, times))
    free = Both((fence_is(record.fence), NOTHING_RUNS, NO_INPUT_REQUIRED, NOTHING_WAITS))
    return Change(values, only_if=free)


def acquired_for_input(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease the turn of a message that answers the interrupted task."""
    requires_input = Equals("interrupted", lease.turn.task_id)
    return Change(
        _leased(lease, times, expires=times.expires),
        remove=("interrupted",),
        only_if=Both((fence_is(record.fence), NOTHING_RUNS, requires_input)),
    )


def acquired_next(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease the first waiting turn, `lease.turn`, and remove it from the queue."""
    return Change(
        _leased(lease, times, line=record.queue_version + 1),
        drop_first=("waiting",),
        only_if=Both((fence_is(record.fence), NOTHING_RUNS, NO_INPUT_REQUIRED, _queue_as_read(record))),
    )


def acquired_abandoned(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease a suspended turn or a dead holder's turn. It fails if the lease was renewed."""
    return Change(_leased(lease, times), only_if=Both((fence_is(record.fence), Equals("until", record.until))))


def acquired_interrupting(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease a turn that replaces the running turn of its task. The old holder may be alive."""
    return Change(_leased(lease, times, expires=times.expires), only_if=fence_is(record.fence))


def renewed(lease: Lease, times: Times) -> Change:
    """Return the change to extend a lease for another term."""
    until = times.lease_until
    return Change({"until": until, "due_at": until, "expires": times.expires}, only_if=_is_mine(lease))


def advanced(fence: int) -> Change:
    """Return the change to record that an agent has stored a step under the lease with this fence."""
    return Change({"advanced": fence}, only_if=fence_is(fence))


# ── A turn waits ──────────────────────────────────────────────────────────────────────────────────────────────────────


def queued(turn: Turn, only_if: Condition, times: Times, *, timer: bool = True) -> Change:
    """Return the change to append a turn to the context's queue.

    Pass `timer=False` while a task of the context requires input: the client's answer sets the timer.
    """
    return Change(
        times.ttl,
        defaults={"fence": 0, **({"due_at": times.lease_until} if timer else {})},
        add={"line": 1},
        append={"waiting": [turn_value(turn)]},
        only_if=only_if,
    )


def queued_anew(turn: Turn, record: ContextRecord, times: Times) -> Change:
    """Return the change to replace the queue of an expired context by this turn."""
    return Change(
        {"waiting": [turn_value(turn)], "line": record.queue_version + 1, "due_at": times.lease_until, **times.ttl},
        remove=("interrupted", *LEASE_ATTRIBUTES),
        only_if=_has_expired(record, times),
    )


def queued_first(turn: Turn, record: ContextRecord, fence: int, times: Times, *, answers: bool) -> Change:
    """Return the change to put a turn first in the queue and release the lease.

    With `answers` the turn answers the interrupted task. Otherwise it replaces the running turn of its task.
    """
    expected = Both((NOTHING_RUNS, Equals("interrupted", turn.task_id))) if answers else Exists("running")
    return Change(
        {
            "waiting": [turn_value(each) for each in (turn, *record.waiting)],
            "line": record.queue_version + 1,
            "fence": fence,
            "due_at": times.lease_until,
            "expires": times.expires,
        },
        remove=("interrupted", *LEASE_ATTRIBUTES),
        only_if=Both((fence_is(record.fence), _queue_as_read(record), expected)),
    )


# ── A turn ends ───────────────────────────────────────────────────────────────────────────────────────────────────────


def released(lease: Lease) -> Change:
    """Return the change to release the lease after a turn. The context is then free. Requires an empty queue."""
    return Change(remove=(*LEASE_ATTRIBUTES, "due_at"), only_if=Both((fence_is(lease.fence), NOTHING_WAITS)))


def released_for_input(lease: Lease) -> Change:
    """Return the change to release the lease and record that the task requires input. Queued turns wait for it."""
    return Change(
        {"interrupted": lease.turn.task_id}, remove=(*LEASE_ATTRIBUTES, "due_at"), only_if=fence_is(lease.fence)
    )


def released_for_next(record: ContextRecord, times: Times) -> Change:
    """Return the change to release the lease after a turn, so that any process can run the next queued turn."""
    return Change(
        {"due_at": times.lease_until},
        remove=LEASE_ATTRIBUTES,
        only_if=Both((fence_is(record.fence), _queue_as_read(record))),
    )


def transferred(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to end a turn and lease the next queued turn to the same holder."""
    return Change(
        _leased(lease, times, line=record.queue_version + 1),
        drop_first=("waiting",),
        only_if=Both((fence_is(record.fence), _queue_as_read(record))),
    )


def suspended(lease: Lease, turn: Turn, times: Times) -> Change:
    """Return the change to suspend a turn, so that another holder can lease it."""
    return Change(
        # Remove the holder and set the lease's end to 0, so that a process with a slow clock sees no lease in force.
        {"until": 0, "running": turn_value(turn), "expires": times.expires, "due_at": times.lease_until},
        remove=("holder",),
        only_if=_is_mine(lease),
    )


def removed(task_id: str, record: ContextRecord, fence: int, times: Times) -> Change:
    """Return the change to remove an ended or deleted task from its context: its turns and its interrupt."""
    waiting = record.without(task_id)
    runs, requires_input = record.runs(task_id), record.interrupted == task_id
    another_runs = record.running is not None and not runs
    another_requires_input = record.interrupted is not None and not requires_input
    remove = (*(LEASE_ATTRIBUTES if runs else ()), *(("interrupted",) if requires_input else ()))
    values: dict[str, Any] = {
        "waiting": [turn_value(turn) for turn in waiting],
        "line": record.queue_version + 1,
        "fence": fence,
    }
    if waiting and not another_runs and not another_requires_input:
        values["due_at"] = times.lease_until
    elif not another_runs:
        remove = (*remove, "due_at")
    return Change(values, remove=remove, only_if=Both((fence_is(record.fence), _queue_as_read(record))))


# ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────────

NO_TIMER = ("due_shard", "due_at")
"""The attributes of a timer; a change removes them."""


def claimed_timer(item: Item | None, times: Times, *, is_alive: bool) -> Change | None:
    """Return the change to claim the expired timer of an item; None if the item has no expired timer.

    The claim sets the timer again, so that no other sweep claims it while the wake-up message is on its way. If the
    item's TTL has passed (`is_alive` is False), the change removes the timer instead. Otherwise each sweep would find
    it first until DynamoDB deletes the item.
    """
    due_at = item.get("due_at") if item is not None else None
    if due_at is None or due_at > times.now:
        return None
    as_read = Equals("due_at", due_at)
    if not is_alive:
        return Change(remove=NO_TIMER, only_if=as_read)
    return Change({"due_at": times.lease_until}, only_if=as_read)
