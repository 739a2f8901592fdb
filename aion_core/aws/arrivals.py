"""Messages as they come in, on DynamoDB: a new task, or one more word to a task that there is; each once.

Every write is tried against others on the same items, and after an answer that was lost it is looked for before it is
made again: what an earlier try of the same call has done is that call's own.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from aion_core.aws import keys
from aion_core.aws.client import TRIES, Refused, let_others_write, try_unheard_again
from aion_core.aws.context_writes import (
    MAY_WAIT,
    MAY_WAIT_ALONE,
    MAY_WAIT_BEHIND_OTHERS,
    ONE_MORE_MAY_WAIT,
    ContextWrites,
)
from aion_core.aws.contexts import Contexts
from aion_core.aws.items import Item
from aion_core.aws.push_rows import PushRows
from aion_core.aws.table import Table
from aion_core.aws.task_log import TaskLog
from aion_core.aws.task_writes import TASK_HAS_NOT_GONE_ON, TaskWrites
from aion_core.aws.writes import Write
from aion_core.errors import StoreCorrupt, StoreUnavailable
from aion_core.ports import (
    MAX_WAITING,
    Begun,
    Busy,
    Clock,
    ContextKey,
    FollowUp,
    Head,
    Interrupted,
    Lease,
    NewTask,
    Repeated,
    TaskKey,
    Turn,
    Waiting,
    WhenBusy,
)
from aion_core.tasks import ingress, lifecycle, pushed
from aion_core.tasks.contexts import ContextRecord

KEEP_LONGER = timedelta(days=1)
"""By how much a task's life has to grow for a follow-up to move its end: each move costs a snapshot."""


class Arrivals:
    """`create`, `follow_up` and `known` of `ports.TaskStore`."""

    def __init__(
        self,
        contexts: Contexts,
        log: TaskLog,
        reads: Table,
        tasks: TaskWrites,
        line: ContextWrites,
        push: PushRows,
        clock: Clock,
        *,
        retention: timedelta,
    ) -> None:
        self._contexts, self._log, self._reads = contexts, log, reads
        self._tasks, self._line, self._push = tasks, line, push
        self._clock, self._retention = clock, retention

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        first_head = ingress.first_head(new)
        listens: list[Write] = []
        if new.push is not None:
            listens = [(await self._push.register(new.key, new.push, (), after=0, due=False)).write]
            first_head = pushed.listening(first_head, new.push)
        events = [
            self._tasks.pushed(
                await self._log.put_event(new.key, generation, event, request=new.request if generation == 1 else None),
                first_head,
                event,
            )
            for generation, event in enumerate(new.events, start=1)
        ]
        messages = [self._tasks.put_message(key, new.key.task_id, new.content_hash) for key in _message_keys(new)]
        for attempt in range(TRIES):
            # A contextId that we made is known to be free: nothing is read.
            context = None if new.context_is_new and not attempt else await self._contexts.read(new.context)
            record = context or ContextRecord()
            if record.interrupted is not None:
                known = await self._known_of(new, holder)
                if known is None and await self.question_is_gone(new.context, record):
                    continue
                return known or Interrupted(record.interrupted)
            if record.busy and when_busy is not WhenBusy.ENQUEUE:
                return await self._known_of(new, holder) or Busy(record.at_work)
            head = first_head
            begun: Begun | None = None
            if holder is not None and not record.busy:
                lease = Lease(new.context, replace(new.turn, tries=1), holder, record.fence + 1)
                head = replace(head, fence=lease.fence)
                begun = Begun(lease, head)
                change = self._line.take(lease, context)
            elif record.expired:
                change = self._line.wait_anew(new.context, new.turn, record)
            elif holder is not None:
                # What runs, or is to, will come to this turn: its holder need not.
                change = self._line.wait(new.context, new.turn, MAY_WAIT_BEHIND_OTHERS)
            elif when_busy is WhenBusy.ENQUEUE:
                change = self._line.wait(new.context, new.turn, MAY_WAIT)
            else:
                change = self._line.wait(new.context, new.turn, MAY_WAIT_ALONE)
            try:
                await self._contexts.transact(*messages, change, self._tasks.put_head(head), *events, *listens)
            except Refused as refused:
                known = await self._known_of(new, holder)
                if known is not None:
                    return known
                if len(record.waiting) >= MAX_WAITING and not refused.conflict:
                    raise ingress.too_many_wait() from None
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return begun or Waiting(head, record.held_until())
        raise StoreUnavailable("The context changes faster than a task can be added to it.")

    async def question_is_gone(self, context: ContextKey, record: ContextRecord) -> bool:
        """Tell whether the task that asks has outlived its time, which frees its context: read that again."""
        task_id = record.interrupted or ""
        head = await self._log.head(TaskKey(context.owner, task_id))
        if head is not None and head.state not in lifecycle.TERMINAL:
            return False
        with suppress(Refused):  # somebody else has freed it
            await self._contexts.transact(self._line.strike(context, task_id, record, record.fence + 1))
        return True

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
        context = await self._contexts.read(new.context)
        head = await self._log.head(new.key)
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
        message = self._tasks.put_message(message_key, before.key.task_id, follow_up.content_hash)
        for attempt in range(TRIES):
            record = await self._contexts.read(context_key) or ContextRecord()
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
                if again is None and _has_gone_on(before, await self._log.head(before.key), takes=False):
                    raise ingress.no_longer_asked()
                return again or Busy(before.key.task_id)
            try:
                if takes:
                    taken = await self._taken(follow_up, record, holder, token)
                    await self._contexts.transact(message, *taken.writes, token=token if not attempt else None)
                    return taken.outcome
                listening, registers = await self._registered(follow_up)
                await self._contexts.transact(
                    message,
                    await self._log.put_asked(follow_up),
                    self._queued(context_key, replace(follow_up.turn, asked=0), record),
                    self._tasks.listen_at_work(before, listening)
                    if registers
                    else self._tasks.check_at_work(before.key),
                    *registers,
                )
            except Refused as refused:
                known = await self._reads.get(message_key)
                if known is not None and known["task_id"]["S"] == before.key.task_id:
                    mine = await self._followed_before(follow_up, holder)
                    if mine is not None:
                        return mine
                if known is not None:
                    return ingress.repeat_of(follow_up.content_hash, known["task_id"]["S"], known["content"]["B"])
                head = await self._log.head(before.key)
                if not refused.conflict and _has_gone_on(before, head, takes=takes, listens=follow_up.push is not None):
                    raise ingress.no_longer_asked() from None
                if len(record.waiting) >= MAX_WAITING and not takes and not refused.conflict:
                    raise ingress.too_many_wait() from None
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return Waiting(listening, record.held_until())
        raise StoreUnavailable("The context changes faster than a message can be added to it.")

    def _queued(self, context: ContextKey, turn: Turn, record: ContextRecord) -> Write:
        """Return the write by which a turn of a task at work waits; behind a question it is due when that is answered."""
        if record.interrupted is not None:
            # Should it be answered meanwhile: whoever takes the question away makes due what waits.
            return self._line.wait(context, turn, ONE_MORE_MAY_WAIT, due=False)
        return self._line.wait(context, turn, MAY_WAIT)

    async def _taken(self, follow_up: FollowUp, record: ContextRecord, holder: str | None, token: str) -> "_Taken":
        """Return the writes by which the task takes the message in at once, and what has happened when they are made."""
        before = follow_up.head
        asks = before.state in lifecycle.INTERRUPTED
        listening, registers = await self._registered(follow_up)
        after = replace(lifecycle.advance(listening, follow_up.event), fence=record.fence + 1)
        keep = self._keeps_longer(await self._reads.get(keys.head_key(before.key)))
        writes = [
            self._tasks.move_head(before, after, TASK_HAS_NOT_GONE_ON, keep=keep),
            self._tasks.pushed(
                await self._log.put_event(
                    before.key,
                    after.generation,
                    follow_up.event,
                    token=token,
                    asked=follow_up.asked,
                    request=follow_up.request,
                ),
                after,
                follow_up.event,
            ),
            *registers,
        ]
        if keep:
            # The older events will expire before the task does: what they add up to is kept beside the new ones.
            writes.append(await self._log.put_snapshot(before.key, before.generation, follow_up.task))
            first = next(iter(follow_up.task.history), None)
            if first is not None:
                writes.append(self._tasks.keep_message(keys.message_key(before.context, first.message_id)))
            writes += [
                self._tasks.keep_asked(before.key, turn.id)
                for turn in record.waiting
                if turn.task_id == before.key.task_id and not turn.asked
            ]
        if holder is None:
            writes.append(self._line.wait_first(follow_up, record, after.fence, asks=asks))
            return _Taken(writes, Waiting(after))
        lease = Lease(before.context, replace(follow_up.turn, tries=1), holder, after.fence)
        take = self._line.take_again if asks else self._line.take_from
        writes.append(take(lease, record))
        return _Taken(writes, Begun(lease, after))

    async def _registered(self, follow_up: FollowUp) -> tuple[Head, list[Write]]:
        """Return the head that knows of the message's push config, and the write by which that is kept; if it has one."""
        before = follow_up.head
        if follow_up.push is None:
            return before, []
        # A task at work may have gone on since it was read: it hears of what follows, not of what was.
        now = await self._log.head(before.key) or before
        known = await self._push.known(before.key)
        registered = await self._push.register(before.key, follow_up.push, known, after=now.generation)
        return pushed.listening(before, follow_up.push), [registered.write]

    async def _followed_before(self, follow_up: FollowUp, holder: str | None) -> Begun | Waiting | None:
        """Return what an earlier try of this very call has done, whose answer was lost; None where it was another's."""
        record = await self._contexts.read(follow_up.head.context) or ContextRecord()
        head = await self._log.head(follow_up.head.key)
        if head is None:
            return None
        if record.running is not None and record.running.id == follow_up.turn.id and record.holder == holder:
            return Begun(Lease(head.context, record.running, record.holder, record.fence), head)
        if any(turn.id == follow_up.turn.id for turn in record.waiting):
            return Waiting(head, record.held_until())
        return None

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        for key in _keys_of(context, message_id, idempotency_key):
            if (known := await self._reads.get(key)) is not None:
                return ingress.repeat_of(content_hash, known["task_id"]["S"], known["content"]["B"])
        return None

    def _keeps_longer(self, head: Item | None) -> bool:
        """Tell whether a message that comes now makes the task's life noticeably longer."""
        if head is None or "expires" not in head:
            return False
        end = (self._clock.now() + self._retention).timestamp()
        return end - int(head["expires"]["N"]) > min(KEEP_LONGER, self._retention / 2).total_seconds()


@dataclass(frozen=True, slots=True)
class _Taken:
    writes: list[Write]
    outcome: Begun | Waiting


def _message_keys(new: NewTask) -> list[keys.Key]:
    """Return the keys by which a repeat of the message is known."""
    return _keys_of(new.context, new.message_id, new.idempotency_key)


def _keys_of(context: ContextKey, message_id: str, idempotency_key: str) -> list[keys.Key]:
    found = [keys.message_key(context, message_id)]
    if idempotency_key:
        found.insert(0, keys.idempotency_key(context.owner, context.agent, idempotency_key))
    return found


def _has_gone_on(before: Head, now: Head | None, *, takes: bool, listens: bool = False) -> bool:
    """Tell whether a message to the task, as it was read, can no longer be taken as it was going to be."""
    if now is None:
        return True
    # Others listen meanwhile: a commit, and one who begins to listen too, has to know them all.
    if (takes or listens) and now.push_epoch != before.push_epoch:
        return True
    return now.generation != before.generation if takes else now.state in lifecycle.RESTING
