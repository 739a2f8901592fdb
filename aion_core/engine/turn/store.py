"""Store of turns: a context has at most one running turn, under a lease whose fence every write checks."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.engine.context import changes
from aion_core.engine.context.changes import context_update, dropped
from aion_core.engine.context.record import ContextRecord, record_of, task_of, turn_to_begin
from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.engine.outcomes import LeaseHeld, TurnFinished, TurnStarted, TurnSuspended
from aion_core.engine.records import AwaitedCall, Head, Lease, StoppedBy, Turn
from aion_core.engine.remote_calls.callbacks import expected_still
from aion_core.engine.stored_tasks import BUSY, StoredTasks
from aion_core.engine.task import projection
from aion_core.engine.task.head import is_over
from aion_core.engine.task.transition import Transition
from aion_core.engine.timers import Claimed, Expired, ExpiredTimer
from aion_core.engine.turn import end, progress, start
from aion_core.engine.turn.end import TurnEnding
from aion_core.engine.turn.progress import task_changed
from aion_core.engine.turn.wait import new_wait, next_look, next_look_at_calls
from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import Event, Task
from aion_core.table import keys
from aion_core.table.item import Item, readable
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.refusals import WriteRefused
from aion_core.table.retries import MAX_ATTEMPTS, TransactionPlan, commit, write_unless_refused
from aion_core.table.times import Times, milliseconds, moment
from aion_core.table.writes import Put, Update


class TurnStore(StoredTasks):
    """Store of turns: at most one runs per context, under a lease (right to run it).

    A lease and a queued turn have a timer (time of a wake-up) of their own kind. After this time, `dead_leases` or
    `overdue_waits` finds the timer.
    """

    async def begin(
        self, context: ContextKey, *, holder: str, ended_wait: int = 0
    ) -> TurnStarted | LeaseHeld | TurnSuspended | None:
        """Lease the context's running turn if its lease has expired, else the first queued turn.

        Return LeaseHeld while another lease is in force, and TurnSuspended while the turn waits; `ended_wait` is the
        fence of a suspended turn whose wait is over before its time. Return None if the queue is empty, or while a task
        of the context requires input. The fence and `turn.tries` grow by one. If the previous holder died after it had stored
        a step, `turn.tries` is 2, because that holder tried the next step once. A message that was queued for its
        running task is recorded in the same transaction, as event `turn.message_generation`.
        """
        until = self._lease_end()

        async def plan(attempt: int) -> TransactionPlan[TurnStarted | LeaseHeld | TurnSuspended | None]:
            times = self._times()
            record = await self._context(context, times)
            if attempt and record.running is not None and record.holder == holder:
                # Return the turn that an earlier attempt of this call began, because the table's response was lost.
                head = await self._log.head(task_of(context, record.running))
                if head is not None:
                    return TransactionPlan(TurnStarted(record.lease(context), head))
            turn = turn_to_begin(record, times.now, ended_wait=ended_wait)
            if turn is None and record.interrupted is not None and record.waiting:
                return await self._without_ended_interrupt(context, record, times) or TransactionPlan(None)
            if not isinstance(turn, Turn):
                return TransactionPlan(turn)
            head = await self._log.head(task_of(context, turn))
            if head is None or is_over(head):
                removal = dropped(record, turn.task_id, times)
                return TransactionPlan(None, await self._writes(context, removal, times), again=True)
            turn = start.taken_over(turn, record)
            queued = None if turn.message_generation else await self._log.queued(head.key, turn.id)
            begun = start.begun(context, turn, record, head, queued, holder=holder, times=times)
            return TransactionPlan(begun.outcome, await self._writes(context, begun, times))

        outcome = await commit(self._table, plan, busy=BUSY)
        if isinstance(outcome, TurnStarted):
            await self._notifier.begun(outcome)
            return replace(outcome, until=until)
        return outcome

    def renew(self, lease: Lease) -> bool:
        """Extend the lease for another term. Return False if another holder has the context's lease.

        The call blocks, for use in a separate thread: an agent may block the event loop. Raises StoreUnavailable if it
        conflicts with transactions at each attempt: one of them may have taken the lease.
        """
        for _ in range(MAX_ATTEMPTS):
            try:
                renewed = changes.renewed(lease, self._times())
                self._table.write_blocking(Update(keys.context_key(lease.context), renewed))
            except WriteRefused as refused:
                if not refused.is_conflict:
                    return False
            else:
                return True
        raise StoreUnavailable(BUSY)

    def holds(self, lease: Lease) -> bool:
        """Return True while the lease is valid: no other holder has taken it, and the task is not canceled. Blocks."""
        item = self._table.get_blocking(keys.head_key(task_of(lease.context, lease.turn)))
        return item is not None and item.get("fence") == lease.fence

    async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
        """Record a turn's events from number `head.generation + 1` of its task on, and return the task's new head.

        All of them, at most MOST_TOGETHER, are recorded in one transaction, or none. The cost does not depend on the
        log's length. `keys` are stored with the events. A repeat after a lost response finds the recorded events. If the
        fence has changed or another process has ended the task, nothing is recorded and LeaseLost is raised.
        """
        keys = keys or ("",) * len(events)
        known = replace(head, fence=lease.fence)

        async def plan(attempt: int) -> TransactionPlan[Head]:
            nonlocal known
            appended = progress.appended(lease, known, events, keys)
            row = appended.events[0]
            if attempt:
                # Read the head first and then an event: an earlier attempt may still be written between the two reads.
                now = await self._log.head(known.key)
                if await self._log.holds(row.task, row.generation, row.token):
                    return TransactionPlan(appended.outcome)
                known = progress.still_mine(known, now)
                appended = progress.appended(lease, known, events, keys)
            return TransactionPlan(appended.outcome, await self._writes(lease.context, appended, self._times()))

        after = await commit(self._table, plan, busy=BUSY)
        self._notifier.appended(after, events)
        return after

    async def finish(
        self,
        lease: Lease,
        head: Head,
        event: Event,
        *,
        has_time: Callable[[], bool] = lambda: False,
        snapshot: Task | None = None,
    ) -> TurnFinished:
        """Record the turn's last event and release the lease atomically. If the process `has_time`, lease the next turn.

        The next turn begins as by `begin`, with the same holder. `has_time` is asked just before the transaction. If the
        event interrupts the task, no turn begins before the client's answer. `snapshot` is the task after this event;
        readers of the log begin with it. If a message is queued for the task that the event would end, nothing is
        recorded and PendingInput is raised. Raises LeaseLost as `append` does.
        """
        ending, until = TurnEnding(lease, replace(head, fence=lease.fence), event), self._lease_end()

        async def plan(attempt: int) -> TransactionPlan[TurnFinished]:
            nonlocal ending
            ending, planned = await self._planned_end(ending, snapshot, attempt=attempt, run_next=has_time())
            if planned.outcome.next is not None and not has_time():
                # The process was slow or frozen while it read, so another process has to run the next turn.
                ending, planned = await self._planned_end(ending, snapshot, attempt=attempt, run_next=False)
            return planned

        finished = await commit(self._table, plan, busy=BUSY)
        await self._notifier.committed(finished.head)
        if finished.next is not None:
            await self._notifier.begun(finished.next)
            return replace(finished, next=replace(finished.next, until=until))
        return finished

    async def _planned_end(
        self, ending: TurnEnding, snapshot: Task | None, *, attempt: int, run_next: bool
    ) -> tuple[TurnEnding, TransactionPlan[TurnFinished]]:
        """Return the ending as the store knows it now, and its transaction. Raises LeaseLost and PendingInput."""
        times, key = self._times(), ending.head.key
        if attempt or not ending.stops_task:
            record = await self._context(ending.lease.context, times)
            if attempt:
                now = await self._log.head(key)
                if await self._log.holds(key, ending.after.generation, ending.token):
                    return ending, TransactionPlan(await self._finished_before(ending))
                ending = replace(ending, head=progress.still_mine(ending.head, now))
            finished = await self._finished(ending, record, times, run_next=run_next)
        else:
            finished = end.finished_alone(ending)
        writes = await self._writes(ending.lease.context, finished, times)
        if snapshot is not None:
            writes.append(await self._rows.snapshot_row(key, ending.after.generation, snapshot, times))
        return ending, TransactionPlan(finished.outcome, writes)

    async def _finished_before(self, ending: TurnEnding) -> TurnFinished:
        record = await self._context(ending.lease.context, self._times())
        next_head = await self._log.head(task_of(ending.lease.context, record.running)) if record.running else None
        return end.finished_before(ending, record, next_head)

    async def _finished(
        self, ending: TurnEnding, record: ContextRecord, times: Times, *, run_next: bool
    ) -> Transition[TurnFinished]:
        turn = end.next_turn(ending, record)
        if turn is None or ending.requires_input:
            return end.finished_alone(ending)
        task = task_of(ending.lease.context, turn)
        next_head, queued = None, None
        if run_next:
            next_head = None if task == ending.head.key else await self._log.head(task)
            queued = None if turn.message_generation else await self._log.queued(task, turn.id)
        return end.finished(ending, record, turn, next_head, queued, times=times, run_next=run_next)

    async def pause(
        self, lease: Lease, *, made_progress: bool, stopped_by: StoppedBy | None = StoppedBy.DEADLINE
    ) -> None:
        """Suspend the turn so that another process can lease it. Its timer expires after one lease term.

        With `made_progress` the suspension counts as a handoff and resets the tries. Otherwise, if `stopped_by` is
        None, the agent never ran, and the try does not count. Raises LeaseLost.
        """

        async def plan(attempt: int) -> TransactionPlan[None]:
            times = self._times()
            turn, change = progress.suspended(lease, times, made_progress=made_progress, stopped_by=stopped_by)
            if attempt:
                record = await self._context(lease.context, times)
                if (record.fence, record.running, record.holder) == (lease.fence, turn, ""):
                    return TransactionPlan(None)  # An earlier attempt suspended the turn, but its response was lost.
                if (record.fence, record.holder) != (lease.fence, lease.holder):
                    raise progress.lost()
            return TransactionPlan(None, [context_update(lease.context, change)])

        await commit(self._table, plan, busy=BUSY)
        await self._notifier.settle(task_of(lease.context, lease.turn))

    async def suspend(
        self,
        lease: Lease,
        head: Head,
        event: Event | None,
        *,
        key: str,
        until: datetime | None = None,
        calls: Sequence[AwaitedCall] = (),
        event_key: str = "",
    ) -> tuple[Head, TurnSuspended]:
        """Record that the turn waits, and release its lease atomically. Return the task's head and the suspended turn.

        See `Suspended` for `key`, `until` and `calls`. `event` says what the turn waits for; it is None if an earlier try
        has recorded it with `event_key`. The caller enqueues the wake-up message of the first look. Raises LeaseLost as
        `append` does, and AgentFailed if the task would expire first.
        """
        known = replace(head, fence=lease.fence)

        async def plan(attempt: int) -> TransactionPlan[tuple[Head, TurnSuspended]]:
            nonlocal known
            times, item = self._times(), await self._table.get(keys.head_key(head.key))
            if item is None:
                raise progress.lost()
            expected = calls if not attempt else await self.remote_calls.still_expected(head.key, calls)
            wait = new_wait(lease.turn, key, until, expected, now=times.now, expires=item["expires"])
            if attempt:
                # Read the head before the context: an earlier attempt may still be written between the two reads.
                now, record = await self._log.head(head.key), await self._context(lease.context, times)
                if record.wait is not None and record.wait.key == key and record.fence == lease.fence + 1:
                    # An earlier attempt suspended the turn, but its response was lost.
                    now, turn = await self._log.head(head.key), record.running or lease.turn
                    return TransactionPlan((now or known, TurnSuspended(turn, record.fence, moment(record.until))))
                if (record.fence, record.holder) != (lease.fence, lease.holder):
                    raise progress.lost()
                known = progress.still_mine(known, now)
            put, suspended = progress.put_to_wait(lease, known, event, wait, key=event_key, times=times)
            writes = await self._writes(lease.context, put, times)
            return TransactionPlan((put.outcome, suspended), [*writes, *expected_still(head.key, expected)])

        after, suspended = await commit(self._table, plan, busy=BUSY)
        if event is not None:
            await self._notifier.committed(after)
        else:
            await self._notifier.settle(after.key)
        return after, suspended

    async def sleep_until(self, lease: Lease, key: str, until: datetime) -> datetime:
        """Store the time at which a sleep of the turn ends, and return it; return the first time if the key is known.

        Code that runs again after its sleep would otherwise compute another time. Raises LeaseLost.
        """
        task = task_of(lease.context, lease.turn)
        place = keys.sleep_key(task, key)
        known = await self._reads.get(place)
        if known is None:
            item: Item = {**self._times().stamp(task.owner), "until": milliseconds(until)}
            await FencedWrites(self._table, Fence(lease.context, lease.fence)).commit(Put(place, item))
            return moment(milliseconds(until))
        with readable("A sleep of an agent"):
            return moment(known["until"])

    async def look(self, context: ContextKey, suspended: TurnSuspended, *, look_at: int) -> bool:
        """Move the next look at a suspended turn to `look_at`, in milliseconds. Return False if the turn has changed."""
        change = changes.looked(milliseconds(suspended.look_at), look_at, self._times())
        return await write_unless_refused(lambda: self._table.write(context_update(context, change)))

    async def look_at_calls(self, context: ContextKey, *, look: int, since: int) -> TurnSuspended | None:
        """Move the look of this time, at a turn that has awaited remote agents since then, to the next time.

        Return the suspended turn with its next look. Return None if the turn has changed, or its look was moved before:
        the message of this look is repeated. It is one request, because such looks come often.
        """
        found: Item | None = None
        times = self._times()
        update = context_update(context, changes.looked(look, next_look_at_calls(since, times.now), times))

        async def move() -> None:
            nonlocal found
            found = await self._table.write(update, returning=True)

        if not await write_unless_refused(move) or found is None:
            return None
        record = record_of(found, times.seconds)
        if record.running is None or record.wait is None:
            return None
        return TurnSuspended(record.running, record.fence, moment(record.until))

    def next_look(self, suspended: TurnSuspended) -> int:
        """Return the time of the look after the present one, in milliseconds."""
        return next_look(suspended.wait, self._times().now)

    async def cancel(self, head: Head, event: Event) -> TurnFinished:
        """Record the cancellation of the task, and remove its running and queued turns.

        The same transaction sets a timer for each remote task that the task waits for, so that it is canceled too.
        The fence grows, so that later events of these turns are refused. Raises LeaseLost if the task has changed since
        `head` was read: read it again.
        """
        token = str(uuid7())

        async def plan(attempt: int) -> TransactionPlan[TurnFinished]:
            times = self._times()
            record = await self._context(head.context, times)
            canceled = end.canceled(head, event, record, token=token, times=times)
            timers = await self.remote_calls.cancellations(head)
            if attempt:
                now = await self._log.head(head.key)
                if await self._log.holds(head.key, head.generation + 1, token):
                    record, now = await self._context(head.context, times), await self._log.head(head.key)
                    return TransactionPlan(end.canceled_before(head, now, event, record))
                if now != head:
                    raise task_changed()
            return TransactionPlan(canceled.outcome, [*await self._writes(head.context, canceled, times), *timers])

        finished = await commit(self._table, plan, busy=BUSY)
        await self._notifier.committed(finished.head)
        return finished

    async def note_unreached(self, context: ContextKey, task: TaskKey, remote: str) -> None:
        """Note in an ended task's metadata, under UNREACHED, that this remote agent was not told of the cancellation."""

        async def plan(attempt: int) -> TransactionPlan[None]:
            log = await self.log(task)
            if log is None or not is_over(log.head):
                return TransactionPlan(None)  # only a turn of the task was canceled
            noted = end.unreached(log.head, projection.fold(log.events), remote)
            return TransactionPlan(None, await self._writes(context, noted, self._times()) if noted else ())

        await commit(self._table, plan, busy=BUSY)

    async def dead_leases(self, *, limit: int, complete: bool = False) -> Sequence[ExpiredTimer]:
        """Return up to `limit` contexts whose running turn's lease has expired, longest overdue first.

        The index may be outdated. If parts of it cannot be read, they are logged and left out; with `complete`, raises
        StoreError.
        """
        return self._found(await self._leases.expired(limit, complete=complete), limit)

    async def overdue_waits(self, *, limit: int, complete: bool = False) -> Sequence[ExpiredTimer]:
        """Return up to `limit` contexts whose turns have waited for more than a lease's term, the longest first.

        The message of such a context may still be in the queue. See `dead_leases` for the rest.
        """
        return self._found(await self._waits.expired(limit, complete=complete), limit)

    async def count_waits(self) -> int:
        """Return the number of contexts whose turns only wait, overdue or not. The index may be outdated."""
        return await self._waits.count()

    async def expired_timers(self, *, limit: int, complete: bool = False) -> Sequence[ExpiredTimer]:
        """Return up to `limit` contexts of `dead_leases` and `overdue_waits`, longest overdue first."""
        leases = await self.dead_leases(limit=limit, complete=complete)
        waits = await self.overdue_waits(limit=limit, complete=complete)
        return sorted((*leases, *waits), key=lambda timer: timer.at)[:limit]

    def _found(self, expired: Sequence[Expired], limit: int) -> list[ExpiredTimer]:
        now = moment(self._times().now)
        return [ExpiredTimer(keys.context_of(key), at, (now - at).total_seconds()) for at, key in expired[:limit]]

    async def claim(self, timer: ExpiredTimer) -> Claimed:
        """Claim the timer to wake its context. Return NOT if it is no longer expired or another process claimed it.

        The claim sets the timer again, in case the wake-up message is lost.
        """
        item = await self._leases.claimed(keys.context_key(timer.context))
        if item is None:
            return Claimed.NOT
        return Claimed.LOOK if record_of(item, self._times().seconds).wait is not None else Claimed.WORK
