"""The task log on DynamoDB, with the promises of `ports.TaskStore`; payloads too large for a row lie in S3.

A turn's time line, a line a request:

    create   put MESSAGE, TASK/HEAD, TASK/EVENT#1, TASK/EVENT#2; take the CONTEXT's lease    all or nothing
    deltas   put DELTA, as often as a batch of chunks is ready                                plain puts
    append   put TASK/EVENT#3; move TASK/HEAD on                                              all or nothing
    finish   put TASK/EVENT#4; move TASK/HEAD on; give the CONTEXT's lease back               all or nothing
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import Any
from uuid import uuid4

from aion_core.aws import items, keys
from aion_core.aws.client import Calls, Refused, let_others_write
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.task_writes import (
    HEAD_IS_AS_I_KNOW_IT,
    MAY_WAIT,
    MAY_WAIT_ALONE,
    MAY_WAIT_BEHIND_OTHERS,
    ONE_MORE_MAY_WAIT,
    TASK_HAS_NOT_GONE_ON,
    TaskWrites,
)
from aion_core.aws.writes import Write, put
from aion_core.errors import LeaseLost, MoreAsked, StoreCorrupt, StoreUnavailable
from aion_core.ports import (
    MAX_WAITING,
    Begun,
    Blobs,
    Busy,
    Clock,
    ContextKey,
    Cursor,
    DeltaBatch,
    Ended,
    FollowUp,
    Head,
    Held,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Numbered,
    Overdue,
    Repeated,
    TaskKey,
    Turn,
    Waiting,
    WhenBusy,
)
from aion_core.protocol.types import Event, Message, Task
from aion_core.tasks import ingress, lifecycle
from aion_core.tasks.contexts import ContextRecord, moment, turn_to_begin

LARGE_BYTES = 32 * 1024
"""From here on a payload lies in S3, which is cheaper than the write units of a row."""

TRIES = 8
"""How often a write is tried against others that are under way on the same item."""

TRIES_UNHEARD = 3
"""How often a write is tried whose answer does not come; boto3 tries each of them twice."""

FIRST_PAGE, LARGEST_PAGE = 120, 1000
"""How many rows of a log a query reads, newest first: a snapshot is not far."""

KEEP_LONGER = timedelta(days=1)
"""By how much a task's life has to grow for a follow-up to move its end: each move costs a snapshot."""


class DynamoDBTaskStore:
    """`ports.TaskStore` in one table."""

    def __init__(
        self,
        dynamodb: Calls,
        blobs: Blobs,
        clock: Clock,
        *,
        table: str,
        lease_seconds: float = 30.0,
        retention: timedelta = timedelta(days=30),
    ) -> None:
        """Tasks, and all that belongs to them, are kept for `retention` after their last message."""
        self._dynamodb, self._blobs, self._clock, self._table = dynamodb, blobs, clock, table
        self._reads = Table(dynamodb, clock, name=table)
        self._writes = TaskWrites(table, clock, lease_seconds=lease_seconds, retention=retention)
        self._retention = retention

    # ── What comes in ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        events = [
            await self._put_event(new.key, generation, event, request=new.request if generation == 1 else None)
            for generation, event in enumerate(new.events, start=1)
        ]
        messages = [self._writes.put_message(key, new.key.task_id, new.content_hash) for key in _message_keys(new)]
        for attempt in range(TRIES):
            # A contextId that we made is known to be free: nothing is read.
            context = None if new.context_is_new and not attempt else await self._context(new.context)
            record = context or ContextRecord()
            if record.interrupted is not None:
                return await self._known_of(new, holder) or Interrupted(record.interrupted)
            if record.busy and when_busy is not WhenBusy.ENQUEUE:
                return await self._known_of(new, holder) or Busy(record.at_work)
            head = ingress.first_head(new)
            begun: Begun | None = None
            if holder is not None and not record.busy:
                lease = Lease(new.context, replace(new.turn, tries=1), holder, record.fence + 1)
                head = replace(head, fence=lease.fence)
                begun = Begun(lease, head)
                change = self._writes.take(lease, context)
            elif record.expired:
                change = self._writes.wait_anew(new.context, new.turn, record)
            elif holder is not None:
                # What runs, or is to, will come to this turn: its holder need not.
                change = self._writes.wait(new.context, new.turn, MAY_WAIT_BEHIND_OTHERS)
            elif when_busy is WhenBusy.ENQUEUE:
                change = self._writes.wait(new.context, new.turn, MAY_WAIT)
            else:
                change = self._writes.wait(new.context, new.turn, MAY_WAIT_ALONE)
            try:
                await self._transact(*messages, change, self._writes.put_head(head), *events)
            except Refused as refused:
                known = await self._known_of(new, holder)
                if known is not None:
                    return known
                if len(record.waiting) >= MAX_WAITING and not refused.conflict:
                    raise ingress.too_many_wait() from None
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return begun or Waiting(head, record.held_until())
        raise StoreUnavailable("The context changes faster than a task can be added to it.")

    async def _known_of(self, new: NewTask, holder: str | None) -> Begun | Waiting | Repeated | None:
        """Return what is known of the message, by any of its keys; None where nothing is."""
        for key in _message_keys(new):
            known = await self._reads.get(key)
            if known is not None and known["task_id"]["S"] == new.key.task_id:
                return await self._created_before(new, holder)
            if known is not None:
                return ingress.repeat_of(new.content_hash, known["task_id"]["S"], known["content"]["B"])
        return None

    async def _created_before(self, new: NewTask, holder: str | None) -> Begun | Waiting:
        """Return what an earlier try of this very call has done, whose answer was lost."""
        context = await self._context(new.context)
        head = await self.head(new.key)
        if context is None or head is None:
            raise StoreCorrupt("A task that was just made is gone.")
        if context.running is not None and context.running.id == new.turn.id and context.holder == holder:
            return Begun(Lease(new.context, context.running, context.holder, context.fence), head)
        return Waiting(head, context.held_until())

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated:
        """See `ports.TaskStore.follow_up`."""
        before, context_key = follow_up.head, follow_up.head.context
        token = str(uuid4())
        message_key = keys.message_key(context_key, follow_up.message_id)
        message = self._writes.put_message(message_key, before.key.task_id, follow_up.content_hash)
        for attempt in range(TRIES):
            record = await self._context(context_key) or ContextRecord()
            takes = before.state in lifecycle.INTERRUPTED or (
                when_busy is WhenBusy.INTERRUPT and record.runs(before.key.task_id)
            )
            another_runs = record.running is not None and record.running.id != follow_up.turn.id
            if before.state in lifecycle.INTERRUPTED and another_runs:
                # The very same answer may be what runs, sent twice.
                again = await self.known(context_key, follow_up.message_id, follow_up.content_hash)
                if again is None:
                    raise ingress.another_runs()
                return again
            if not takes and when_busy is WhenBusy.REJECT:
                again = await self.known(context_key, follow_up.message_id, follow_up.content_hash)
                if again is None and _has_gone_on(before, await self.head(before.key), takes=False):
                    raise ingress.no_longer_asked()
                return again or Busy(before.key.task_id)
            try:
                if takes:
                    taken = await self._taken(follow_up, record, holder, token)
                    await self._transact(message, *taken.writes, token=token if not attempt else None)
                    return taken.outcome
                await self._transact(
                    message,
                    await self._put_asked(follow_up),
                    self._queued(context_key, replace(follow_up.turn, asked=0), record),
                    self._writes.check_at_work(before.key),
                )
            except Refused as refused:
                known = await self._reads.get(message_key)
                if known is not None and known["task_id"]["S"] == before.key.task_id:
                    mine = await self._followed_before(follow_up, holder)
                    if mine is not None:
                        return mine
                if known is not None:
                    return ingress.repeat_of(follow_up.content_hash, known["task_id"]["S"], known["content"]["B"])
                head = await self.head(before.key)
                if not refused.conflict and _has_gone_on(before, head, takes=takes):
                    raise ingress.no_longer_asked() from None
                if len(record.waiting) >= MAX_WAITING and not takes and not refused.conflict:
                    raise ingress.too_many_wait() from None
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return Waiting(before, record.held_until())
        raise StoreUnavailable("The context changes faster than a message can be added to it.")

    def _queued(self, context: ContextKey, turn: Turn, record: ContextRecord) -> Write:
        """Return the write by which a turn of a task at work waits; behind a question it is due when that is answered."""
        if record.interrupted is not None:
            # Should it be answered meanwhile: whoever takes the question away makes due what waits.
            return self._writes.wait(context, turn, ONE_MORE_MAY_WAIT, due=False)
        return self._writes.wait(context, turn, MAY_WAIT)

    async def _taken(self, follow_up: FollowUp, record: ContextRecord, holder: str | None, token: str) -> "_Taken":
        """Return the writes by which the task takes the message in at once, and what has happened when they are made."""
        before = follow_up.head
        asks = before.state in lifecycle.INTERRUPTED
        after = replace(lifecycle.advance(before, follow_up.event), fence=record.fence + 1)
        keep = self._keeps_longer(await self._reads.get(keys.head_key(before.key)))
        writes = [
            self._writes.move_head(before, after, TASK_HAS_NOT_GONE_ON, keep=keep),
            await self._put_event(
                before.key,
                after.generation,
                follow_up.event,
                token=token,
                asked=follow_up.asked,
                request=follow_up.request,
            ),
        ]
        if keep:
            # The older events will expire before the task does: what they add up to is kept beside the new ones.
            writes.append(await self._put_snapshot(before.key, before.generation, follow_up.task))
            first = next(iter(follow_up.task.history), None)
            if first is not None:
                writes.append(self._writes.keep_message(keys.message_key(before.context, first.message_id)))
            writes += [
                self._writes.keep_asked(before.key, turn.id)
                for turn in record.waiting
                if turn.task_id == before.key.task_id and not turn.asked
            ]
        if holder is None:
            writes.append(self._writes.wait_first(follow_up, record, after.fence, asks=asks))
            return _Taken(writes, Waiting(after))
        lease = Lease(before.context, replace(follow_up.turn, tries=1), holder, after.fence)
        take = self._writes.take_again if asks else self._writes.take_from
        writes.append(take(lease, record))
        return _Taken(writes, Begun(lease, after))

    async def _followed_before(self, follow_up: FollowUp, holder: str | None) -> Begun | Waiting | None:
        """Return what an earlier try of this very call has done, whose answer was lost; None where it was another's."""
        record = await self._context(follow_up.head.context) or ContextRecord()
        head = await self.head(follow_up.head.key)
        if head is None:
            return None
        if record.running is not None and record.running.id == follow_up.turn.id and record.holder == holder:
            return Begun(Lease(head.context, record.running, record.holder, record.fence), head)
        if any(turn.id == follow_up.turn.id for turn in record.waiting):
            return Waiting(head, record.held_until())
        return None

    async def known(self, context: ContextKey, message_id: str, content_hash: bytes) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        known = await self._reads.get(keys.message_key(context, message_id))
        return ingress.repeat_of(content_hash, known["task_id"]["S"], known["content"]["B"]) if known else None

    # ── A turn ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, context: ContextKey, *, holder: str) -> Begun | Held | None:
        """See `ports.TaskStore.begin`."""
        mine: Begun | None = None
        for attempt in range(TRIES):
            record = await self._context(context)
            if record is None:
                return None
            if mine is not None and record.fence == mine.lease.fence and record.holder == holder:
                return mine  # an earlier try, whose answer was lost
            turn = turn_to_begin(record, self._now())
            if not isinstance(turn, Turn):
                return turn
            head = await self.head(_task_of(context, turn))
            if head is None or head.state in lifecycle.TERMINAL:
                # It has outlived its time behind others, or a question: nobody else must wait behind it for ever.
                mine = None
                writes = [self._writes.strike(context, turn.task_id, record, record.fence + 1)]
            else:
                beginning = await self._beginning(context, turn, record, holder, head)
                mine = beginning.begun
                take = self._writes.take_over if record.running else self._writes.take_next
                writes = [take(mine.lease, record), *beginning.writes]
            try:
                await self._transact(*writes)
            except Refused:
                # Somebody else was faster: what is to be done now?
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                if mine is not None:
                    return mine
        raise StoreUnavailable("The context changes faster than a turn can be begun in it.")

    async def _beginning(
        self, context: ContextKey, turn: Turn, record: ContextRecord, holder: str, head: Head
    ) -> "_Beginning":
        """Return the writes by which the turn of the task begins, but for the lease's."""
        lease = Lease(context, replace(turn, tries=turn.tries + 1), holder, record.fence + 1)
        if turn.asked:
            writes = [self._writes.raise_fence(head.key, lease.fence)]
            return _Beginning(writes, Begun(lease, replace(head, fence=lease.fence)))
        # The message has waited for a task at work: now it is taken in.
        asked = await self._asked(head.key, turn.id)
        event = ingress.at_work(head, self._clock.now())
        after = replace(lifecycle.advance(head, event), fence=lease.fence)
        lease = replace(lease, turn=replace(lease.turn, asked=after.generation))
        writes = [
            self._writes.move_head(head, after, HEAD_IS_AS_I_KNOW_IT),
            await self._put_event(
                head.key, after.generation, event, token=str(uuid4()), asked=asked.message, request=asked.request
            ),
            self._writes.drop_asked(head.key, turn.id),
        ]
        return _Beginning(writes, Begun(lease, after))

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        try:
            self._dynamodb.blocking("update_item", **self._writes.renew(lease)["Update"])
        except Refused as refused:
            return refused.conflict
        return True

    def holds(self, lease: Lease) -> bool:
        """See `ports.TaskStore.holds`."""
        key = keys.head_key(_task_of(lease.context, lease.turn))
        item = self._dynamodb.blocking("get_item", TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return item is not None and int(item["fence"]["N"]) == lease.fence

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        """See `ports.TaskStore.append`."""
        head = replace(head, fence=lease.fence)
        after = lifecycle.advance(head, event)
        token, request = _token(lease, after, event), str(uuid4())
        row = await self._put_event(head.key, after.generation, event, token=token, key=key)
        write = self._writes.move_head(head, after, HEAD_IS_AS_I_KNOW_IT)
        for attempt in range(TRIES):
            try:
                await self._transact(write, row, token=request)
            except Refused as refused:
                if await self._is_mine(head.key, after.generation, token):
                    return after
                if not refused.conflict:
                    raise LeaseLost("Another holder runs this context now.") from None
                await let_others_write(attempt)
            except StoreUnavailable:
                # It may have been made: the next try, with the same token, finds out.
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return after
        raise StoreUnavailable("The task is being written by too many at once.")

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, go_on: bool = False, snapshot: Task | None = None
    ) -> Ended:
        """See `ports.TaskStore.finish`."""
        head = replace(head, fence=lease.fence)
        after = lifecycle.advance(head, event)
        token = _token(lease, after, event)
        rows = [await self._put_event(head.key, after.generation, event, token=token)]
        if snapshot is not None:
            rows.append(await self._put_snapshot(head.key, after.generation, snapshot))
        asks = after.state in lifecycle.INTERRUPTED
        ending = _Ending(
            [self._writes.move_head(head, after, HEAD_IS_AS_I_KNOW_IT)],
            self._writes.release_asking(lease) if asks else self._writes.release(lease),
            Ended(after),
        )
        if after.state not in lifecycle.RESTING:
            # Something is known to wait.
            ending = await self._ending(lease, head, after, go_on=go_on)
        for attempt in range(TRIES):
            try:
                await self._transact(ending.context, *ending.writes, *rows)
            except Refused as refused:
                written = await self._ended_before(lease, head, after, token)
                if written is not None:
                    return written
                if refused.failed(1):
                    raise LeaseLost("Another holder runs this context now.") from None
                if not asks and not refused.conflict:
                    ending = await self._ending(lease, head, after, go_on=go_on)
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
                written = await self._ended_before(lease, head, after, token)
                if written is not None:
                    return written
            else:
                return ending.outcome
        raise StoreUnavailable("The task is being written by too many at once.")

    async def _ending(self, lease: Lease, head: Head, after: Head, *, go_on: bool) -> "_Ending":
        """Return how a turn ends behind which others wait."""
        record = await self._context(lease.context) or ContextRecord()
        if record.fence != lease.fence:
            raise LeaseLost("Another holder runs this context now.")
        if after.state in lifecycle.TERMINAL and record.waits_for(head.key.task_id):
            raise MoreAsked("A message waits for this task.")
        if after.state not in lifecycle.RESTING and not record.waits_for(head.key.task_id):
            raise ingress.nothing_left_to_do()
        move = self._writes.move_head(head, after, HEAD_IS_AS_I_KNOW_IT)
        turn = next(iter(record.waiting), None)
        if turn is None:
            return _Ending([move], self._writes.release(lease), Ended(after))
        same = turn.task_id == head.key.task_id
        next_head = after if same else await self.head(_task_of(lease.context, turn))
        if not go_on or next_head is None:
            return _Ending([move], self._writes.leave(lease, record), Ended(after, waiting=True))
        beginning = await self._beginning(lease.context, turn, record, lease.holder, next_head)
        begun = beginning.begun
        writes = [move, *beginning.writes]
        if same:
            # An item is written once in a transaction: the head moves over both events at a time.
            writes = [self._writes.move_head(head, begun.head, HEAD_IS_AS_I_KNOW_IT), *beginning.writes[1:]]
        return _Ending(writes, self._writes.pass_on(begun.lease, record), Ended(after, next=begun))

    async def _ended_before(self, lease: Lease, head: Head, after: Head, token: str) -> Ended | None:
        """Return what an earlier try of this very call has done, whose answer was lost; None where it has not."""
        if not await self._is_mine(head.key, after.generation, token):
            return None
        record = await self._context(lease.context) or ContextRecord()
        if record.running is not None and record.fence == lease.fence + 1 and record.holder == lease.holder:
            begun_head = await self.head(_task_of(lease.context, record.running))
            if begun_head is not None:
                return Ended(
                    after, next=Begun(Lease(lease.context, record.running, lease.holder, record.fence), begun_head)
                )
        return Ended(after, waiting=record.running is None and record.interrupted is None and bool(record.waiting))

    async def pause(self, lease: Lease, *, got_on: bool) -> None:
        """See `ports.TaskStore.pause`."""
        turn = replace(lease.turn, tries=0, hops=lease.turn.hops + 1) if got_on else lease.turn
        write = self._writes.put_down(lease, turn)["Update"]
        for attempt in range(TRIES):
            try:
                await self._dynamodb("update_item", **write)
            except Refused as refused:
                record = await self._context(lease.context)
                if record is not None and (record.fence, record.running, record.holder) == (lease.fence, turn, ""):
                    return  # an earlier try, whose answer was lost
                if not refused.conflict:
                    raise LeaseLost("Another holder runs this context now.") from None
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return
        raise StoreUnavailable("The context is being written by too many at once.")

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        await self._dynamodb("put_item", **self._writes.put_deltas(key, batch)["Put"])

    async def cancel(self, head: Head, event: Event) -> Ended:
        """See `ports.TaskStore.cancel`."""
        token = str(uuid4())
        task = head.key.task_id
        for attempt in range(TRIES):
            record = await self._context(head.context) or ContextRecord()
            # Who only waits writes nothing: a turn of another task, which runs, goes on under its fence.
            takes = record.running is None or record.runs(task)
            fence = record.fence + 1 if takes else record.fence
            after = replace(lifecycle.advance(head, event), fence=max(fence, head.fence))
            ended = Ended(after, waiting=takes and bool(record.without(task)) and record.interrupted in (None, task))
            try:
                await self._transact(
                    self._writes.strike(head.context, task, record, fence),
                    self._writes.move_head(head, after, HEAD_IS_AS_I_KNOW_IT),
                    await self._put_event(head.key, after.generation, event, token=token),
                )
            except Refused as refused:
                if await self._is_mine(head.key, after.generation, token):
                    return ended
                if refused.failed(1):
                    raise ingress.no_longer_asked() from None
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
                if await self._is_mine(head.key, after.generation, token):
                    return ended
            else:
                return ended
        raise StoreUnavailable("The context changes faster than a task can be canceled in it.")

    # ── What is read ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def head(self, key: TaskKey) -> Head | None:
        """See `ports.TaskStore.head`."""
        item = await self._reads.get(keys.head_key(key))
        return items.head_of(key, item) if item is not None else None

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.log`."""
        if after:
            log = await self._log_after(key, after)
            if log is not None:
                return log
        return await self._log_from_snapshot(key)

    async def _log_after(self, key: TaskKey, after: int) -> Log | None:
        """Return the log after that event, None where some of it is gone."""
        found = await self._reads.query(keys.task_partition(key), keys.event_sort(after + 1), keys.HEAD)
        if not found or found[-1]["sk"]["S"] != keys.HEAD:
            return None
        return await self._log_of(key, items.head_of(key, found[-1]), after, _by_sort(found[:-1]))

    async def _log_from_snapshot(self, key: TaskKey) -> Log | None:
        """Return the log from the newest snapshot on, or from the first event; read backwards, as snapshots are near."""
        rows: dict[str, Item] = {}
        pages = self._reads.pages(
            keys.task_partition(key),
            keys.event_sort(1),
            keys.HEAD,
            limit=FIRST_PAGE,
            largest=LARGEST_PAGE,
            ScanIndexForward=False,
        )
        head: Head | None = None
        base = 0
        try:
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    sort = item["sk"]["S"]
                    if head is None:
                        if sort != keys.HEAD:
                            return None
                        head = items.head_of(key, item)
                        continue
                    rows[sort] = item
                    generation = keys.snapshot_of(sort)
                    if generation is not None and generation <= head.generation:
                        base = generation
                        break
                if base:
                    break
        finally:
            await pages.aclose()
        return await self._log_of(key, head, base, rows) if head is not None else None

    async def _log_of(self, key: TaskKey, head: Head, base: int, rows: Mapping[str, Item]) -> Log | None:
        """Return the log of these rows; None where they have a gap."""
        entries: list[Numbered] = []
        if base and keys.snapshot_sort(base) in rows:
            packed = await self._unpacked("task", rows[keys.snapshot_sort(base)])
            if packed is None:
                raise StoreCorrupt("A snapshot of a task holds nothing.")
            entries.append(Numbered(base, Task.FromString(packed)))
        for generation in range(base + 1, head.generation + 1):
            # A query may meet the head before the row that was written with it: then the row is there by now.
            item = rows.get(keys.event_sort(generation)) or await self._reads.get(keys.event_key(key, generation))
            if item is None:
                return None
            entries.append(await self._entry(generation, item))
        return Log(head, tuple(entries))

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        rows = await self._reads.query(keys.delta_partition(key), keys.delta_sort(since), "~")
        return [items.delta_batch_of(row) for row in rows]

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def overdue(self, *, limit: int) -> Sequence[Overdue]:
        """See `ports.TaskStore.overdue`."""
        found = await asyncio.gather(*(self._overdue(shard, limit) for shard in range(keys.DUE_SHARDS)))
        return sorted(chain.from_iterable(found), key=lambda overdue: overdue.at)[:limit]

    async def _overdue(self, shard: int, limit: int) -> list[Overdue]:
        page = await self._dynamodb(
            "query",
            TableName=self._table,
            IndexName="due",
            KeyConditionExpression="due_shard = :shard AND due_at <= :now",
            ExpressionAttributeValues={
                ":shard": items.text(keys.due_partition(shard)),
                ":now": items.number(self._now()),
            },
            Limit=limit,
        )
        return [Overdue(keys.context_of(item), moment(int(item["due_at"]["N"]))) for item in page["Items"]]

    async def claim(self, overdue: Overdue) -> bool:
        """See `ports.TaskStore.claim`."""
        # The index lags: the item knows.
        item = await self._reads.get(keys.context_key(overdue.context))
        if item is None or "due_at" not in item or int(item["due_at"]["N"]) > self._now():
            return False
        try:
            await self._dynamodb("update_item", **self._writes.claim(overdue, int(item["due_at"]["N"]))["Update"])
        except Refused:
            return False
        return True

    # ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _put_event(
        self,
        task: TaskKey,
        generation: int,
        event: Event,
        *,
        token: str = "",
        key: str = "",
        asked: Message | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> Write:
        attributes = {
            "token": items.text(token),
            **await self._payload(task, f"{generation}-event", "event", items.event_bytes(event)),
        }
        if asked is not None:
            attributes |= await self._payload(task, f"{generation}-asked", "asked", asked.SerializeToString())
        if key:
            attributes["key"] = items.text(key)
        if request:
            attributes["request"] = items.text(json.dumps(request))
        return put(self._table, keys.event_key(task, generation), {**attributes, **self._writes.keeping()})

    async def _put_snapshot(self, task: TaskKey, generation: int, folded: Task) -> Write:
        attributes = await self._payload(task, f"{generation}-task", "task", folded.SerializeToString())
        return put(self._table, keys.snapshot_key(task, generation), {**attributes, **self._writes.keeping()})

    async def _put_asked(self, follow_up: FollowUp) -> Write:
        task, turn = follow_up.head.key, follow_up.turn
        attributes = await self._payload(task, f"{turn.id}-asked", "asked", follow_up.asked.SerializeToString())
        if follow_up.request:
            attributes["request"] = items.text(json.dumps(follow_up.request))
        return put(self._table, keys.asked_key(task, turn.id), {**attributes, **self._writes.keeping()})

    async def _asked(self, task: TaskKey, turn_id: str) -> "_Asked":
        item = await self._reads.get(keys.asked_key(task, turn_id))
        packed = await self._unpacked("asked", item) if item is not None else None
        if item is None or packed is None:
            raise StoreCorrupt("A message that waits is gone.")
        return _Asked(Message.FromString(packed), json.loads(item["request"]["S"]) if "request" in item else {})

    async def _payload(self, task: TaskKey, place: str, name: str, packed: bytes) -> Item:
        """Return the attribute that holds the bytes, or says where they lie."""
        if len(packed) <= LARGE_BYTES:
            return {name: {"B": packed}}
        # The blob first: a row never points at nothing, and a blob that no row names expires with the bucket.
        blob = f"{task.owner}/{task.task_id}/{place}-{uuid4()}"
        await self._blobs.put(blob, packed)
        return {f"{name}_blob": items.text(blob)}

    async def _entry(self, generation: int, item: Item) -> Numbered:
        packed = await self._unpacked("event", item)
        if packed is None:
            raise StoreCorrupt("An event of the log holds nothing.")
        asked = await self._unpacked("asked", item)
        return Numbered(
            generation,
            items.event_of(packed),
            Message.FromString(asked) if asked is not None else None,
            item["key"]["S"] if "key" in item else "",
            json.loads(item["request"]["S"]) if "request" in item else {},
        )

    async def _unpacked(self, name: str, item: Item) -> bytes | None:
        if f"{name}_blob" not in item:
            return item[name]["B"] if name in item else None
        packed = await self._blobs.get(item[f"{name}_blob"]["S"])
        if packed is None:
            raise StoreCorrupt("The payload of an event is missing.")
        return packed

    # ── The rest ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _context(self, key: ContextKey) -> ContextRecord | None:
        # Expired or not: its fence has to grow for as long as the item is there.
        item = await self._reads.get(keys.context_key(key), expired=True)
        return items.context_of(item, lives=self._reads.lives(item)) if item is not None else None

    async def _is_mine(self, key: TaskKey, generation: int, token: str) -> bool:
        """Tell whether a write whose answer was lost had been made after all."""
        item = await self._reads.get(keys.event_key(key, generation))
        return item is not None and item["token"]["S"] == token

    def _keeps_longer(self, head: Item | None) -> bool:
        """Tell whether a message that comes now makes the task's life noticeably longer."""
        if head is None or "expires" not in head:
            return False
        end = (self._clock.now() + self._retention).timestamp()
        return end - int(head["expires"]["N"]) > min(KEEP_LONGER, self._retention / 2).total_seconds()

    async def _transact(self, *writes: Write, token: str | None = None) -> None:
        await self._dynamodb(
            "transact_write_items", TransactItems=list(writes), ClientRequestToken=token or str(uuid4())
        )

    def _now(self) -> int:
        return items.milliseconds(self._clock.now())


@dataclass(frozen=True, slots=True)
class _Taken:
    writes: list[Write]
    outcome: Begun | Waiting


@dataclass(frozen=True, slots=True)
class _Beginning:
    writes: list[Write]
    """The first is that of the task's head."""
    begun: Begun


@dataclass(frozen=True, slots=True)
class _Ending:
    writes: list[Write]
    """The first is that of the task's head."""
    context: Write
    outcome: Ended


@dataclass(frozen=True, slots=True)
class _Asked:
    message: Message
    request: Mapping[str, Any]


def _message_keys(new: NewTask) -> list[keys.Key]:
    """Return the keys by which a repeat of the message is known."""
    found = [keys.message_key(new.context, new.message_id)]
    if new.idempotency_key:
        found.insert(0, keys.idempotency_key(new.context.owner, new.context.agent, new.idempotency_key))
    return found


def _token(lease: Lease, after: Head, event: Event) -> str:
    """Return what tells an event's row from another's: the same for the same call, made again as its answer was lost."""
    said = hashlib.sha256(items.event_bytes(event)).hexdigest()
    return f"{lease.holder}#{lease.fence}#{after.generation}#{said}"


def _task_of(context: ContextKey, turn: Turn) -> TaskKey:
    return TaskKey(context.owner, turn.task_id)


def _by_sort(found: Sequence[Item]) -> dict[str, Item]:
    return {item["sk"]["S"]: item for item in found}


def _has_gone_on(before: Head, now: Head | None, *, takes: bool) -> bool:
    """Tell whether a message to the task, as it was read, can no longer be taken as it was going to be."""
    if now is None:
        return True
    return now.generation != before.generation if takes else now.state in lifecycle.RESTING
