"""The writes of the task log, and the conditions under which each may be made. Pure but for the clock."""

from dataclasses import dataclass
from datetime import timedelta

from aion_core.aws import items, keys
from aion_core.aws.items import Item
from aion_core.aws.writes import Write, put, update
from aion_core.ports import MAX_WAITING, Clock, ContextKey, DeltaBatch, Head, Lease, NewTask, TaskKey, Turn
from aion_core.tasks import lifecycle

DELTA_LIFE = timedelta(hours=1)

SET_LEASE = "SET fence = :fence, holder = :holder, #until = :until, running = :turn"

FIRST_TIME = "attribute_not_exists(pk)"
FIRST_TIME_IN_ITS_LIFE = "attribute_not_exists(pk) OR expires <= :now"
"""DynamoDB deletes what has expired late: it may be written over."""
NOTHING_RUNS = "fence = :known AND attribute_not_exists(running)"
CONTEXT_IS_FREE = (
    f"{NOTHING_RUNS} AND attribute_not_exists(interrupted) AND (attribute_not_exists(waiting) OR size(waiting) = :none)"
)
CONTEXT_HAS_EXPIRED = "fence = :known AND expires <= :now"
ONE_MORE_MAY_WAIT = "attribute_not_exists(waiting) OR size(waiting) < :most"
TURN_IS_FIRST = f"{NOTHING_RUNS} AND attribute_not_exists(interrupted) AND waiting[0].id = :first"
LEASE_IS_AS_DEAD_AS_READ = "fence = :known AND #until = :read"
LEASE_IS_MINE = "fence = :fence AND holder = :holder"
HEAD_IS_AS_I_KNOW_IT = "generation = :known AND fence = :fence"
TASK_HAS_NOT_GONE_ON = "generation = :known"
TASK_EXISTS = "attribute_exists(pk)"


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A CONTEXT item, as read."""

    fence: int
    holder: str
    until: int
    running: Turn | None
    waiting: tuple[Turn, ...]
    interrupted: str | None
    expired: bool = False
    """Whether nothing of it is in force any more but its fence."""


class TaskWrites:
    """Makes the writes for one table."""

    def __init__(self, table: str, clock: Clock, *, lease_seconds: float, retention: timedelta) -> None:
        self._table, self._clock = table, clock
        self._lease_seconds, self._retention = lease_seconds, retention

    def put_message(self, context: ContextKey, message_id: str, task_id: str, content_hash: bytes) -> Write:
        """The message is known from here on, and by no other."""
        attributes = {"task_id": items.text(task_id), "content": {"B": content_hash}, **self.keeping()}
        return put(
            self._table,
            keys.message_key(context, message_id),
            attributes,
            only_if=FIRST_TIME_IN_ITS_LIFE,
            now=self._at(timedelta()),
        )

    def put_head(self, head: Head) -> Write:
        """A new task's head."""
        return put(self._table, keys.head_key(head.key), {**items.head_attributes(head), **self.keeping()})

    def move_head(self, head: Head, after: Head, only_if: str, *, fence: int) -> Write:
        """One more event: the head moves on, where it is as the condition says."""
        return update(
            self._table,
            keys.head_key(head.key),
            "SET generation = :generation, #state = :state, #timestamp = :timestamp, listing_at = :listing_at, "
            "fence = :fence",
            only_if=only_if,
            known=head.generation,
            fence=fence,
            generation=after.generation,
            state=items.state_name(after.state),
            timestamp=items.milliseconds(after.timestamp),
            listing_at=items.listing_at(after),
        )

    def take(self, lease: Lease, context: ContextRecord | None) -> Write:
        """The context is free: run in it."""
        set_lease = f"{SET_LEASE}, expires = :expires, v = :v"
        values = {**self._lease_values(lease), "expires": self._at(self._retention), "v": items.VERSION}
        key = keys.context_key(lease.context)
        if context is None:
            return update(self._table, key, set_lease, only_if=FIRST_TIME, **values)
        if context.expired:
            anew = f"{set_lease} REMOVE waiting, interrupted"
            now = self._at(timedelta())
            return update(self._table, key, anew, only_if=CONTEXT_HAS_EXPIRED, known=context.fence, now=now, **values)
        return update(self._table, key, set_lease, only_if=CONTEXT_IS_FREE, known=context.fence, none=0, **values)

    def wait(self, new: NewTask) -> Write:
        """The context is busy: stand in line."""
        return update(
            self._table,
            keys.context_key(new.context),
            "SET waiting = list_append(if_not_exists(waiting, :nobody), :turns), expires = :expires",
            only_if=ONE_MORE_MAY_WAIT,
            nobody={"L": []},
            turns={"L": [items.turn_attribute(new.turn)]},
            most=MAX_WAITING,
            expires=self._at(self._retention),
        )

    def take_next(self, lease: Lease, record: ContextRecord) -> Write:
        """Nothing runs: run the first that waits."""
        return update(
            self._table,
            keys.context_key(lease.context),
            f"{SET_LEASE} REMOVE waiting[0]",
            only_if=TURN_IS_FIRST,
            known=record.fence,
            first=lease.turn.id,
            **self._lease_values(lease),
        )

    def take_again(self, lease: Lease, record: ContextRecord) -> Write:
        """A task of the context has its answer: run its next turn."""
        return update(
            self._table,
            keys.context_key(lease.context),
            f"{SET_LEASE}, expires = :expires REMOVE interrupted",
            only_if=NOTHING_RUNS,
            known=record.fence,
            expires=self._at(self._retention),
            **self._lease_values(lease),
        )

    def take_over(self, lease: Lease, record: ContextRecord) -> Write:
        """The holder is gone: run its turn again."""
        return update(
            self._table,
            keys.context_key(lease.context),
            SET_LEASE,
            only_if=LEASE_IS_AS_DEAD_AS_READ,
            known=record.fence,
            read=record.until,
            **self._lease_values(lease),
        )

    def release(self, lease: Lease, after: Head) -> Write:
        """The turn has ended: free the context, and remember a task that waits for an answer."""
        # No condition of its own: whoever takes the context raises the fence of the head in the same transaction.
        key = keys.context_key(lease.context)
        if after.state in lifecycle.INTERRUPTED:
            remember = "SET interrupted = :task REMOVE holder, #until, running"
            return update(self._table, key, remember, task=after.key.task_id)
        return update(self._table, key, "REMOVE holder, #until, running")

    def _lease_values(self, lease: Lease) -> dict[str, object]:
        return {
            "fence": lease.fence,
            "holder": lease.holder,
            "until": self.until(),
            "turn": items.turn_attribute(lease.turn),
        }

    def keeping(self) -> Item:
        """What every item has: the version of its shape, and until when it is kept."""
        return {"v": items.number(items.VERSION), "expires": items.number(self._at(self._retention))}

    def renew(self, lease: Lease) -> Write:
        """The holder is alive: keep its lease for another term."""
        return update(
            self._table,
            keys.context_key(lease.context),
            "SET #until = :until",
            only_if=LEASE_IS_MINE,
            fence=lease.fence,
            holder=lease.holder,
            until=self.until(),
        )

    def raise_fence(self, task: TaskKey, fence: int) -> Write:
        """The task's turn has a new holder: refuse what the old one still writes."""
        return update(self._table, keys.head_key(task), "SET fence = :fence", only_if=TASK_EXISTS, fence=fence)

    def put_deltas(self, task: TaskKey, batch: DeltaBatch) -> Write:
        """Chunks to be read while they are fresh."""
        attributes = {
            "v": items.number(items.VERSION),
            "chunks": items.chunks_attribute(batch.chunks),
            "expires": items.number(self._at(DELTA_LIFE)),
        }
        return put(self._table, keys.delta_key(task, items.place_of(batch)), attributes)

    def until(self) -> int:
        """Return when a lease that is taken now runs out."""
        return items.milliseconds(self._clock.now()) + int(self._lease_seconds * 1000)

    def _at(self, life: timedelta) -> int:
        return int((self._clock.now() + life).timestamp())
