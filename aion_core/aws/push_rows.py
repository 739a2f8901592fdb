"""The rows of push configs on DynamoDB: read, sealed, and made part of the transactions of a task's commits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from uuid_utils.compat import uuid7

from aion_core.aws import keys
from aion_core.aws.items import Item
from aion_core.aws.push_writes import PushWrites, delivery_of, find
from aion_core.aws.table import Table
from aion_core.aws.writes import Write
from aion_core.errors import ConfigurationError
from aion_core.ports import Cipher, Delivery, PushConfig, PushEvents, PushVersion, TaskKey
from aion_core.tasks import deliveries, pushed


@dataclass(frozen=True, slots=True)
class Registered:
    """A config that is kept when the write is made."""

    write: Write
    delivery: Delivery


class PushRows:
    """The push configs of one table."""

    def __init__(self, reads: Table, writes: PushWrites, cipher: Cipher | None) -> None:
        """Without a `cipher` there is nothing to read, and no config can be kept."""
        self._reads, self._writes, self._cipher = reads, writes, cipher

    async def known(self, task: TaskKey) -> list[Delivery]:
        """Return how far each config of the task has come, sorted by id."""
        return [delivery_of(task, item) for item in await self.rows(task)]

    async def rows(self, task: TaskKey) -> list[Item]:
        """Return the items of the task's configs."""
        return await self._reads.query(keys.task_partition(task), keys.push_sort(""), keys.push_sort(keys.LAST))

    async def register(
        self, task: TaskKey, config: PushConfig, known: Sequence[Delivery], *, after: int, due: bool = True
    ) -> Registered:
        """Return the write by which the config is kept beside those that are known; raises TooManyPushConfigs."""
        pushed.check_room([delivery.config_id for delivery in known], config)
        before = find(known, config.id)
        due_at: datetime | None = self._writes.soon() if due else None
        delivery = revised(deliveries.registered(task, config.id, before, after=after, due_at=due_at))
        return Registered(self._writes.register(before, delivery, await self._seal(task, config)), delivery)

    async def open(self, task: TaskKey, item: Item) -> PushConfig:
        """Return the config that the item holds; raises StoreCorrupt where it cannot be read."""
        config_id = keys.push_config_of(item["sk"]["S"])
        said = json.loads(await self._with_cipher().open(item["sealed"]["B"], about=_about(task, config_id)))
        return PushConfig(
            config_id,
            said["url"],
            token=said["token"],
            scheme=said["scheme"],
            credentials=said["credentials"],
            secrets=tuple(said["secrets"]),
            older_until=datetime.fromisoformat(said["older_until"]) if said.get("older_until") else None,
            version=PushVersion(said["version"]),
            events=PushEvents(said["events"]),
        )

    async def _seal(self, task: TaskKey, config: PushConfig) -> bytes:
        # The URL too: its query may hold a secret.
        said = {
            "url": config.url,
            "token": config.token,
            "scheme": config.scheme,
            "credentials": config.credentials,
            "secrets": config.secrets,
            "older_until": config.older_until.isoformat() if config.older_until else None,
            "version": config.version,
            "events": config.events,
        }
        return await self._with_cipher().seal(json.dumps(said).encode(), about=_about(task, config.id))

    def _with_cipher(self) -> Cipher:
        if self._cipher is None:
            raise ConfigurationError(
                "Push configs are sealed, and AION_KMS_KEY, the key to seal them with, is missing."
            )
        return self._cipher


def revised(delivery: Delivery) -> Delivery:
    """Return the delivery under a revision of its own."""
    return replace(delivery, revision=str(uuid7()))


def _about(task: TaskKey, config_id: str) -> str:
    key = keys.push_key(task, config_id)
    return f"{key['pk']['S']} {key['sk']['S']}"
