"""PushFunction's process killed during a webhook request: another process repeats the notification with the same id."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from aion_core.aws.cipher import KMSCipher
from aion_core.aws.client import AwsClient
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.delivery.readiness import CLAIM_SECONDS
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.queues import PushWakeUp
from aion_core.local.memory.queues import MemoryPushQueue
from aion_core.push.delivery import PushDelivery
from aion_core.push.pinned_client import PinnedWebhookClient
from aion_core.push.request import render
from aion_tools.stack.stack import LocalStack
from tests.runtime.e2e.test_push import PUSH_HERE
from tests.runtime.unit.push.pushing import LOOPBACK
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, StoreConversation
from tests.support.pushes import a_config, expired_of
from tests.support.receiver import answers, holds, receiving
from tests.support.server import ROOT
from tests.support.stores import dynamodb_store, dynamodb_table

PUSH_FUNCTION = """
import asyncio, sys
from aion_core.bootstrap import build_push
from aion_core.engine.queues import PushWakeUp
from aion_core.table.keys import TaskKey
from aion_core.settings import Settings
asyncio.run(build_push(Settings.from_environ()).deliver(PushWakeUp(TaskKey(sys.argv[1], sys.argv[2]), 2)))
"""


async def test_webhook_notification_of_killed_process_is_sent_again(moto: LocalStack, clock: ManualClock) -> None:
    """Repeat the notification after the killed process's claim has expired, without losing or reordering events."""
    environment = moto.environment("PushFunction")
    cipher = KMSCipher(
        AwsClient("kms", ThreadPoolExecutor(2), client=moto.client("kms")), clock, key=environment["AION_KMS_KEY"]
    )
    store = dynamodb_store(moto, clock, cipher=cipher)
    configs = PushConfigs(dynamodb_table(moto), cipher, clock)
    chat = StoreConversation(store, clock)
    never = asyncio.Event()
    async with receiving(answers(200), holds(never), answers(200)) as receiver:
        config = a_config("p", url=receiver.url(), token="t", secrets=("t",))
        begun = await store.create(replace(chat.message("m-1"), push=config), holder="holder-1")
        assert isinstance(begun, TurnStarted)
        await chat.ends(begun, COMPLETED)
        task = chat.key("t-m-1")
        killed = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PUSH_FUNCTION, task.owner, task.task_id, cwd=ROOT, env={**environment, **PUSH_HERE}
        )
        await receiver.heard(2)
        killed.kill()
        await killed.wait()
        (before,) = await configs.deliveries(task)
        assert before.cursor == 2
        webhooks = PinnedWebhookClient(LOOPBACK, clock)
        delivery = PushDelivery(store, configs, MemoryPushQueue(clock), webhooks, render, clock)
        await delivery.deliver(PushWakeUp(task, 3))
        assert len(receiver.posts) == 2, "the dead one's right to post holds for a while"
        # Move the test's clock an hour beyond the claim: the killed process used the machine's clock, which is ahead.
        clock.move(CLAIM_SECONDS + 3600)
        expired_timers = [each for each in await expired_of(configs) if each.task == task]
        assert "p" in {each.config_id for each in expired_timers}
        for each in expired_timers:
            # Deliver only if the timer can be claimed: an earlier delivery of this loop may have sent its event.
            if await configs.claim_expired(each):
                await delivery.deliver(PushWakeUp(task, each.generation))
        clock.move(86_400)
        assert [each for each in await expired_of(configs) if each.task == task] == []
        never.set()
    assert receiver.ids == [f"{task.task_id}_{generation}_p" for generation in (2, 3, 3)]
    assert receiver.posts[1].body == receiver.posts[2].body
