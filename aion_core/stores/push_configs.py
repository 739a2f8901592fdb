"""Encrypted push configs (webhooks) and the state of their deliveries, in one table."""

import json
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.errors import ConfigurationError, StoreError, StoreUnavailable, TaskNotFound
from aion_core.ports import (
    Cipher,
    Claim,
    Clock,
    Delivery,
    ExpiredPushTimer,
    Head,
    PushConfig,
    PushEvents,
    PushVersion,
    TaskKey,
)
from aion_core.ports.table import Change, Delete, Exists, Item, Put, Table, Update, WriteRefused
from aion_core.push import schedule
from aion_core.stores import keys
from aion_core.stores.items import Reads, readable
from aion_core.stores.retries import (
    MAX_ATTEMPTS,
    MAX_LOST_ANSWERS,
    TransactionPlan,
    commit,
    jitter,
    write_unless_refused,
)
from aion_core.stores.timers import PUSHES, TimerIndex
from aion_core.tasks import contexts, deliveries, lifecycle
from aion_core.tasks.contexts import Times, moment

logger = logging.getLogger(__name__)


class RegisteredConfig(Struct, frozen=True):
    """Write of a push config, and its delivery state after the write."""

    write: Put | Update
    delivery: Delivery


class PushItems:
    """Items of push configs. The task store adds their writes to a message's transaction."""

    def __init__(
        self, table: Table, cipher: Cipher | None, clock: Clock, *, lease_seconds: float, retention: timedelta
    ) -> None:
        """Encrypt the configs with the `cipher`. Without a cipher, no config can be stored or read."""
        self._reads, self._cipher = Reads(table, clock), cipher
        self._times = partial(Times.read, clock, lease_seconds, retention)

    async def known(self, task: TaskKey) -> list[Delivery]:
        """Return the delivery state of each push config of a task, sorted by the config's id."""
        return [delivery_of(task, item) for item in await self.rows(task)]

    async def rows(self, task: TaskKey) -> list[Item]:
        """Return the items of a task's push configs."""
        return await self._reads.query(keys.task_partition(task), keys.push_sort(""), keys.push_sort(keys.LAST))

    async def register(
        self, task: TaskKey, config: PushConfig, known: Sequence[Delivery], *, after: int, due: bool = True
    ) -> RegisteredConfig:
        """Return the write to add or replace a push config. `known` has the deliveries of the task's stored configs.

        The webhook receives the events after number `after`. With `due` the config gets a timer. Raises
        TooManyPushConfigs if the task already has the maximum number.
        """
        lifecycle.check_room([delivery.config_id for delivery in known], config)
        before = deliveries.find(known, config.id)
        times = self._times()
        due_at = moment(times.lease_until) if due else None
        delivery = revised(deliveries.registered(task, config.id, before, after=after, due_at=due_at))
        encrypted = await self._encrypted(task, config)
        key = keys.push_key(task, config.id)
        if before is not None:
            return RegisteredConfig(Update(key, self.change(before, delivery, sealed=encrypted)), delivery)
        attributes = deliveries.attributes_of(delivery, keys.push_timer_shard(task))
        return RegisteredConfig(Put(key, {**attributes, "sealed": encrypted, **times.ttl}), delivery)

    def change(self, before: Delivery, after: Delivery, **more: bytes) -> Change:
        """Return the change of a push config's item from one delivery state to another."""
        # Renew the TTL, because a push config must live until its webhook has received all events of the task.
        shard = keys.push_timer_shard(after.task)
        return deliveries.change(before, after, shard, expires=self._times().expires, **more)

    async def decrypted(self, task: TaskKey, item: Item) -> PushConfig:
        """Decrypt the push config in an item. Raises StoreCorrupt if the config cannot be read."""
        config_id = keys.push_config_of(item["sk"])
        with readable("A push config"):
            encrypted = item["sealed"]
        content = await self._with_cipher().decrypt(encrypted, about=_about(task, config_id))
        with readable("A push config"):
            fields = json.loads(content)
            return PushConfig(
                config_id,
                fields["url"],
                token=fields["token"],
                scheme=fields["scheme"],
                credentials=fields["credentials"],
                secrets=tuple(fields["secrets"]),
                older_until=datetime.fromisoformat(fields["older_until"]) if fields.get("older_until") else None,
                version=PushVersion(fields["version"]),
                events=PushEvents(fields["events"]),
            )

    async def _encrypted(self, task: TaskKey, config: PushConfig) -> bytes:
        # Encrypt the URL too, because its query may contain a secret.
        fields = {
            "url": config.url,
            "token": config.token,
            "scheme": config.scheme,
            "credentials": config.credentials,
            "secrets": config.secrets,
            "older_until": config.older_until.isoformat() if config.older_until else None,
            "version": config.version,
            "events": config.events,
        }
        return await self._with_cipher().encrypt(json.dumps(fields).encode(), about=_about(task, config.id))

    def _with_cipher(self) -> Cipher:
        if self._cipher is None:
            raise ConfigurationError("Push configs are encrypted, but their key AION_KMS_KEY is not set.")
        return self._cipher


class TablePushConfigs:
    """`ports.PushConfigs` in one table."""

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
        self._timers = TimerIndex(table, clock, PUSHES, lease_seconds=lease_seconds)

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """See `ports.PushConfigs.put`."""
        mine: set[str] = set()

        async def plan(_attempt: int) -> TransactionPlan[Delivery]:
            item, known = await self._reads.get(keys.head_key(task)), await self._items.known(task)
            if item is None:
                raise TaskNotFound(task.task_id)
            stored = deliveries.find(known, config.id)
            if stored is not None and stored.revision in mine:
                return TransactionPlan(stored)  # An earlier attempt of this call succeeded, but its response was lost.
            head = lifecycle.head_of(task, item)
            registered = await self._items.register(task, config, known, after=head.generation)
            mine.add(registered.delivery.revision)
            subscribed = lifecycle.subscribed(head, lifecycle.head_with_subscriber(head, config))
            return TransactionPlan(registered.delivery, [Update(keys.head_key(task), subscribed), registered.write])

        return await commit(self._table, plan, busy="The task's push configs are changed by too many requests at once.")

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """See `ports.PushConfigs.get`."""
        item = await self._reads.get(keys.push_key(task, config_id))
        return await self._items.decrypted(task, item) if item is not None else None

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """See `ports.PushConfigs.all`."""
        return [await self._items.decrypted(task, item) for item in await self._items.rows(task)]

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """See `ports.PushConfigs.delete`."""
        await self._write(Delete(keys.push_key(task, config_id)))

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """See `ports.PushConfigs.deliveries`."""
        return await self._items.known(task)

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """See `ports.PushConfigs.claim`."""
        claimed = revised(deliveries.claimed(delivery, until))
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

    async def give_up(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """See `ports.PushConfigs.give_up`."""
        return await self._change(claim, deliveries.buried(claim.delivery, cursor, failure, until))

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """See `ports.PushConfigs.disable`."""
        await self._change(claim, deliveries.disabled(claim.delivery, failure))

    async def clear(self, task: TaskKey, generation: int) -> None:
        """See `ports.PushConfigs.clear`."""
        # Ignore a refused write, because a refusal means that the event has expired.
        await self._write(Update(keys.event_key(task, generation), Change(remove=contexts.NO_TIMER, only_if=Exists())))

    async def clear_subscribers(self, head: Head) -> None:
        """See `ports.PushConfigs.clear_subscribers`."""
        # Ignore a refused write, because a refusal means that a push config was added or the task has expired.
        await self._write(Update(keys.head_key(head.key), lifecycle.without_subscribers(head)))

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """See `ports.PushConfigs.redrive`."""
        for attempt in range(MAX_ATTEMPTS):
            before = deliveries.find(await self._items.known(task), config_id)
            if before is None:
                return None
            after = revised(deliveries.redriven(before, self._clock.now()))
            if await self._changed(before, after) is not None:
                return after
            await jitter(attempt)
        raise StoreUnavailable("The push config is changed by too many processes at once.")

    async def _write(self, write: Update | Delete) -> None:
        await write_unless_refused(partial(self._table.write, write))

    async def _change(self, claim: Claim, after: Delivery) -> Claim:
        after = revised(after)
        if await self._changed(claim.delivery, after) is None:
            raise deliveries.lost()
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

    # ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """See `ports.PushConfigs.expired_timers`."""
        found = [keys.push_timer_of(key, at) for at, key in await self._timers.expired(limit)]
        return schedule.by_turns(found, limit)

    async def claim_expired(self, timer: ExpiredPushTimer) -> bool:
        """See `ports.PushConfigs.claim_expired`."""
        return await self._timers.claim(keys.push_timer_key(timer))


def revised(delivery: Delivery) -> Delivery:
    """Return the delivery state with a new random revision."""
    return replace(delivery, revision=str(uuid7()))


def delivery_of(task: TaskKey, item: Item) -> Delivery:
    """Parse the delivery state from a push config's item. Raises StoreCorrupt if the item is invalid."""
    with readable("The delivery of a push config"):
        return deliveries.delivery_of(task, keys.push_config_of(item["sk"]), item)


def _about(task: TaskKey, config_id: str) -> str:
    partition, sort = keys.push_key(task, config_id)
    return f"{partition} {sort}"
