"""Items of push configs: encrypted, each with the state of its delivery."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.clock import Clock
from aion_core.engine.agent_options import PushEvents
from aion_core.engine.delivery import rows, transitions
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.push_config import PushConfig, PushVersion
from aion_core.engine.task import subscribers
from aion_core.errors import ConfigurationError
from aion_core.table import keys
from aion_core.table.cipher import Cipher
from aion_core.table.item import Item, readable
from aion_core.table.keys import TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.times import Times, moment
from aion_core.table.writes import Change, Put, Update


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
        return [rows.delivery_of(task, item) for item in await self.rows(task)]

    async def rows(self, task: TaskKey) -> list[Item]:
        """Return the items of a task's push configs."""
        return await self._reads.query(keys.task_partition(task), keys.push_sort(""), keys.PUSH_END)

    async def register(
        self, task: TaskKey, config: PushConfig, known: Sequence[Delivery], *, after: int, due: bool = True
    ) -> RegisteredConfig:
        """Return the write to add or replace a push config. `known` has the deliveries of the task's stored configs.

        The webhook receives the events after number `after`. With `due` the config gets a timer. Raises
        TooManyPushConfigs if the task already has the maximum number.
        """
        subscribers.check_room([delivery.config_id for delivery in known], config)
        before = transitions.find(known, config.id)
        times = self._times()
        due_at = moment(times.lease_until) if due else None
        delivery = revised(transitions.registered(task, config.id, before, after=after, due_at=due_at))
        encrypted = await self._encrypted(task, config)
        key = keys.push_key(task, config.id)
        if before is not None:
            return RegisteredConfig(Update(key, self.change(before, delivery, encrypted=encrypted)), delivery)
        return RegisteredConfig(
            Put(key, {**rows.attributes_of(delivery), "encrypted": encrypted, **times.stamp(task.owner)}), delivery
        )

    def change(self, before: Delivery, after: Delivery, **more: bytes) -> Change:
        """Return the change of a push config's item from one delivery state to another."""
        # Renew the TTL, because a push config must live until its webhook has received all events of the task.
        return rows.change(before, after, expires=self._times().expires, **more)

    async def decrypted(self, task: TaskKey, item: Item) -> PushConfig:
        """Decrypt the push config in an item. Raises StoreCorrupt if the config cannot be read."""
        config_id = keys.push_config_of(item["sk"])
        with readable("A push config"):
            encrypted = item["encrypted"]
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
                older_until=datetime.fromisoformat(fields["older_until"]) if fields["older_until"] else None,
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


def revised(delivery: Delivery) -> Delivery:
    """Return the delivery state with a new random revision."""
    return replace(delivery, revision=str(uuid7()))


def _about(task: TaskKey, config_id: str) -> str:
    partition, sort = keys.push_key(task, config_id)
    return f"{partition} {sort}"
