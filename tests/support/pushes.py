"""Push configs for tests, beside their task store."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.delivery.records import Claim, Delivery, ExpiredPushTimer
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.push_config import PushConfig
from aion_core.table.keys import TaskKey
from aion_core.table.port import Table
from tests.support.clock import ManualClock
from tests.support.conversation import MANY, StoreConversation
from tests.support.databases import Stack
from tests.support.stores import CIPHER, LEASE_SECONDS, store_of, table_of


def a_config(config_id: str = "p-1", **said: Any) -> PushConfig:
    """Return a config with a secret."""
    return PushConfig(
        config_id,
        **{
            "url": "https://hooks.test/?key=hidden-in-the-url",
            "token": "hidden-token",
            "scheme": "Bearer",
            "credentials": "hidden-credentials",
            "secrets": ("hidden-secret", "hidden-older-secret"),
            **said,
        },
    )


@dataclass
class Pushes:
    """Conversation in a task store, together with the push configs of its tasks."""

    chat: StoreConversation
    configs: PushConfigs
    clock: ManualClock
    table: Table

    def __post_init__(self) -> None:
        # Remove the microseconds, because the table stores milliseconds and a read time must equal the stored time.
        self.clock._now = self.clock.now().replace(microsecond=0)

    def key(self, task_id: str = "t-m-1") -> TaskKey:
        """Return the key of a task."""
        return self.chat.key(task_id)

    async def delivery(self, config_id: str = "p-1", *, task_id: str = "t-m-1") -> Delivery:
        """Return the delivery state of an existing config."""
        found = [each for each in await self.configs.deliveries(self.key(task_id)) if each.config_id == config_id]
        assert found, config_id
        return found[0]

    async def claimed(self, config_id: str = "p-1", *, seconds: float = 60.0, task_id: str = "t-m-1") -> Claim:
        """Claim the push config for a delivery, and return the claim."""
        until = self.clock.now() + timedelta(seconds=seconds)
        claim = await self.configs.claim(await self.delivery(config_id, task_id=task_id), until=until)
        assert claim is not None
        return claim

    async def expired_timers(self) -> list[ExpiredPushTimer]:
        """Return the expired timers of this owner's tasks."""
        return [each for each in await expired_of(self.configs) if each.task.owner == self.chat.context.owner]

    async def events_with_timers(self) -> set[int]:
        """Return the generations of the events whose push timers have expired; first move the clock to their expiry."""
        self.clock.move(LEASE_SECONDS + 1)
        return {each.generation for each in await self.expired_timers() if each.generation}


async def expired_of(configs: DeliveryStore) -> list[ExpiredPushTimer]:
    """Return all expired push timers, those of claims and planned retries first."""
    return [*await configs.expired_plans(limit=MANY), *await configs.overdue_waits(limit=MANY)]


def on_table(stack: Stack | None, clock: ManualClock, like: Pushes | None = None) -> Pushes:
    """Return a new context in the stack's table, or in memory; with `like`, the same context in another process."""
    table = like.table if like and stack is None else table_of(stack, clock)
    configs = PushConfigs(table, CIPHER, clock, lease_seconds=LEASE_SECONDS)
    store = store_of(table, stack, clock)
    return Pushes(StoreConversation(store, clock, like.chat.context if like else None), configs, clock, table)
