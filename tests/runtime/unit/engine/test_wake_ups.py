"""Push wake-up messages: each commit of a task with push configs enqueues one."""

import asyncio

import pytest
from msgspec.structs import replace

from aion_core.engine import wake_ups
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushWakeUp
from aion_core.engine.wake_ups import CommitNotifier
from aion_core.errors import StoreUnavailable
from tests.support.clock import ManualClock
from tests.support.conversation import INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.stores import MemoryTaskStore

SUBSCRIBER = PushConfig("p-1", "https://hooks.test/")


class RecordingPushQueue:
    """Push queue that records the event number of each message; it can be slow or refuse messages."""

    def __init__(self) -> None:
        self.enqueued: list[int] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.refuses = False

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        await self.answers.wait()
        if self.refuses:
            raise StoreUnavailable("The queue is away.")
        self.enqueued.append(wake_up.generation)

    async def backlog(self) -> int:
        return 0


@pytest.fixture
def queue() -> RecordingPushQueue:
    return RecordingPushQueue()


@pytest.fixture
def chat(queue: RecordingPushQueue, clock: ManualClock) -> StoreConversation:
    return StoreConversation(MemoryTaskStore(clock, notifier=CommitNotifier(queue)), clock)


async def starts(chat: StoreConversation, push: PushConfig | None = SUBSCRIBER) -> TurnStarted:
    begun = await chat.store.create(replace(chat.message("m-1"), push=push), holder="holder-1")
    assert isinstance(begun, TurnStarted)
    return begun


async def says(chat: StoreConversation, begun: TurnStarted, times: int = 1) -> TurnStarted:
    for _ in range(times):
        begun = replace(begun, head=await chat.store.append(begun.lease, begun.head, chat.says(begun.head)))
    return begun


async def test_each_commit_of_events_enqueues_push_message(chat: StoreConversation, queue: RecordingPushQueue) -> None:
    begun = await says(chat, await starts(chat))
    await asyncio.sleep(0)
    assert queue.enqueued == [2, 3]
    await chat.queues("t-m-1", "m-2")
    queue.enqueued.clear()
    await chat.ends(begun, WORKING, run_next=True)
    assert queue.enqueued[-1] == 5, "the end of the turn records the waiting message"
    await chat.cancels("t-m-1")
    assert queue.enqueued[-1] == 6


async def test_answer_and_queued_message_each_enqueue_push_message(
    chat: StoreConversation, queue: RecordingPushQueue
) -> None:
    await chat.ends(await starts(chat), INPUT_REQUIRED)
    await chat.store.follow_up(await chat.more(await chat.head("t-m-1"), "m-2"), holder=None)
    assert queue.enqueued == [2, 3, 4]
    begun = await chat.begins()
    await chat.queues("t-m-1", "m-3")
    await chat.ends(begun, WORKING)
    queue.enqueued.clear()
    await chat.begins()
    assert queue.enqueued == [6]


async def test_task_without_subscribers_enqueues_no_push_message(
    chat: StoreConversation, queue: RecordingPushQueue
) -> None:
    await chat.ends(await says(chat, await starts(chat, push=None), 3))
    assert queue.enqueued == []


async def test_events_committed_during_enqueue_share_one_push_message(
    chat: StoreConversation, queue: RecordingPushQueue
) -> None:
    begun = await starts(chat)
    queue.answers.clear()
    begun = await says(chat, begun, 20)
    queue.answers.set()
    await chat.ends(begun)
    assert queue.enqueued == [2, 23], "one message for twenty events and the end"


async def test_suspension_of_turn_waits_until_push_message_is_enqueued(
    chat: StoreConversation, queue: RecordingPushQueue
) -> None:
    """Lambda freezes the process after the suspension: a message still on its way would not arrive."""
    begun = await starts(chat)
    queue.answers.clear()
    begun = await says(chat, begun)
    pausing = asyncio.create_task(chat.store.pause(begun.lease, made_progress=True))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not pausing.done()
    queue.answers.set()
    await pausing
    assert queue.enqueued == [2, 3]


async def test_failed_push_enqueue_does_not_fail_commit(chat: StoreConversation, queue: RecordingPushQueue) -> None:
    queue.refuses = True
    await chat.ends(await says(chat, await starts(chat)))
    assert await chat.state("t-m-1") == "completed"


async def test_hanging_push_queue_delays_only_end_of_turn(
    chat: StoreConversation, queue: RecordingPushQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await starts(chat)
    queue.answers.clear()
    begun = await says(chat, begun, 5)
    assert queue.enqueued == [2]
    monkeypatch.setattr(wake_ups, "ENQUEUE_SECONDS", 0.01)
    await chat.ends(begun)
    assert await chat.state("t-m-1") == "completed"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left to run after the answer"
