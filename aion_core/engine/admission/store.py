"""Store of messages: each is stored once, with its task and its turn."""

from collections.abc import Sequence

from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.engine.admission import follow_ups, new_tasks
from aion_core.engine.admission.messages import FollowUp, NewTask
from aion_core.engine.admission.repeats import KnownMessage, message_keys_of, message_row
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import ContextInUse, Duplicate, Interrupted, TurnQueued, TurnStarted
from aion_core.engine.stored_tasks import BUSY, StoredTasks
from aion_core.engine.task.head import head_item
from aion_core.engine.task.states import IS_RUNNING
from aion_core.engine.turn.progress import task_changed
from aion_core.errors import StoreCorrupt
from aion_core.protocol.interrupts import input_not_required
from aion_core.table import keys
from aion_core.table.item import Key, readable
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.retries import TransactionPlan, commit
from aion_core.table.times import Times
from aion_core.table.writes import Change, ConditionCheck, Put, Update, Write


class MessageStore(StoredTasks):
    """Store of clients' messages: a message creates a task, or continues one.

    An event for push subscribers (`Head.push_epoch`, `Head.push_events`) has a timer:
    `DeliveryStore.expired_timers` finds it. If the subscribers have changed, a commit reads them again.
    """

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate | Interrupted:
        """Store a new task with its first events and push config atomically, once per messageId of its context.

        In a free context the turn gets the lease (TurnStarted). In a busy context, or without `holder`, the turn is
        queued (TurnQueued). A known messageId or idempotency key returns the first task (Duplicate), or raises
        MessageIdReused for other content. Nothing is stored if a task of the context requires input (Interrupted), or
        if the context is busy and `when_busy` is not ENQUEUE (ContextInUse). Raises ContextBusy if the queue is full,
        InputNotRequired for an answer to an interrupt if no task of the context requires input, and the message's
        `start_refusal` or, in a context without a turn, its `first_refusal` if the message would start a turn.
        """
        message_keys = message_keys_of(new.context, new.message_id, new.idempotency_key)
        until = self._lease_end()

        async def plan(
            attempt: int,
        ) -> TransactionPlan[TurnStarted | TurnQueued | ContextInUse | Duplicate | Interrupted]:
            times = self._times()
            # Do not read a context whose contextId the server has just generated, because it has no item yet.
            is_new = new.context_is_new and not attempt
            record = ContextRecord() if is_new else await self._context(new.context, times)
            refusal = new_tasks.refused(record, when_busy)
            answers_nothing = new_tasks.answers_nothing(new, record)
            start_refusal = new_tasks.start_refusal(new, record)
            may_repeat = attempt or start_refusal is not None
            if may_repeat or refusal is not None or answers_nothing or new_tasks.is_full(record):
                known = await self._known(message_keys)
                if known is not None and known.task_id == new.key.task_id:
                    return TransactionPlan(await self._created_before(new, holder))
                if known is not None:
                    return TransactionPlan(known.repeated(new.content_hash))
            if isinstance(refusal, Interrupted):
                return await self._without_ended_interrupt(new.context, record, times) or TransactionPlan(refusal)
            if answers_nothing:
                raise input_not_required()
            if start_refusal is not None:
                raise start_refusal
            if refusal is not None:
                return TransactionPlan(refusal)
            if new_tasks.is_full(record):
                raise new_tasks.queue_is_full()
            created = new_tasks.created(new, record, holder=holder, when_busy=when_busy, times=times)
            writes: list[Write] = [
                *(message_row(key, new.key, new.content_hash, times) for key in message_keys),
                Put(keys.head_key(new.key), {**head_item(created.outcome.head), **times.stamp(new.key.owner)}),
                *await self._writes(new.context, created, times),
            ]
            if new.push is not None:
                writes.append((await self._push.register(new.key, new.push, (), after=0, due=False)).write)
            return TransactionPlan(created.outcome, writes)

        outcome = await commit(self._table, plan, busy=BUSY)
        if isinstance(outcome, TurnStarted | TurnQueued):
            await self._notifier.committed(outcome.head)
        return replace(outcome, until=until) if isinstance(outcome, TurnStarted) else outcome

    async def _created_before(self, new: NewTask, holder: str | None) -> TurnStarted | TurnQueued:
        record, head = await self._context(new.context, self._times()), await self._log.head(new.key)
        if not record.exists or head is None:
            raise StoreCorrupt("A task is missing just after its creation.")
        return new_tasks.created_before(new, record, head, holder)

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        """Store a message to a task that has not ended, with its turn and push config, atomically.

        An interrupted task resumes: the event is recorded, and the turn gets the lease or, without `holder`, the first
        place in the queue. For a running task the message is queued, and is recorded when its turn begins (TurnQueued).
        With INTERRUPT its turn replaces the task's running turn (TurnStarted), whose remote calls are canceled; with
        REJECT nothing is stored (ContextInUse). A push config with the same id is replaced; raises TooManyPushConfigs at
        the limit. For repeats, see `create`. Raises ContextBusy if the queue is full. Raises LeaseLost if the task has
        changed since `follow_up.head` was read: read it again.
        """
        before, context = follow_up.head, follow_up.head.context
        message_key, token = keys.message_key(context, follow_up.message_id), str(uuid7())
        until = self._lease_end()

        async def plan(attempt: int) -> TransactionPlan[TurnStarted | TurnQueued | ContextInUse | Duplicate]:
            times = self._times()
            record = await self._context(context, times)
            takes = follow_ups.takes_over(follow_up, record, when_busy)
            rejects = not takes and when_busy is WhenBusy.REJECT
            is_full = not takes and new_tasks.is_full(record)
            if attempt or rejects or is_full or follow_ups.another_runs(follow_up, record):
                # Read the record last, so that this call finds its own write even if an earlier attempt arrives late.
                head, known = await self._log.head(before.key), await self._known([message_key])
                if known is not None and known.task_id == before.key.task_id:
                    mine = await self._followed_before(follow_up, holder)
                    if mine is not None:
                        return TransactionPlan(mine)
                if known is not None:
                    return TransactionPlan(known.repeated(follow_up.content_hash))
                if follow_ups.has_changed(before, head, takes=takes, subscribes=follow_up.push is not None):
                    raise task_changed()
            if rejects:
                return TransactionPlan(ContextInUse(before.key.task_id))
            if is_full:
                raise new_tasks.queue_is_full()
            message = message_row(message_key, before.key, follow_up.content_hash, times)
            writes: list[Write] = [message, *await self._config_writes(follow_up)]
            if not takes:
                waiting = follow_ups.queued(follow_up, record, times)
                writes += await self._writes(context, waiting, times)
                queued = follow_up.turn.id, follow_up.message, follow_up.request
                writes.append(await self._rows.queued_row(before.key, *queued, times))
                if not waiting.heads:
                    writes.append(ConditionCheck(keys.head_key(before.key), IS_RUNNING))
                return TransactionPlan(waiting.outcome, writes)
            expires = await self._new_expiry(before.key, times)
            taken = follow_ups.taken(follow_up, record, holder=holder, expires=expires, token=token, times=times)
            writes += await self._writes(context, taken, times)
            if follow_ups.replaces(follow_up, record):
                writes += await self.remote_calls.cancellations(before)
            if expires is not None:
                writes += await self._prolong(follow_up, record, times)
            return TransactionPlan(taken.outcome, writes)

        outcome = await commit(self._table, plan, busy=BUSY)
        if isinstance(outcome, TurnStarted | TurnQueued):
            await self._notifier.committed(outcome.head)
        return replace(outcome, until=until) if isinstance(outcome, TurnStarted) else outcome

    async def _followed_before(self, follow_up: FollowUp, holder: str | None) -> TurnStarted | TurnQueued | None:
        before = follow_up.head
        record, head = await self._context(before.context, self._times()), await self._log.head(before.key)
        return follow_ups.followed_before(follow_up, record, head, holder) if head is not None else None

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
        return follow_ups.new_expiry(item.get("expires"), times) if item is not None else None

    async def _prolong(self, follow_up: FollowUp, record: ContextRecord, times: Times) -> list[Write]:
        """Return the writes to extend the TTL of a task's items after a new message."""
        head, task = follow_up.head, follow_up.task
        # Write a snapshot, because older events of the task keep their TTL and expire before the task.
        writes: list[Write] = [await self._rows.snapshot_row(head.key, head.generation, task, times)]
        longer = Change({"expires": times.expires})
        if task.history:
            writes.append(Update(keys.message_key(head.context, task.history[0].message_id), longer))
        waiting = [turn for turn in record.waiting if turn.task_id == head.key.task_id and not turn.message_generation]
        return writes + [Update(keys.queued_message_key(head.key, turn.id), longer) for turn in waiting]

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Duplicate | None:
        """Return the task of a stored message; None for a new message. Raises MessageIdReused for other content."""
        known = await self._known(message_keys_of(context, message_id, idempotency_key))
        return known.repeated(content_hash) if known is not None else None

    async def _known(self, message_keys: Sequence[Key]) -> KnownMessage | None:
        for key in message_keys:
            item = await self._reads.get(key)
            if item is not None:
                with readable("The record of a message"):
                    return KnownMessage(item["task_id"], item["content_hash"])
        return None
