"""Contract of `TaskStore`: cancellation, on each adapter."""

import asyncio

import pytest
from msgspec.structs import replace

from aion_core.engine.outcomes import Interrupted, TurnFinished, TurnStarted
from aion_core.engine.records import Numbered
from aion_core.engine.task import states
from aion_core.errors import InvalidTransition, LeaseLost
from aion_core.protocol.types import TaskState
from tests.support.conversation import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation


async def test_cancel_of_running_task_ends_its_turn(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    event = chat.canceled(turn.head)
    ended = await chat.store.cancel(turn.head, event)
    assert (ended.next, ended.waiting) == (None, False)
    assert (ended.head.generation, ended.head.state) == (3, CANCELED)
    assert ended.head.fence > turn.lease.fence
    log = await chat.store.log(turn.head.key)
    assert log is not None
    assert (log.head, log.events[-1]) == (ended.head, Numbered(3, event))
    assert not chat.store.holds(turn.lease)
    assert not chat.store.renew(turn.lease)
    for refused in (
        chat.store.append(turn.lease, turn.head, chat.says(turn.head)),
        chat.ends(turn),
        chat.store.pause(turn.lease, made_progress=True),
    ):
        with pytest.raises(LeaseLost):
            await refused
    assert await chat.head("t-m-1") == ended.head
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    assert (await chat.starts("m-2")).lease.fence > ended.head.fence
    await chat.comes_to_rest()


async def test_cancel_of_running_task_starts_next_turn(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    await chat.waits("m-2")
    assert (await chat.cancels("t-m-1")).waiting
    begun = await chat.begins()
    assert begun.lease.turn.id == "turn-m-2"
    await chat.comes_to_rest()


@pytest.mark.parametrize("canceled", ["m-2", "m-3", "m-4"])
async def test_cancel_of_queued_task_keeps_other_turns(chat: StoreConversation, canceled: str) -> None:
    running = await chat.starts("m-1")
    waiting = {message_id: await chat.waits(message_id) for message_id in ("m-2", "m-3", "m-4")}
    ended = await chat.cancels(f"t-{canceled}")
    assert not ended.waiting, "who runs will see to those that wait"
    assert await chat.state(f"t-{canceled}") == "canceled"
    assert chat.store.holds(running.lease)
    assert chat.store.renew(running.lease)
    head = await chat.store.append(running.lease, running.head, chat.says(running.head))
    turn: TurnStarted | None = replace(running, head=head)
    order = []
    while turn is not None:
        order.append(turn.lease.turn.id)
        if turn.lease.turn.id != "turn-m-1":
            assert turn.head == replace(waiting[order[-1].removeprefix("turn-")].head, fence=turn.lease.fence)
        turn = (await chat.ends(turn, run_next=True)).next
    assert order == [f"turn-{each}" for each in ("m-1", "m-2", "m-3", "m-4") if each != canceled]
    await chat.comes_to_rest()


@pytest.mark.parametrize("canceled", ["m-1", "m-2"])
async def test_cancel_of_queued_task_lets_other_queued_task_begin(chat: StoreConversation, canceled: str) -> None:
    await chat.waits("m-1")
    await chat.waits("m-2")
    assert (await chat.cancels(f"t-{canceled}")).waiting
    begun = await chat.begins()
    assert begun.lease.turn.id == ("turn-m-2" if canceled == "m-1" else "turn-m-1")
    await chat.comes_to_rest()


async def test_cancel_of_only_queued_task_leaves_no_turn_in_context(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    assert not (await chat.cancels("t-m-1")).waiting
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    await chat.comes_to_rest()


async def test_cancel_of_interrupted_task_lets_queued_turn_begin(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.ends(turn, INPUT_REQUIRED)
    assert (await chat.cancels("t-m-1")).waiting
    assert (await chat.begins()).lease.turn.id == "turn-m-2"
    await chat.waits("m-3", holder="holder-3")
    await chat.comes_to_rest()


async def test_cancel_of_queued_task_leaves_another_task_waiting_for_input(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.waits("m-3")
    asking = (await chat.ends(turn, INPUT_REQUIRED)).head
    assert not (await chat.cancels("t-m-2")).waiting, "nobody is to begin anything"
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    assert await chat.store.create(chat.message("m-4"), holder="holder-2") == Interrupted("t-m-1")
    answered = await chat.store.follow_up(await chat.more(asking, "m-5"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    assert (await chat.ends(answered)).waiting
    assert (await chat.begins()).lease.turn.id == "turn-m-3"
    await chat.comes_to_rest()


@pytest.mark.parametrize("where", ["running", "waiting", "interrupted"])
async def test_cancel_removes_queued_messages_of_task(chat: StoreConversation, where: str) -> None:
    if where == "waiting":
        other = await chat.starts("m-0")
        await chat.waits("m-1")
    else:
        turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "more-1")
    await chat.waits("m-2")
    await chat.queues("t-m-1", "more-2")
    if where == "interrupted":
        await chat.ends(turn, INPUT_REQUIRED)
    ended = await chat.cancels("t-m-1")
    assert ended.waiting is (where != "waiting")
    if where == "waiting":
        await chat.ends(other)
    begun = await chat.begins()
    assert begun.lease.turn.id == "turn-m-2"
    assert (await chat.ends(begun)).waiting is False
    assert await chat.said("t-m-1") == ["m-1"], "what was never taken in is no part of it"
    await chat.comes_to_rest()


async def test_cancel_of_suspended_task_lets_queued_turn_begin(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.store.pause(turn.lease, made_progress=True)
    assert (await chat.cancels("t-m-1")).waiting
    assert (await chat.begins()).lease.turn.id == "turn-m-2"


async def test_cancel_is_refused_if_task_changed_since_it_was_read(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    head = await chat.store.append(turn.lease, turn.head, chat.says(turn.head))
    with pytest.raises(LeaseLost):
        await chat.store.cancel(turn.head, chat.canceled(turn.head))
    chat.clock.move(31)
    heir = await chat.begins()
    with pytest.raises(LeaseLost):
        await chat.store.cancel(head, chat.canceled(head))
    assert chat.store.holds(heir.lease)
    assert (await chat.ends(heir)).head.state == COMPLETED


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED], ids=states.state_name)
async def test_cancel_is_refused_if_turn_ended_since_task_was_read(chat: StoreConversation, state: TaskState) -> None:
    turn = await chat.starts("m-1")
    ended = await chat.store.finish(turn.lease, turn.head, chat.says(turn.head, state))
    with pytest.raises(LeaseLost):
        await chat.store.cancel(turn.head, chat.canceled(turn.head))
    assert await chat.head("t-m-1") == ended.head


async def test_cancel_of_ended_task_is_refused(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    ended = await chat.ends(turn)
    with pytest.raises(InvalidTransition):
        await chat.store.cancel(ended.head, chat.canceled(ended.head))


@pytest.mark.parametrize("where", ["running", "waiting", "interrupted"])
async def test_only_one_of_concurrent_cancels_succeeds(chat: StoreConversation, where: str) -> None:
    if where == "waiting":
        await chat.waits("m-1")
    elif where == "interrupted":
        await chat.asks("m-1")
    else:
        await chat.starts("m-1")
    await (chat.queues("t-m-1", "m-2") if where == "running" else asyncio.sleep(0))
    head = await chat.head("t-m-1")
    outcomes = await asyncio.gather(
        *(chat.store.cancel(head, chat.canceled(head)) for _ in range(10)), return_exceptions=True
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, TurnFinished)]
    assert len(won) == 1
    assert all(isinstance(outcome, LeaseLost) for outcome in outcomes if outcome is not won[0])
    assert await chat.head("t-m-1") == won[0].head
    assert won[0].head.generation == head.generation + 1
    await chat.comes_to_rest()


async def test_concurrent_cancels_of_queued_tasks_all_succeed(chat: StoreConversation) -> None:
    running = await chat.starts("m-0")
    for number in range(6):
        await chat.waits(f"m-{number + 1}")
    await asyncio.gather(*(chat.cancels(f"t-m-{number + 1}") for number in range(6)))
    assert chat.store.holds(running.lease)
    head = await chat.store.append(running.lease, running.head, chat.says(running.head, WORKING))
    ended = await chat.ends(replace(running, head=head))
    assert not ended.waiting
    await chat.comes_to_rest()
