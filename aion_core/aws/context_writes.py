"""The writes of a context's time line, and the conditions under which each may be made. Pure.

A line a change; `line` counts the changes of who waits, `fence` those of who may write:

    take, take_again     a message comes, and nothing runs: it runs
    take_from            a message comes, and interrupts what runs: it runs
    wait, wait_first     a message comes: it waits; wait_anew where all that was there has expired
    renew                its holder lives
    release              its turn is over, and nothing waits; release_asking where it ended with a question
    pass_on              its turn is over, and the next one has the lease
    leave                its turn is over, and somebody else is to begin the next
    put_down             its turn is not over, but its holder's time is up
    take_next, take_over a bell was heard: the first that waits runs, or the one whose holder is gone
    strike               a task was canceled: its turns are gone
    claim                it is overdue, and somebody rings for it
"""

from aion_core.aws import items, keys
from aion_core.aws.terms import Terms
from aion_core.aws.writes import DUE_AS_READ, FIRST_TIME, Write, update
from aion_core.ports import MAX_WAITING, ContextKey, FollowUp, Lease, Overdue, Turn
from aion_core.tasks.contexts import ContextRecord

SET_LEASE = "fence = :fence, holder = :holder, #until = :until, running = :turn, due_shard = :shard, due_at = :until"
SET_DUE = "due_shard = :shard, due_at = :due"
NOT_DUE = "due_shard, due_at"
NOBODY_RUNS = "holder, #until, running"

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


class ContextWrites:
    """Makes the writes for one table."""

    def __init__(self, table: str, terms: Terms) -> None:
        self._table, self._terms = table, terms

    # ── Who runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, lease: Lease, record: ContextRecord | None) -> Write:
        """The context is free: run in it."""
        changes = f"SET {SET_LEASE}, expires = :expires, v = :v"
        values = {**self._lease_values(lease), "expires": self._terms.kept_until(), "v": items.VERSION}
        if record is None:
            return self._change(lease.context, changes, FIRST_TIME, **values)
        if record.expired:
            anew = f"{changes} REMOVE waiting, interrupted"
            now = self._terms.now()
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
            expires=self._terms.kept_until(),
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
            expires=self._terms.kept_until(),
            **self._lease_values(lease),
        )

    def renew(self, lease: Lease) -> Write:
        """The holder is alive: keep its lease for another term."""
        until = self._terms.lease_until()
        return self._change(
            lease.context,
            "SET #until = :until, due_at = :until, expires = :expires",
            LEASE_IS_MINE,
            fence=lease.fence,
            holder=lease.holder,
            until=until,
            expires=self._terms.kept_until(),
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
            expires=self._terms.kept_until(),
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
            now=self._terms.now(),
            turns=items.turns_attribute([turn]),
            next_line=record.line + 1,
            expires=self._terms.kept_until(),
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
            expires=self._terms.kept_until(),
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
            expires=self._terms.kept_until(),
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
            overdue.context, "SET due_at = :again", DUE_AS_READ, read=due_at, again=self._terms.claimed_until()
        )

    # ── The rest ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _due(self, context: ContextKey) -> dict[str, object]:
        # What a bell was rung for now is overdue when the bell has had its time: as long as a lease.
        return {"shard": keys.due_shard(context), "due": self._terms.lease_until()}

    def _lease_values(self, lease: Lease) -> dict[str, object]:
        return {
            "fence": lease.fence,
            "holder": lease.holder,
            "until": self._terms.lease_until(),
            "turn": items.turn_attribute(lease.turn),
            "shard": keys.due_shard(lease.context),
        }

    def _change(self, context: ContextKey, expression: str, only_if: str | None, **values: object) -> Write:
        return update(self._table, keys.context_key(context), expression, only_if=only_if, **values)


def _line_as_read(record: ContextRecord) -> tuple[str, dict[str, object]]:
    """Return the condition that nobody has joined or left the line since it was read, and its value."""
    return (LINE_IS_AS_READ, {"line": record.line}) if record.line else (LINE_IS_NEW, {})
