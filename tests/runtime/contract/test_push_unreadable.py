"""Unreadable push configs and logs: delivery attempts are counted, and no other delivery is delayed."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from msgspec.structs import replace

from aion_core.engine.call import CallContext
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.push_config import PushVersion
from aion_core.engine.queues import PushWakeUp
from aion_core.local.memory.queues import MemoryPushQueue
from aion_core.push import retry_delay
from aion_core.push.client import Delivered, PostOutcome
from aion_core.push.configs import PushRegistry
from aion_core.push.delivery import PushDelivery
from aion_core.push.request import render
from aion_core.push.ssrf import WebhookPolicy
from aion_core.table import keys
from aion_core.table.item import Key
from aion_core.table.writes import Change, Update
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED
from tests.support.databases import Stack
from tests.support.pushes import Pushes, a_config

pytestmark = pytest.mark.long

TRIES = 1 + len(retry_delay.RETRY_SECONDS)


class Heard:
    """Webhook that accepts and records every post."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `WebhookClient.post`."""
        self.ids.append(headers["webhook-id"])
        return Delivered()

    def by(self, config_id: str) -> list[int]:
        """Return the event numbers posted to this config, in order."""
        return [int(id_.split("_")[1]) for id_ in self.ids if id_.endswith(f"_{config_id}")]


@pytest.fixture
def push(adapter: Stack | None, clock: ManualClock) -> Pushes:
    return pushes.on_table(adapter, clock)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def delivery(push: Pushes, heard: Heard) -> PushDelivery:
    work_queue = MemoryPushQueue(push.clock)
    return PushDelivery(push.chat.store, push.configs, work_queue, heard, render, push.clock, chance=lambda: 0.0)


async def told_of_a_task(push: Pushes, **said: Any) -> None:
    """Create an ended task with two push configs; each config has timers for events 2 and 3."""
    new = replace(push.chat.message("m-1"), push=a_config("bad", **said))
    begun = await push.chat.store.create(new, holder="holder-1")
    assert isinstance(begun, TurnStarted)
    await push.configs.put(push.key(), a_config("good"))
    await push.chat.ends(begun, COMPLETED)


async def spoil(push: Pushes, key: Key, attribute: str) -> Any:
    """Overwrite an attribute of the item with unreadable bytes; return the attribute's old value."""
    item = await push.table.get(key)
    assert item is not None
    await restore(push, key, attribute, b"\xff nonsense")
    return item[attribute]


async def restore(push: Pushes, key: Key, attribute: str, value: Any) -> None:
    await push.table.write(Update(key, Change({attribute: value})))


async def until_given_up(push: Pushes, delivery: PushDelivery) -> list[Delivery]:
    """Deliver at the time of each planned attempt; return the state of the config `bad` after each attempt."""
    states = []
    for _ in range(TRIES + 2):
        await delivery.deliver(PushWakeUp(push.key(), 2))
        states.append(await push.delivery("bad"))
        if states[-1].next_at is None:
            return states
        push.clock.move((states[-1].next_at - push.clock.now()).total_seconds())
    raise AssertionError(states)


async def test_delivery_with_unreadable_push_config_can_be_claimed(push: Pushes) -> None:
    await told_of_a_task(push)
    await spoil(push, keys.push_key(push.key(), "bad"), "encrypted")
    assert (await push.claimed("bad")).config is None
    good = (await push.claimed("good")).config
    assert good is not None
    assert good.id == "good"


async def test_delivery_with_empty_push_config_can_be_claimed(push: Pushes) -> None:
    await told_of_a_task(push)
    await push.table.write(Update(keys.push_key(push.key(), "bad"), Change(remove=("encrypted",))))
    assert (await push.claimed("bad")).config is None


async def test_delivery_to_undecryptable_push_config_uses_all_attempts(
    push: Pushes, delivery: PushDelivery, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    """Spoil one of two configs: its attempts are counted and then stop; the other gets its event at once."""
    await told_of_a_task(push)
    held = await spoil(push, keys.push_key(push.key(), "bad"), "encrypted")
    began = push.clock.now()
    states = await until_given_up(push, delivery)
    assert heard.by("good") == [3], "it was registered behind the second event"
    assert [state.tries for state in states] == [*range(1, TRIES), TRIES - 1]
    assert {state.failure for state in states} == {"the stored config cannot be read"}
    assert push.clock.now() - began > timedelta(hours=24)
    last = states[-1]
    assert (last.cursor, last.dead, last.dead_from, last.due_at, last.claimed_until) == (3, 2, 2, None, None)
    given_up = [record for record in caplog.records if re.match("A notification is given up", record.message)]
    assert len(given_up) == 2, "the alarm counts them"
    push.clock.move(100_000)
    assert await push.expired_timers() == []
    # Restore the content and redrive the config, as an operator would do.
    await restore(push, keys.push_key(push.key(), "bad"), "encrypted", held)
    await push.configs.redrive(push.key(), "bad")
    await delivery.deliver(PushWakeUp(push.key()))
    assert heard.by("bad") == [2, 3]


async def test_unreadable_events_become_dead_letters(push: Pushes, delivery: PushDelivery, heard: Heard) -> None:
    """Spoil some events of the log: the webhook receives all others."""
    await told_of_a_task(push)
    await spoil(push, keys.event_key(push.key(), 2), "event")
    states = await until_given_up(push, delivery)
    assert heard.by("good") == [3]
    assert [state.tries for state in states[:-1]] == list(range(1, TRIES))
    assert {state.failure for state in states[:-1]} == {"the task's log cannot be read"}
    assert heard.by("bad") == [3]
    last = states[-1]
    assert (last.cursor, last.tries, last.failure, last.due_at) == (3, 0, "", None)
    assert last.dead == 2, "the event before it was not told either"
    push.clock.move(100_000)
    assert await push.expired_timers() == []


async def test_events_of_unreadable_log_become_dead_letters(push: Pushes, delivery: PushDelivery, heard: Heard) -> None:
    await told_of_a_task(push)
    for generation in (2, 3):
        await spoil(push, keys.event_key(push.key(), generation), "event")
    last = (await until_given_up(push, delivery))[-1]
    assert heard.ids == []
    assert (last.cursor, last.dead, last.due_at) == (3, 3, None)
    push.clock.move(100_000)
    for expired_timers in await push.expired_timers():
        await delivery.deliver(PushWakeUp(expired_timers.task, expired_timers.generation))
    assert (await push.delivery("bad")).dead == 3


async def test_v03_delivery_fails_if_task_is_unreadable(push: Pushes, delivery: PushDelivery, heard: Heard) -> None:
    """A post in v0.3 contains the whole task, so it fails if the task's first event is unreadable."""
    await told_of_a_task(push, version=PushVersion.V03)
    await push.configs.settle(await push.claimed("bad"), cursor=2, due_at=push.clock.now())
    await spoil(push, keys.event_key(push.key(), 1), "event")
    await delivery.deliver(PushWakeUp(push.key()))
    state = await push.delivery("bad")
    assert (state.tries, state.failure, state.claimed_until) == (1, "it cannot be made", None)
    assert heard.by("good") == [3]


async def test_unreadable_push_config_may_be_replaced(push: Pushes, delivery: PushDelivery, heard: Heard) -> None:
    await told_of_a_task(push)
    await spoil(push, keys.push_key(push.key(), "bad"), "encrypted")
    await delivery.deliver(PushWakeUp(push.key()))
    lists = TaskList(push.table, push.clock)
    allowed = WebhookPolicy.for_service("https://agents.example.com")
    registry = PushRegistry(push.configs, MemoryPushQueue(push.clock), push.chat.store, lists, allowed, push.clock)
    call = CallContext(push.key().owner, push.chat.context.agent)
    anew = TaskPushNotificationConfig(task_id=push.key().task_id, id="bad", url="https://hooks.example.org/")
    assert (await registry.create(call, anew, PushVersion.V1)).token.startswith("whsec_")
    await delivery.deliver(PushWakeUp(push.key()))
    assert heard.by("bad") == [2, 3]
