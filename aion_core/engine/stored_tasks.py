"""Stored tasks: their heads, event logs and streamed text. The stores of messages and of turns build on it.

Each method of a store reads, lets the pure rules decide, and makes one transaction. After a refusal or a lost answer it
reads and decides again. The requests of a turn (HEAD is a task's current state, DELTA streamed text):

    create   put MESSAGE, TASK/HEAD, TASK/EVENT#1, TASK/EVENT#2; CONTEXT: acquire the lease    all or nothing
    deltas   put DELTA for each batch of chunks                                                single writes
    append   put TASK/EVENT#3 and further events that wait; update TASK/HEAD                   all or nothing
    finish   put TASK/EVENT#4; update TASK/HEAD; CONTEXT: release the lease                    all or nothing
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.engine import timers
from aion_core.engine.context.changes import context_update, dropped
from aion_core.engine.context.record import ContextRecord, record_of
from aion_core.engine.delivery.items import PushItems
from aion_core.engine.records import Cursor, DeltaBatch, Head, Log
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.engine.task.delta_rows import delta_row
from aion_core.engine.task.head import is_over, listing_at
from aion_core.engine.task.log import TaskLog
from aion_core.engine.task.transition import Transition
from aion_core.engine.timers import TimerIndex
from aion_core.engine.wake_ups import CommitNotifier
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.cipher import Cipher
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.retries import TransactionPlan
from aion_core.table.times import Times, moment
from aion_core.table.writes import Delete, Update, Write

BUSY = "The context changes faster than this can be stored in it. Try again in a moment."
"""Error of a store method after too many conflicts."""


class StoredTasks:
    """Tasks in one table: a head, an event log and streamed text each. Any process may read them.

    Every method may raise StoreUnavailable; the caller may repeat the call.
    """

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
        self._rows = self._log.rows
        self.remote_calls = RemoteCallStore(table, self._rows, clock, lease_seconds=lease_seconds, retention=retention)
        """The calls of remote agents by the tasks' turns."""
        self._push = PushItems(table, cipher, clock, lease_seconds=lease_seconds, retention=retention)
        self._leases = TimerIndex(table, clock, timers.LEASES, lease_seconds=lease_seconds)
        self._waits = TimerIndex(table, clock, timers.WAITS, lease_seconds=lease_seconds)

    async def head(self, key: TaskKey) -> Head | None:
        """Return the task's head (state and event number); None if the task does not exist. The read is consistent."""
        return await self._log.head(key)

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the task's head and its events after number `after`; None if the task does not exist.

        The read is consistent: the events reach the head's event number without a gap. The first entry may be a
        snapshot, a Task with the number of its last event: at the start of the log, or in place of expired events.
        Return None also for a log with a gap and no snapshot.
        """
        return await self._log.log(key, after=after)

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the task's log as `log` does, but with events instead of a snapshot if all events are stored."""
        return await self._log.every_event(key, after=after)

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """Return the task's chunk batches from the cursor on, sorted by generation, fence and first number."""
        return await self._log.deltas(key, since=since)

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """Store a batch of text chunks for readers in other processes. It expires within the hour."""
        await self._table.write(delta_row(key, batch, self._times()))

    def _lease_end(self) -> datetime:
        """Return the end of a lease that is acquired now. Call it before the request, which may take long."""
        return moment(self._times().lease_until)

    async def _context(self, context: ContextKey, times: Times) -> ContextRecord:
        # Read an expired item too, because the next fence must be higher than the fence in this item.
        return record_of(await self._table.get(keys.context_key(context)), times.seconds)

    async def _without_ended_interrupt(
        self, context: ContextKey, record: ContextRecord, times: Times
    ) -> TransactionPlan[Any] | None:
        """Return a plan that removes the context's interrupted task if it has expired or ended; None otherwise."""
        task = TaskKey(context.owner, record.interrupted or "")
        if not is_over(await self._log.head(task)):
            return None
        removal = dropped(record, task.task_id, times)
        return TransactionPlan(None, await self._writes(context, removal, times), again=True)

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
        writes += [await self._rows.event_row(event, times) for event in transition.events]
        if transition.recorded_message is not None:
            writes.append(Delete(keys.queued_message_key(*transition.recorded_message)))
        return writes
