"""Contract of `TaskStore`: a turn finishes or is suspended, on each adapter."""

import pytest
from msgspec.structs import replace

from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.records import Numbered
from aion_core.errors import InvalidTransition, LeaseLost, PendingInput
from tests.support.conversation import COMPLETED, FAILED, INPUT_REQUIRED, WORKING, StoreConversation

# ── A turn finishes ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("run_next", [False, True])
async def test_context_is_free_after_its_only_turn_has_finished(chat: StoreConversation, run_next: bool) -> None:
    turn = await chat.starts("m-1")
    said = chat.says(turn.head, COMPLETED)
    ended = await chat.store.finish(turn.lease, turn.head, said, has_time=lambda: run_next)
    assert (ended.next, ended.waiting) == (None, False)
    assert (ended.head.generation, ended.head.state, ended.head.fence) == (3, COMPLETED, 1)
    log = await chat.store.log(turn.head.key)
    assert log is not None
    assert (log.head, log.events[-1]) == (ended.head, Numbered(3, said))
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    await chat.starts("m-2")


async def test_end_of_turn_leaves_next_turn_queued_by_default(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    ended = await chat.ends(turn)
    assert (ended.next, ended.waiting) == (None, True)
    assert not chat.store.renew(turn.lease)
    begun = await chat.begins("holder-2")
    assert (begun.lease.turn.id, begun.lease.fence) == ("turn-m-2", 2)


async def test_end_of_slow_turn_leaves_next_turn_queued(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    had = iter([True, False, False])
    ended = await chat.store.finish(turn.lease, turn.head, chat.says(turn.head, COMPLETED), has_time=lambda: next(had))
    assert (ended.next, ended.waiting) == (None, True)
    assert (await chat.begins("holder-2")).lease.turn.id == "turn-m-2"


async def test_end_of_turn_begins_next_turn_on_request(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1", holder="holder-1")
    for message_id in ("m-2", "m-3"):
        await chat.waits(message_id)
    ended = await chat.ends(turn, FAILED, run_next=True)
    following = ended.next
    assert following is not None
    assert not ended.waiting
    assert (following.lease.turn.id, following.lease.turn.tries) == ("turn-m-2", 1)
    assert (following.lease.holder, following.lease.fence) == ("holder-1", 2)
    assert following.head == await chat.head("t-m-2")
    assert following.head.fence == 2
    assert isinstance(await chat.store.begin(chat.context, holder="holder-2"), LeaseHeld)
    assert chat.store.renew(following.lease)
    assert chat.store.holds(following.lease)
    assert not chat.store.renew(turn.lease)
    last = (await chat.ends(following, run_next=True)).next
    assert last is not None
    assert last.lease.turn.id == "turn-m-3"
    await chat.ends(last, run_next=True)
    await chat.comes_to_rest()


async def test_task_with_queued_message_cannot_end(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.queues("t-m-1", "m-3")
    for run_next in (False, True):
        for state in (COMPLETED, FAILED):
            with pytest.raises(PendingInput):
                await chat.ends(turn, state, run_next=run_next)
    assert await chat.head("t-m-1") == turn.head
    assert chat.store.renew(turn.lease)
    assert (await chat.ends(turn, WORKING)).waiting
    assert (await chat.begins()).lease.turn.id == "turn-m-2", "in the order in which they came"


async def test_task_continues_with_its_queued_message(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    follow_up = await chat.queues("t-m-1", "m-2")
    said = chat.says(turn.head, WORKING, "the first answer")
    ended = await chat.store.finish(turn.lease, turn.head, said, has_time=lambda: True)
    following = ended.next
    assert following is not None
    assert (ended.head.generation, ended.head.state) == (3, WORKING)
    assert (following.head.generation, following.head.fence, following.lease.fence) == (4, 2, 2)
    assert following.lease.turn == replace(follow_up.turn, message_generation=4, tries=1)
    log = await chat.store.log(turn.head.key)
    assert log is not None
    assert log.head == following.head
    assert [entry.generation for entry in log.events] == [1, 2, 3, 4]
    assert log.events[2] == Numbered(3, said)
    assert (log.events[3].message, log.events[3].request) == (follow_up.message, follow_up.request)
    assert (await chat.ends(following)).next is None
    await chat.comes_to_rest()
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


async def test_task_snapshot_of_finished_turn_excludes_queued_message(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    said = chat.says(turn.head, WORKING, "the first answer")
    task = await chat.task("t-m-1")
    task.status.CopyFrom(said.status)
    ended = await chat.store.finish(turn.lease, turn.head, said, has_time=lambda: True, snapshot=task)
    assert ended.next is not None
    log = await chat.store.log(turn.head.key)
    assert log is not None
    assert [entry.generation for entry in log.events] == [3, 4]
    assert log.events[0].event == task
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@pytest.mark.parametrize("run_next", [False, True])
@pytest.mark.parametrize("other_waits", [False, True])
async def test_turn_cannot_end_in_state_working_without_queued_message(
    chat: StoreConversation, run_next: bool, other_waits: bool
) -> None:
    turn = await chat.starts("m-1")
    if other_waits:
        await chat.waits("m-2")
    with pytest.raises(InvalidTransition):
        await chat.ends(turn, WORKING, run_next=run_next)
    assert await chat.head("t-m-1") == turn.head
    assert chat.store.renew(turn.lease)
    await chat.comes_to_rest()


@pytest.mark.parametrize("run_next", [False, True])
async def test_queued_turn_does_not_begin_while_task_requires_input(chat: StoreConversation, run_next: bool) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.queues("t-m-1", "m-3")
    ended = await chat.ends(turn, INPUT_REQUIRED, run_next=run_next)
    assert (ended.next, ended.waiting) == (None, False)
    assert not chat.store.renew(turn.lease)
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    answered = await chat.store.follow_up(await chat.more(ended.head, "m-4"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    with pytest.raises(PendingInput):
        await chat.ends(answered)
    await chat.comes_to_rest()
    assert await chat.said("t-m-1") == ["m-1", "m-4", "m-3"]


@pytest.mark.parametrize("run_next", [False, True])
async def test_second_finish_of_turn_raises_lease_lost(chat: StoreConversation, run_next: bool) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    ended = await chat.ends(turn, INPUT_REQUIRED)
    for lost in (
        chat.store.finish(turn.lease, turn.head, chat.says(turn.head, COMPLETED), has_time=lambda: run_next),
        chat.store.finish(turn.lease, turn.head, chat.says(turn.head, INPUT_REQUIRED), has_time=lambda: run_next),
    ):
        with pytest.raises(LeaseLost):
            await lost
    assert await chat.head("t-m-1") == ended.head


@pytest.mark.parametrize("others_wait", [False, True])
async def test_turn_with_lost_lease_cannot_finish(chat: StoreConversation, others_wait: bool) -> None:
    turn = await chat.starts("m-1")
    if others_wait:
        await chat.waits("m-2")
        await chat.queues("t-m-1", "m-3")
    chat.clock.move(31)
    heir = await chat.begins("holder-2")
    for state in (COMPLETED, INPUT_REQUIRED, WORKING):
        for run_next in (False, True):
            with pytest.raises(LeaseLost):
                await chat.ends(turn, state, run_next=run_next)
    assert chat.store.renew(heir.lease)
    assert await chat.head("t-m-1") == heir.head


# ── A turn is suspended ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_suspension_after_progress_restarts_count_of_attempts(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    chat.clock.move(31)
    turn = await chat.begins("holder-2")
    assert (turn.lease.turn.tries, turn.lease.turn.handoffs) == (2, 0)
    for handoffs in (1, 2):
        await chat.store.pause(turn.lease, made_progress=True)
        turn = await chat.begins("holder-3")
        assert (turn.lease.turn.id, turn.lease.turn.tries, turn.lease.turn.handoffs) == ("turn-m-1", 1, handoffs)
    assert (await chat.ends(turn)).waiting


async def test_suspension_without_progress_increments_number_of_attempts(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.store.pause(turn.lease, made_progress=False)
    again = await chat.begins("holder-2")
    assert (again.lease.turn.tries, again.lease.turn.handoffs) == (2, 0)
    assert (again.lease.fence, again.head.fence) == (2, 2)
    assert again.head.generation == turn.head.generation


async def test_turn_suspension_releases_lease(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.store.pause(turn.lease, made_progress=True)
    assert not chat.store.renew(turn.lease)
    again = await chat.begins("holder-2")
    assert not chat.store.holds(turn.lease)
    for refused in (
        chat.store.pause(turn.lease, made_progress=True),
        chat.ends(turn),
        chat.store.append(turn.lease, turn.head, chat.says(turn.head)),
    ):
        with pytest.raises(LeaseLost):
            await refused
    assert (await chat.ends(again)).head.generation == 3


async def test_suspended_turn_resumes_before_queued_turns(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.store.pause(turn.lease, made_progress=True)
    waiting = await chat.waits("m-3", holder="holder-2")
    assert waiting.until is None, "it waits for nobody"
    assert (await chat.begins()).lease.turn.id == "turn-m-1"
    await chat.comes_to_rest()


async def test_suspension_with_wrong_lease_is_refused(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    for lease in (
        replace(turn.lease, holder="somebody else"),
        replace(turn.lease, fence=turn.lease.fence + 1),
        replace(turn.lease, context=replace(chat.context, context_id="c-2")),
    ):
        with pytest.raises(LeaseLost):
            await chat.store.pause(lease, made_progress=True)
    assert chat.store.renew(turn.lease)
