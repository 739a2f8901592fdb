"""What `ports.TaskStore` promises, over each adapter."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from aion_core.errors import ContextBusy, LeaseLost, MessageIdReused
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import (
    MAX_WAITING,
    Begun,
    ContextKey,
    Cursor,
    Delta,
    DeltaBatch,
    FollowUp,
    Head,
    Interrupted,
    NewTask,
    Numbered,
    Repeated,
    TaskKey,
    TaskStore,
    Waiting,
)
from aion_core.protocol.types import Message, Part, Role, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import ingress, lifecycle
from tests.support.clock import ManualClock
from tests.support.engines import Stack
from tests.support.stores import LEASE_SECONDS, dynamodb_store, new_owner


@pytest.fixture
def store(adapter: Stack | None, clock: ManualClock) -> TaskStore:
    return dynamodb_store(adapter, clock) if adapter else MemoryTaskStore(clock, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def context() -> ContextKey:
    return ContextKey(new_owner(), "echo", "c-1")


@pytest.fixture
def asks(clock: ManualClock, context: ContextKey) -> Callable[..., NewTask]:
    """A new task of a message: `asks("m-1")` makes task t-m-1 in the test's context."""

    def asks(message_id: str, text: str = "hi", *, task_id: str = "", of: ContextKey = context) -> NewTask:
        message = Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)])
        task_id = task_id or f"t-{message_id}"
        return ingress.new_task(
            message, of, task_id=task_id, turn_id=f"turn-{task_id}", at=clock.now(), context_is_new=False
        )

    return asks


def says(begun: Begun, text: str, state: TaskState = TaskState.TASK_STATE_WORKING) -> TaskStatusUpdateEvent:
    status = lifecycle.status_at(state, begun.head.timestamp)
    status.message.CopyFrom(Message(message_id=text[:20], role=Role.ROLE_AGENT, parts=[Part(text=text)]))
    return TaskStatusUpdateEvent(
        task_id=begun.head.key.task_id, context_id=begun.head.context.context_id, status=status
    )


async def begun(store: TaskStore, new: NewTask) -> Begun:
    outcome = await store.create(new, holder="holder-1")
    assert isinstance(outcome, Begun)
    return outcome


async def test_a_new_task_is_kept_with_its_first_events_and_its_lease(
    store: TaskStore, asks: Callable[..., NewTask]
) -> None:
    new = asks("m-1")
    outcome = await begun(store, new)
    assert (outcome.lease.fence, outcome.lease.turn.tries, outcome.lease.holder) == (1, 1, "holder-1")
    log = await store.log(new.key)
    assert log is not None
    assert log.events == tuple(Numbered(n, event) for n, event in enumerate(new.events, start=1))
    assert log.head == outcome.head == await store.head(new.key)
    assert (log.head.generation, log.head.state) == (2, TaskState.TASK_STATE_WORKING)


async def test_a_repeated_message_gets_the_first_task_back(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    """R52, R110, D17."""
    first = await begun(store, asks("m-1", task_id="t-1"))
    again = asks("m-1", task_id="t-2")
    assert await store.create(again, holder="holder-2") == Repeated("t-1")
    assert await store.log(again.key) is None
    await store.append(first.lease, first.head, says(first, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    assert await store.create(again, holder="holder-2") == Repeated("t-1")
    assert await store.begin(first.lease.context, holder="holder-2") is None


async def test_a_message_id_with_other_content_is_refused(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    """D17."""
    await begun(store, asks("m-1", "one"))
    with pytest.raises(MessageIdReused):
        await store.create(asks("m-1", "another", task_id="t-2"), holder="holder-2")


async def test_a_message_id_is_known_in_its_own_context_only(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey
) -> None:
    await begun(store, asks("m-1", task_id="t-1"))
    for number, other in enumerate(
        (replace(context, owner=new_owner()), replace(context, agent="other"), replace(context, context_id="c-2"))
    ):
        await begun(store, asks("m-1", task_id=f"t-{number + 2}", of=other))


@pytest.mark.parametrize("context_id", ["a#b", "a", "a#b#c"])
async def test_a_context_id_cannot_reach_into_another_context(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey, context_id: str
) -> None:
    await begun(store, asks("m#1", task_id="t-1", of=replace(context, context_id="a#b#")))
    await begun(store, asks("m#1", task_id="t-2", of=replace(context, context_id=context_id)))


async def test_of_many_at_the_same_instant_one_is_the_first(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    outcomes = await asyncio.gather(
        *(store.create(asks("m-1", task_id=f"t-{n}"), holder=f"holder-{n}") for n in range(16))
    )
    first = [outcome for outcome in outcomes if isinstance(outcome, Begun)]
    assert len(first) == 1
    assert outcomes.count(Repeated(first[0].head.key.task_id)) == 15


async def test_a_turn_waits_while_another_runs_and_begins_when_it_is_released(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey
) -> None:
    first = await begun(store, asks("m-1"))
    for message_id in ("m-2", "m-3"):
        waiting = await store.create(asks(message_id), holder="holder-2")
        assert isinstance(waiting, Waiting)
        assert waiting.head.state == TaskState.TASK_STATE_WORKING
        assert waiting.head.generation == 2
    assert await store.begin(context, holder="holder-2") is None
    await store.append(first.lease, first.head, says(first, "done", TaskState.TASK_STATE_COMPLETED), release=True)

    late = await store.create(asks("m-4"), holder="holder-2")
    assert isinstance(late, Waiting), "nobody overtakes those that wait"
    for fence, message_id in enumerate(("m-2", "m-3", "m-4"), start=2):
        turn = await store.begin(context, holder="holder-2")
        assert turn is not None
        assert turn.head.key.task_id == f"t-{message_id}"
        assert (turn.lease.fence, turn.head.fence, turn.lease.turn.tries) == (fence, fence, 1)
        await store.append(turn.lease, turn.head, says(turn, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    assert await store.begin(context, holder="holder-2") is None


async def test_only_one_of_many_begins_a_turn(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey
) -> None:
    first = await begun(store, asks("m-1"))
    await store.create(asks("m-2"), holder="holder-2")
    await store.append(first.lease, first.head, says(first, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    outcomes = await asyncio.gather(*(store.begin(context, holder=f"holder-{n}") for n in range(8)))
    assert sum(outcome is not None for outcome in outcomes) == 1


async def test_one_turn_too_many_is_refused_and_leaves_nothing(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey
) -> None:
    first = await begun(store, asks("m-0"))
    for number in range(MAX_WAITING):
        await store.create(asks(f"m-{number + 1}"), holder="holder-1")
    with pytest.raises(ContextBusy):
        await store.create(asks("late"), holder="holder-1")
    assert await store.log(asks("late").key) is None
    assert isinstance(await store.create(asks("m-1", task_id="again"), holder="holder-1"), Repeated)
    await store.append(first.lease, first.head, says(first, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    await store.begin(context, holder="holder-1")
    assert isinstance(await store.create(asks("late"), holder="holder-1"), Waiting)


async def test_events_are_numbered_without_a_gap_and_come_back_as_they_were(
    store: TaskStore, asks: Callable[..., NewTask]
) -> None:
    new = asks("m-1")
    turn = await begun(store, new)
    head = turn.head
    texts = ["one", "emoji \U0001f600 \u202bשלום\u202c NUL \0 end", "large " * 20_000]
    for number, text in enumerate(texts, start=3):
        head = await store.append(turn.lease, head, says(turn, text))
        assert head.generation == number
    log = await store.log(new.key, after=2)
    assert log is not None
    assert log.head == head
    assert [(entry.generation, entry.event) for entry in log.events] == [
        (number, says(turn, text)) for number, text in enumerate(texts, start=3)
    ]
    whole = await store.log(new.key)
    assert whole is not None
    assert [entry.generation for entry in whole.events] == [1, 2, 3, 4, 5]
    past = await store.log(new.key, after=5)
    assert past is not None
    assert past.events == ()


async def test_a_holder_whose_head_is_not_the_newest_is_refused(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    new = asks("m-1")
    turn = await begun(store, new)
    head = await store.append(turn.lease, turn.head, says(turn, "one"))
    with pytest.raises(LeaseLost):
        await store.append(turn.lease, turn.head, says(turn, "the same number again"))
    log = await store.log(new.key)
    assert log is not None
    assert log.head == head
    assert log.events[-1].event == says(turn, "one")


async def test_a_dead_holders_turn_is_taken_over_and_its_writes_are_refused(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey, clock: ManualClock
) -> None:
    new = asks("m-1")
    dead = await begun(store, new)
    await store.create(asks("m-2"), holder="holder-2")
    clock.move(LEASE_SECONDS - 1)
    assert await store.begin(context, holder="holder-2") is None
    clock.move(2)
    heir = await store.begin(context, holder="holder-2")
    assert heir is not None
    assert (heir.lease.turn.id, heir.lease.turn.tries, heir.lease.fence) == (dead.lease.turn.id, 2, 2)
    assert heir.head.fence == 2

    assert not store.renew(dead.lease)
    with pytest.raises(LeaseLost):
        await store.append(dead.lease, dead.head, says(dead, "too late"))
    after = await store.append(heir.lease, heir.head, says(heir, "mine", TaskState.TASK_STATE_COMPLETED), release=True)
    with pytest.raises(LeaseLost):
        await store.append(dead.lease, after, says(dead, "much too late"))
    log = await store.log(new.key)
    assert log is not None
    assert [entry.generation for entry in log.events] == [1, 2, 3]


async def test_a_renewed_lease_lives_on(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey, clock: ManualClock
) -> None:
    turn = await begun(store, asks("m-1"))
    for _ in range(3):
        clock.move(LEASE_SECONDS - 1)
        assert await asyncio.to_thread(store.renew, turn.lease)
        assert await store.begin(context, holder="holder-2") is None
    assert not await asyncio.to_thread(store.renew, replace(turn.lease, holder="somebody else"))
    assert not await asyncio.to_thread(store.renew, replace(turn.lease, fence=0))


async def test_a_released_lease_is_not_renewed(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    turn = await begun(store, asks("m-1"))
    await store.append(turn.lease, turn.head, says(turn, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    assert not await asyncio.to_thread(store.renew, turn.lease)


async def test_a_context_is_free_again_after_its_turn(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey
) -> None:
    for number in range(3):
        turn = await begun(store, asks(f"m-{number}"))
        assert turn.lease.fence == number + 1
        await store.append(turn.lease, turn.head, says(turn, "done", TaskState.TASK_STATE_COMPLETED), release=True)


async def test_nothing_is_known_of_what_was_never_made(store: TaskStore, context: ContextKey) -> None:
    key = TaskKey(context.owner, "never")
    assert await store.head(key) is None
    assert await store.log(key) is None
    assert list(await store.deltas(key, since=Cursor())) == []
    assert await store.begin(context, holder="holder-1") is None


async def test_a_task_is_its_owners_only(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    new = asks("m-1")
    await begun(store, new)
    stranger = TaskKey(new_owner(), new.key.task_id)
    assert await store.head(stranger) is None
    assert await store.log(stranger) is None


async def test_deltas_come_back_in_order_from_the_cursor_on(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    new = asks("m-1")
    await begun(store, new)
    batches = [
        DeltaBatch(2, 1, 0, (Delta("a", append=False), Delta("\U0001f600\0", append=True))),
        DeltaBatch(2, 1, 2, (Delta("half \ud83d", append=True),)),
        DeltaBatch(2, 2, 0, (Delta("again", append=False),)),
        DeltaBatch(3, 2, 0, (Delta("c", append=False), Delta("", append=True, last=True))),
        DeltaBatch(12, 2, 0, (Delta("d", append=False),)),
    ]
    for batch in reversed(batches):
        await store.append_deltas(new.key, batch)
    assert list(await store.deltas(new.key, since=Cursor())) == batches
    assert list(await store.deltas(new.key, since=Cursor(2, 1, 2))) == batches[1:]
    assert list(await store.deltas(new.key, since=Cursor(2, 1, 3))) == batches[2:]
    assert list(await store.deltas(new.key, since=Cursor(3))) == batches[3:]
    log = await store.log(new.key)
    assert log is not None
    assert len(log.events) == 2, "deltas are no part of the log"


# ── Interrupted tasks ─────────────────────────────────────────────────────────────────────────────────────────────────


async def interrupted(store: TaskStore, new: NewTask) -> Head:
    turn = await begun(store, new)
    question = says(turn, "which?", TaskState.TASK_STATE_INPUT_REQUIRED)
    return await store.append(turn.lease, turn.head, question, release=True)


def answers(head: Head, message_id: str = "m-2", text: str = "this one") -> FollowUp:
    message = Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)])
    return ingress.follow_up(
        message, head, turn_id=f"turn-{message_id}", at=head.timestamp, request={"trace": {"id": 7}}
    )


async def test_an_answer_is_recorded_with_what_it_sets_to_work_and_its_lease(
    store: TaskStore, asks: Callable[..., NewTask]
) -> None:
    head = await interrupted(store, asks("m-1"))
    follow_up = answers(head)
    turn = await store.follow_up(follow_up, holder="holder-2")
    assert isinstance(turn, Begun)
    assert (turn.lease.fence, turn.lease.turn.tries, turn.lease.turn.asked) == (2, 1, 4)
    assert (turn.head.generation, turn.head.state, turn.head.fence) == (4, TaskState.TASK_STATE_WORKING, 2)
    log = await store.log(head.key)
    assert log is not None
    assert log.head == turn.head
    assert log.events[-1] == Numbered(4, follow_up.event, follow_up.asked, request={"trace": {"id": 7}})
    after = await store.append(turn.lease, turn.head, says(turn, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    assert after.generation == 5
    assert isinstance(await store.create(asks("m-3"), holder="holder-2"), Begun), "the context is free again"


async def test_a_message_to_an_interrupted_context_is_for_the_task_that_asks(
    store: TaskStore, asks: Callable[..., NewTask]
) -> None:
    head = await interrupted(store, asks("m-1"))
    assert await store.create(asks("m-2"), holder="holder-2") == Interrupted(head.key.task_id)
    assert await store.log(asks("m-2").key) is None
    assert await store.create(asks("m-1", task_id="again"), holder="holder-2") == Repeated("t-m-1")


async def test_what_waits_is_held_until_the_question_is_answered(
    store: TaskStore, asks: Callable[..., NewTask], context: ContextKey
) -> None:
    """Another turn would take the question away from the graph."""
    turn = await begun(store, asks("m-1"))
    assert isinstance(await store.create(asks("m-2"), holder="holder-2"), Waiting)
    question = says(turn, "which?", TaskState.TASK_STATE_INPUT_REQUIRED)
    head = await store.append(turn.lease, turn.head, question, release=True)
    assert await store.begin(context, holder="holder-2") is None
    answered = await store.follow_up(answers(head, "m-3"), holder="holder-3")
    assert isinstance(answered, Begun)
    done = says(answered, "done", TaskState.TASK_STATE_COMPLETED)
    await store.append(answered.lease, answered.head, done, release=True)
    waited = await store.begin(context, holder="holder-2")
    assert waited is not None
    assert waited.head.key.task_id == "t-m-2"


async def test_an_answer_that_comes_twice_is_taken_once(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    head = await interrupted(store, asks("m-1"))
    outcomes = await asyncio.gather(*(store.follow_up(answers(head), holder=f"holder-{n}") for n in range(6)))
    assert sum(isinstance(outcome, Begun) for outcome in outcomes) == 1
    assert outcomes.count(Repeated(head.key.task_id)) == 5
    log = await store.log(head.key)
    assert log is not None
    assert log.head.generation == 4


async def test_of_two_answers_the_second_is_told_that_the_task_has_gone_on(
    store: TaskStore, asks: Callable[..., NewTask]
) -> None:
    head = await interrupted(store, asks("m-1"))
    turn = await store.follow_up(answers(head), holder="holder-2")
    assert isinstance(turn, Begun)
    with pytest.raises(ContextBusy):
        await store.follow_up(answers(head, "m-3"), holder="holder-3")
    await store.append(turn.lease, turn.head, says(turn, "done", TaskState.TASK_STATE_COMPLETED), release=True)
    with pytest.raises(LeaseLost):
        await store.follow_up(answers(head, "m-3"), holder="holder-3")
    assert await store.known(head.context, "m-3", b"") is None


async def test_what_is_known_of_a_message(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    new = asks("m-1")
    await begun(store, new)
    assert await store.known(new.context, "m-1", new.content_hash) == Repeated("t-m-1")
    assert await store.known(new.context, "m-2", new.content_hash) is None
    with pytest.raises(MessageIdReused):
        await store.known(new.context, "m-1", b"other")


async def test_an_event_keeps_its_key_and_the_first_the_requests_metadata(
    store: TaskStore, asks: Callable[..., NewTask]
) -> None:
    new = replace(asks("m-1"), request={"network": "n", "deep": {"er": [1, None]}})
    turn = await begun(store, new)
    await store.append(turn.lease, turn.head, says(turn, "one"), key="node:1/0")
    log = await store.log(new.key)
    assert log is not None
    assert [entry.key for entry in log.events] == ["", "", "node:1/0"]
    assert [entry.request for entry in log.events] == [new.request, {}, {}]


async def test_a_large_answer_comes_back_whole(store: TaskStore, asks: Callable[..., NewTask]) -> None:
    head = await interrupted(store, asks("m-1"))
    follow_up = answers(head, text="large " * 30_000)
    await store.follow_up(follow_up, holder="holder-2")
    log = await store.log(head.key)
    assert log is not None
    assert log.events[-1].asked == follow_up.asked
