"""The writes of a task's items, its messages, head and chunks, and the conditions under which each may be made. Pure."""

from datetime import timedelta

from aion_core.aws import items, keys
from aion_core.aws.terms import Terms
from aion_core.aws.writes import FIRST_TIME_IN_ITS_LIFE, Write, check, delete, put, update
from aion_core.ports import DeltaBatch, Head, TaskKey
from aion_core.protocol.types import Event, TaskState
from aion_core.tasks import pushed

DELTA_LIFE = timedelta(hours=1)

SET_LISTENERS = "push_epoch = :push_epoch, push_events = :push_events"

LISTENERS_ARE_AS_READ = "push_epoch = :known_epoch"
NOBODY_NEW_LISTENS = "(attribute_not_exists(push_epoch) OR push_epoch = :known_epoch)"
HEAD_IS_AS_I_KNOW_IT = f"generation = :known AND fence = :known_fence AND {NOBODY_NEW_LISTENS}"
TASK_HAS_NOT_GONE_ON = f"generation = :known AND {NOBODY_NEW_LISTENS}"
TASK_IS_AT_WORK = "#state IN (:submitted, :working)"
TASK_HAS_NOT_ENDED = "#state IN (:submitted, :working, :input, :auth)"
TASK_IS_KEPT = f"attribute_exists(pk) AND {NOBODY_NEW_LISTENS}"
TASK_IS_AT_WORK_FOR_ALL = f"{TASK_IS_AT_WORK} AND {NOBODY_NEW_LISTENS}"


class TaskWrites:
    """Makes the writes for one table."""

    def __init__(self, table: str, terms: Terms) -> None:
        self._table, self._terms = table, terms

    # ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_message(self, key: keys.Key, task_id: str, content_hash: bytes) -> Write:
        """The message is known from here on, and by no other."""
        attributes = {"task_id": items.text(task_id), "content": {"B": content_hash}, **self._terms.keeping()}
        return put(self._table, key, attributes, only_if=FIRST_TIME_IN_ITS_LIFE, now=self._terms.now())

    def keep_message(self, key: keys.Key) -> Write:
        """The message is known for as long as its task, which is kept for longer now."""
        return update(self._table, key, "SET expires = :expires", expires=self._terms.kept_until())

    def keep_asked(self, task: TaskKey, turn_id: str) -> Write:
        """The message that waits is kept for as long as its task, which is kept for longer now."""
        return update(
            self._table, keys.asked_key(task, turn_id), "SET expires = :expires", expires=self._terms.kept_until()
        )

    def drop_asked(self, task: TaskKey, turn_id: str) -> Write:
        """The message is in the log now."""
        return delete(self._table, keys.asked_key(task, turn_id))

    # ── The head ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_head(self, head: Head) -> Write:
        """A new task's head."""
        return put(self._table, keys.head_key(head.key), {**items.head_attributes(head), **self._terms.keeping()})

    def move_head(self, head: Head, after: Head, only_if: str, *, keep: bool = False) -> Write:
        """One more event: the head moves on, where it is as the condition says; `keep` it for another retention."""
        changes = (
            "generation = :generation, #state = :state, #timestamp = :timestamp, listing_at = :listing_at, "
            "fence = :fence"
        )
        values: dict[str, object] = {
            "known": head.generation,
            "generation": after.generation,
            "state": items.state_name(after.state),
            "timestamp": items.milliseconds(after.timestamp),
            "listing_at": items.listing_at(after),
            "fence": after.fence,
            "known_epoch": head.push_epoch,
        }
        if after.push_epoch != head.push_epoch:
            changes += f", {SET_LISTENERS}"
            values |= items.push_attributes(after)
        if "known_fence" in only_if:
            values["known_fence"] = head.fence
        if keep:
            changes += ", expires = :expires"
            values["expires"] = self._terms.kept_until()
        return update(self._table, keys.head_key(head.key), f"SET {changes}", only_if=only_if, **values)

    def raise_fence(self, task: TaskKey, fence: int) -> Write:
        """The task's turn has a new holder: refuse what the old one still writes."""
        return update(
            self._table,
            keys.head_key(task),
            "SET fence = :fence",
            only_if=TASK_HAS_NOT_ENDED,
            fence=fence,
            **_states("submitted", "working", "input", "auth"),
        )

    def check_at_work(self, task: TaskKey) -> Write:
        """The task is at work, so it will come to the message that waits for it."""
        return check(self._table, keys.head_key(task), TASK_IS_AT_WORK, **_states("submitted", "working"))

    def listen(self, head: Head, after: Head) -> Write:
        """Somebody listens to the task from here on, which every commit of it has to know."""
        return update(
            self._table,
            keys.head_key(head.key),
            f"SET {SET_LISTENERS}",
            only_if=TASK_IS_KEPT,
            known_epoch=head.push_epoch,
            **items.push_attributes(after),
        )

    def desert(self, head: Head, after: Head) -> Write:
        """Nobody listens to the task any more, unless somebody has begun to meanwhile."""
        return update(
            self._table,
            keys.head_key(head.key),
            "SET push_epoch = :push_epoch REMOVE push_events",
            only_if=LISTENERS_ARE_AS_READ,
            known_epoch=head.push_epoch,
            push_epoch=after.push_epoch,
        )

    def listen_at_work(self, head: Head, after: Head) -> Write:
        """Somebody listens to the task, which is at work, so that it will come to the message that waits for it."""
        return update(
            self._table,
            keys.head_key(head.key),
            f"SET {SET_LISTENERS}",
            only_if=TASK_IS_AT_WORK_FOR_ALL,
            known_epoch=head.push_epoch,
            **items.push_attributes(after),
            **_states("submitted", "working"),
        )

    def pushed(self, row: Write, head: Head, event: Event) -> Write:
        """The event's row, due where somebody may want to be told of it by what this head knows."""
        if not pushed.listened_to(head, event):
            return row
        due = {
            "due_shard": items.text(keys.push_due_shard(head.key)),
            "due_at": items.number(self._terms.lease_until()),
        }
        return {"Put": {**row["Put"], "Item": {**row["Put"]["Item"], **due}}}

    # ── Chunks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_deltas(self, task: TaskKey, batch: DeltaBatch) -> Write:
        """Chunks to be read while they are fresh."""
        attributes = {
            "v": items.number(items.VERSION),
            "chunks": items.chunks_attribute(batch.chunks),
            "expires": items.number(self._terms.ends(DELTA_LIFE)),
        }
        return put(self._table, keys.delta_key(task, items.place_of(batch)), attributes)


def _states(*names: str) -> dict[str, object]:
    states = {
        "submitted": TaskState.TASK_STATE_SUBMITTED,
        "working": TaskState.TASK_STATE_WORKING,
        "input": TaskState.TASK_STATE_INPUT_REQUIRED,
        "auth": TaskState.TASK_STATE_AUTH_REQUIRED,
    }
    return {name: items.state_name(states[name]) for name in names}
