"""Lease heartbeat: when it renews the lease, checks for its loss, and enqueues a wake-up message."""

import asyncio
import contextlib
import os
import threading
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest

from aion_core.clock import Clock, SystemClock
from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.queues import WakeUp
from aion_core.engine.records import Lease, Turn
from aion_core.engine.runner import heartbeat
from aion_core.engine.runner import renewal as renewal_module
from aion_core.engine.runner.heartbeat import Heartbeat
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.runner.renewal import LOOKS_PER_SECOND, WATCH_SECONDS, LeaseRenewal, watch_seconds
from aion_core.engine.task_store import TaskStore
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.failing import Failing
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore

RENEW_SECONDS = 10


class Messages(MemoryWorkQueue):
    """A queue that stores the messages enqueued from threads."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.enqueued: list[tuple[WakeUp, float]] = []

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        self.enqueued.append((wake_up, delay))


@pytest.fixture
def store(clock: ManualClock) -> Failing:
    return Failing(MemoryTaskStore(clock))


@pytest.fixture
def chat(store: TaskStore, clock: ManualClock) -> StoreConversation:
    return StoreConversation(store, clock)


@pytest.fixture
def queue(clock: ManualClock) -> Failing:
    return Failing(Messages(clock))


def term_of(store: Any, lease: Lease, clock: Clock | None = None) -> LeaseTerm:
    return LeaseTerm(store, lease, clock or SystemClock(), seconds=LEASE_SECONDS)


def renewal(chat: StoreConversation, queue: Any, lease: Lease) -> LeaseRenewal:
    return LeaseRenewal(
        term_of(chat.store, lease, chat.clock),
        queue,
        renew_seconds=RENEW_SECONDS,
        wake_up_seconds=LEASE_SECONDS,
        now=lambda: chat.clock.now().timestamp(),
    )


def steps(chat: StoreConversation, beat: LeaseRenewal, seconds: int) -> list[bool]:
    """Run this number of heartbeat steps, each after the heartbeat's own pause; return the results."""
    held = []
    for _ in range(seconds):
        chat.clock.move(beat.pause)
        held.append(beat.once())
    return held


async def test_renewed_lease_outlives_original_expiry(chat: StoreConversation, queue: Any) -> None:
    lease = (await chat.starts()).lease
    assert all(steps(chat, renewal(chat, queue, lease), 300))
    assert isinstance(await chat.store.begin(chat.context, holder="other"), LeaseHeld)


async def test_heartbeat_of_retried_turn_enqueues_wake_up_immediately(chat: StoreConversation, queue: Any) -> None:
    first = (await chat.starts()).lease
    assert renewal(chat, queue, first).pause == WATCH_SECONDS
    chat.clock.move(LEASE_SECONDS + 1)
    again = await chat.store.begin(chat.context, holder="other")
    assert isinstance(again, TurnStarted)
    beat = renewal(chat, queue, again.lease)
    assert beat.pause == 0
    queue.refuse(enqueue_from_thread=1)
    assert beat.once()
    assert beat.pause == WATCH_SECONDS, "after a failure the next step waits"
    assert steps(chat, beat, 1) == [True]
    assert queue.enqueued == [(WakeUp(chat.context, again.lease.fence), LEASE_SECONDS)]


async def test_heartbeat_renews_lease_every_tenth_check(chat: StoreConversation, queue: Any, store: Failing) -> None:
    steps(chat, renewal(chat, queue, (await chat.starts()).lease), 30)
    assert (store.calls["renew"], store.calls["holds"]) == (3, 27)


async def test_slow_store_does_not_delay_lease_renewal(
    chat: StoreConversation, queue: Any, store: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check takes 2 s here: the renewal follows the clock, not the number of checks."""
    beat = renewal(chat, queue, (await chat.starts()).lease)
    renewed, holds = [chat.clock.now()], store.holds

    def slow(lease: Lease) -> bool:
        chat.clock.move(2)
        return bool(holds(lease))

    monkeypatch.setattr(store, "holds", slow)
    for _ in range(30):
        before = store.calls["renew"]
        assert steps(chat, beat, 1) == [True]
        if store.calls["renew"] > before:
            renewed.append(chat.clock.now())
    pauses = [(after - before).total_seconds() for before, after in pairwise(renewed)]
    assert max(pauses) <= RENEW_SECONDS + 3


async def test_failed_lease_renewal_is_retried_at_next_step(
    chat: StoreConversation, queue: Any, store: Failing
) -> None:
    store.refuse(renew=2)
    steps(chat, renewal(chat, queue, (await chat.starts()).lease), RENEW_SECONDS + 2)
    assert store.calls["renew"] == 3


async def test_first_heartbeat_step_enqueues_one_wake_up_message(chat: StoreConversation, queue: Any) -> None:
    lease = (await chat.starts()).lease
    beat = renewal(chat, queue, lease)
    assert queue.enqueued == []
    steps(chat, beat, 1)
    assert queue.enqueued == [(WakeUp(chat.context, lease.fence), LEASE_SECONDS)]
    steps(chat, beat, 60)
    assert len(queue.enqueued) == 1


async def test_failed_wake_up_enqueue_is_retried_at_next_step(chat: StoreConversation, queue: Any) -> None:
    queue.refuse(enqueue_from_thread=1)
    beat = renewal(chat, queue, (await chat.starts()).lease)
    assert steps(chat, beat, 1) == [True]
    assert queue.enqueued == []
    assert steps(chat, beat, 1) == [True]
    assert len(queue.enqueued) == 1


@pytest.mark.parametrize("operation", ["renew", "holds"])
async def test_failed_store_call_does_not_end_lease_renewals(
    chat: StoreConversation, queue: Any, store: Failing, operation: str
) -> None:
    beat = renewal(chat, queue, (await chat.starts()).lease)
    store.refuse(**{operation: 2})
    assert all(steps(chat, beat, 120))
    assert isinstance(await chat.store.begin(chat.context, holder="other"), LeaseHeld)


async def test_heartbeat_thread_survives_failed_store_call(chat: StoreConversation, queue: Any, store: Any) -> None:
    """Let a store call fail: without a heartbeat the lease would expire, and the turn would run twice."""
    lease = (await chat.starts()).lease
    store.refuse(renew=1)
    async with asyncio.timeout(60):
        async with Heartbeat(term_of(store, lease), queue, renew_seconds=0.01, wake_up_seconds=1) as lost:
            while not queue.enqueued:
                await asyncio.sleep(0.01)
            assert not lost.done()
            await chat.cancels("t-m-1")
            await lost


async def test_turn_that_ends_before_first_heartbeat_starts_no_thread(
    chat: StoreConversation, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal_module, "WATCH_SECONDS", 3600.0)
    lease = (await chat.starts()).lease
    before = set(threading.enumerate())  # threads of earlier tests may still run
    for _ in range(50):
        async with Heartbeat(term_of(chat.store, lease), queue, renew_seconds=3600, wake_up_seconds=30):
            started = {thread.name for thread in set(threading.enumerate()) - before}
            assert not {name for name in started if name.startswith("lease-turn")}


async def test_heartbeat_with_long_interval_does_not_delay_other_heartbeats(
    chat: StoreConversation, queue: Any
) -> None:
    """The timer waits for one heartbeat; a heartbeat with an earlier step must wake it."""
    lease = (await chat.starts()).lease
    async with (
        asyncio.timeout(60),
        Heartbeat(term_of(chat.store, lease), queue, renew_seconds=60, wake_up_seconds=30),
        Heartbeat(term_of(chat.store, lease), queue, renew_seconds=0.01, wake_up_seconds=30),
    ):
        while not queue.enqueued:
            await asyncio.sleep(0.01)


async def test_ended_heartbeats_are_removed_at_next_wake_of_timer_thread(
    chat: StoreConversation, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended heartbeats stay in the timer until it next wakes: waking it for each would interrupt the event loop."""
    monkeypatch.setattr(renewal_module, "WATCH_SECONDS", 3600.0)
    lease = (await chat.starts()).lease
    ended = [Heartbeat(term_of(chat.store, lease), queue, renew_seconds=3600, wake_up_seconds=30) for _ in range(5)]
    for each in ended:
        async with each:
            pass
    async with asyncio.timeout(60):
        async with Heartbeat(term_of(chat.store, lease), queue, renew_seconds=0.01, wake_up_seconds=30):
            while not queue.enqueued:
                await asyncio.sleep(0.01)
        while any(scheduled() in ended for _, _, scheduled in list(heartbeat._timer._due)):
            await asyncio.sleep(0.01)


def test_heartbeat_runs_in_forked_process(chat: StoreConversation, queue: Any) -> None:
    async def beats() -> None:
        lease = (await chat.starts()).lease
        async with (
            asyncio.timeout(60),
            Heartbeat(term_of(chat.store, lease), queue, renew_seconds=0.01, wake_up_seconds=1),
        ):
            while not queue.enqueued:
                await asyncio.sleep(0.01)

    asyncio.run(beats())
    queue.enqueued.clear()
    chat.clock.move(LEASE_SECONDS + 1)
    if (child := os.fork()) == 0:
        code = 1
        with contextlib.suppress(BaseException):
            asyncio.run(beats())
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def test_heartbeat_detects_canceled_turn_at_next_check(chat: StoreConversation, queue: Any) -> None:
    beat = renewal(chat, queue, (await chat.starts()).lease)
    assert steps(chat, beat, 1) == [True]
    await chat.cancels("t-m-1")
    assert steps(chat, beat, 1) == [False]


async def test_renewal_of_lost_lease_enqueues_no_message(chat: StoreConversation, queue: Any) -> None:
    beat = renewal(chat, queue, (await chat.starts()).lease)
    chat.clock.move(LEASE_SECONDS + 1)
    await chat.begins("other")
    assert not beat.once()
    assert queue.enqueued == []


async def test_heartbeats_of_many_turns_check_leases_less_often(chat: StoreConversation, queue: Any) -> None:
    count = 200
    lease = Lease(ContextKey("o", "a", "c"), Turn("turn", "t", 1), "holder", 1)
    assert watch_seconds() == WATCH_SECONDS
    async with AsyncExitStack() as until_the_end:
        for _ in range(count):
            beat = Heartbeat(term_of(chat.store, lease), queue, renew_seconds=60, wake_up_seconds=30)
            await until_the_end.enter_async_context(beat)
        assert count / watch_seconds() == LOOKS_PER_SECOND
        short = LeaseRenewal(term_of(chat.store, lease), queue, renew_seconds=2, wake_up_seconds=30)
        assert short.pause == 2, "a lease is renewed in time, however many there are"
    assert watch_seconds() == WATCH_SECONDS
