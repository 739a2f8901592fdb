"""Another writer comes between what the task store reads and what it writes: each part of a condition, by its race."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event, Thread
from typing import Any

import pytest

from aion_core.aws import keys
from aion_core.aws.task_store import DynamoDBTaskStore
from aion_core.errors import LeaseLost
from aion_core.ports import Begun, ContextKey, FollowUp, Head, NewTask, Waiting
from aion_core.protocol.types import Message, Part, Role, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import ingress, lifecycle
from tests.support.clock import ManualClock
from tests.support.engines import Stack
from tests.support.stores import dynamodb_store, new_owner

DAY = 24 * 3600


@pytest.fixture
def store(stack: Stack, clock: ManualClock) -> DynamoDBTaskStore:
    return dynamodb_store(stack, clock)


@pytest.fixture
def other(stack: Stack, clock: ManualClock) -> DynamoDBTaskStore:
    """Another process's store."""
    return dynamodb_store(stack, clock)


@pytest.fixture
def context() -> ContextKey:
    return ContextKey(new_owner(), "echo", "c-1")


@pytest.fixture
def asks(clock: ManualClock, context: ContextKey) -> Callable[[str], NewTask]:
    def asks(message_id: str) -> NewTask:
        return ingress.new_task(
            message_of(message_id),
            context,
            task_id=f"t-{message_id}",
            turn_id=f"turn-{message_id}",
            at=clock.now(),
            context_is_new=False,
        )

    return asks


def message_of(message_id: str) -> Message:
    return Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text="hi")])


def answer_to(head: Head) -> FollowUp:
    return ingress.follow_up(message_of("answer"), head, turn_id="turn-answer", at=head.timestamp)


async def begun(store: DynamoDBTaskStore, new: NewTask, holder: str = "holder-1") -> Begun:
    outcome = await store.create(new, holder=holder)
    assert isinstance(outcome, Begun)
    return outcome


async def end(store: DynamoDBTaskStore, turn: Begun, state: TaskState = TaskState.TASK_STATE_COMPLETED) -> Head:
    status = lifecycle.status_at(state, turn.head.timestamp)
    event = TaskStatusUpdateEvent(task_id=turn.head.key.task_id, context_id="c-1", status=status)
    return await store.append(turn.lease, turn.head, event, release=True)


async def run_a_turn(store: DynamoDBTaskStore, new: NewTask) -> None:
    await end(store, await begun(store, new, "holder-2"))


def before_its_write(store: DynamoDBTaskStore, meanwhile: Callable[[], Awaitable[Any]]) -> None:
    """Let something else happen between what the store reads next and what it writes."""
    happened: list[Any] = []

    def happens(**_: Any) -> None:
        if not happened:
            happened.append(None)  # before, for it may come by here itself
            asyncio.run(meanwhile())  # type: ignore[arg-type]

    store._dynamodb._client.meta.events.register("before-call.dynamodb.TransactWriteItems", happens)


async def test_a_whole_turn_between_read_and_write_is_a_turn_of_its_own(
    store: DynamoDBTaskStore, other: DynamoDBTaskStore, asks: Callable[[str], NewTask]
) -> None:
    await end(store, await begun(store, asks("m-1")))
    before_its_write(store, lambda: run_a_turn(other, asks("m-2")))
    assert (await begun(store, asks("m-3"))).lease.fence == 3, "no fence is given out twice"


async def test_nobody_overtakes_who_begins_to_wait_just_now(
    store: DynamoDBTaskStore, other: DynamoDBTaskStore, asks: Callable[[str], NewTask]
) -> None:
    running = await begun(store, asks("m-1"))
    has_read, may_write = Event(), Event()
    outcomes: list[Any] = []

    async def stops() -> None:
        has_read.set()
        may_write.wait()

    before_its_write(other, stops)
    waits = Thread(target=lambda: outcomes.append(asyncio.run(other.create(asks("m-2"), holder="holder-2"))))
    waits.start()
    await asyncio.to_thread(has_read.wait)
    await end(store, running)

    async def writes() -> None:
        may_write.set()
        waits.join()

    before_its_write(store, writes)
    assert isinstance(await store.create(asks("m-3"), holder="holder-3"), Waiting)
    assert isinstance(outcomes[0], Waiting)


async def test_a_fence_that_is_raised_while_the_context_expires_is_not_given_out_again(
    store: DynamoDBTaskStore, stack: Stack, asks: Callable[[str], NewTask], context: ContextKey, clock: ManualClock
) -> None:
    """The clocks of two processes are never quite the same."""
    behind = ManualClock()
    await begun(store, asks("m-1"))
    behind.move(DAY)
    clock.move(31 * DAY)
    before_its_write(store, lambda: dynamodb_store(stack, behind).begin(context, holder="holder-2"))
    assert (await begun(store, asks("m-2"))).lease.fence == 3


async def test_who_waits_in_a_context_as_it_expires_is_not_forgotten(
    store: DynamoDBTaskStore, stack: Stack, asks: Callable[[str], NewTask], clock: ManualClock
) -> None:
    behind = ManualClock()
    await begun(store, asks("m-1"))
    behind.move(2 * DAY)
    clock.move(31 * DAY)
    before_its_write(store, lambda: dynamodb_store(stack, behind).create(asks("m-2"), holder="holder-2"))
    assert isinstance(await store.create(asks("m-3"), holder="holder-3"), Waiting)


@pytest.mark.parametrize("has_ended", [False, True])
async def test_an_answer_meets_a_conversation_that_has_begun_anew(
    store: DynamoDBTaskStore,
    other: DynamoDBTaskStore,
    asks: Callable[[str], NewTask],
    clock: ManualClock,
    has_ended: bool,
) -> None:
    head = await end(store, await begun(store, asks("m-1")), TaskState.TASK_STATE_INPUT_REQUIRED)
    clock.move(31 * DAY)
    before_its_write(store, lambda: run_a_turn(other, asks("m-2")) if has_ended else begun(other, asks("m-2")))
    with pytest.raises(LeaseLost):
        await store.follow_up(answer_to(head), holder="holder-1")


async def test_a_turn_whose_task_is_gone_is_not_begun(
    store: DynamoDBTaskStore, stack: Stack, asks: Callable[[str], NewTask], context: ContextKey
) -> None:
    running, gone = await begun(store, asks("m-1")), asks("m-2")
    await store.create(gone, holder="holder-2")
    await end(store, running)
    where = {"TableName": stack.environment("ApiFunction")["AION_TABLE"], "Key": keys.head_key(gone.key)}
    stack.client("dynamodb").delete_item(**where)
    assert await store.begin(context, holder="holder-2") is None
    assert "Item" not in stack.client("dynamodb").get_item(**where), "and no part of it is made"
