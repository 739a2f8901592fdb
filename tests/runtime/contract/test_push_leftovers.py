"""Expired events, push configs and tasks: their remaining push timers are removed."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from msgspec.structs import replace

from aion_core.engine.delivery.readiness import CLAIM_SECONDS
from aion_core.engine.queues import PushWakeUp
from aion_core.local.memory.queues import MemoryPushQueue
from aion_core.push.client import POST_SECONDS, Delivered, PostOutcome
from aion_core.push.delivery import PushDelivery
from aion_core.push.request import render
from aion_core.table import keys
from aion_core.table.writes import Delete
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.faulty_table import FaultyTable, TableCall, TableFaults
from tests.support.pushes import Pushes, a_config
from tests.support.stores import LEASE_SECONDS

DAY = 86_400.0


@pytest.fixture
def push(adapter: Stack | None, clock: ManualClock) -> Pushes:
    return pushes.on_table(adapter, clock)


class Fine:
    """Webhook that accepts every notification."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `WebhookClient.post`."""
        return Delivered()


async def test_expired_push_items_do_not_block_sweep(push: Pushes) -> None:
    """DynamoDB deletes expired items days later; until then every sweep would read them before valid timers."""
    await push.chat.store.create(replace(push.chat.message("m-1"), push=a_config()), holder="holder-1")
    push.clock.move(31 * DAY)
    assert {each.generation for each in await push.expired_timers()} == {2}
    for expired_timers in await push.expired_timers():
        assert not await push.configs.claim_expired(expired_timers)
    assert await push.expired_timers() == []


async def test_push_timers_of_expired_task_are_cleared(push: Pushes) -> None:
    """Delete a task whose config waits for a retry: the next delivery clears the timers of both."""
    await push.chat.store.create(replace(push.chat.message("m-1"), push=a_config()), holder="holder-1")
    until = push.clock.now() + timedelta(seconds=2)
    await push.configs.fail(await push.claimed(), failure="HTTP 500", next_at=until, due_at=until)
    await push.table.write(Delete(keys.head_key(push.key())))
    push.clock.move(LEASE_SECONDS + 1)
    assert len(await push.expired_timers()) == 2
    work_queue = MemoryPushQueue(push.clock)
    delivery = PushDelivery(push.chat.store, push.configs, work_queue, Fine(), render, push.clock)
    await delivery.deliver(PushWakeUp(push.key(), 2))
    push.clock.move(10 * LEASE_SECONDS)
    assert await push.expired_timers() == []


class SlowLog(TableFaults):
    """Table faults: a query directly after a write is slow, such as the read of the log after the claim of a config."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        self._clock, self._seconds, self._has_written = clock, seconds, False

    def before(self, call: TableCall) -> None:
        if call.operation == "query" and self._has_written:
            self._clock.move(self._seconds)
        self._has_written = call.operation == "write"


class SlowWebhook:
    """Webhook that takes the maximum time for each post; during the first post a second process delivers too."""

    def __init__(self, push: Pushes) -> None:
        self.posts: list[str] = []
        self._push = push

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `WebhookClient.post`."""
        self.posts.append(headers["webhook-id"])
        self._push.clock.move(POST_SECONDS)
        if len(self.posts) == 1:
            await deliver(self._push, self)
        return Delivered()


async def deliver(push: Pushes, webhook: SlowWebhook) -> None:
    work_queue = MemoryPushQueue(push.clock)
    await PushDelivery(push.chat.store, push.configs, work_queue, webhook, render, push.clock).deliver(
        PushWakeUp(push.key())
    )


async def test_webhook_gets_one_post_despite_slow_log_read(clock: ManualClock) -> None:
    """Read the log so slowly that the claim nearly expires: no other process may post the same notification."""
    push = pushes.on_table(None, clock)
    assert isinstance(push.table, FaultyTable)
    await push.chat.store.create(replace(push.chat.message("m-1"), push=a_config()), holder="holder-1")
    push.table.faults = SlowLog(clock, CLAIM_SECONDS - POST_SECONDS / 2)
    webhook = SlowWebhook(push)
    await deliver(push, webhook)
    assert len(webhook.posts) == 1
