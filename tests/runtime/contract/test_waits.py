"""Contract of `TaskStore`: a turn waits without a lease, and goes on when its wait is over, on each adapter."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.outcomes import ContextInUse, TurnQueued, TurnStarted, TurnSuspended
from aion_core.engine.records import AwaitedCall, Wait
from aion_core.engine.timers import Claimed, ExpiredTimer
from aion_core.errors import AgentFailed, LeaseLost
from aion_core.table.times import milliseconds, moment
from tests.support.conversation import CANCELED, COMPLETED, WORKING, StoreConversation
from tests.support.stores import LEASE_SECONDS

WAIT_SECONDS = 600
CALL = AwaitedCall("node/weather/0", "weather", "remote-1")


async def waits(
    chat: StoreConversation, begun: TurnStarted, key: str = "wait", *, calls: tuple[AwaitedCall, ...] = ()
) -> TurnSuspended:
    """Suspend a turn for ten minutes."""
    until = chat.clock.now() + timedelta(seconds=WAIT_SECONDS)
    said = chat.says(begun.head, text="waiting")
    _, suspended = await chat.store.suspend(
        begun.lease, begun.head, said, key=key, until=until, calls=calls, event_key=f"wait/{key}"
    )
    return suspended


async def test_suspended_turn_is_recorded_and_resumes_at_its_time(chat: StoreConversation) -> None:
    begun = await chat.starts("m-1")
    suspended = await waits(chat, begun)
    task = await chat.task("t-m-1")
    assert (task.status.state, task.status.message.parts[0].text) == (WORKING, "waiting")
    chat.clock.move(WAIT_SECONDS - 1)
    assert await chat.store.begin(chat.context, holder="holder-2") == suspended
    chat.clock.move(1)
    again = await chat.begins("holder-2")
    assert (again.lease.turn.id, again.lease.turn.tries, again.lease.turn.handoffs) == ("turn-m-1", 1, 0)
    assert again.lease.turn.wait == suspended.turn.wait
    assert again.head == await chat.head("t-m-1")
    await chat.ends(again)
    assert await chat.state("t-m-1") == "completed"
    await chat.comes_to_rest()


async def test_process_of_suspended_turn_can_write_nothing_more(chat: StoreConversation) -> None:
    begun = await chat.starts("m-1")
    await waits(chat, begun)
    head = await chat.head("t-m-1")
    assert not chat.store.renew(begun.lease)
    assert not chat.store.holds(begun.lease)
    for known in (begun.head, replace(head, fence=begun.lease.fence)):
        with pytest.raises(LeaseLost):
            await chat.store.append(begun.lease, known, chat.says(head))
        with pytest.raises(LeaseLost):
            await chat.store.finish(begun.lease, known, chat.says(head, COMPLETED))
        with pytest.raises(LeaseLost):
            await waits(chat, replace(begun, head=known), "another")
    assert await chat.head("t-m-1") == head


async def test_wait_recorded_by_earlier_try_adds_no_event(chat: StoreConversation) -> None:
    begun = await chat.starts("m-1")
    suspended = await waits(chat, begun)
    chat.clock.move(WAIT_SECONDS)
    again = await chat.begins("holder-2")
    until = chat.clock.now() + timedelta(seconds=60)
    head, later = await chat.store.suspend(again.lease, again.head, None, key="wait", until=until)
    assert (head.generation, head.fence) == (again.head.generation, again.lease.fence + 1)
    assert head == await chat.head("t-m-1")
    assert (later.turn.tries, later.turn.wait) == (1, Wait("wait", suspended.turn.wait.since, milliseconds(until)))  # type: ignore[union-attr]


async def test_context_of_suspended_turn_is_busy(chat: StoreConversation) -> None:
    suspended = await waits(chat, await chat.starts("m-1"))
    for policy in (WhenBusy.REJECT, WhenBusy.INTERRUPT):
        refused = await chat.store.create(chat.message("m-2"), holder="holder-2", when_busy=policy)
        assert refused == ContextInUse("t-m-1")
    queued = await chat.waits("m-3", holder="holder-2")
    assert queued.until is None
    assert await chat.store.begin(chat.context, holder="holder-2") == suspended
    chat.clock.move(WAIT_SECONDS)
    again = await chat.begins("holder-2")
    ended = await chat.ends(again, run_next=True)
    assert ended.next is not None
    assert ended.next.lease.turn.id == "turn-m-3"
    await chat.ends(ended.next)
    await chat.comes_to_rest()


async def test_message_interrupts_wait_of_its_task(chat: StoreConversation) -> None:
    await waits(chat, await chat.starts("m-1"))
    follow_up = await chat.more(await chat.head("t-m-1"), "m-2")
    begun = await chat.store.follow_up(follow_up, holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    assert isinstance(begun, TurnStarted)
    assert (begun.lease.turn.id, begun.lease.turn.wait) == ("turn-m-2", None)
    await chat.ends(begun)
    await chat.comes_to_rest()


async def test_message_to_suspended_task_waits_behind_it(chat: StoreConversation) -> None:
    await waits(chat, await chat.starts("m-1"))
    follow_up = await chat.more(await chat.head("t-m-1"), "m-2")
    assert isinstance(await chat.store.follow_up(follow_up, holder="holder-2"), TurnQueued)
    chat.clock.move(WAIT_SECONDS)
    begun = await chat.begins()
    assert begun.lease.turn.id == "turn-m-1"
    assert (await chat.ends(begun, WORKING)).waiting
    await chat.ends(await chat.begins())
    await chat.comes_to_rest()


async def test_cancel_ends_wait(chat: StoreConversation) -> None:
    await waits(chat, await chat.starts("m-1"))
    await chat.waits("m-2")
    canceled = await chat.cancels("t-m-1")
    assert (canceled.head.state, canceled.waiting) == (CANCELED, True)
    begun = await chat.begins()
    assert begun.lease.turn.id == "turn-m-2"
    await chat.ends(begun)
    chat.clock.move(WAIT_SECONDS)
    assert await chat.store.begin(chat.context, holder="holder-9") is None
    await chat.comes_to_rest()


async def test_ended_wait_begins_turn_before_its_time(chat: StoreConversation) -> None:
    suspended = await waits(chat, await chat.starts("m-1"), calls=(CALL,))
    early = await chat.store.begin(chat.context, holder="holder-2", ended_wait=suspended.fence)
    assert isinstance(early, TurnStarted)
    assert early.lease.fence == suspended.fence + 1
    again = await waits(chat, early, "wait-2", calls=(CALL,))
    stale = await chat.store.begin(chat.context, holder="holder-3", ended_wait=suspended.fence)
    assert stale == again, "the message was about an earlier wait"


async def test_look_moves_only_look_that_it_has_read(chat: StoreConversation) -> None:
    suspended = await waits(chat, await chat.starts("m-1"))
    later = milliseconds(suspended.look_at) + 1000
    assert await chat.store.look(chat.context, suspended, look_at=later)
    assert not await chat.store.look(chat.context, suspended, look_at=later + 1000), "another process has looked"
    chat.clock.move(1)
    assert await chat.store.begin(chat.context, holder="h") == replace(suspended, look_at=moment(later))
    await chat.cancels("t-m-1")
    assert not await chat.store.look(chat.context, replace(suspended, look_at=moment(later)), look_at=later + 2000)
    assert not await chat.is_expired()


async def test_lost_look_expires_as_timer_of_its_own_kind(chat: StoreConversation) -> None:
    suspended = await waits(chat, await chat.starts("m-1"))
    chat.clock.move(WAIT_SECONDS + LEASE_SECONDS - 1)
    assert not await chat.is_expired(), "the wake-up message of the look has its time"
    chat.clock.move(2)
    assert await chat.is_expired()
    timer = ExpiredTimer(chat.context, suspended.look_at)
    assert await chat.store.claim(timer) is Claimed.LOOK
    assert await chat.store.claim(timer) is Claimed.NOT
    begun = await chat.begins()
    chat.clock.move(LEASE_SECONDS + 1)
    assert await chat.store.claim(ExpiredTimer(chat.context, chat.clock.now())) is Claimed.WORK
    again = await chat.begins("holder-3")
    assert (again.lease.turn.id, again.lease.turn.tries) == (begun.lease.turn.id, 2)
    await chat.ends(again)
    await chat.comes_to_rest()


async def test_wait_beyond_expiry_of_task_is_refused(chat: StoreConversation) -> None:
    begun = await chat.starts("m-1")
    until = chat.clock.now() + timedelta(days=400)
    with pytest.raises(AgentFailed, match="its task is stored until"):
        await chat.store.suspend(begun.lease, begun.head, chat.says(begun.head), key="wait", until=until)
    assert await chat.head("t-m-1") == begun.head
    await chat.ends(begun)
    await chat.comes_to_rest()


async def test_look_at_calls_moves_its_own_look_once(chat: StoreConversation) -> None:
    suspended = await waits(chat, await chat.starts("m-1"), calls=(CALL,))
    assert suspended.turn.wait is not None
    since, look = suspended.turn.wait.since, milliseconds(suspended.look_at)
    chat.clock.move(5)
    moved = await chat.store.look_at_calls(chat.context, look=look, since=since)
    assert moved is not None
    assert replace(moved, look_at=suspended.look_at) == suspended
    assert (moved.look_at - chat.clock.now()).total_seconds() == pytest.approx(5, abs=0.5)
    assert await chat.store.look_at_calls(chat.context, look=look, since=since) is None, "the message is repeated"
    chat.clock.move(5)
    begun = await chat.store.begin(chat.context, holder="holder-2", ended_wait=moved.fence)
    assert isinstance(begun, TurnStarted)
    look = milliseconds(moved.look_at)
    assert await chat.store.look_at_calls(chat.context, look=look, since=since) is None
    await chat.ends(begun)
    assert await chat.store.look_at_calls(chat.context, look=look, since=since) is None
    await chat.comes_to_rest()
