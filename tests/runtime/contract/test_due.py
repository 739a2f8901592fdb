"""Timers of contexts, on each table: a timer exists while work is pending, and wakes no context without work."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from aion_core.engine import timers
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.outcomes import TurnQueued, TurnStarted
from aion_core.engine.sweep import Sweep
from aion_core.engine.timers import Claimed, ExpiredTimer
from aion_core.errors import StoreError
from aion_core.local.memory.queues import MemoryPushQueue, MemoryWorkQueue
from aion_core.table import keys
from aion_core.table.keys import PushTimerOf, TaskKey, TimerOf
from aion_core.table.schema import TIMERS
from tests.runtime.contract.faults import UPDATE, Faults
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.conversation import INPUT_REQUIRED, MANY, WORKING, StoreConversation, of
from tests.support.databases import Stack
from tests.support.faulty_table import FaultyTable, TableCall, TableFaults
from tests.support.pushes import a_config
from tests.support.stores import LEASE_SECONDS, store_of, table_of

Steps = Callable[[StoreConversation], Awaitable[object]]


async def waits(chat: StoreConversation) -> None:
    await chat.waits("m-1")


async def runs(chat: StoreConversation) -> None:
    await chat.starts("m-1")


async def runs_before_others(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    await chat.waits("m-2", holder="holder-2")


async def was_taken_over(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    await chat.begins()


async def is_paused(chat: StoreConversation) -> None:
    await chat.store.pause((await chat.starts("m-1")).lease, made_progress=True)


async def is_left_behind_by_the_turn_before_it(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.ends(turn)


async def was_passed_on(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.ends(turn, run_next=True)


async def goes_on_with_the_same_task(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    await chat.ends(turn, WORKING, run_next=True)


async def has_its_answer(chat: StoreConversation) -> None:
    await chat.store.follow_up(await chat.more(await chat.asks("m-1"), "m-2"), holder="holder-2")


async def has_its_answer_and_nobody_to_run_it(chat: StoreConversation) -> None:
    await chat.store.follow_up(await chat.more(await chat.asks("m-1"), "m-2"), holder=None)


async def is_interrupted_by_its_client(chat: StoreConversation) -> None:
    more = await chat.more((await chat.starts("m-1")).head, "m-2")
    await chat.store.follow_up(more, holder="holder-2", when_busy=WhenBusy.INTERRUPT)


async def is_interrupted_by_its_client_and_nobody_runs_it(chat: StoreConversation) -> None:
    more = await chat.more((await chat.starts("m-1")).head, "m-2")
    await chat.store.follow_up(more, holder=None, when_busy=WhenBusy.INTERRUPT)


async def waits_behind_what_was_canceled(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.cancels("t-m-1")


async def runs_before_what_was_canceled(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.cancels("t-m-2")


async def waits_behind_a_question_that_was_canceled(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.ends(turn, INPUT_REQUIRED)
    await chat.cancels("t-m-1")


PROMISED: list[Steps] = [
    waits,
    runs,
    runs_before_others,
    was_taken_over,
    is_paused,
    is_left_behind_by_the_turn_before_it,
    was_passed_on,
    goes_on_with_the_same_task,
    has_its_answer,
    has_its_answer_and_nobody_to_run_it,
    is_interrupted_by_its_client,
    is_interrupted_by_its_client_and_nobody_runs_it,
    waits_behind_what_was_canceled,
    runs_before_what_was_canceled,
    waits_behind_a_question_that_was_canceled,
]


async def is_done(chat: StoreConversation) -> None:
    await chat.ends(await chat.starts("m-1"))


async def asks(chat: StoreConversation) -> None:
    await chat.asks("m-1")


async def asks_before_others(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.ends(turn, INPUT_REQUIRED)


async def asks_before_one_that_was_canceled(chat: StoreConversation) -> None:
    await asks_before_others(chat)
    await chat.cancels("t-m-2")


async def was_canceled_as_it_ran(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    await chat.cancels("t-m-1")


async def was_canceled_as_it_waited(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    await chat.cancels("t-m-1")


async def was_canceled_as_it_asked(chat: StoreConversation) -> None:
    await chat.asks("m-1")
    await chat.cancels("t-m-1")


async def was_canceled_as_it_was_paused(chat: StoreConversation) -> None:
    await is_paused(chat)
    await chat.cancels("t-m-1")


async def was_refused(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.store.create(chat.message("m-2"), holder=None, when_busy=WhenBusy.REJECT)
    await chat.ends(turn)


SETTLED: list[Steps] = [
    is_done,
    asks,
    asks_before_others,
    asks_before_one_that_was_canceled,
    was_canceled_as_it_ran,
    was_canceled_as_it_waited,
    was_canceled_as_it_asked,
    was_canceled_as_it_was_paused,
    was_refused,
]


def name(steps: Steps) -> str:
    return steps.__name__


@pytest.mark.parametrize("steps", PROMISED, ids=name)
async def test_timer_of_context_expires_after_lease_time_without_activity(
    chat: StoreConversation, steps: Steps
) -> None:
    await steps(chat)
    assert not await chat.is_expired(), "the wake-up message of the context was sent, or its holder lives"
    chat.clock.move(LEASE_SECONDS + 1)
    assert await chat.is_expired()
    assert isinstance(await chat.begins(), TurnStarted)
    assert not await chat.is_expired(), "it has a holder"
    await chat.comes_to_rest()


@pytest.mark.parametrize("steps", SETTLED, ids=name)
async def test_context_without_turns_has_no_timer(chat: StoreConversation, steps: Steps) -> None:
    await steps(chat)
    chat.clock.move(24 * 3600)
    assert not await chat.is_expired()
    assert not await chat.store.claim(ExpiredTimer(chat.context, chat.clock.now()))
    assert await chat.store.begin(chat.context, holder="holder-9") is None
    await chat.comes_to_rest()


async def test_lease_renewal_postpones_timer_of_context(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    for _ in range(3):
        chat.clock.move(LEASE_SECONDS - 1)
        assert chat.store.renew(turn.lease)
    seen = ExpiredTimer(chat.context, chat.clock.now())
    assert not await chat.is_expired()
    assert not await chat.store.claim(seen), "the index lags"
    chat.clock.move(LEASE_SECONDS + 1)
    assert await chat.is_expired()


async def test_queueing_of_turn_does_not_change_timer_of_running_turn(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    chat.clock.move(LEASE_SECONDS - 1)
    await chat.waits("m-2", holder="holder-2")
    await chat.queues("t-m-1", "m-3")
    chat.clock.move(2)
    assert await chat.is_expired()


async def test_second_queued_turn_does_not_postpone_timer_of_context(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    chat.clock.move(LEASE_SECONDS - 1)
    await chat.waits("m-2")
    chat.clock.move(2)
    assert await chat.is_expired()


async def test_expired_timer_is_claimed_by_only_one_concurrent_sweep(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    (found,) = [each for each in await chat.store.expired_timers(limit=MANY) if each.context == chat.context]
    claimed = await asyncio.gather(*(chat.store.claim(found) for _ in range(8)))
    assert claimed.count(Claimed.WORK) == 1
    chat.clock.move(LEASE_SECONDS - 1)
    assert not await chat.is_expired(), "the wake-up message has its time"
    chat.clock.move(2)
    assert await chat.is_expired()
    assert not await chat.store.claim(ExpiredTimer(of(chat, context_id="never").context, found.at))
    await chat.comes_to_rest()


async def test_sweep_cannot_claim_timer_of_context_changed_meanwhile(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    (found,) = [each for each in await chat.store.expired_timers(limit=MANY) if each.context == chat.context]
    turn = await chat.begins()
    assert not await chat.store.claim(found), "it was begun meanwhile"
    assert await asyncio.to_thread(chat.store.renew, turn.lease)
    await chat.ends(turn)
    assert not await chat.store.claim(found), "and has ended"


async def test_expired_timers_are_listed_oldest_first_up_to_limit(chat: StoreConversation) -> None:
    others = [of(chat, context_id=f"c-{number}") for number in range(12)]
    for other in others:
        await other.waits("m-1")
        chat.clock.move(1)
    chat.clock.move(LEASE_SECONDS)
    found = await chat.store.expired_timers(limit=MANY)
    assert [each.context for each in found if each.context.owner == chat.context.owner] == [
        other.context for other in others
    ]
    assert list(found) == sorted(found, key=lambda each: each.at)
    for limit in (1, 5):
        first = await chat.store.expired_timers(limit=limit)
        assert [each.at for each in first] == [each.at for each in found[:limit]]
    since = [each.at for each in found if each.context == others[0].context]
    assert (chat.clock.now() - since[0]).total_seconds() == pytest.approx(12, abs=0.5)


async def test_message_queued_behind_interrupted_task_sets_no_timer(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    ended = await chat.ends(turn, INPUT_REQUIRED)
    await chat.queues("t-m-2", "m-3")
    chat.clock.move(1000)
    assert not await chat.is_expired()
    answered = await chat.store.follow_up(await chat.more(ended.head, "m-4"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    head = await chat.store.append(answered.lease, answered.head, chat.says(answered.head))
    await chat.ends(replace(answered, head=head))
    await chat.comes_to_rest()


async def test_expired_context_is_removed_from_timer_index(chat: StoreConversation) -> None:
    """DynamoDB deletes the expired context only days later: until then each sweep would read its timer first."""
    await chat.waits("m-1")
    chat.clock.move(31 * 86_400)
    (found,) = [each for each in await chat.store.expired_timers(limit=MANY) if each.context == chat.context]
    assert not await chat.store.claim(found)
    assert not await chat.is_expired()


async def test_sweep_does_not_claim_expired_context_recreated_by_message(stack: Stack, clock: ManualClock) -> None:
    """A message recreates the expired context between the sweep's read and its write: the claim is refused."""
    chat = StoreConversation(store_of(table_of(stack, clock), stack, clock), clock)
    there = StoreConversation(store_of(table_of(stack, clock), stack, clock), clock, chat.context)
    await chat.waits("m-1")
    clock.move(31 * 86_400)
    (found,) = [each for each in await chat.store.expired_timers(limit=MANY) if each.context == chat.context]
    Faults(chat.store).meanwhile(lambda: there.waits("m-2"), operation=UPDATE)
    assert not await chat.store.claim(found)
    clock.move(LEASE_SECONDS + 1)
    assert await chat.is_expired()


# ── Unreadable shards ─────────────────────────────────────────────────────────────────────────────────────────────────


class UnreadableShards(TableFaults):
    """Table faults that make partitions of the timer index unreadable."""

    def __init__(self, *partitions: str) -> None:
        self._partitions = partitions

    def before(self, call: TableCall) -> None:
        if call.index == TIMERS.name and call.partition in self._partitions:
            raise StoreError("ValidationException")


async def test_sweep_reads_other_timer_shards_after_error_in_one_shard(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The sweep wakes the contexts and push notifications of other shards, and logs the shard's error once."""
    push = pushes.on_table(None, clock)
    assert isinstance(push.table, FaultyTable)
    contexts = [of(push.chat, context_id=f"c-{number}") for number in range(40)]
    tasks: list[TaskKey] = []
    for chat in contexts:
        created = await chat.store.create(replace(chat.message("m-1"), push=a_config()), holder=None)
        assert isinstance(created, TurnQueued)
        tasks.append(created.head.key)
        await push.configs.put(tasks[-1], a_config())
    task = tasks[-1]
    clock.move(LEASE_SECONDS + 1)
    unreadable = [keys.timer_shard(contexts[0].context, TimerOf.WAIT), keys.push_timer_shard(task, PushTimerOf.WAIT)]
    push.table.faults = UnreadableShards(*unreadable)
    work_queue, push_queue = MemoryWorkQueue(clock), MemoryPushQueue(clock)
    swept = await Sweep(push.chat.store, work_queue, push.configs, push_queue).once()
    others = [chat for chat in contexts if keys.timer_shard(chat.context, TimerOf.WAIT) not in unreadable]
    other_tasks = [
        chat for chat in contexts if keys.push_timer_shard(chat.key("t-m-1"), PushTimerOf.WAIT) not in unreadable
    ]
    assert 0 < len(others) < len(contexts)
    assert swept.enqueued >= len(others) + len(other_tasks)
    failed = [record for record in caplog.records if "cannot be read" in record.message]
    assert len(failed) == 2
    assert all(record.exc_info for record in failed)
    with pytest.raises(StoreError):
        await push.chat.store.expired_timers(limit=MANY, complete=True)


@pytest.mark.parametrize("read", ["dead_leases", "overdue_waits", "push.expired_plans", "push.overdue_waits"])
async def test_sweep_fails_if_no_timer_shard_is_readable(clock: ManualClock, read: str) -> None:
    push = pushes.on_table(None, clock)
    assert isinstance(push.table, FaultyTable)
    push.table.faults = UnreadableShards(*timers.LEASES, *timers.WAITS, *timers.PUSH_PLANS, *timers.PUSH_WAITS)
    with pytest.raises(StoreError):
        await getattr(push.configs if "push" in read else push.chat.store, read.removeprefix("push."))(limit=MANY)
