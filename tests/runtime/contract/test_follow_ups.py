"""Contract of `TaskStore`: messages to existing tasks, on each adapter."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.context.conditions import MAX_WAITING
from aion_core.engine.outcomes import ContextInUse, Duplicate, LeaseHeld, TurnQueued, TurnStarted
from aion_core.engine.records import Numbered
from aion_core.engine.task import states
from aion_core.errors import ContextBusy, LeaseLost, MessageIdReused, PendingInput
from aion_core.protocol.types import TaskState
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation

# ── Messages to an interrupted task ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("when_busy", WhenBusy)
async def test_answer_to_interrupt_is_recorded_and_starts_turn(chat: StoreConversation, when_busy: WhenBusy) -> None:
    head = await chat.asks("m-1")
    follow_up = await chat.more(head, "m-2")
    turn = await chat.store.follow_up(follow_up, holder="holder-2", when_busy=when_busy)
    assert isinstance(turn, TurnStarted)
    assert turn.lease.turn == replace(follow_up.turn, tries=1, message_generation=4)
    assert (turn.lease.fence, turn.lease.holder) == (2, "holder-2")
    assert (turn.head.generation, turn.head.state, turn.head.fence) == (4, WORKING, 2)
    log = await chat.store.log(head.key)
    assert log is not None
    assert log.head == turn.head
    assert log.events[-1] == Numbered(4, follow_up.event, follow_up.message, request=follow_up.request)
    assert (await chat.ends(turn)).head.generation == 5
    await chat.starts("m-3")


async def test_answer_that_starts_no_turn_is_queued_first(chat: StoreConversation) -> None:
    first = await chat.starts("m-1")
    await chat.waits("m-2")
    head = (await chat.ends(first, INPUT_REQUIRED)).head
    follow_up = await chat.more(head, "m-3")
    waiting = await chat.store.follow_up(follow_up, holder=None)
    assert isinstance(waiting, TurnQueued)
    assert waiting.until is None
    assert (waiting.head.generation, waiting.head.state) == (4, WORKING)
    assert waiting.head == await chat.head("t-m-1")
    log = await chat.store.log(head.key)
    assert log is not None
    assert log.events[-1] == Numbered(4, follow_up.event, follow_up.message, request=follow_up.request)
    turn = await chat.begins()
    assert (turn.lease.turn.id, turn.lease.turn.message_generation, turn.lease.turn.tries) == ("turn-m-3", 4, 1)
    assert (await chat.ends(turn)).waiting
    assert (await chat.begins()).head.key.task_id == "t-m-2"


async def test_queued_turns_wait_for_answer_to_interrupt(chat: StoreConversation) -> None:
    """A queued turn of another task must wait: LangGraph would remove the open interrupt from the graph's state."""
    turn = await chat.starts("m-1")
    await chat.waits("m-2", holder="holder-2")
    ended = await chat.ends(turn, INPUT_REQUIRED)
    assert not ended.waiting, "nobody is to begin it"
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    answered = await chat.store.follow_up(await chat.more(ended.head, "m-3"), holder="holder-3")
    assert isinstance(answered, TurnStarted)
    assert (await chat.ends(answered)).waiting
    assert (await chat.begins()).head.key.task_id == "t-m-2"


async def test_answer_to_interrupt_is_accepted_although_queue_is_full(chat: StoreConversation) -> None:
    turn = await chat.starts("m-0")
    for number in range(MAX_WAITING):
        await chat.waits(f"m-{number + 1}")
    head = (await chat.ends(turn, INPUT_REQUIRED)).head
    assert isinstance(await chat.store.follow_up(await chat.more(head, "answer"), holder=None), TurnQueued)
    assert (await chat.begins()).lease.turn.id == "turn-answer"


@pytest.mark.parametrize("holder", ["holder", None])
async def test_repeated_answer_to_interrupt_is_recorded_once(chat: StoreConversation, holder: str | None) -> None:
    """Send the same answer in six requests; each request proposes its own turn id."""
    head = await chat.asks("m-1")
    follow_ups = [await chat.more(head, "m-2", turn_id=f"turn-{n}") for n in range(6)]
    outcomes = await asyncio.gather(*(chat.store.follow_up(each, holder=holder) for each in follow_ups))
    assert sum(isinstance(outcome, TurnStarted | TurnQueued) for outcome in outcomes) == 1
    assert outcomes.count(Duplicate(head.key.task_id)) == 5
    assert (await chat.head("t-m-1")).generation == 4
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


async def test_message_id_with_other_content_is_refused(chat: StoreConversation) -> None:
    async def refused(when_busy: WhenBusy) -> None:
        head = await chat.head("t-m-1")
        for message_id in ("m-1", "m-2"):
            follow_up = await chat.more(head, message_id, "other content", turn_id="turn-other")
            with pytest.raises(MessageIdReused):
                await chat.store.follow_up(follow_up, holder="holder-2", when_busy=when_busy)

    head = await chat.asks("m-1")
    turn = await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-1")
    assert isinstance(turn, TurnStarted)
    for when_busy in WhenBusy:
        await refused(when_busy)
    await chat.ends(turn, INPUT_REQUIRED)
    await refused(WhenBusy.ENQUEUE)


async def test_second_answer_to_interrupt_is_refused(chat: StoreConversation) -> None:
    head = await chat.asks("m-1")
    turn = await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2")
    assert isinstance(turn, TurnStarted)
    late = await chat.more(head, "m-3")
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(late, holder="holder-3")
    await chat.ends(turn)
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(late, holder="holder-3")
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(late, holder=None)
    assert await chat.store.known(head.context, "m-3", late.content_hash) is None


async def test_answer_to_outdated_interrupt_is_refused(chat: StoreConversation) -> None:
    head = await chat.asks("m-1")
    late = await chat.more(head, "m-3")
    turn = await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2")
    assert isinstance(turn, TurnStarted)
    again = (await chat.ends(turn, INPUT_REQUIRED)).head
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(late, holder="holder-3")
    assert isinstance(await chat.store.follow_up(replace(late, head=again), holder="holder-3"), TurnStarted)


async def test_large_answer_to_interrupt_is_stored_whole(chat: StoreConversation) -> None:
    head = await chat.asks("m-1")
    follow_up = await chat.more(head, "m-2", "large " * 30_000)
    await chat.store.follow_up(follow_up, holder="holder-2")
    log = await chat.store.log(head.key)
    assert log is not None
    assert log.events[-1].message == follow_up.message


# ── Messages to a running or queued task ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("holder", ["holder-2", None])
async def test_queued_message_is_recorded_when_its_turn_begins(chat: StoreConversation, holder: str | None) -> None:
    turn = await chat.starts("m-1")
    follow_up = await chat.more(turn.head, "m-2", "large " * 10_000)
    waiting = await chat.store.follow_up(follow_up, holder=holder)
    assert isinstance(waiting, TurnQueued)
    assert waiting.until is not None
    assert waiting.head == turn.head == await chat.head("t-m-1")
    assert await chat.said("t-m-1") == ["m-1"]
    head = await chat.store.append(turn.lease, turn.head, chat.says(turn.head))

    assert (await chat.ends(replace(turn, head=head), WORKING)).waiting
    begun = await chat.begins("holder-3")
    assert begun.lease.turn == replace(follow_up.turn, message_generation=5, tries=1)
    assert (begun.head.generation, begun.head.state, begun.head.fence) == (5, WORKING, 2)
    log = await chat.store.log(begun.head.key)
    assert log is not None
    assert log.head == begun.head
    assert [entry.generation for entry in log.events] == [1, 2, 3, 4, 5]
    last = log.events[-1]
    assert (last.message, last.request) == (follow_up.message, follow_up.request)

    chat.clock.move(31)
    again = await chat.begins("holder-4")
    assert (again.lease.turn.message_generation, again.lease.turn.tries, again.head.generation) == (5, 2, 5)
    await chat.ends(again)
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


async def test_second_message_to_queued_task_gets_separate_turn(chat: StoreConversation) -> None:
    first = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.queues("t-m-2", "m-3")
    await chat.waits("m-4")
    ended = await chat.ends(first, run_next=True)
    assert ended.next is not None
    assert (ended.next.lease.turn.id, ended.next.lease.turn.message_generation) == ("turn-m-2", 1)
    with pytest.raises(PendingInput):
        await chat.ends(ended.next)
    ended = await chat.ends(ended.next, WORKING, run_next=True)
    assert ended.next is not None
    assert ended.next.lease.turn.id == "turn-m-3"
    await chat.ends(ended.next)
    assert await chat.said("t-m-2") == ["m-2", "m-3"]
    assert (await chat.begins()).lease.turn.id == "turn-m-4"


async def test_queued_task_accepts_several_messages(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    for message_id in ("m-2", "m-3"):
        await chat.queues("t-m-1", message_id)
    turn: TurnStarted | None = await chat.begins()
    for asked in (1, 4, 6):
        assert turn is not None
        assert turn.lease.turn.message_generation == asked
        turn = (await chat.ends(turn, WORKING if asked < 6 else COMPLETED, run_next=True)).next
    assert turn is None
    assert await chat.said("t-m-1") == ["m-1", "m-2", "m-3"]


async def test_message_is_queued_even_if_task_has_new_event(
    chat: StoreConversation,
) -> None:
    turn = await chat.starts("m-1")
    follow_up = await chat.more(turn.head, "m-2")
    await chat.store.append(turn.lease, turn.head, chat.says(turn.head))
    assert isinstance(await chat.store.follow_up(follow_up, holder="holder-2"), TurnQueued)


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED], ids=states.state_name)
@pytest.mark.parametrize("when_busy", WhenBusy)
@pytest.mark.parametrize("holder", ["holder-2", None])
async def test_message_is_refused_if_turn_ended_since_task_was_read(
    chat: StoreConversation, state: TaskState, when_busy: WhenBusy, holder: str | None
) -> None:
    turn = await chat.starts("m-1")
    follow_up = await chat.more(turn.head, "m-2")
    await chat.store.finish(turn.lease, turn.head, chat.says(turn.head, state))
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(follow_up, holder=holder, when_busy=when_busy)
    assert await chat.store.known(chat.context, "m-2", follow_up.content_hash) is None
    assert await chat.store.begin(chat.context, holder="holder-2") is None


@pytest.mark.parametrize("state", ["submitted", "running", "waiting"])
async def test_rejected_message_stores_nothing(chat: StoreConversation, state: str) -> None:
    if state == "waiting":
        await chat.starts("m-0")
        await chat.waits("m-1")
    elif state == "running":
        await chat.starts("m-1")
    else:
        new = chat.message("m-1")
        await chat.store.create(replace(new, events=new.events[:1]), holder=None)
    head = await chat.head("t-m-1")
    follow_up = await chat.more(head, "m-2")
    refused = await chat.store.follow_up(follow_up, holder="holder-2", when_busy=WhenBusy.REJECT)
    assert refused == ContextInUse("t-m-1")
    assert await chat.store.known(chat.context, "m-2", follow_up.content_hash) is None
    assert await chat.head("t-m-1") == head
    again = await chat.more(head, "m-2", "with other content")
    assert isinstance(await chat.store.follow_up(again, holder="holder-2"), TurnQueued), "nothing was known of it"


@pytest.mark.parametrize("when_busy", WhenBusy)
async def test_repeated_message_to_running_task_is_recognised_as_duplicate(
    chat: StoreConversation, when_busy: WhenBusy
) -> None:
    turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    repeats: list[tuple[str, dict[str, Any]]] = [("m-2", {}), ("m-1", {"text": "hi"})]
    for message_id, options in repeats:
        again = await chat.more(turn.head, message_id, turn_id="another turn", **options)
        if message_id == "m-1":
            # Expect an error: m-1 was first sent without a task id, so with a task id the message has another hash.
            with pytest.raises(MessageIdReused):
                await chat.store.follow_up(again, holder="holder-2", when_busy=when_busy)
        else:
            outcome = await chat.store.follow_up(again, holder="holder-2", when_busy=when_busy)
            assert outcome == Duplicate("t-m-1")
    assert chat.store.holds(turn.lease)
    begun = (await chat.ends(turn, WORKING, run_next=True)).next
    assert begun is not None
    assert (await chat.ends(begun)).next is None
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


async def test_message_to_full_queue_is_refused(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    for number in range(MAX_WAITING):
        await chat.queues("t-m-1", f"more-{number}")
    follow_up = await chat.more(turn.head, "late")
    with pytest.raises(ContextBusy):
        await chat.store.follow_up(follow_up, holder="holder-2")
    assert await chat.store.known(chat.context, "late", follow_up.content_hash) is None
    outcome = await chat.store.follow_up(await chat.more(turn.head, "more-3", turn_id="again"), holder=None)
    assert outcome == Duplicate("t-m-1")


async def test_queued_message_waits_until_interrupted_task_is_answered(chat: StoreConversation) -> None:
    first = await chat.starts("m-1")
    await chat.waits("m-2")
    head = (await chat.ends(first, INPUT_REQUIRED)).head
    await chat.queues("t-m-2", "m-3")
    assert await chat.store.begin(chat.context, holder="holder-2") is None
    chat.clock.move(100)
    assert not await chat.is_expired(), "the client has to act"
    answered = await chat.store.follow_up(await chat.more(head, "m-4"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    await chat.comes_to_rest()
    assert await chat.said("t-m-2") == ["m-2", "m-3"]


# ── Messages that replace the running turn ────────────────────────────────────────────────────────────────────────────


async def test_interrupting_message_replaces_running_turn(chat: StoreConversation) -> None:
    old = await chat.starts("m-1")
    await chat.waits("m-2")
    follow_up = await chat.more(old.head, "m-3")
    new = await chat.store.follow_up(follow_up, holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    assert isinstance(new, TurnStarted)
    assert new.lease.turn == replace(follow_up.turn, message_generation=3, tries=1)
    assert (new.lease.fence, new.head.fence, new.head.generation, new.head.state) == (2, 2, 3, WORKING)
    log = await chat.store.log(new.head.key)
    assert log is not None
    assert log.head == new.head
    assert log.events[-1] == Numbered(3, follow_up.event, follow_up.message, request=follow_up.request)

    assert not chat.store.holds(old.lease)
    assert not chat.store.renew(old.lease)
    for refused in (
        chat.store.append(old.lease, old.head, chat.says(old.head)),
        chat.store.append(old.lease, new.head, chat.says(old.head)),
        chat.ends(old),
        chat.store.pause(old.lease, made_progress=True),
    ):
        with pytest.raises(LeaseLost):
            await refused
    assert chat.store.holds(new.lease)
    held = await chat.store.begin(chat.context, holder="holder-3")
    assert isinstance(held, LeaseHeld)
    assert held.fence == new.lease.fence
    ended = await chat.ends(new, run_next=True)
    assert ended.next is not None
    assert ended.next.lease.turn.id == "turn-m-2", "those that waited wait on; the turn that ran is no more"
    await chat.comes_to_rest()


async def test_interrupting_message_that_starts_no_turn_is_queued_first(
    chat: StoreConversation,
) -> None:
    old = await chat.starts("m-1")
    await chat.waits("m-2")
    waiting = await chat.store.follow_up(await chat.more(old.head, "m-3"), holder=None, when_busy=WhenBusy.INTERRUPT)
    assert isinstance(waiting, TurnQueued)
    assert waiting.until is None, "it waits for nobody"
    assert waiting.head.generation == 3
    assert not chat.store.holds(old.lease)
    assert not chat.store.renew(old.lease)
    with pytest.raises(LeaseLost):
        await chat.ends(old)
    new = await chat.begins("holder-2")
    assert (new.lease.turn.id, new.lease.turn.message_generation) == ("turn-m-3", 3)
    await chat.comes_to_rest()
    assert await chat.said("t-m-1") == ["m-1", "m-3"]


async def test_interrupting_message_does_not_stop_turn_of_another_task(chat: StoreConversation) -> None:
    running = await chat.starts("m-1")
    waiting = await chat.waits("m-2")
    outcome = await chat.store.follow_up(
        await chat.more(waiting.head, "m-3"), holder="holder-2", when_busy=WhenBusy.INTERRUPT
    )
    assert isinstance(outcome, TurnQueued), "the task's own turn does not run"
    assert chat.store.holds(running.lease)
    assert chat.store.renew(running.lease)
    assert await chat.said("t-m-2") == ["m-2"]


async def test_interrupting_message_replaces_suspended_turn(chat: StoreConversation) -> None:
    old = await chat.starts("m-1")
    await chat.store.pause(old.lease, made_progress=True)
    new = await chat.store.follow_up(await chat.more(old.head, "m-2"), holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    assert isinstance(new, TurnStarted)
    assert new.lease.turn.id == "turn-m-2"
    await chat.ends(new)
    assert await chat.store.begin(chat.context, holder="holder-2") is None


async def test_interrupting_message_is_refused_if_task_has_new_event(
    chat: StoreConversation,
) -> None:
    turn = await chat.starts("m-1")
    follow_up = await chat.more(turn.head, "m-2")
    head = await chat.store.append(turn.lease, turn.head, chat.says(turn.head))
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(follow_up, holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    assert chat.store.holds(turn.lease)
    assert await chat.head("t-m-1") == head


async def test_interrupting_message_runs_before_queued_messages(chat: StoreConversation) -> None:
    old = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    new = await chat.store.follow_up(await chat.more(old.head, "m-3"), holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    assert isinstance(new, TurnStarted)
    with pytest.raises(PendingInput):
        await chat.ends(new)
    after = (await chat.ends(new, WORKING, run_next=True)).next
    assert after is not None
    await chat.ends(after)
    assert await chat.said("t-m-1") == ["m-1", "m-3", "m-2"]
