"""Many webhooks with retries at the same time: fair order and schedule.

The test has a 200th of 10,000 webhooks and of the sweep's limit, because only the proportion matters.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from msgspec.structs import replace

from aion_core.engine import sweep
from aion_core.engine.admission import messages
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushWakeUp
from aion_core.engine.sweep import Sweep
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Message, Part, Role
from aion_core.push import retry_delay
from aion_core.push.client import Delivered, PostOutcome, PostRefused
from aion_core.push.delivery import PushDelivery
from aion_core.push.request import render
from aion_core.table.keys import ContextKey, TaskKey
from tests.support.clock import ManualClock
from tests.support.pushes import expired_of
from tests.support.stores import MemoryPushConfigs, MemoryTaskStore

MANY, SMALL = 10_000, 200
HOURS_DOWN = 12


class EnqueuedRetries:
    """Queue for delayed wake-up messages of push delivery."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.queue: list[tuple[float, int, PushWakeUp]] = []
        self.owners: list[str] = []

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        """See `PushQueue.enqueue`."""
        self.owners.append(wake_up.task.owner)
        self.queue.append((self.clock.now().timestamp() + delay, len(self.owners), wake_up))

    async def backlog(self) -> int:
        """See `PushQueue.backlog`."""
        return sum(1 for at, _, _ in self.queue if at <= self.clock.now().timestamp())

    def heard(self) -> list[PushWakeUp]:
        """Return the messages that are visible now."""
        now = self.clock.now().timestamp()
        due = sorted(each for each in self.queue if each[0] <= now)
        self.queue = [each for each in self.queue if each[0] > now]
        return [wake_up for _, _, wake_up in due]


class Receivers:
    """Webhooks that refuse each post until a given time, and count the posts."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.up_at = clock, clock.now() + timedelta(hours=HOURS_DOWN)
        self.tries: Counter[str] = Counter()
        self.told: dict[str, float] = {}

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `WebhookClient.post`."""
        self.tries[url] += 1
        if self.clock.now() < self.up_at:
            return PostRefused(503)
        self.told.setdefault(url, (self.clock.now() - self.up_at).total_seconds())
        return Delivered()


class PushDeployment:
    """Delivery and sweep over one in-memory store, with a manual clock."""

    def __init__(self, *, pushes_at_once: int) -> None:
        self.clock = ManualClock()
        self.tasks = MemoryTaskStore(self.clock)
        self.configs = MemoryPushConfigs(self.tasks, self.clock)
        self.queue, self.receivers = EnqueuedRetries(self.clock), Receivers(self.clock)
        parts = self.tasks, self.configs, self.queue, self.receivers, render, self.clock
        self.delivery = PushDelivery(*parts, chance=lambda: 0.5)
        self.sweep = Sweep(self.tasks, MemoryWorkQueue(self.clock), self.configs, self.queue)
        self.pushes_at_once = pushes_at_once

    async def listens(self, owner: str, number: int) -> TaskKey:
        """Create a task whose owner has a webhook, and record an event for this webhook."""
        message = Message(message_id=f"m-{number}", role=Role.ROLE_USER, parts=[Part(text="hi")])
        context = ContextKey(owner, "echo", f"c-{number}")
        new = messages.new_task(
            message, context, task_id=f"t-{number}", turn_id=f"u-{number}", at=self.clock.now(), context_is_new=True
        )
        config = PushConfig("p", f"https://hooks.example.org/{owner}/{number}", secrets=("s",))
        await self.tasks.create(replace(new, push=config), holder="holder")
        return new.key

    async def a_minute(self) -> int:
        """Move the clock by a minute, run the sweep, and handle all messages; return how many the sweep enqueued."""
        self.clock.move(60)
        swept = await self.sweep.once(at_once=0, pushes_at_once=self.pushes_at_once)
        for wake_up in self.queue.heard():
            await self.delivery.deliver(wake_up)
        return swept.enqueued


async def test_many_failed_webhooks_follow_the_retry_schedule() -> None:
    """A round of retries for all webhooks takes ten minutes: each gets its attempts, and its event at last."""
    number, at_once = MANY // SMALL, sweep.PUSHES_AT_ONCE // SMALL
    deployment = PushDeployment(pushes_at_once=at_once)
    for each in range(number):
        await deployment.queue.enqueue(PushWakeUp(await deployment.listens(f"o-{each % 7}", each), 2))
    busiest = most_in_a_row = row = 0
    for _ in range(22 * 60):
        enqueued = await deployment.a_minute()
        busiest, row = max(busiest, enqueued), row + 1 if enqueued == at_once else 0
        most_in_a_row = max(most_in_a_row, row)
    assert busiest == at_once
    assert most_in_a_row <= number / at_once
    assert len(deployment.receivers.told) == number
    # Expect success at the seventh attempt, the first after the recovery. The delays before it are 5 s, 5 and
    # 30 minutes, 2, 5 and 10 hours.
    assert set(deployment.receivers.tries.values()) == {7}
    by_schedule = sum(retry_delay.RETRY_SECONDS[:6]) * (1 + retry_delay.JITTER / 2) - HOURS_DOWN * 3600
    late = max(deployment.receivers.told.values()) - by_schedule
    # Allow some minutes for each of the last four attempts: such an attempt begins with a sweep, which runs once a
    # minute and wakes only some of the webhooks.
    assert late <= 4 * (number / at_once + 2) * 60
    assert await expired_of(deployment.configs) == []


async def test_thousand_webhooks_of_one_owner_do_not_delay_another_owner() -> None:
    """The single webhook's timer expires after thousands of another owner: the first sweep wakes both."""
    deployment = PushDeployment(pushes_at_once=10)
    for each in range(MANY // SMALL):
        await deployment.listens("many", each)
    deployment.clock.move(5)
    await deployment.listens("one", 1)
    deployment.clock.move(60)
    await deployment.sweep.once(at_once=0, pushes_at_once=10)
    assert sorted(deployment.queue.owners) == [*["many"] * 9, "one"]
