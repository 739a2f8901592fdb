"""Wake-up messages within one process: retries with a limit."""

import asyncio
import gc
import threading
import warnings

import pytest

from aion_core.engine.queues import WakeUp
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.queues import MAX_RECEIVES, MemoryWorkQueue
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock, settle

WAKE_UP = WakeUp(ContextKey("owner", "echo", "c-1"))


class Listener:
    """Handler that fails this many times, and then succeeds."""

    def __init__(self, *, failures: int = 0) -> None:
        self.heard = 0
        self._failures = failures

    async def __call__(self, wake_up: WakeUp) -> None:
        self.heard += 1
        if self.heard <= self._failures:
            raise ValueError("not now")


async def test_failed_message_is_retried_with_backoff(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener(failures=2)
    work_queue.handled_by(listener)
    await work_queue.enqueue(WAKE_UP)
    await settle()
    for seconds, heard in ((0.9, 1), (0.2, 2), (1.9, 2), (0.2, 3), (3600, 3)):
        clock.move(seconds)
        await settle()
        assert listener.heard == heard
    await work_queue.quiet()
    assert work_queue.dead == []
    assert caplog.text.count("A wake-up message was not handled.") == 2
    assert "not now" in caplog.text


async def test_message_becomes_dead_letter_after_last_receive(clock: ManualClock) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener(failures=100)
    work_queue.handled_by(listener)
    await work_queue.enqueue(WAKE_UP)
    for _ in range(MAX_RECEIVES):
        await settle()
        clock.move(60)
    await work_queue.quiet()
    assert (listener.heard, work_queue.dead) == (MAX_RECEIVES, [WAKE_UP])


async def test_failing_message_does_not_delay_other_messages(clock: ManualClock) -> None:
    work_queue = MemoryWorkQueue(clock)
    heard: list[WakeUp] = []

    async def answer(wake_up: WakeUp) -> None:
        if not wake_up.fence:
            raise ValueError
        heard.append(wake_up)

    work_queue.handled_by(answer)
    await work_queue.enqueue(WAKE_UP)
    await work_queue.enqueue(WakeUp(WAKE_UP.context, 1))
    await settle()
    assert heard == [WakeUp(WAKE_UP.context, 1)]
    work_queue.close()


async def test_quiet_method_waits_for_messages_enqueued_by_handlers(clock: ManualClock) -> None:
    work_queue = MemoryWorkQueue(clock)
    heard: list[WakeUp] = []

    async def answer(wake_up: WakeUp) -> None:
        await asyncio.sleep(0.01)
        heard.append(wake_up)
        if len(heard) < 3:
            await work_queue.enqueue(wake_up)

    work_queue.handled_by(answer)
    await work_queue.quiet()
    await work_queue.enqueue(WAKE_UP)
    await work_queue.quiet()
    assert heard == [WAKE_UP] * 3


async def test_quiet_method_does_not_wait_for_delayed_message(clock: ManualClock) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener()
    work_queue.handled_by(listener)
    await work_queue.enqueue(WakeUp(WAKE_UP.context, 1), delay=30)
    await work_queue.quiet()
    assert listener.heard == 0
    work_queue.close()


async def test_quiet_method_waits_for_messages_enqueued_by_threads(clock: ManualClock) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener()
    work_queue.handled_by(listener)
    work_queue.open()
    thread = threading.Thread(target=work_queue.enqueue_from_thread, args=(WAKE_UP,))
    thread.start()
    thread.join()
    await work_queue.quiet()
    assert listener.heard == 1


async def test_closed_queue_handles_no_message(clock: ManualClock) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener()
    work_queue.handled_by(listener)
    await work_queue.enqueue(WAKE_UP, delay=10)
    await asyncio.to_thread(work_queue.enqueue_from_thread, WAKE_UP, delay=10)
    work_queue.close()
    clock.move(20)
    await work_queue.quiet()
    assert listener.heard == 0


async def test_longest_queue_delay_is_900_seconds(clock: ManualClock) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener()
    work_queue.handled_by(listener)
    await work_queue.enqueue(WAKE_UP, delay=10_000)
    await asyncio.sleep(0)
    clock.move(900)
    await work_queue.quiet()
    assert listener.heard == 1


def test_message_enqueued_without_event_loop_is_handled_later(clock: ManualClock) -> None:
    work_queue, listener = MemoryWorkQueue(clock), Listener()
    work_queue.handled_by(listener)
    work_queue.enqueue_from_thread(WAKE_UP)

    async def enqueue() -> None:
        await work_queue.enqueue(WAKE_UP)
        await work_queue.quiet()

    asyncio.run(enqueue())
    assert listener.heard == 2
    with pytest.raises(StoreUnavailable, match="event loop is closed"):
        work_queue.enqueue_from_thread(WAKE_UP)


async def test_messages_without_handler_become_dead_letters(clock: ManualClock) -> None:
    work_queue = MemoryWorkQueue(clock, max_receives=1)
    await work_queue.enqueue(WAKE_UP)
    await work_queue.quiet()
    assert work_queue.dead == [WAKE_UP]


def test_message_at_end_of_event_loop_is_dropped_silently(clock: ManualClock) -> None:
    """Enqueue a message from a thread just before the event loop ends: Python warns of no coroutine that was never awaited."""

    async def ends() -> None:
        queue = MemoryWorkQueue(clock)
        queue.open()
        queue.enqueue_from_thread(WAKE_UP)

    gc.freeze()  # a collection of all objects of the other tests takes a second
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        loop = asyncio.new_event_loop()
        loop.run_until_complete(ends())
        loop.close()
        gc.collect()
    assert not [each for each in found if "never awaited" in str(each.message)]
