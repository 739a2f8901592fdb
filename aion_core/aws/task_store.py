"""The task log on DynamoDB, with the promises of `ports.TaskStore`; payloads too large for a row lie in S3.

A turn's time line, a line a request:

    create   put MESSAGE, TASK/HEAD, TASK/EVENT#1, TASK/EVENT#2; take the CONTEXT's lease    all or nothing
    deltas   put DELTA, as often as a batch of chunks is ready                                plain puts
    append   put TASK/EVENT#3; move TASK/HEAD on                                              all or nothing
    finish   put TASK/EVENT#4; move TASK/HEAD on; give the CONTEXT's lease back               all or nothing
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from aion_core.aws import keys
from aion_core.aws.arrivals import Arrivals
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write, try_unheard_again
from aion_core.aws.context_writes import ContextWrites
from aion_core.aws.contexts import Contexts
from aion_core.aws.due import DueIndex
from aion_core.aws.push_rows import PushRows
from aion_core.aws.push_writes import PushWrites
from aion_core.aws.table import Table
from aion_core.aws.task_log import TaskLog, token_of
from aion_core.aws.task_writes import HEAD_IS_AS_I_KNOW_IT, TaskWrites
from aion_core.aws.terms import Terms
from aion_core.aws.writes import Write
from aion_core.errors import LeaseLost, MoreAsked, StoreUnavailable
from aion_core.ports import (
    Begun,
    Blobs,
    Busy,
    Cipher,
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
    Overdue,
    Repeated,
    TaskKey,
    Turn,
    Waiting,
    WhenBusy,
)
from aion_core.protocol.types import Event, Task
from aion_core.tasks import ingress, lifecycle
from aion_core.tasks.contexts import ContextRecord, turn_to_begin

CONTEXT, HEAD = 0, 1
"""Where in a transaction that ends a turn the writes of the context and of the task's head stand."""


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
        cipher: Cipher | None = None,
    ) -> None:
        """Tasks, and all that belongs to them, are kept for `retention` after their last message.

        Push configs that come with messages are sealed by the `cipher`; without one none may.
        """
        self._dynamodb, self._clock, self._table = dynamodb, clock, table
        self._reads = Table(dynamodb, clock, name=table)
        terms = Terms(clock, lease_seconds=lease_seconds, retention=retention)
        self._tasks, self._line = TaskWrites(table, terms), ContextWrites(table, terms)
        self._log = TaskLog(self._reads, blobs, terms, table=table)
        self._contexts = Contexts(dynamodb, self._reads, clock)
        push = PushRows(self._reads, PushWrites(table, terms), cipher)
        self._arrivals = Arrivals(
            self._contexts, self._log, self._reads, self._tasks, self._line, push, clock, retention=retention
        )
        self._due = DueIndex(dynamodb, self._reads, self._line, clock)

    # ── What comes in ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        return await self._arrivals.create(new, holder=holder, when_busy=when_busy)

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated:
        """See `ports.TaskStore.follow_up`."""
        return await self._arrivals.follow_up(follow_up, holder=holder, when_busy=when_busy)

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        return await self._arrivals.known(context, message_id, content_hash, idempotency_key=idempotency_key)

    # ── A turn ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, context: ContextKey, *, holder: str) -> Begun | Held | None:
        """See `ports.TaskStore.begin`."""
        mine: Begun | None = None
        for attempt in range(TRIES):
            record = await self._contexts.read(context)
            if record is None:
                return None
            if mine is not None and record.fence == mine.lease.fence and record.holder == holder:
                return mine  # an earlier try, whose answer was lost
            turn = turn_to_begin(record, self._contexts.now())
            if turn is None and record.interrupted is not None and record.waiting:
                mine = None
                if not await self._arrivals.question_is_gone(context, record):
                    return None
                continue
            if not isinstance(turn, Turn):
                return turn
            head = await self.head(_task_of(context, turn))
            if head is None or head.state in lifecycle.TERMINAL:
                # It has outlived its time behind others, or a question: nobody else must wait behind it for ever.
                mine = None
                writes = [self._line.strike(context, turn.task_id, record, record.fence + 1)]
            else:
                beginning = await self._beginning(context, turn, record, holder, head)
                mine = beginning.begun
                take = self._line.take_over if record.running else self._line.take_next
                writes = [take(mine.lease, record), *beginning.writes]
            try:
                await self._contexts.transact(*writes)
            except Refused:
                # Somebody else was faster: what is to be done now?
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
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
            writes = [self._tasks.raise_fence(head.key, lease.fence)]
            return _Beginning(writes, Begun(lease, replace(head, fence=lease.fence)))
        # The message has waited for a task at work: now it is taken in.
        asked = await self._log.asked(head.key, turn.id)
        event = ingress.at_work(head, self._clock.now())
        after = replace(lifecycle.advance(head, event), fence=lease.fence)
        lease = replace(lease, turn=replace(lease.turn, asked=after.generation))
        writes = [
            self._tasks.move_head(head, after, HEAD_IS_AS_I_KNOW_IT),
            self._tasks.pushed(
                await self._log.put_event(
                    head.key,
                    after.generation,
                    event,
                    token=str(uuid4()),
                    asked=asked.message if asked else None,
                    request=asked.request if asked else None,
                ),
                after,
                event,
            ),
            self._tasks.drop_asked(head.key, turn.id),
        ]
        return _Beginning(writes, Begun(lease, after))

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        try:
            self._dynamodb.blocking("update_item", **self._line.renew(lease)["Update"])
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
        token, request = token_of(lease, after, event), str(uuid4())
        row = await self._log.put_event(head.key, after.generation, event, token=token, key=key)
        for attempt in range(TRIES):
            write = self._tasks.move_head(head, after, HEAD_IS_AS_I_KNOW_IT)
            try:
                await self._contexts.transact(write, self._tasks.pushed(row, head, event), token=request)
            except Refused as refused:
                if await self._log.holds(head.key, after.generation, token):
                    return after
                if not refused.conflict:
                    head, request = await self._with_who_listens_now(head), str(uuid4())
                    after = lifecycle.advance(head, event)
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                # It may have been made: the next try, with the same token, finds out.
                await try_unheard_again(attempt, unheard)
            else:
                return after
        raise StoreUnavailable("The task is being written by too many at once.")

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, go_on: bool = False, snapshot: Task | None = None
    ) -> Ended:
        """See `ports.TaskStore.finish`."""
        head = replace(head, fence=lease.fence)
        after = lifecycle.advance(head, event)
        token = token_of(lease, after, event)
        row = await self._log.put_event(head.key, after.generation, event, token=token)
        rows: list[Write] = []
        if snapshot is not None:
            rows.append(await self._log.put_snapshot(head.key, after.generation, snapshot))
        asks = after.state in lifecycle.INTERRUPTED
        ending = self._resting(lease, head, after, asks=asks)
        if after.state not in lifecycle.RESTING:
            # Something is known to wait.
            ending = await self._ending(lease, head, after, go_on=go_on)
        for attempt in range(TRIES):
            try:
                row_now = self._tasks.pushed(row, head, event)
                await self._contexts.transact(ending.context, *ending.writes, row_now, *rows)
            except Refused as refused:
                written = await self._ended_before(lease, head, after, token)
                if written is not None:
                    return written
                if refused.failed(HEAD):
                    head = await self._with_who_listens_now(head)
                    after = lifecycle.advance(head, event)
                if asks and refused.failed(CONTEXT):
                    raise LeaseLost("Another holder runs this context now.") from None
                if asks:
                    ending = self._resting(lease, head, after, asks=True)
                elif not refused.conflict:
                    ending = await self._ending(lease, head, after, go_on=go_on)
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
                written = await self._ended_before(lease, head, after, token)
                if written is not None:
                    return written
            else:
                return ending.outcome
        raise StoreUnavailable("The task is being written by too many at once.")

    def _resting(self, lease: Lease, head: Head, after: Head, *, asks: bool) -> "_Ending":
        """Return how a turn ends behind which nothing waits, or waits for an answer."""
        move = self._tasks.move_head(head, after, HEAD_IS_AS_I_KNOW_IT)
        return _Ending([move], self._line.release_asking(lease) if asks else self._line.release(lease), Ended(after))

    async def _with_who_listens_now(self, head: Head) -> Head:
        """Return the head with those who have begun to listen meanwhile.

        Raises LeaseLost where anything else has happened to it, or nothing at all.
        """
        now = await self._log.head(head.key)
        if now is None or (now.generation, now.fence) != (head.generation, head.fence):
            raise LeaseLost("Another holder runs this context now.")
        if now.push_epoch == head.push_epoch:
            raise LeaseLost("The task is not as it was read.")
        return replace(head, push_epoch=now.push_epoch, push_events=now.push_events)

    async def _ending(self, lease: Lease, head: Head, after: Head, *, go_on: bool) -> "_Ending":
        """Return how a turn ends behind which others wait."""
        record = await self._contexts.read(lease.context) or ContextRecord()
        if record.fence != lease.fence:
            raise LeaseLost("Another holder runs this context now.")
        if after.state in lifecycle.TERMINAL and record.waits_for(head.key.task_id):
            raise MoreAsked("A message waits for this task.")
        if after.state not in lifecycle.RESTING and not record.waits_for(head.key.task_id):
            raise ingress.nothing_left_to_do()
        move = self._tasks.move_head(head, after, HEAD_IS_AS_I_KNOW_IT)
        turn = next(iter(record.waiting), None)
        if turn is None:
            return _Ending([move], self._line.release(lease), Ended(after))
        same = turn.task_id == head.key.task_id
        next_head = after if same else await self.head(_task_of(lease.context, turn))
        if not go_on or next_head is None:
            return _Ending([move], self._line.leave(lease, record), Ended(after, waiting=True))
        beginning = await self._beginning(lease.context, turn, record, lease.holder, next_head)
        begun = beginning.begun
        writes = [move, *beginning.writes]
        if same:
            # An item is written once in a transaction: the head moves over both events at a time.
            writes = [self._tasks.move_head(head, begun.head, HEAD_IS_AS_I_KNOW_IT), *beginning.writes[1:]]
        return _Ending(writes, self._line.pass_on(begun.lease, record), Ended(after, next=begun))

    async def _ended_before(self, lease: Lease, head: Head, after: Head, token: str) -> Ended | None:
        """Return what an earlier try of this very call has done, whose answer was lost; None where it has not."""
        if not await self._log.holds(head.key, after.generation, token):
            return None
        record = await self._contexts.read(lease.context) or ContextRecord()
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
        write = self._line.put_down(lease, turn)["Update"]
        for attempt in range(TRIES):
            try:
                await self._dynamodb("update_item", **write)
            except Refused as refused:
                record = await self._contexts.read(lease.context)
                if record is not None and (record.fence, record.running, record.holder) == (lease.fence, turn, ""):
                    return  # an earlier try, whose answer was lost
                if not refused.conflict:
                    raise LeaseLost("Another holder runs this context now.") from None
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return
        raise StoreUnavailable("The context is being written by too many at once.")

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        await self._dynamodb("put_item", **self._tasks.put_deltas(key, batch)["Put"])

    async def cancel(self, head: Head, event: Event) -> Ended:
        """See `ports.TaskStore.cancel`."""
        token = str(uuid4())
        task = head.key.task_id
        for attempt in range(TRIES):
            record = await self._contexts.read(head.context) or ContextRecord()
            # Who only waits writes nothing: a turn of another task, which runs, goes on under its fence.
            takes = record.running is None or record.runs(task)
            fence = record.fence + 1 if takes else record.fence
            after = replace(lifecycle.advance(head, event), fence=max(fence, head.fence))
            ended = Ended(after, waiting=takes and bool(record.without(task)) and record.interrupted in (None, task))
            try:
                await self._contexts.transact(
                    self._line.strike(head.context, task, record, fence),
                    self._tasks.move_head(head, after, HEAD_IS_AS_I_KNOW_IT),
                    self._tasks.pushed(
                        await self._log.put_event(head.key, after.generation, event, token=token), head, event
                    ),
                )
            except Refused as refused:
                if await self._log.holds(head.key, after.generation, token):
                    return ended
                if refused.failed(HEAD):
                    raise ingress.no_longer_asked() from None
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
                if await self._log.holds(head.key, after.generation, token):
                    return ended
            else:
                return ended
        raise StoreUnavailable("The context changes faster than a task can be canceled in it.")

    # ── What is read ──────────────────────────────────────────────────────────────────────────────────────────────────

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

    async def overdue(self, *, limit: int) -> Sequence[Overdue]:
        """See `ports.TaskStore.overdue`."""
        return await self._due.overdue(limit=limit)

    async def claim(self, overdue: Overdue) -> bool:
        """See `ports.TaskStore.claim`."""
        return await self._due.claim(overdue)


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


def _task_of(context: ContextKey, turn: Turn) -> TaskKey:
    return TaskKey(context.owner, turn.task_id)
