"""The writes of the task log, and the conditions under which each may be made. Pure but for the clock.

A CONTEXT's time line, a line a change; `line` counts the changes of who waits, `fence` those of who may write:

    take, take_again     a message comes, and nothing runs: it runs
    wait, wait_first     a message comes: it waits
    renew                its holder lives
    release              its turn is over, and nothing waits
    pass_on              its turn is over, and the next one has the lease
    leave                its turn is over, and somebody else is to begin the next
    put_down             its turn is not over, but its holder's time is up
    take_next, take_over a bell was heard: the first that waits runs, or the one whose holder is gone
    strike               a task was canceled: its turns are gone
"""

from datetime import timedelta

from aion_core.aws import items, keys
from aion_core.aws.items import Item
from aion_core.aws.writes import Write, check, delete, put, update
from aion_core.ports import (
    MAX_WAITING,
    Clock,
    ContextKey,
    DeltaBatch,
    FollowUp,
    Head,
    Lease,
    Overdue,
    TaskKey,
    Turn,
)
from aion_core.protocol.types import Event, TaskState
from aion_core.tasks import pushed
from aion_core.tasks.contexts import CLAIM_TERMS, ContextRecord

DELTA_LIFE = timedelta(hours=1)

SET_LEASE = "fence = :fence, holder = :holder, #until = :until, running = :turn, due_shard = :shard, due_at = :until"
SET_DUE = "due_shard = :shard, due_at = :due"
NOT_DUE = "due_shard, due_at"
NOBODY_RUNS = "holder, #until, running"
SET_LISTENERS = "push_epoch = :push_epoch, push_events = :push_events"

FIRST_TIME = "attribute_not_exists(pk)"
FIRST_TIME_IN_ITS_LIFE = "attribute_not_exists(pk) OR expires <= :now"
"""DynamoDB deletes what has expired late: it may be written over."""
FENCE_IS_AS_READ = "fence = :known"
LINE_IS_AS_READ = "line = :line"
LINE_IS_NEW = "attribute_not_exists(line)"
"""How a line that nobody has stood in yet looks; one of version 1 looks so too."""
NOTHING_RUNS = "attribute_not_exists(running)"
SOMETHING_RUNS = "attribute_exists(running)"
NOTHING_ASKS = "attribute_not_exists(interrupted)"
NOTHING_WAITS = "attribute_not_exists(waiting) OR size(waiting) = :none"
CONTEXT_IS_FREE = f"{FENCE_IS_AS_READ} AND {NOTHING_RUNS} AND {NOTHING_ASKS} AND ({NOTHING_WAITS})"
CONTEXT_HAS_EXPIRED = f"{FENCE_IS_AS_READ} AND expires <= :now"
ONE_MORE_MAY_WAIT = "(attribute_not_exists(waiting) OR size(waiting) < :most)"
SOMETHING_IS_AT_WORK = f"({SOMETHING_RUNS} OR (attribute_exists(waiting) AND size(waiting) > :none))"
MAY_WAIT = f"{ONE_MORE_MAY_WAIT} AND {NOTHING_ASKS}"
MAY_WAIT_BEHIND_OTHERS = f"{MAY_WAIT} AND {SOMETHING_IS_AT_WORK}"
MAY_WAIT_ALONE = f"{NOTHING_RUNS} AND {NOTHING_ASKS} AND ({NOTHING_WAITS})"
TASK_ASKS = "interrupted = :task"
LEASE_IS_AS_DEAD_AS_READ = f"{FENCE_IS_AS_READ} AND #until = :read"
LEASE_IS_MINE = "fence = :fence AND holder = :holder"
FENCE_IS_MINE = "fence = :fence"
LISTENERS_ARE_AS_READ = "push_epoch = :known_epoch"
NOBODY_NEW_LISTENS = "(attribute_not_exists(push_epoch) OR push_epoch = :known_epoch)"
HEAD_IS_AS_I_KNOW_IT = f"generation = :known AND fence = :known_fence AND {NOBODY_NEW_LISTENS}"
TASK_HAS_NOT_GONE_ON = f"generation = :known AND {NOBODY_NEW_LISTENS}"
TASK_IS_AT_WORK = "#state IN (:submitted, :working)"
TASK_HAS_NOT_ENDED = "#state IN (:submitted, :working, :input, :auth)"
TASK_IS_KEPT = f"attribute_exists(pk) AND {NOBODY_NEW_LISTENS}"
TASK_IS_AT_WORK_FOR_ALL = f"{TASK_IS_AT_WORK} AND {NOBODY_NEW_LISTENS}"
DUE_AS_READ = "due_at = :read"


class TaskWrites:
    """Makes the writes for one table."""

    def __init__(self, table: str, clock: Clock, *, lease_seconds: float, retention: timedelta) -> None:
        self._table, self._clock = table, clock
        self._lease_seconds, self._retention = lease_seconds, retention

    # ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_message(self, key: keys.Key, task_id: str, content_hash: bytes) -> Write:
        """The message is known from here on, and by no other."""
        attributes = {"task_id": items.text(task_id), "content": {"B": content_hash}, **self.keeping()}
        return put(self._table, key, attributes, only_if=FIRST_TIME_IN_ITS_LIFE, now=self._at(timedelta()))

    def keep_message(self, key: keys.Key) -> Write:
        """The message is known for as long as its task, which is kept for longer now."""
        return update(self._table, key, "SET expires = :expires", expires=self._at(self._retention))

    def keep_asked(self, task: TaskKey, turn_id: str) -> Write:
        """The message that waits is kept for as long as its task, which is kept for longer now."""
        return update(
            self._table, keys.asked_key(task, turn_id), "SET expires = :expires", expires=self._at(self._retention)
        )

    def drop_asked(self, task: TaskKey, turn_id: str) -> Write:
        """The message is in the log now."""
        return delete(self._table, keys.asked_key(task, turn_id))

    # ── A task's head ─────────────────────────────────────────────────────────────────────────────────────────────────

    def put_head(self, head: Head) -> Write:
        """A new task's head."""
        return put(self._table, keys.head_key(head.key), {**items.head_attributes(head), **self.keeping()})

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
            values["expires"] = self._at(self._retention)
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
        due = {"due_shard": items.text(keys.push_due_shard(head.key)), "due_at": items.number(self.until())}
        return {"Put": {**row["Put"], "Item": {**row["Put"]["Item"], **due}}}

    # ── Who runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, lease: Lease, record: ContextRecord | None) -> Write:
        """The context is free: run in it."""
        changes = f"SET {SET_LEASE}, expires = :expires, v = :v"
        values = {**self._lease_values(lease), "expires": self._at(self._retention), "v": items.VERSION}
        if record is None:
            return self._change(lease.context, changes, FIRST_TIME, **values)
        if record.expired:
            anew = f"{changes} REMOVE waiting, interrupted"
            now = self._at(timedelta())
            return self._change(lease.context, anew, CONTEXT_HAS_EXPIRED, known=record.fence, now=now, **values)
        return self._change(lease.context, changes, CONTEXT_IS_FREE, known=record.fence, none=0, **values)

    def take_again(self, lease: Lease, record: ContextRecord) -> Write:
        """The task that asked has its answer: run its next turn."""
        return self._change(
            lease.context,
            f"SET {SET_LEASE}, expires = :expires REMOVE interrupted",
            f"{FENCE_IS_AS_READ} AND {NOTHING_RUNS} AND {TASK_ASKS}",
            known=record.fence,
            task=lease.turn.task_id,
            expires=self._at(self._retention),
            **self._lease_values(lease),
        )

    def take_next(self, lease: Lease, record: ContextRecord) -> Write:
        """Nothing runs: run the first that waits."""
        line, values = _line_as_read(record)
        return self._change(
            lease.context,
            f"SET {SET_LEASE}, line = :next_line REMOVE waiting[0]",
            f"{FENCE_IS_AS_READ} AND {NOTHING_RUNS} AND {NOTHING_ASKS} AND {line}",
            known=record.fence,
            next_line=record.line + 1,
            **values,
            **self._lease_values(lease),
        )

    def take_over(self, lease: Lease, record: ContextRecord) -> Write:
        """The holder is gone: run its turn again."""
        return self._change(
            lease.context,
            f"SET {SET_LEASE}",
            LEASE_IS_AS_DEAD_AS_READ,
            known=record.fence,
            read=record.until,
            **self._lease_values(lease),
        )

    def take_from(self, lease: Lease, record: ContextRecord) -> Write:
        """The task's turn is interrupted: run its next one in its place, whose holder may be alive."""
        return self._change(
            lease.context,
            f"SET {SET_LEASE}, expires = :expires",
            FENCE_IS_AS_READ,
            known=record.fence,
            expires=self._at(self._retention),
            **self._lease_values(lease),
        )

    def renew(self, lease: Lease) -> Write:
        """The holder is alive: keep its lease for another term."""
        until = self.until()
        return self._change(
            lease.context,
            "SET #until = :until, due_at = :until, expires = :expires",
            LEASE_IS_MINE,
            fence=lease.fence,
            holder=lease.holder,
            until=until,
            expires=self._at(self._retention),
        )

    # ── Who waits ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def wait(self, context: ContextKey, turn: Turn, only_if: str, *, due: bool = True) -> Write:
        """Stand in line, where the context is as the condition says; `due` is what nobody else is to act before."""
        changes = (
            "waiting = list_append(if_not_exists(waiting, :nobody), :turns), line = if_not_exists(line, :zero) + :one,"
            " fence = if_not_exists(fence, :zero), expires = :expires, v = :v"
        )
        values: dict[str, object] = {}
        if due:
            changes += ", due_shard = if_not_exists(due_shard, :shard), due_at = if_not_exists(due_at, :due)"
            values |= self._due(context)
        if ":most" in only_if:
            values["most"] = MAX_WAITING
        if ":none" in only_if:
            values["none"] = 0
        return self._change(
            context,
            f"SET {changes}",
            only_if,
            nobody=items.turns_attribute(()),
            turns=items.turns_attribute([turn]),
            zero=0,
            one=1,
            expires=self._at(self._retention),
            v=items.VERSION,
            **values,
        )

    def wait_anew(self, context: ContextKey, turn: Turn, record: ContextRecord) -> Write:
        """The context has expired: begin its line again, with this turn alone."""
        return self._change(
            context,
            f"SET waiting = :turns, line = :next_line, {SET_DUE}, expires = :expires, v = :v"
            f" REMOVE interrupted, {NOBODY_RUNS}",
            CONTEXT_HAS_EXPIRED,
            known=record.fence,
            now=self._at(timedelta()),
            turns=items.turns_attribute([turn]),
            next_line=record.line + 1,
            expires=self._at(self._retention),
            v=items.VERSION,
            **self._due(context),
        )

    def wait_first(self, follow_up: FollowUp, record: ContextRecord, fence: int, *, asks: bool) -> Write:
        """The task has its answer, or its running turn is interrupted: its next turn is the first that waits."""
        context = follow_up.head.context
        line, values = _line_as_read(record)
        if asks:
            condition, more = f"{NOTHING_RUNS} AND {TASK_ASKS}", {"task": follow_up.head.key.task_id}
        else:
            condition, more = SOMETHING_RUNS, {}
        return self._change(
            context,
            f"SET waiting = :turns, line = :next_line, fence = :fence, {SET_DUE}, expires = :expires"
            f" REMOVE interrupted, {NOBODY_RUNS}",
            f"{FENCE_IS_AS_READ} AND {line} AND {condition}",
            known=record.fence,
            next_line=record.line + 1,
            fence=fence,
            turns=items.turns_attribute([follow_up.turn, *record.waiting]),
            expires=self._at(self._retention),
            **values,
            **more,
            **self._due(context),
        )

    # ── A turn ends ───────────────────────────────────────────────────────────────────────────────────────────────────

    def release(self, lease: Lease) -> Write:
        """The turn is over, and nothing waits: free the context."""
        return self._change(
            lease.context,
            f"REMOVE {NOBODY_RUNS}, {NOT_DUE}",
            f"{FENCE_IS_MINE} AND ({NOTHING_WAITS})",
            fence=lease.fence,
            none=0,
        )

    def release_asking(self, lease: Lease) -> Write:
        """The turn ended with a question: free the context, and remember whose; what waits waits for the answer."""
        return self._change(
            lease.context,
            f"SET interrupted = :task REMOVE {NOBODY_RUNS}, {NOT_DUE}",
            FENCE_IS_MINE,
            fence=lease.fence,
            task=lease.turn.task_id,
        )

    def leave(self, lease: Lease, record: ContextRecord) -> Write:
        """The turn is over, and somebody else is to begin the next."""
        line, values = _line_as_read(record)
        return self._change(
            lease.context,
            f"SET {SET_DUE} REMOVE {NOBODY_RUNS}",
            f"{FENCE_IS_AS_READ} AND {line}",
            known=record.fence,
            **values,
            **self._due(lease.context),
        )

    def pass_on(self, lease: Lease, record: ContextRecord) -> Write:
        """The turn is over: the next one that waits has the lease now."""
        line, values = _line_as_read(record)
        return self._change(
            lease.context,
            f"SET {SET_LEASE}, line = :next_line REMOVE waiting[0]",
            f"{FENCE_IS_AS_READ} AND {line}",
            known=record.fence,
            next_line=record.line + 1,
            **values,
            **self._lease_values(lease),
        )

    def put_down(self, lease: Lease, turn: Turn) -> Write:
        """The holder's time is up: the turn, which is not over, is anybody's."""
        return self._change(
            lease.context,
            # Nobody's lease, by anybody's clock: one that is behind must not take it for alive.
            f"SET #until = :never, running = :turn, expires = :expires, {SET_DUE} REMOVE holder",
            LEASE_IS_MINE,
            expires=self._at(self._retention),
            fence=lease.fence,
            holder=lease.holder,
            never=0,
            turn=items.turn_attribute(turn),
            **self._due(lease.context),
        )

    def strike(self, context: ContextKey, task: str, record: ContextRecord, fence: int) -> Write:
        """The task is canceled, or gone: it neither runs nor waits nor asks here any more."""
        line, values = _line_as_read(record)
        waiting = record.without(task)
        removed = []
        if record.runs(task):
            removed.append(NOBODY_RUNS)
        if record.interrupted == task:
            removed.append("interrupted")
        still_runs = record.running is not None and not record.runs(task)
        still_asks = record.interrupted not in (None, task)
        due: dict[str, object] = {}
        changes = "waiting = :turns, line = :next_line, fence = :fence"
        if waiting and not still_runs and not still_asks:
            changes += f", {SET_DUE}"
            due = self._due(context)
        elif not still_runs:
            removed.append(NOT_DUE)
        remove = f" REMOVE {', '.join(removed)}" if removed else ""
        return self._change(
            context,
            f"SET {changes}{remove}",
            f"{FENCE_IS_AS_READ} AND {line}",
            known=record.fence,
            next_line=record.line + 1,
            fence=fence,
            turns=items.turns_attribute(waiting),
            **values,
            **due,
        )

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, overdue: Overdue, due_at: int) -> Write:
        """Somebody wakes the context: let nobody else, for a while."""
        return self._change(
            overdue.context, "SET due_at = :again", DUE_AS_READ, read=due_at, again=self.claimed_until()
        )

    def claimed_until(self) -> int:
        """Return until when who takes it upon oneself to ring now is left alone with it."""
        return self.until() + int(self._lease_seconds * 1000) * (CLAIM_TERMS - 1)

    # ── The rest ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_deltas(self, task: TaskKey, batch: DeltaBatch) -> Write:
        """Chunks to be read while they are fresh."""
        attributes = {
            "v": items.number(items.VERSION),
            "chunks": items.chunks_attribute(batch.chunks),
            "expires": items.number(self._at(DELTA_LIFE)),
        }
        return put(self._table, keys.delta_key(task, items.place_of(batch)), attributes)

    def keeping(self) -> Item:
        """What every item has: the version of its shape, and until when it is kept."""
        return {"v": items.number(items.VERSION), "expires": items.number(self._at(self._retention))}

    def until(self) -> int:
        """Return when a lease that is taken now runs out."""
        return items.milliseconds(self._clock.now()) + int(self._lease_seconds * 1000)

    def _due(self, context: ContextKey) -> dict[str, object]:
        # What a bell was rung for now is overdue when the bell has had its time: as long as a lease.
        return {"shard": keys.due_shard(context), "due": self.until()}

    def _lease_values(self, lease: Lease) -> dict[str, object]:
        return {
            "fence": lease.fence,
            "holder": lease.holder,
            "until": self.until(),
            "turn": items.turn_attribute(lease.turn),
            "shard": keys.due_shard(lease.context),
        }

    def _change(self, context: ContextKey, expression: str, only_if: str | None, **values: object) -> Write:
        return update(self._table, keys.context_key(context), expression, only_if=only_if, **values)

    def _at(self, life: timedelta) -> int:
        return int((self._clock.now() + life).timestamp())


def _line_as_read(record: ContextRecord) -> tuple[str, dict[str, object]]:
    """Return the condition that nobody has joined or left the line since it was read, and its value."""
    return (LINE_IS_AS_READ, {"line": record.line}) if record.line else (LINE_IS_NEW, {})


def _states(*names: str) -> dict[str, object]:
    states = {
        "submitted": TaskState.TASK_STATE_SUBMITTED,
        "working": TaskState.TASK_STATE_WORKING,
        "input": TaskState.TASK_STATE_INPUT_REQUIRED,
        "auth": TaskState.TASK_STATE_AUTH_REQUIRED,
    }
    return {name: items.state_name(states[name]) for name in names}
