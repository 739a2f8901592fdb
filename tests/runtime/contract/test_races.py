"""Concurrent writes between the task store's reads and writes: one race for each part of a condition."""

import asyncio

import pytest

from aion_core.aws.dynamodb_json import encoded_key
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.context.conditions import MAX_WAITING
from aion_core.engine.outcomes import ContextInUse, Interrupted, LeaseHeld, TurnQueued, TurnStarted
from aion_core.engine.timers import ExpiredTimer
from aion_core.errors import ContextBusy, LeaseLost, PendingInput
from aion_core.table import keys
from tests.runtime.contract.faults import UPDATE, Faults
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.databases import Stack
from tests.support.stores import LEASE_SECONDS, dynamodb_store

pytestmark = pytest.mark.long

DAY = 24 * 3600


@pytest.fixture
def here(stack: Stack, clock: ManualClock) -> StoreConversation:
    return StoreConversation(dynamodb_store(stack, clock), clock)


@pytest.fixture
def there(stack: Stack, clock: ManualClock, here: StoreConversation) -> StoreConversation:
    """Return the same context, used by another process."""
    there = StoreConversation(dynamodb_store(stack, clock), clock, here.context)
    there.tasks = here.tasks
    return there


@pytest.fixture
def faults(here: StoreConversation) -> Faults:
    return Faults(here.store)


# ── A new message ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_new_turn_is_queued_if_another_begins_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    others = faults.meanwhile(lambda: there.starts("m-2"))
    outcome = await here.store.create(here.message("m-1"), holder="holder-1")
    assert isinstance(outcome, TurnQueued)
    assert (await here.head("t-m-1")).fence == 0
    assert here.store.holds(others[0].lease)


async def test_turn_begins_after_concurrent_turn_has_finished(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.ends(await here.starts("m-1"))

    async def runs_a_turn() -> None:
        await there.ends(await there.starts("m-2"))

    faults.meanwhile(runs_a_turn)
    assert (await here.starts("m-3")).lease.fence == 3, "no fence is given out twice"


async def test_new_turn_is_queued_behind_concurrently_queued_turn(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.ends(await here.starts("m-1"))
    faults.meanwhile(lambda: there.waits("m-2"))
    await here.waits("m-3", holder="holder-3")
    assert (await here.begins()).head.key.task_id == "t-m-2"


async def test_new_task_begins_if_running_turn_ends_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await here.starts("m-1")
    faults.meanwhile(lambda: there.ends(turn))
    await here.starts("m-2")


@pytest.mark.parametrize("holder", ["holder-3", None])
async def test_new_task_in_interrupted_context_is_refused(
    here: StoreConversation, there: StoreConversation, faults: Faults, holder: str | None
) -> None:
    turn = await here.starts("m-1")
    await here.waits("m-2")
    faults.meanwhile(lambda: there.ends(turn, INPUT_REQUIRED))
    assert await here.store.create(here.message("m-3"), holder=holder) == Interrupted("t-m-1")
    here.clock.move(DAY)
    assert not await here.is_expired()


@pytest.mark.parametrize("by", ["one that runs", "one that waits", "a question"])
async def test_message_with_reject_policy_is_refused_if_context_becomes_busy(
    here: StoreConversation, there: StoreConversation, faults: Faults, by: str
) -> None:
    await here.ends(await here.starts("m-1"))

    async def asks() -> None:
        await there.ends(await there.starts("m-2"), INPUT_REQUIRED)

    acts = {
        "one that runs": lambda: there.starts("m-2"),
        "one that waits": lambda: there.waits("m-2"),
        "a question": asks,
    }
    faults.meanwhile(acts[by])
    outcome = await here.store.create(here.message("m-3"), holder=None, when_busy=WhenBusy.REJECT)
    assert outcome == (Interrupted("t-m-2") if by == "a question" else ContextInUse("t-m-2"))
    assert await here.store.head(here.key("t-m-3")) is None


async def test_recreated_context_does_not_reuse_earlier_fencing_tokens(
    here: StoreConversation, stack: Stack, faults: Faults
) -> None:
    """The second process's clock is behind: it acquires the lease of a context that has expired for the first."""
    behind = ManualClock()
    await here.starts("m-1")
    behind.move(DAY)
    here.clock.move(31 * DAY)
    faults.meanwhile(lambda: dynamodb_store(stack, behind).begin(here.context, holder="holder-2"))
    assert (await here.starts("m-2")).lease.fence == 3


@pytest.mark.parametrize("holder", ["holder-3", None])
async def test_turn_queued_while_context_expires_stays_queued(
    here: StoreConversation, stack: Stack, faults: Faults, holder: str | None
) -> None:
    behind = ManualClock()
    there = StoreConversation(dynamodb_store(stack, behind), behind, here.context)
    await here.starts("m-1")
    behind.move(2 * DAY)
    here.clock.move(31 * DAY)
    faults.meanwhile(lambda: there.waits("m-2"))
    await here.waits("m-3", holder=holder)
    await there.cancels("t-m-1")
    assert (await here.begins()).head.key.task_id == "t-m-2"


# ── A message to a task ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("has_ended", [False, True])
async def test_answer_to_expired_interrupt_is_refused_in_recreated_context(
    here: StoreConversation, there: StoreConversation, faults: Faults, has_ended: bool
) -> None:
    answer = await here.more(await here.asks("m-1"), "answer")
    here.clock.move(31 * DAY)

    async def begins_anew() -> None:
        turn = await there.starts("m-2")
        if has_ended:
            await there.ends(turn)

    faults.meanwhile(begins_anew)
    with pytest.raises(LeaseLost):
        await here.store.follow_up(answer, holder="holder-1")


async def test_answer_gets_unused_fencing_token_despite_concurrent_cancel(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await here.starts("m-1")
    await here.waits("m-2")
    answer = await here.more((await here.ends(turn, INPUT_REQUIRED)).head, "answer")
    faults.meanwhile(lambda: there.cancels("t-m-2"))
    outcome = await here.store.follow_up(answer, holder="holder-2")
    assert isinstance(outcome, TurnStarted)
    assert outcome.lease.fence == 3, "no fence is given out twice"


@pytest.mark.parametrize("holder", ["holder-3", None])
async def test_interrupting_message_stops_turn_that_another_worker_took_over(
    here: StoreConversation, there: StoreConversation, faults: Faults, holder: str | None
) -> None:
    turn = await here.starts("m-1")
    more = await here.more(turn.head, "m-2")
    here.clock.move(LEASE_SECONDS + 1)
    heirs = faults.meanwhile(lambda: there.begins("holder-2"))
    await here.store.follow_up(more, holder=holder, when_busy=WhenBusy.INTERRUPT)
    assert not here.store.holds(heirs[0].lease)
    with pytest.raises(LeaseLost):
        await there.store.append(heirs[0].lease, heirs[0].head, here.says(turn.head))


async def test_message_sets_no_timer_if_another_task_is_interrupted_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await here.starts("m-1")
    await here.waits("m-2")
    faults.meanwhile(lambda: there.ends(turn, INPUT_REQUIRED))
    await here.queues("t-m-2", "m-3")
    here.clock.move(DAY)
    assert not await here.is_expired()


async def test_message_is_refused_if_queue_of_interrupted_context_is_full(here: StoreConversation) -> None:
    turn = await here.starts("m-1")
    await here.waits("m-2")
    for number in range(MAX_WAITING - 1):
        await here.queues("t-m-2", f"more-{number}")
    await here.ends(turn, INPUT_REQUIRED)
    with pytest.raises(ContextBusy):
        await here.queues("t-m-2", "late")


# ── A turn begins ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_only_one_of_two_processes_begins_turn(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.waits("m-1")
    await here.waits("m-2")
    others = faults.meanwhile(lambda: there.begins("holder-2"))
    assert isinstance(await here.store.begin(here.context, holder="holder-1"), LeaseHeld)
    assert here.store.holds(others[0].lease)
    await here.comes_to_rest()


async def test_concurrently_renewed_lease_is_not_taken_over(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await here.starts("m-1")
    here.clock.move(LEASE_SECONDS + 1)
    renewed = faults.meanwhile(lambda: asyncio.to_thread(there.store.renew, turn.lease))
    assert isinstance(await here.store.begin(here.context, holder="holder-2"), LeaseHeld)
    assert renewed == [True]
    assert (await here.ends(turn)).head.generation == 3


async def test_turn_of_deleted_task_is_not_begun(here: StoreConversation, stack: Stack, faults: Faults) -> None:
    await here.waits("m-1")
    where = {
        "TableName": stack.environment("ApiFunction")["AION_TABLE"],
        "Key": encoded_key(keys.head_key(here.key("t-m-1"))),
    }

    async def goes() -> None:
        stack.client("dynamodb").delete_item(**where)

    faults.meanwhile(goes)
    assert await here.store.begin(here.context, holder="holder-2") is None
    assert "Item" not in stack.client("dynamodb").get_item(**where), "and no part of it is made"
    await here.starts("m-2")


async def test_queued_message_is_numbered_after_late_event_of_earlier_turn(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    """A turn's former holder appends an event while the next turn begins: its fence is valid until then."""
    turn = await here.starts("m-1")
    await here.queues("t-m-1", "m-2")
    ended = await here.ends(turn, WORKING)
    late = here.says(ended.head, WORKING, "late")
    faults.meanwhile(lambda: there.store.append(turn.lease, ended.head, late))
    begun = await here.begins()
    log = await here.store.log(begun.head.key)
    assert log is not None
    assert (log.events[3].event, begun.lease.turn.message_generation) == (late, 5)
    await here.comes_to_rest()


async def test_turn_continues_after_late_event_of_former_lease_holder(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    """A late event is written during the takeover; the new holder must number its own events after it."""
    turn = await here.starts("m-1")
    here.clock.move(LEASE_SECONDS + 1)
    late = here.says(turn.head, WORKING, "late")
    faults.meanwhile(lambda: there.store.append(turn.lease, turn.head, late, keys=["late"]))
    begun = await here.begins()
    assert begun.head.generation == turn.head.generation + 1
    following = here.says(begun.head, WORKING, "next")
    await here.store.append(begun.lease, begun.head, following, keys=["next"])
    log = await here.store.log(begun.head.key, after=turn.head.generation)
    assert log is not None
    assert [entry.event for entry in log.events] == [late, following]


# ── A turn ends ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_message_received_while_turn_ends_stays_queued(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await here.starts("m-1")
    faults.meanwhile(lambda: there.waits("m-2"))
    assert (await here.ends(turn)).waiting
    await here.comes_to_rest()


@pytest.mark.parametrize("run_next", [False, True])
async def test_task_cannot_end_if_it_receives_message_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults, run_next: bool
) -> None:
    turn = await here.starts("m-1")
    await here.waits("m-2")
    # Queue m-3 during the second write. The first write fails, because it expects an empty queue; the second write
    # expects a queue with only m-2.
    faults.meanwhile(lambda: there.queues("t-m-1", "m-3"), nth=2)
    with pytest.raises(PendingInput):
        await here.ends(turn, COMPLETED, run_next=run_next)
    assert await here.state("t-m-1") == "working"


@pytest.mark.parametrize("run_next", [False, True])
async def test_turn_end_with_outdated_event_number_is_refused(here: StoreConversation, run_next: bool) -> None:
    turn = await here.starts("m-1")
    await here.queues("t-m-1", "m-2")
    head = await here.store.append(turn.lease, turn.head, here.says(turn.head))
    with pytest.raises(LeaseLost):
        await here.ends(turn, WORKING, run_next=run_next)
    assert await here.head("t-m-1") == head
    assert here.store.renew(turn.lease)


# ── A task is canceled ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_cancel_of_running_task_keeps_message_queued_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.starts("m-1")
    faults.meanwhile(lambda: there.waits("m-2"))
    assert (await here.cancels("t-m-1")).waiting
    assert (await here.begins()).head.key.task_id == "t-m-2"


async def test_cancel_of_queued_task_keeps_message_queued_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.starts("m-1")
    await here.waits("m-2")
    faults.meanwhile(lambda: there.waits("m-3"))
    await here.cancels("t-m-2")
    await here.cancels("t-m-1")
    assert (await here.begins()).head.key.task_id == "t-m-3"


async def test_cancel_of_queued_task_does_not_invalidate_lease_acquired_meanwhile(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.starts("m-1")
    await here.waits("m-2")
    here.clock.move(LEASE_SECONDS + 1)
    heirs = faults.meanwhile(lambda: there.begins("holder-2"))
    await here.cancels("t-m-2")
    assert here.store.renew(heirs[0].lease), "the fence has not gone back"


# ── Expired timers ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_context_claimed_by_other_sweep_is_not_claimed_again(
    here: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    await here.waits("m-1")
    here.clock.move(LEASE_SECONDS + 1)
    expired_timers = ExpiredTimer(here.context, here.clock.now())
    others = faults.meanwhile(lambda: there.store.claim(expired_timers), operation=UPDATE)
    assert not await here.store.claim(expired_timers)
    assert others == [True]
