"""Task store over the table port.

Each method reads, lets `tasks.admission` or `tasks.transitions` decide, and makes one transaction. After a refusal or a
lost answer it reads and decides again. The requests of a turn (HEAD is a task's current state, DELTA streamed text):

    create   put MESSAGE, TASK/HEAD, TASK/EVENT#1, TASK/EVENT#2; CONTEXT: acquire the lease    all or nothing
    deltas   put DELTA for each batch of chunks                                                single writes
    append   put TASK/EVENT#3; update TASK/HEAD                                                all or nothing
    finish   put TASK/EVENT#4; update TASK/HEAD; CONTEXT: release the lease                    all or nothing
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.errors import StoreCorrupt
from aion_core.ports import (
    Blobs,
    Cipher,
    Clock,
    ContextInUse,
    ContextKey,
    Cursor,
    DeltaBatch,
    Duplicate,
    ExpiredTimer,
    FollowUp,
    Head,
    Interrupted,
    Lease,
    LeaseHeld,
    Log,
    NewTask,
    StoppedBy,
    TaskKey,
    Turn,
    TurnFinished,
    TurnQueued,
    TurnStarted,
    WhenBusy,
)
from aion_core.ports.table import Change, ConditionCheck, Delete, Key, Put, Table, Update, Write, WriteRefused
from aion_core.protocol.message_rules import input_not_required
from aion_core.protocol.types import Event, Task
from aion_core.stores import keys, timers
from aion_core.stores.items import Reads, readable
from aion_core.stores.push_configs import PushItems
from aion_core.stores.retries import TransactionPlan, commit
from aion_core.stores.task_log import TaskLog, context_update, head_item, listing_at, message_keys_of, message_row
from aion_core.stores.timers import TimerIndex
from aion_core.tasks import admission, contexts, lifecycle, transitions
from aion_core.tasks.admission import KnownMessage
from aion_core.tasks.broadcast import CommitNotifier
from aion_core.tasks.contexts import ContextRecord, Times, task_of
from aion_core.tasks.lifecycle import Transition
from aion_core.tasks.transitions import TurnEnding

BUSY = "The context changes faster than this can be stored in it. Try again in a moment."


class TableTaskStore:
    """`ports.TaskStore` in one table, with blobs for payloads that are too large for an item."""

    def __init__(
        self,
        table: Table,
        blobs: Blobs,
        clock: Clock,
        *,
        lease_seconds: float = 30.0,
        retention: timedelta = timedelta(days=30),
        cipher: Cipher | None = None,
        notifier: CommitNotifier | None = None,
    ) -> None:
        """Store each task for `retention` after its last message.

        The `cipher` encrypts the push configs sent with messages. Without a cipher, such a message raises
        ConfigurationError. The `notifier` wakes push delivery after each commit.
        """
        self._notifier = notifier or CommitNotifier()
        self._table = table
        self._times = partial(Times.read, clock, lease_seconds, retention)
        self._reads = Reads(table, clock)
        self._log = TaskLog(self._reads, blobs)
        self._push = PushItems(table, cipher, clock, lease_seconds=lease_seconds, retention=retention)
        self._timers = TimerIndex(table, clock, timers.CONTEXTS, lease_seconds=lease_seconds)

    # ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate | Interrupted:
        """See `ports.TaskStore.create`."""
        message_keys = message_keys_of(new.context, new.message_id, new.idempotency_key)

        async def plan(
            attempt: int,
        ) -> TransactionPlan[TurnStarted | TurnQueued | ContextInUse | Duplicate | Interrupted]:
            times = self._times()
            # Do not read a context whose contextId the server has just generated, because it has no item yet.
            is_new = new.context_is_new and not attempt
            record = ContextRecord() if is_new else await self._context(new.context, times)
            refusal = admission.refused(record, when_busy)
            answers_nothing = admission.answers_nothing(new, record)
            if attempt or refusal is not None or answers_nothing or admission.is_full(record):
                known = await self._known(message_keys)
                if known is not None and known.task_id == new.key.task_id:
                    return TransactionPlan(await self._created_before(new, holder))
                if known is not None:
                    return TransactionPlan(known.repeated(new.content_hash))
            if isinstance(refusal, Interrupted):
                return await self._without_ended_interrupt(new.context, record, times) or TransactionPlan(refusal)
            if answers_nothing:
                raise input_not_required()
            if refusal is not None:
                return TransactionPlan(refusal)
            if admission.is_full(record):
                raise admission.queue_is_full()
            created = admission.created(new, record, holder=holder, when_busy=when_busy, times=times)
            writes: list[Write] = [
                *(message_row(key, new.key.task_id, new.content_hash, times) for key in message_keys),
                Put(keys.head_key(new.key), {**head_item(created.outcome.head), **times.ttl}),
                *await self._writes(new.context, created, times),
            ]
            if new.push is not None:
                writes.append((await self._push.register(new.key, new.push, (), after=0, due=False)).write)
            return TransactionPlan(created.outcome, writes)

        outcome = await commit(self._table, plan, busy=BUSY)
        if isinstance(outcome, TurnStarted | TurnQueued):
            await self._notifier.committed(outcome.head)
        return outcome

    async def _created_before(self, new: NewTask, holder: str | None) -> TurnStarted | TurnQueued:
        record, head = await self._context(new.context, self._times()), await self._log.head(new.key)
        if not record.exists or head is None:
            raise StoreCorrupt("A task is missing just after its creation.")
        return admission.created_before(new, record, head, holder)

    async def _without_ended_interrupt(
        self, context: ContextKey, record: ContextRecord, times: Times
    ) -> TransactionPlan[Any] | None:
        """Return a plan that removes the context's interrupted task if it has expired or ended; None otherwise."""
        task = TaskKey(context.owner, record.interrupted or "")
        if not transitions.is_over(await self._log.head(task)):
            return None
        dropped = transitions.dropped(record, task.task_id, times)
        return TransactionPlan(None, await self._writes(context, dropped, times), again=True)

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        """See `ports.TaskStore.follow_up`."""
        before, context = follow_up.head, follow_up.head.context
        message_key, token = keys.message_key(context, follow_up.message_id), str(uuid7())

        async def plan(attempt: int) -> TransactionPlan[TurnStarted | TurnQueued | ContextInUse | Duplicate]:
            times = self._times()
            record = await self._context(context, times)
            takes = admission.takes_over(follow_up, record, when_busy)
            rejects = not takes and when_busy is WhenBusy.REJECT
            is_full = not takes and admission.is_full(record)
            if attempt or rejects or is_full or admission.another_runs(follow_up, record):
                # Read the record last, so that this call finds its own write even if an earlier attempt arrives late.
                head, known = await self._log.head(before.key), await self._known([message_key])
                if known is not None and known.task_id == before.key.task_id:
                    mine = await self._followed_before(follow_up, holder)
                    if mine is not None:
                        return TransactionPlan(mine)
                if known is not None:
                    return TransactionPlan(known.repeated(follow_up.content_hash))
                if admission.has_changed(before, head, takes=takes, subscribes=follow_up.push is not None):
                    raise admission.task_changed()
            if rejects:
                return TransactionPlan(ContextInUse(before.key.task_id))
            if is_full:
                raise admission.queue_is_full()
            message = message_row(message_key, before.key.task_id, follow_up.content_hash, times)
            writes: list[Write] = [message, *await self._config_writes(follow_up)]
            if not takes:
                waiting = admission.queued(follow_up, record, times)
                writes += await self._writes(context, waiting, times)
                writes.append(await self._log.queued_row(follow_up, times))
                if not waiting.heads:
                    writes.append(ConditionCheck(keys.head_key(before.key), lifecycle.IS_RUNNING))
                return TransactionPlan(waiting.outcome, writes)
            expires = await self._new_expiry(before.key, times)
            taken = admission.taken(follow_up, record, holder=holder, expires=expires, token=token, times=times)
            writes += await self._writes(context, taken, times)
            if expires is not None:
                writes += await self._prolong(follow_up, record, times)
            return TransactionPlan(taken.outcome, writes)

        outcome = await commit(self._table, plan, busy=BUSY)
        if isinstance(outcome, TurnStarted | TurnQueued):
            await self._notifier.committed(outcome.head)
        return outcome

    async def _followed_before(self, follow_up: FollowUp, holder: str | None) -> TurnStarted | TurnQueued | None:
        before = follow_up.head
        record, head = await self._context(before.context, self._times()), await self._log.head(before.key)
        return admission.followed_before(follow_up, record, head, holder) if head is not None else None

    async def _config_writes(self, follow_up: FollowUp) -> list[Write]:
        """Return the write of the push config that was sent with a message; empty without a push config."""
        if follow_up.push is None:
            return []
        key = follow_up.head.key
        # Register the webhook after the newest event, because the task may have new events since it was read.
        now = await self._log.head(key) or follow_up.head
        known = await self._push.known(key)
        return [(await self._push.register(key, follow_up.push, known, after=now.generation)).write]

    async def _new_expiry(self, key: TaskKey, times: Times) -> int | None:
        item = await self._reads.get(keys.head_key(key))
        return admission.new_expiry(item.get("expires"), times) if item is not None else None

    async def _prolong(self, follow_up: FollowUp, record: ContextRecord, times: Times) -> list[Write]:
        """Return the writes to extend the TTL of a task's items after a new message."""
        head, task = follow_up.head, follow_up.task
        # Write a snapshot, because older events of the task keep their TTL and expire before the task.
        writes: list[Write] = [await self._log.snapshot_row(head.key, head.generation, task, times)]
        longer = Change({"expires": times.expires})
        if task.history:
            writes.append(Update(keys.message_key(head.context, task.history[0].message_id), longer))
        waiting = [turn for turn in record.waiting if turn.task_id == head.key.task_id and not turn.message_generation]
        return writes + [Update(keys.queued_message_key(head.key, turn.id), longer) for turn in waiting]

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Duplicate | None:
        """See `ports.TaskStore.known`."""
        known = await self._known(message_keys_of(context, message_id, idempotency_key))
        return known.repeated(content_hash) if known is not None else None

    async def _known(self, message_keys: Sequence[Key]) -> KnownMessage | None:
        for key in message_keys:
            item = await self._reads.get(key)
            if item is not None:
                with readable("The record of a message"):
                    return KnownMessage(item["task_id"], item["content"])
        return None

    # ── A turn ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, context: ContextKey, *, holder: str) -> TurnStarted | LeaseHeld | None:
        """See `ports.TaskStore.begin`."""

        async def plan(attempt: int) -> TransactionPlan[TurnStarted | LeaseHeld | None]:
            times = self._times()
            record = await self._context(context, times)
            if attempt and record.running is not None and record.holder == holder:
                # Return the turn that an earlier attempt of this call began, because the table's response was lost.
                head = await self._log.head(task_of(context, record.running))
                if head is not None:
                    return TransactionPlan(TurnStarted(record.lease(context), head))
            turn = contexts.turn_to_begin(record, times.now)
            if turn is None and record.interrupted is not None and record.waiting:
                return await self._without_ended_interrupt(context, record, times) or TransactionPlan(None)
            if not isinstance(turn, Turn):
                return TransactionPlan(turn)
            head = await self._log.head(task_of(context, turn))
            if head is None or transitions.is_over(head):
                dropped = transitions.dropped(record, turn.task_id, times)
                return TransactionPlan(None, await self._writes(context, dropped, times), again=True)
            turn = transitions.taken_over(turn, record)
            queued = None if turn.message_generation else await self._log.queued(head.key, turn.id)
            begun = transitions.begun(context, turn, record, head, queued, holder=holder, times=times)
            return TransactionPlan(begun.outcome, await self._writes(context, begun, times))

        outcome = await commit(self._table, plan, busy=BUSY)
        if isinstance(outcome, TurnStarted):
            await self._notifier.begun(outcome)
        return outcome

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        try:
            self._table.write_blocking(Update(keys.context_key(lease.context), contexts.renewed(lease, self._times())))
        except WriteRefused as refused:
            return refused.is_conflict
        return True

    def holds(self, lease: Lease) -> bool:
        """See `ports.TaskStore.holds`."""
        item = self._table.get_blocking(keys.head_key(task_of(lease.context, lease.turn)))
        return item is not None and item.get("fence") == lease.fence

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        """See `ports.TaskStore.append`."""
        known = replace(head, fence=lease.fence)

        async def plan(attempt: int) -> TransactionPlan[Head]:
            nonlocal known
            appended = transitions.appended(lease, known, event, key=key)
            row = appended.events[0]
            if attempt:
                # Read the head first and then the event: an earlier attempt may still be written between the two reads.
                now = await self._log.head(known.key)
                if await self._log.holds(row.task, row.generation, row.token):
                    return TransactionPlan(appended.outcome)
                known = transitions.still_mine(known, now)
                appended = transitions.appended(lease, known, event, key=key)
            return TransactionPlan(appended.outcome, await self._writes(lease.context, appended, self._times()))

        after = await commit(self._table, plan, busy=BUSY)
        self._notifier.appended(after, event)
        return after

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, run_next: bool = False, snapshot: Task | None = None
    ) -> TurnFinished:
        """See `ports.TaskStore.finish`."""
        ending = TurnEnding(lease, replace(head, fence=lease.fence), event, run_next)

        async def plan(attempt: int) -> TransactionPlan[TurnFinished]:
            nonlocal ending
            times = self._times()
            if attempt or not ending.stops_task:
                record = await self._context(lease.context, times)
                if attempt:
                    now = await self._log.head(head.key)
                    if await self._log.holds(head.key, ending.after.generation, ending.token):
                        return TransactionPlan(await self._finished_before(ending))
                    ending = replace(ending, head=transitions.still_mine(ending.head, now))
                finished = await self._finished(ending, record, times)
            else:
                finished = transitions.finished_alone(ending)
            writes = await self._writes(lease.context, finished, times)
            if snapshot is not None:
                writes.append(await self._log.snapshot_row(head.key, ending.after.generation, snapshot, times))
            return TransactionPlan(finished.outcome, writes)

        finished = await commit(self._table, plan, busy=BUSY)
        await self._notifier.committed(finished.head)
        if finished.next is not None:
            await self._notifier.begun(finished.next)
        return finished

    async def _finished_before(self, ending: TurnEnding) -> TurnFinished:
        record = await self._context(ending.lease.context, self._times())
        next_head = await self._log.head(task_of(ending.lease.context, record.running)) if record.running else None
        return transitions.finished_before(ending, record, next_head)

    async def _finished(self, ending: TurnEnding, record: ContextRecord, times: Times) -> Transition[TurnFinished]:
        turn = transitions.next_turn(ending, record)
        if turn is None or ending.requires_input:
            return transitions.finished_alone(ending)
        task = task_of(ending.lease.context, turn)
        next_head, queued = None, None
        if ending.run_next:
            next_head = None if task == ending.head.key else await self._log.head(task)
            queued = None if turn.message_generation else await self._log.queued(task, turn.id)
        return transitions.finished(ending, record, turn, next_head, queued, times=times)

    async def pause(
        self, lease: Lease, *, made_progress: bool, stopped_by: StoppedBy | None = StoppedBy.DEADLINE
    ) -> None:
        """See `ports.TaskStore.pause`."""

        async def plan(attempt: int) -> TransactionPlan[None]:
            times = self._times()
            turn, change = transitions.suspended(lease, times, made_progress=made_progress, stopped_by=stopped_by)
            if attempt:
                record = await self._context(lease.context, times)
                if (record.fence, record.running, record.holder) == (lease.fence, turn, ""):
                    return TransactionPlan(None)  # An earlier attempt suspended the turn, but its response was lost.
                if (record.fence, record.holder) != (lease.fence, lease.holder):
                    raise transitions.lost()
            return TransactionPlan(None, [context_update(lease.context, change)])

        await commit(self._table, plan, busy=BUSY)
        await self._notifier.settle(task_of(lease.context, lease.turn))

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        await self._table.write(self._log.delta_row(key, batch, self._times()))

    async def cancel(self, head: Head, event: Event) -> TurnFinished:
        """See `ports.TaskStore.cancel`."""
        token = str(uuid7())

        async def plan(attempt: int) -> TransactionPlan[TurnFinished]:
            times = self._times()
            record = await self._context(head.context, times)
            canceled = transitions.canceled(head, event, record, token=token, times=times)
            if attempt:
                now = await self._log.head(head.key)
                if await self._log.holds(head.key, head.generation + 1, token):
                    record, now = await self._context(head.context, times), await self._log.head(head.key)
                    return TransactionPlan(transitions.canceled_before(head, now, event, record))
                if now != head:
                    raise admission.task_changed()
            return TransactionPlan(canceled.outcome, await self._writes(head.context, canceled, times))

        finished = await commit(self._table, plan, busy=BUSY)
        await self._notifier.committed(finished.head)
        return finished

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def head(self, key: TaskKey) -> Head | None:
        """See `ports.TaskStore.head`."""
        return await self._log.head(key)

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.log`."""
        return await self._log.log(key, after=after)

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.every_event`."""
        return await self._log.every_event(key, after=after)

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        return await self._log.deltas(key, since=since)

    async def expired_timers(self, *, limit: int, complete: bool = False) -> Sequence[ExpiredTimer]:
        """See `ports.TaskStore.expired_timers`."""
        found = await self._timers.expired(limit, complete=complete)
        return [ExpiredTimer(keys.context_of(key), at) for at, key in found[:limit]]

    async def claim(self, timer: ExpiredTimer) -> bool:
        """See `ports.TaskStore.claim`."""
        return await self._timers.claim(keys.context_key(timer.context))

    # ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _context(self, context: ContextKey, times: Times) -> ContextRecord:
        # Read an expired item too, because the next fence must be higher than the fence in this item.
        return contexts.record_of(await self._table.get(keys.context_key(context)), times.seconds)

    async def _writes(self, context: ContextKey, transition: Transition[Any], times: Times) -> list[Write]:
        """Return the table's writes for a transition of a context and its tasks."""
        writes: list[Write] = []
        if transition.context is not None:
            writes.append(context_update(context, transition.context))
        for move in transition.heads:
            change = move.change
            if "timestamp" in change.values:
                change = replace(change, values={**change.values, "listing_at": listing_at(move.after)})
            writes.append(Update(keys.head_key(move.after.key), change))
        writes += [await self._log.event_row(event, times) for event in transition.events]
        if transition.recorded_message is not None:
            writes.append(Delete(keys.queued_message_key(*transition.recorded_message)))
        return writes
