"""Store of deliveries: claims of a task's webhooks, their progress, and the timers that wake them."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from aion_core.clock import Clock
from aion_core.engine import timers
from aion_core.engine.delivery import readiness, transitions
from aion_core.engine.delivery.items import PushItems, revised
from aion_core.engine.delivery.records import Claim, Delivery, ExpiredPushTimer
from aion_core.engine.records import Head
from aion_core.engine.task import subscribers
from aion_core.engine.timers import PUSH_PLANS, PUSH_WAITS, Claimed, Expired, TimerIndex
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table import keys
from aion_core.table.cipher import Cipher
from aion_core.table.conditions import Exists
from aion_core.table.item import Item, Key
from aion_core.table.keys import PushTimerOf, TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.retries import MAX_ATTEMPTS, MAX_LOST_ANSWERS, jitter, write_unless_refused
from aion_core.table.times import milliseconds
from aion_core.table.writes import Change, Delete, Update

logger = logging.getLogger(__name__)


class DeliveryStore:
    """Store of the deliveries to the webhooks of tasks. Each delivery is the progress of one push config.

    A process claims a delivery before it posts. Every method may raise StoreUnavailable, and may then be repeated.
    """

    def __init__(
        self,
        table: Table,
        cipher: Cipher | None,
        clock: Clock,
        *,
        lease_seconds: float = 30.0,
        retention: timedelta = timedelta(days=30),
    ) -> None:
        """Use the same options as the task store. Without a `cipher`, no config can be stored or read."""
        self._table, self._clock, self._reads = table, clock, Reads(table, clock)
        self._items = PushItems(table, cipher, clock, lease_seconds=lease_seconds, retention=retention)
        self._plans = TimerIndex(table, clock, PUSH_PLANS, lease_seconds=lease_seconds)
        self._waits = TimerIndex(table, clock, PUSH_WAITS, lease_seconds=lease_seconds)
        self._message_seconds = min(lease_seconds, readiness.WAKE_UP_SECONDS)

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """Return the delivery state of each push config of the task, sorted by id. The read is consistent."""
        return await self._items.known(task)

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """Claim the right to post for a push config. Return None if its state has changed since `delivery` was read.

        The config's timer is set to the end of the claim, in case the process dies. A config that cannot be decrypted
        can be claimed too, so that its failures are counted.
        """
        claimed = revised(transitions.claimed(delivery, until))
        item = await self._changed(delivery, claimed)
        if item is None:
            return None
        try:
            return Claim(claimed, await self._items.decrypted(delivery.task, item))
        except StoreUnavailable:
            raise
        except StoreError:
            # Return a claim without a config. A retry would not help: the KMS key is deleted or must not be used.
            labels = {"task_id": delivery.task.task_id, "config_id": delivery.config_id}
            logger.exception("A push config cannot be read.", extra=labels)
            return Claim(claimed, None)

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """Move the config's cursor after a successful post, and renew the claim.

        Raises ClaimLost if another process has claimed the config, or it was deleted or replaced.
        """
        return await self._change(claim, transitions.advanced(claim.delivery, cursor, until))

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """Move the config's cursor and release the claim.

        With `delivered`, reset the failures: a post has succeeded. `due_at` sets the timer for later posts. Raises
        ClaimLost as `advance` does.
        """
        await self._change(claim, transitions.settled(claim.delivery, cursor, delivered=delivered, due_at=due_at))

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """Count a failed post of the event after the cursor, and release the claim.

        The config may be claimed again from `next_at` on; `due_at` sets its timer. Raises ClaimLost as `advance` does.
        """
        await self._change(claim, transitions.failed(claim.delivery, failure, next_at, due_at))

    async def give_up(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """Count event `cursor` as a dead letter, move the cursor past it, and renew the claim. Do not change `tries`.

        Raises ClaimLost as `advance` does.
        """
        return await self._change(claim, transitions.buried(claim.delivery, cursor, failure, until))

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """Disable the config after a 410 response, and release the claim. Raises ClaimLost as `advance` does."""
        await self._change(claim, transitions.disabled(claim.delivery, failure))

    async def clear(self, task: TaskKey, generation: int) -> None:
        """Remove the timer of an event that no webhook of the task needs any more. A repeat has no effect."""
        # Ignore a refused write, because a refusal means that the event has expired.
        await self._write(Update(keys.event_key(task, generation), Change(remove=timers.NO_TIMER, only_if=Exists())))

    async def clear_subscribers(self, head: Head) -> None:
        """Record that the task has no push configs. No effect if a config was stored since `head` was read."""
        # Ignore a refused write, because a refusal means that a push config was added or the task has expired.
        await self._write(Update(keys.head_key(head.key), subscribers.without_subscribers(head)))

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """Enable the config and set its timer to now, to post its dead letters again. Return None if it is missing.

        Events after the first dead letter are posted again too, with the same notification ids as before.
        """
        for attempt in range(MAX_ATTEMPTS):
            before = transitions.find(await self._items.known(task), config_id)
            if before is None:
                return None
            after = revised(transitions.redriven(before, self._clock.now()))
            if await self._changed(before, after) is not None:
                return after
            await jitter(attempt)
        raise StoreUnavailable("The push config is changed by too many processes at once.")

    async def _write(self, write: Update | Delete) -> None:
        await write_unless_refused(partial(self._table.write, write))

    async def _change(self, claim: Claim, after: Delivery) -> Claim:
        after = revised(after)
        if await self._changed(claim.delivery, after) is None:
            raise transitions.lost()
        return Claim(after, claim.config)

    async def _changed(self, before: Delivery, after: Delivery) -> Item | None:
        """Store a delivery's new state and return its item; None if the stored state differs from `before`."""
        key, lost_answers = keys.push_key(after.task, after.config_id), 0
        update = Update(key, self._items.change(before, after))
        for attempt in range(MAX_ATTEMPTS):
            try:
                return await self._table.write(update, returning=True)
            except WriteRefused as refused:
                item = await self._reads.get(key)
                if item is not None and item["revision"] == after.revision:
                    return item  # An earlier attempt of this call succeeded, but its response was lost.
                if not refused.is_conflict:
                    return None
            except StoreUnavailable:
                lost_answers += 1
                if lost_answers == MAX_LOST_ANSWERS:
                    raise
            await jitter(attempt)
        raise StoreUnavailable("Too many transactions write this push config at once.")

    async def expired_plans(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """Return up to `limit` expired timers that need a message: of planned retries, and of dead processes' claims.

        The index may be outdated. Owners take turns, each with its longest overdue timer first, so that an owner with
        many timers does not delay the others. A shard that cannot be read is logged and left out. Raises StoreError if
        no shard can be read.
        """
        return self._found(await self._plans.expired(limit), limit)

    async def overdue_waits(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """Return up to `limit` expired timers of events and configs whose message is lost, or is still in the queue.

        See `expired_plans` for the rest.
        """
        return self._found(await self._waits.expired(limit), limit)

    async def waiting(self) -> set[TaskKey]:
        """Return the tasks that need a message in the queue now, unless a process delivers for them.

        The index may be outdated. A shard that cannot be read is logged and left out. Raises StoreError if none can.
        """
        # Leave out later timers: those of retries whose messages are still delayed.
        until = self._clock.now() + timedelta(seconds=self._message_seconds)
        return {keys.task_of(key) for key in await self._waits.between(0, milliseconds(until))}

    async def in_delivery(self) -> set[TaskKey]:
        """Return the tasks for which a process holds a claim, and those with a retry planned for the next minute.

        The index may be outdated. A shard that cannot be read is logged and left out. Raises StoreError if none can.
        """
        now = self._clock.now()
        until = now + timedelta(seconds=readiness.CLAIM_SECONDS)
        return {keys.task_of(key) for key in await self._plans.between(milliseconds(now) + 1, milliseconds(until))}

    async def claim_expired(self, timer: ExpiredPushTimer) -> Claimed:
        """Claim the expired push timer. Return NOT if it is no longer expired or another process has claimed it.

        The claim sets the timer again, in case the wake-up message is lost. If the TTL of the timer's item has passed,
        remove the timer instead.
        """
        waits = keys.push_timer_shard(timer.task, PushTimerOf.WAIT)
        item = await self._waits.claimed(_key_with(timer), shard=waits)
        if item is None:
            return Claimed.NOT
        is_retry = item["due_shard"] != waits and "claimed_until" not in item
        return Claimed.RETRY if is_retry else Claimed.WORK

    def _found(self, expired: Sequence[Expired], limit: int) -> list[ExpiredPushTimer]:
        now = self._clock.now()
        return readiness.by_turns([_timer_of(key, at, (now - at).total_seconds()) for at, key in expired], limit)


def _key_with(timer: ExpiredPushTimer) -> Key:
    """Return the key of the event or push config with this timer."""
    return (
        keys.event_key(timer.task, timer.generation) if timer.generation else keys.push_key(timer.task, timer.config_id)
    )


def _timer_of(key: Key, at: datetime, overdue: float) -> ExpiredPushTimer:
    """Return the push timer of the event or push config with this key. The timer expired at the time `at`."""
    kind, _, name = key.sort.partition("#")
    of = {"generation": int(name)} if kind == "EVENT" else {"config_id": name}
    return ExpiredPushTimer(keys.task_of(key), at, overdue=overdue, **of)
