"""Contract of `TaskStore`: new tasks, turns and logs, on each adapter."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.context.conditions import MAX_WAITING
from aion_core.engine.outcomes import ContextInUse, Duplicate, Interrupted, LeaseHeld, TurnQueued, TurnStarted
from aion_core.engine.records import Cursor, Delta, DeltaBatch, Numbered, OpenText
from aion_core.engine.task import projection
from aion_core.errors import ContextBusy, InvalidTransition, LeaseLost, MessageIdReused
from aion_core.protocol.types import Event, Task, TaskState
from aion_core.table.keys import TaskKey
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation, of
from tests.support.stores import LEASE_SECONDS, new_owner

NOT_QUEUED = [WhenBusy.REJECT, WhenBusy.INTERRUPT]


# ── A new task ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_new_task_is_stored_with_its_lease(chat: StoreConversation) -> None:
    new = chat.message("m-1", request={"network": "n", "deep": {"er": [1, None]}})
    outcome = await chat.store.create(new, holder="holder-1")
    assert isinstance(outcome, TurnStarted)
    lease = outcome.lease
    assert (lease.fence, lease.holder, lease.context, lease.turn) == (
        1,
        "holder-1",
        chat.context,
        replace(new.turn, tries=1),
    )
    log = await chat.store.log(new.key)
    assert log is not None
    assert log.events == (Numbered(1, new.events[0], request=new.request), Numbered(2, new.events[1]))
    assert log.head == outcome.head == await chat.store.head(new.key)
    assert (log.head.generation, log.head.state, log.head.fence) == (2, WORKING, 1)


async def test_new_task_begins_in_context_with_server_generated_id(chat: StoreConversation) -> None:
    begun = await chat.starts(context_is_new=True)
    assert begun.lease.fence == 1
    assert await chat.head("t-m-1") == begun.head


async def test_new_task_without_process_to_run_it_is_queued(chat: StoreConversation) -> None:
    waiting = await chat.waits("m-1", holder=None)
    assert (waiting.head, waiting.until) == (await chat.head("t-m-1"), None)
    assert waiting.head.fence == 0
    begun = await chat.begins("holder-2")
    assert (begun.lease.turn.id, begun.lease.turn.tries, begun.lease.holder) == ("turn-m-1", 1, "holder-2")
    assert begun.head == replace(waiting.head, fence=begun.lease.fence) == await chat.head("t-m-1")


async def test_task_without_process_to_run_it_waits_in_new_context(chat: StoreConversation) -> None:
    await chat.waits("m-1", holder=None, context_is_new=True)
    assert (await chat.begins()).head.key.task_id == "t-m-1"


async def test_repeated_message_returns_task_of_first_send(chat: StoreConversation) -> None:
    first = await chat.starts("m-1", task_id="t-1")
    again = chat.message("m-1", task_id="t-2")
    for holder in ("holder-2", None):
        assert await chat.store.create(again, holder=holder) == Duplicate("t-1")
    assert await chat.store.log(again.key) is None
    await chat.ends(first)
    assert await chat.store.create(again, holder="holder-2") == Duplicate("t-1")
    assert await chat.store.begin(chat.context, holder="holder-2") is None


async def test_message_id_with_other_content_is_refused(chat: StoreConversation) -> None:
    await chat.starts("m-1", text="one")
    for holder in ("holder-2", None):
        with pytest.raises(MessageIdReused):
            await chat.store.create(chat.message("m-1", "another", task_id="t-2"), holder=holder)
    assert await chat.store.head(chat.key("t-2")) is None


async def test_idempotency_key_identifies_duplicate_in_another_context(chat: StoreConversation) -> None:
    await chat.starts("m-1", idempotency_key="key-1", context_is_new=True)
    other = of(chat, context_id="c-2")
    again = other.message("m-1", task_id="t-2", idempotency_key="key-1", context_is_new=True)
    assert await chat.store.create(again, holder="holder-2") == Duplicate("t-m-1")
    assert await chat.store.create(replace(again, context_is_new=False), holder=None) == Duplicate("t-m-1")
    assert await chat.store.head(again.key) is None
    assert isinstance(await chat.store.create(replace(again, idempotency_key="key-2"), holder="holder-2"), TurnStarted)


async def test_idempotency_key_with_other_content_is_refused(chat: StoreConversation) -> None:
    await chat.starts("m-1", text="one", idempotency_key="key-1")
    with pytest.raises(MessageIdReused):
        await chat.store.create(
            of(chat, context_id="c-2").message("m-2", "another", idempotency_key="key-1"), holder="holder-2"
        )


async def test_idempotency_key_and_message_id_identify_duplicate(chat: StoreConversation) -> None:
    await chat.starts("m-1", idempotency_key="key-1")
    repeats: list[dict[str, Any]] = [{}, {"idempotency_key": "key-1"}, {"idempotency_key": "key-2"}]
    for options in repeats:
        again = chat.message("m-1", task_id="t-2", **options)
        assert await chat.store.create(again, holder=None) == Duplicate("t-m-1")
    with_the_key_alone = chat.message("m-2", idempotency_key="key-1")
    assert await chat.store.create(with_the_key_alone, holder=None) == Duplicate("t-m-1")
    # The duplicate's own messageId, m-2, is not stored: the server recognised the duplicate by its idempotency key.
    assert await chat.store.known(chat.context, "m-2", b"") is None


async def test_idempotency_key_is_scoped_to_owner_and_agent(chat: StoreConversation) -> None:
    await chat.starts("m-1", idempotency_key="key-1")
    for other in (of(chat, owner=new_owner()), of(chat, agent="other")):
        await other.starts("m-1", idempotency_key="key-1")


async def test_message_id_equal_to_idempotency_key_is_no_duplicate(chat: StoreConversation) -> None:
    await chat.starts("m-1", idempotency_key="one")
    await of(chat, context_id="one").starts("one")
    await chat.waits("one")


async def test_message_id_identifies_duplicate_only_within_its_context(chat: StoreConversation) -> None:
    await chat.starts("m-1", task_id="t-1")
    others = (of(chat, owner=new_owner()), of(chat, agent="other"), of(chat, context_id="c-2"))
    for number, other in enumerate(others):
        await other.starts("m-1", task_id=f"t-{number + 2}")


@pytest.mark.parametrize("context_id", ["a#b", "a", "a#b#c"])
async def test_context_ids_with_separators_do_not_collide(chat: StoreConversation, context_id: str) -> None:
    await of(chat, context_id="a#b#").starts("m#1", task_id="t-1")
    await of(chat, context_id=context_id).starts("m#1", task_id="t-2")


async def test_concurrent_copies_of_message_create_one_task(chat: StoreConversation) -> None:
    outcomes = await asyncio.gather(
        *(chat.store.create(chat.message("m-1", task_id=f"t-{n}"), holder=f"holder-{n}") for n in range(16))
    )
    first = [outcome for outcome in outcomes if isinstance(outcome, TurnStarted)]
    assert len(first) == 1
    assert outcomes.count(Duplicate(first[0].head.key.task_id)) == 15


async def test_known_message_id_returns_its_task(chat: StoreConversation) -> None:
    new = chat.message("m-1")
    await chat.starts("m-1", idempotency_key="k-2")
    assert await chat.store.known(new.context, "m-1", new.content_hash) == Duplicate("t-m-1")
    elsewhere = replace(new.context, context_id="another")
    assert await chat.store.known(elsewhere, "m-1", new.content_hash, idempotency_key="k-2") == Duplicate("t-m-1")
    assert await chat.store.known(elsewhere, "m-1", new.content_hash) is None
    assert await chat.store.known(new.context, "m-2", new.content_hash) is None
    assert await chat.store.known(new.context, "m-2", new.content_hash, idempotency_key="k-1") is None
    with pytest.raises(MessageIdReused):
        await chat.store.known(new.context, "m-1", b"other")


# ── A new task in a busy context ──────────────────────────────────────────────────────────────────────────────────────


async def test_queued_turn_states_when_lease_of_running_turn_expires(chat: StoreConversation) -> None:
    await chat.starts("m-1")
    taken = chat.clock.now()
    chat.clock.move(5)
    waiting = await chat.waits("m-2", holder="holder-2")
    assert (waiting.head.state, waiting.head.generation, waiting.head.fence) == (WORKING, 2, 0)
    assert waiting.until is not None
    assert abs((waiting.until - taken).total_seconds() - LEASE_SECONDS) < 0.01


async def test_turns_run_in_order_of_arrival(chat: StoreConversation) -> None:
    first = await chat.starts("m-1")
    await chat.waits("m-2", holder="holder-2")
    await chat.waits("m-3", holder=None)
    await chat.ends(first)

    await chat.waits("m-4", holder="holder-2")  # the new turn waits behind the queued turns
    for fence, message_id in enumerate(("m-2", "m-3", "m-4"), start=2):
        turn = await chat.begins()
        assert turn.head.key.task_id == f"t-{message_id}"
        assert (turn.lease.fence, turn.head.fence, turn.lease.turn.tries) == (fence, fence, 1)
        await chat.ends(turn)
    assert await chat.store.begin(chat.context, holder="holder-2") is None


@pytest.mark.parametrize("when_busy", NOT_QUEUED)
@pytest.mark.parametrize("holder", ["holder-2", None])
async def test_rejected_message_in_busy_context_stores_nothing(
    chat: StoreConversation, when_busy: WhenBusy, holder: str | None
) -> None:
    first = await chat.starts("m-1")
    new = chat.message("m-2", idempotency_key="key-2")
    assert await chat.store.create(new, holder=holder, when_busy=when_busy) == ContextInUse("t-m-1")
    assert await chat.store.head(new.key) is None
    assert await chat.store.known(chat.context, "m-2", new.content_hash) is None
    assert (await chat.ends(first)).waiting is False
    other_content = chat.message("m-2", "another", idempotency_key="key-2")
    assert isinstance(await chat.store.create(other_content, holder="holder-1", when_busy=when_busy), TurnStarted)


@pytest.mark.parametrize("when_busy", NOT_QUEUED)
async def test_context_with_only_queued_turns_is_busy(chat: StoreConversation, when_busy: WhenBusy) -> None:
    await chat.waits("m-1")
    await chat.waits("m-2")
    outcome = await chat.store.create(chat.message("m-3"), holder="holder-1", when_busy=when_busy)
    assert outcome == ContextInUse("t-m-1"), "it is the one to be run first"


@pytest.mark.parametrize("when_busy", NOT_QUEUED)
@pytest.mark.parametrize("holder", ["holder-2", None])
async def test_duplicate_message_is_recognised_in_busy_context(
    chat: StoreConversation, when_busy: WhenBusy, holder: str | None
) -> None:
    await chat.starts("m-1", idempotency_key="key-1")
    again = chat.message("m-1", task_id="again")
    assert await chat.store.create(again, holder=holder, when_busy=when_busy) == Duplicate("t-m-1")
    by_key = chat.message("m-2", idempotency_key="key-1")
    assert await chat.store.create(by_key, holder=holder, when_busy=when_busy) == Duplicate("t-m-1")
    with pytest.raises(MessageIdReused):
        await chat.store.create(chat.message("m-1", "other", task_id="o"), holder=holder, when_busy=when_busy)


@pytest.mark.parametrize("when_busy", WhenBusy)
async def test_every_when_busy_policy_accepts_message_in_free_context(
    chat: StoreConversation, when_busy: WhenBusy
) -> None:
    begun = await chat.store.create(chat.message("m-1"), holder="holder-1", when_busy=when_busy)
    assert isinstance(begun, TurnStarted)
    await chat.ends(begun)
    waiting = await chat.store.create(chat.message("m-2"), holder=None, when_busy=when_busy)
    assert isinstance(waiting, TurnQueued)


@pytest.mark.parametrize("when_busy", NOT_QUEUED)
@pytest.mark.parametrize("holder", ["holder", None])
async def test_policy_without_queueing_accepts_one_of_many_concurrent_messages(
    chat: StoreConversation, when_busy: WhenBusy, holder: str | None
) -> None:
    outcomes = await asyncio.gather(
        *(chat.store.create(chat.message(f"m-{n}"), holder=holder, when_busy=when_busy) for n in range(8))
    )
    taken = [outcome for outcome in outcomes if isinstance(outcome, TurnStarted | TurnQueued)]
    assert len(taken) == 1
    assert outcomes.count(ContextInUse(taken[0].head.key.task_id)) == 7


@pytest.mark.parametrize("holder", ["holder-1", None])
async def test_turn_in_full_queue_is_refused(chat: StoreConversation, holder: str | None) -> None:
    first = await chat.starts("m-0")
    for number in range(MAX_WAITING):
        await chat.waits(f"m-{number + 1}", holder=holder)
    with pytest.raises(ContextBusy):
        await chat.store.create(chat.message("late"), holder=holder)
    assert await chat.store.log(chat.key("t-late")) is None
    assert isinstance(await chat.store.create(chat.message("m-1", task_id="again"), holder=holder), Duplicate)
    await chat.ends(first)
    await chat.begins()
    await chat.waits("late", holder=holder)


# ── A turn ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_only_one_of_many_concurrent_processes_begins_turn(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    outcomes = await asyncio.gather(*(chat.store.begin(chat.context, holder=f"holder-{n}") for n in range(8)))
    begun = [outcome for outcome in outcomes if isinstance(outcome, TurnStarted)]
    assert len(begun) == 1
    assert begun[0].lease.turn.tries == 1
    assert all(isinstance(outcome, TurnStarted | LeaseHeld) for outcome in outcomes)


async def test_begin_returns_fencing_token_and_expiry_of_existing_lease(chat: StoreConversation) -> None:
    begun = await chat.starts("m-1")
    held = await chat.store.begin(chat.context, holder="holder-2")
    assert isinstance(held, LeaseHeld)
    assert held.fence == begun.lease.fence
    assert abs((held.until - chat.clock.now()).total_seconds() - LEASE_SECONDS) < 0.01
    chat.clock.move(10)
    assert await asyncio.to_thread(chat.store.renew, begun.lease)
    again = await chat.store.begin(chat.context, holder="holder-2")
    assert isinstance(again, LeaseHeld)
    assert abs((again.until - held.until).total_seconds() - 10) < 0.01


async def test_expired_lease_is_taken_over(chat: StoreConversation) -> None:
    dead = await chat.starts("m-1")
    await chat.waits("m-2")
    chat.clock.move(LEASE_SECONDS - 1)
    assert isinstance(await chat.store.begin(chat.context, holder="holder-2"), LeaseHeld)
    assert chat.store.holds(dead.lease)
    chat.clock.move(2)
    heir = await chat.begins()
    assert (heir.lease.turn.id, heir.lease.turn.tries, heir.lease.fence) == (dead.lease.turn.id, 2, 2)
    assert heir.head.fence == 2

    assert not chat.store.renew(dead.lease)
    assert not chat.store.holds(dead.lease)
    assert chat.store.holds(heir.lease)
    for refused in (
        chat.store.append(dead.lease, dead.head, chat.says(dead.head)),
        chat.store.append(dead.lease, heir.head, chat.says(dead.head)),
        chat.ends(dead),
        chat.store.pause(dead.lease, made_progress=True),
    ):
        with pytest.raises(LeaseLost):
            await refused
    after = await chat.ends(heir)
    with pytest.raises(LeaseLost):
        await chat.store.append(dead.lease, replace(dead.head, generation=3), chat.says(dead.head))
    log = await chat.store.log(after.head.key)
    assert log is not None
    assert [entry.generation for entry in log.events] == [1, 2, 3]


async def test_renewed_lease_is_not_taken_over(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    for _ in range(3):
        chat.clock.move(LEASE_SECONDS - 1)
        assert await asyncio.to_thread(chat.store.renew, turn.lease)
        assert isinstance(await chat.store.begin(chat.context, holder="holder-2"), LeaseHeld)
    assert not await asyncio.to_thread(chat.store.renew, replace(turn.lease, holder="somebody else"))
    assert not await asyncio.to_thread(chat.store.renew, replace(turn.lease, fence=0))


async def test_released_lease_is_not_renewed(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.ends(turn)
    assert not await asyncio.to_thread(chat.store.renew, turn.lease)
    with pytest.raises(LeaseLost):
        await chat.store.pause(turn.lease, made_progress=False)


async def test_context_is_free_after_its_turn(chat: StoreConversation) -> None:
    for number in range(3):
        turn = await chat.starts(f"m-{number}")
        assert turn.lease.fence == number + 1
        await chat.ends(turn)


async def test_unknown_task_returns_none(chat: StoreConversation) -> None:
    key = TaskKey(chat.context.owner, "never")
    assert await chat.store.head(key) is None
    assert await chat.store.log(key) is None
    assert await chat.store.log(key, after=3) is None
    assert list(await chat.store.deltas(key, since=Cursor())) == []
    assert await chat.store.begin(chat.context, holder="holder-1") is None


async def test_task_is_visible_only_to_its_owner(chat: StoreConversation) -> None:
    begun = await chat.starts("m-1")
    stranger = TaskKey(new_owner(), begun.head.key.task_id)
    assert await chat.store.head(stranger) is None
    assert await chat.store.log(stranger) is None


# ── Log of a task ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_stored_events_are_numbered_and_unchanged(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    head = turn.head
    texts = ["one", "emoji \U0001f600 \u202bשלום\u202c NUL \0 end", "large " * 20_000]
    said = [chat.says(head, WORKING, text) for text in texts]
    for number, event in enumerate(said, start=3):
        head = await chat.store.append(turn.lease, head, event)
        assert head.generation == number
    log = await chat.store.log(head.key, after=2)
    assert log is not None
    assert log.head == head
    assert [(entry.generation, entry.event) for entry in log.events] == list(enumerate(said, start=3))
    whole = await chat.store.log(head.key)
    assert whole is not None
    assert [entry.generation for entry in whole.events] == [1, 2, 3, 4, 5]
    past = await chat.store.log(head.key, after=5)
    assert past is not None
    assert (past.head, past.events) == (head, ())


async def test_stored_event_keeps_key_with_which_agent_emitted_event(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.store.append(turn.lease, turn.head, chat.says(turn.head), keys=["node:1/0"])
    log = await chat.store.log(turn.head.key)
    assert log is not None
    assert [entry.key for entry in log.events] == ["", "", "node:1/0"]


async def test_invalid_transition_is_not_recorded(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    submitted = chat.says(turn.head, TaskState.TASK_STATE_SUBMITTED)
    with pytest.raises(InvalidTransition):
        await chat.store.append(turn.lease, turn.head, submitted)
    with pytest.raises(InvalidTransition):
        await chat.store.finish(turn.lease, turn.head, submitted)
    assert await chat.head("t-m-1") == turn.head


async def test_event_append_is_refused_if_task_has_newer_event(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    said = chat.says(turn.head)
    head = await chat.store.append(turn.lease, turn.head, said)
    with pytest.raises(LeaseLost):
        await chat.store.append(turn.lease, turn.head, chat.says(turn.head, WORKING, "the same number again"))
    with pytest.raises(LeaseLost):
        await chat.ends(turn)
    log = await chat.store.log(head.key)
    assert log is not None
    assert log.head == head
    assert log.events[-1].event == said


async def test_canceled_task_records_no_events(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    await chat.cancels("t-m-1")
    for refused in (
        chat.store.append(turn.lease, turn.head, chat.says(turn.head)),
        chat.store.append(turn.lease, replace(turn.head, generation=3), chat.says(turn.head)),
        chat.ends(turn),
    ):
        with pytest.raises(LeaseLost):
            await refused
    assert (await chat.head("t-m-1")).generation == 3


async def test_streamed_chunks_after_cursor_are_read_in_order(chat: StoreConversation) -> None:
    key = (await chat.starts("m-1")).head.key
    batches = [
        DeltaBatch(2, 1, 0, (Delta("a", append=False), Delta("\U0001f600\0", append=True))),
        DeltaBatch(2, 1, 2, (Delta("half \ud83d", append=True),)),
        DeltaBatch(2, 2, 0, (Delta("again", append=False, speaker={"messageId": "m-\u00fc", "node": "plan"}),)),
        DeltaBatch(3, 2, 0, (Delta("c", append=False), Delta("", append=True, last=True, reason="interrupted"))),
        DeltaBatch(12, 2, 0, (Delta("d", append=True),), OpenText(Cursor(3, 2, 2), "half \ud83d", {"agent": "a"})),
        DeltaBatch(13, 2, 0, (Delta("e", append=True),), OpenText(Cursor(12, 2, 1), None)),
    ]
    for batch in reversed(batches):
        await chat.store.append_deltas(key, batch)
    assert list(await chat.store.deltas(key, since=Cursor())) == batches
    assert list(await chat.store.deltas(key, since=Cursor(2, 1, 2))) == batches[1:]
    assert list(await chat.store.deltas(key, since=Cursor(2, 1, 3))) == batches[2:]
    assert list(await chat.store.deltas(key, since=Cursor(3))) == batches[3:]
    log = await chat.store.log(key)
    assert log is not None
    assert len(log.events) == 2, "deltas are no part of the log"


# ── Snapshot of a task ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_task_log_begins_at_snapshot_for_reader_without_cursor(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    head = await chat.store.append(turn.lease, turn.head, chat.says(turn.head, WORKING, "first"))
    question = chat.says(head, INPUT_REQUIRED, "which?")
    before = await chat.task("t-m-1")
    whole = _then(before, 4, question)
    asked = (await chat.store.finish(turn.lease, head, question, snapshot=whole)).head
    log = await chat.store.log(asked.key)
    assert log is not None
    stored = projection.with_message_once(whole)
    assert log.events == (Numbered(4, stored),), "a snapshot has the question once"
    assert projection.fold(log.events) == whole
    answered = await chat.store.follow_up(await chat.more(asked, "m-2"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    ended = await chat.ends(answered, COMPLETED)
    log = await chat.store.log(asked.key)
    assert log is not None
    assert [entry.generation for entry in log.events] == [4, 5, 6]
    assert log.head == ended.head
    assert await chat.said("t-m-1") == ["m-1", "m-2"]
    tail = await chat.store.log(asked.key, after=2)
    assert tail is not None
    assert [entry.generation for entry in tail.events] == [3, 4, 5, 6], "a cursor before it gets every event"
    assert not any(entry.event == stored for entry in tail.events)
    every = await chat.store.every_event(asked.key)
    assert every is not None
    assert [entry.generation for entry in every.events] == [1, 2, 3, 4, 5, 6]
    assert await chat.store.every_event(asked.key, after=2) == tail
    assert await chat.store.every_event(chat.key("t-never")) is None


def _then(task: Task, generation: int, event: Event) -> Task:
    return projection.fold([Numbered(generation - 1, task), Numbered(generation, event)])


async def test_new_task_in_interrupted_context_returns_interrupted_task(chat: StoreConversation) -> None:
    await chat.asks("m-1")
    for when_busy in WhenBusy:
        for holder in ("holder-2", None):
            new = chat.message("m-2", idempotency_key="key-2")
            assert await chat.store.create(new, holder=holder, when_busy=when_busy) == Interrupted("t-m-1")
            assert await chat.store.head(new.key) is None
            assert await chat.store.known(chat.context, "m-2", new.content_hash) is None
            again = chat.message("m-1", task_id="again")
            assert await chat.store.create(again, holder=holder, when_busy=when_busy) == Duplicate("t-m-1")


async def test_repeated_idempotency_key_is_duplicate_in_interrupted_context(chat: StoreConversation) -> None:
    first = await chat.starts("m-1", idempotency_key="key-1")
    await chat.ends(first, INPUT_REQUIRED)
    by_key = chat.message("m-2", idempotency_key="key-1")
    assert await chat.store.create(by_key, holder="holder-2") == Duplicate("t-m-1")
