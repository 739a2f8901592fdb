"""Push configs and their deliveries on DynamoDB, with the promises of `ports.PushConfigs`; secrets are sealed there."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain
from uuid import uuid4

from aion_core.aws import items, keys
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write, try_unheard_again
from aion_core.aws.items import Item
from aion_core.aws.push_rows import PushRows, revised
from aion_core.aws.push_writes import PushWrites, find
from aion_core.aws.table import Table
from aion_core.aws.task_writes import TaskWrites
from aion_core.aws.terms import Terms
from aion_core.errors import StoreError, StoreUnavailable, TaskNotFound
from aion_core.ports import Cipher, Claim, Clock, Delivery, Head, OverduePush, PushConfig, TaskKey
from aion_core.push import schedule
from aion_core.tasks import deliveries, pushed
from aion_core.tasks.contexts import moment

logger = logging.getLogger(__name__)


class DynamoDBPushConfigs:
    """`ports.PushConfigs` in one table."""

    def __init__(
        self,
        dynamodb: Calls,
        cipher: Cipher | None,
        clock: Clock,
        *,
        table: str,
        lease_seconds: float = 30.0,
        retention: timedelta = timedelta(days=30),
    ) -> None:
        """The options are the task store's; without a `cipher` no config itself can be kept, or read."""
        self._dynamodb, self._clock, self._table = dynamodb, clock, table
        self._reads = Table(dynamodb, clock, name=table)
        terms = Terms(clock, lease_seconds=lease_seconds, retention=retention)
        self._tasks, self._writes = TaskWrites(table, terms), PushWrites(table, terms)
        self._rows = PushRows(self._reads, self._writes, cipher)

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """See `ports.PushConfigs.put`."""
        mine: Delivery | None = None
        for attempt in range(TRIES):
            item, known = await self._reads.get(keys.head_key(task)), await self._rows.known(task)
            if item is None:
                raise TaskNotFound(task.task_id)
            stands = find(known, config.id)
            if mine is not None and stands is not None and stands.revision == mine.revision:
                return mine  # an earlier try, whose answer was lost
            head = items.head_of(task, item)
            registered = await self._rows.register(task, config, known, after=head.generation)
            mine = registered.delivery
            writes = [self._tasks.listen(head, pushed.listening(head, config)), registered.write]
            try:
                await self._dynamodb("transact_write_items", TransactItems=writes, ClientRequestToken=str(uuid4()))
            except Refused:
                # Somebody else has begun to listen, or the config has just come further: how do they stand now?
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return mine
        raise StoreUnavailable("The task's push configs change faster than one can be added to them.")

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """See `ports.PushConfigs.get`."""
        item = await self._reads.get(keys.push_key(task, config_id))
        return await self._rows.open(task, item) if item is not None else None

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """See `ports.PushConfigs.all`."""
        return [await self._rows.open(task, item) for item in await self._rows.rows(task)]

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """See `ports.PushConfigs.delete`."""
        await self._dynamodb("delete_item", **self._writes.forget(task, config_id)["Delete"])

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """See `ports.PushConfigs.deliveries`."""
        return await self._rows.known(task)

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """See `ports.PushConfigs.claim`."""
        claimed = revised(deliveries.claimed(delivery, until))
        item = await self._changed(delivery, claimed)
        if item is None:
            return None
        try:
            return Claim(claimed, await self._rows.open(delivery.task, item))
        except StoreUnavailable:
            raise
        except StoreError:
            # Neither does a key come back by itself that may not be used any more.
            labels = {"task_id": delivery.task.task_id, "config_id": delivery.config_id}
            logger.exception("A push config cannot be read.", extra=labels)
            return Claim(claimed, None)

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """See `ports.PushConfigs.advance`."""
        return await self._change(claim, deliveries.advanced(claim.delivery, cursor, until))

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """See `ports.PushConfigs.settle`."""
        await self._change(claim, deliveries.settled(claim.delivery, cursor, delivered=delivered, due_at=due_at))

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """See `ports.PushConfigs.fail`."""
        await self._change(claim, deliveries.failed(claim.delivery, failure, next_at, due_at))

    async def bury(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """See `ports.PushConfigs.bury`."""
        return await self._change(claim, deliveries.buried(claim.delivery, cursor, failure, until))

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """See `ports.PushConfigs.disable`."""
        await self._change(claim, deliveries.disabled(claim.delivery, failure))

    async def clear(self, task: TaskKey, generation: int) -> None:
        """See `ports.PushConfigs.clear`."""
        for attempt in range(TRIES):
            try:
                await self._dynamodb("update_item", **self._writes.clear(task, generation)["Update"])
            except Refused as refused:
                if not refused.conflict:
                    return  # it has expired
                await let_others_write(attempt)
            else:
                return
        raise StoreUnavailable("The event is being written by too many at once.")

    async def nobody_listens(self, head: Head) -> None:
        """See `ports.PushConfigs.nobody_listens`."""
        write = self._tasks.desert(head, pushed.deserted(head))["Update"]
        for attempt in range(TRIES):
            try:
                await self._dynamodb("update_item", **write)
            except Refused as refused:
                if not refused.conflict:
                    return  # somebody has begun to listen, or the task has expired
                await let_others_write(attempt)
            else:
                return
        raise StoreUnavailable("The task is being written by too many at once.")

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """See `ports.PushConfigs.redrive`."""
        for attempt in range(TRIES):
            before = find(await self._rows.known(task), config_id)
            if before is None:
                return None
            after = revised(deliveries.redriven(before, self._clock.now()))
            if await self._changed(before, after) is not None:
                return after
            await let_others_write(attempt)
        raise StoreUnavailable("The config comes further faster than it can be sent back.")

    async def _change(self, claim: Claim, after: Delivery) -> Claim:
        after = revised(after)
        if await self._changed(claim.delivery, after) is None:
            raise deliveries.lost()
        return Claim(after, claim.config)

    async def _changed(self, before: Delivery, after: Delivery) -> Item | None:
        """Keep how far a config has come; return its item, None where it was no longer as it was read."""
        write = self._writes.change(before, after)["Update"]
        for attempt in range(TRIES):
            try:
                item: Item = (await self._dynamodb("update_item", ReturnValues="ALL_NEW", **write))["Attributes"]
            except Refused as refused:
                item_now = await self._reads.get(keys.push_key(after.task, after.config_id))
                if item_now is not None and item_now["revision"]["S"] == after.revision:
                    return item_now  # an earlier try, whose answer was lost
                if not refused.conflict:
                    return None
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return item
        raise StoreUnavailable("The config is being written by too many at once.")

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def overdue(self, *, limit: int) -> Sequence[OverduePush]:
        """See `ports.PushConfigs.overdue`."""
        found = await asyncio.gather(*(self._overdue(shard, limit) for shard in range(keys.DUE_SHARDS)))
        return schedule.by_turns(chain.from_iterable(found), limit)

    async def _overdue(self, shard: int, limit: int) -> list[OverduePush]:
        page = await self._reads.due(keys.push_due_partition(shard), limit)
        return [keys.overdue_push_of(item, moment(int(item["due_at"]["N"]))) for item in page]

    async def claim_overdue(self, overdue: OverduePush) -> bool:
        """See `ports.PushConfigs.claim_overdue`."""
        # The index lags: the item knows.
        item = await self._reads.get(keys.overdue_push_key(overdue), expired=True)
        if item is None or "due_at" not in item or int(item["due_at"]["N"]) > items.milliseconds(self._clock.now()):
            return False
        lives, due_at = self._reads.lives(item), int(item["due_at"]["N"])
        # What has expired would be the longest overdue at each sweep, until DynamoDB deletes it.
        write = self._writes.claim_overdue(overdue, due_at) if lives else self._writes.forget_overdue(overdue, due_at)
        try:
            await self._dynamodb("update_item", **write["Update"])
        except Refused:
            return False
        return lives
