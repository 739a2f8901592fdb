"""The task log on DynamoDB when DynamoDB does not do its part: faults go in by botocore hooks."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from aion_core.aws import keys
from aion_core.aws.task_store import DynamoDBTaskStore
from aion_core.clock import SystemClock
from aion_core.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.ports import Begun, ContextKey, NewTask, Repeated, TaskKey
from aion_core.protocol.types import Message, Part, Role, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import ingress, lifecycle
from tests.support.clock import ManualClock
from tests.support.engines import Stack
from tests.support.stores import dynamodb_store, new_owner


class Faults:
    """Breaks calls of a store's client on purpose."""

    def __init__(self, store: DynamoDBTaskStore) -> None:
        self._events = store._dynamodb._client.meta.events

    def lose_answers(self, operation: str, *, times: int) -> None:
        """Let the operation be done, and its answer be lost on the way back."""
        left = [times]

        def lose(**_: Any) -> None:
            if left[0] > 0:
                left[0] -= 1
                raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

        self._events.register(f"after-call.dynamodb.{operation}", lose)

    def refuse(self, operation: str, *, code: str, times: int, reasons: list[str] | None = None) -> None:
        """Answer the operation with an error of this code, without doing it."""
        left = [times]

        def refuse(parsed: dict[str, Any], http_response: Any, **_: Any) -> None:
            http_response.status_code = 400
            parsed["Error"] = {"Code": code, "Message": "made up by a test"}
            if reasons:
                parsed["CancellationReasons"] = [{"Code": reason} for reason in reasons]

        def before(**_: Any) -> Any:
            if left[0] <= 0:
                return None
            left[0] -= 1
            parsed: dict[str, Any] = {"ResponseMetadata": {"HTTPStatusCode": 400}}

            class Response:
                status_code = 400

            refuse(parsed, Response())
            return Response(), parsed

        self._events.register(f"before-call.dynamodb.{operation}", before)


@pytest.fixture
def store(stack: Stack) -> DynamoDBTaskStore:
    return dynamodb_store(stack, SystemClock())


@pytest.fixture
def faults(store: DynamoDBTaskStore) -> Faults:
    return Faults(store)


@pytest.fixture
def context() -> ContextKey:
    return ContextKey(new_owner(), "echo", "c-1")


def asks(context: ContextKey, message_id: str = "m-1", *, task_id: str = "t-1", text: str = "hi") -> NewTask:
    message = Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)])
    return ingress.new_task(
        message, context, task_id=task_id, turn_id=f"turn-{task_id}", at=SystemClock().now(), context_is_new=False
    )


def done(begun: Begun, text: str = "done") -> TaskStatusUpdateEvent:
    status = lifecycle.status_at(TaskState.TASK_STATE_COMPLETED, begun.head.timestamp)
    status.message.CopyFrom(Message(message_id="a-1", role=Role.ROLE_AGENT, parts=[Part(text=text)]))
    return TaskStatusUpdateEvent(task_id=begun.head.key.task_id, context_id="c-1", status=status)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_task_whose_creation_went_unheard_is_found_and_run(
    store: DynamoDBTaskStore, faults: Faults, context: ContextKey, times: int
) -> None:
    faults.lose_answers("TransactWriteItems", times=times)
    new = asks(context)
    begun = await store.create(new, holder="holder-1")
    assert isinstance(begun, Begun), "it is this call's own task, not a repeat of it"
    await store.append(begun.lease, begun.head, done(begun), release=True)
    assert await store.create(asks(context, task_id="t-2"), holder="holder-1") == Repeated("t-1")


@pytest.mark.parametrize("times", [1, 2])
async def test_an_event_whose_recording_went_unheard_is_recorded_once(
    store: DynamoDBTaskStore, faults: Faults, context: ContextKey, times: int
) -> None:
    begun = await store.create(asks(context), holder="holder-1")
    assert isinstance(begun, Begun)
    faults.lose_answers("TransactWriteItems", times=times)
    head = await store.append(begun.lease, begun.head, done(begun), release=True)
    log = await store.log(head.key)
    assert log is not None
    assert log.head == head
    assert [entry.generation for entry in log.events] == [1, 2, 3]


async def test_when_nothing_is_ever_heard_it_says_so(
    store: DynamoDBTaskStore, faults: Faults, context: ContextKey
) -> None:
    faults.lose_answers("TransactWriteItems", times=100)
    with pytest.raises(StoreUnavailable):
        await store.create(asks(context), holder="holder-1")


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        ("TransactionCanceledException", ["None", "TransactionConflict", "None", "None", "None"]),
        ("TransactionConflictException", None),
    ],
)
async def test_a_conflict_with_another_write_is_tried_again(
    store: DynamoDBTaskStore, faults: Faults, context: ContextKey, code: str, reasons: list[str] | None
) -> None:
    faults.refuse("TransactWriteItems", code=code, times=3, reasons=reasons)
    begun = await store.create(asks(context), holder="holder-1")
    assert isinstance(begun, Begun)
    faults.refuse("TransactWriteItems", code=code, times=3, reasons=reasons)
    head = await store.append(begun.lease, begun.head, done(begun))
    assert head.generation == 3


async def test_a_burst_of_throttling_is_outlived(store: DynamoDBTaskStore, faults: Faults, context: ContextKey) -> None:
    faults.refuse("TransactWriteItems", code="ThrottlingException", times=2)
    assert isinstance(await store.create(asks(context), holder="holder-1"), Begun)


async def test_what_aws_refuses_for_good_is_no_passing_fault(
    store: DynamoDBTaskStore, faults: Faults, context: ContextKey
) -> None:
    faults.refuse("TransactWriteItems", code="AccessDeniedException", times=1)
    with pytest.raises(StoreError) as raised:
        await store.create(asks(context), holder="holder-1")
    assert not isinstance(raised.value, StoreUnavailable)


async def test_a_gap_in_the_log_is_never_passed_off_as_the_task(
    store: DynamoDBTaskStore, stack: Stack, context: ContextKey
) -> None:
    begun = await store.create(asks(context), holder="holder-1")
    assert isinstance(begun, Begun)
    await store.append(begun.lease, begun.head, done(begun))
    table = stack.environment("ApiFunction")["AION_TABLE"]
    for generation in (2, 3):
        key = keys.event_key(begun.head.key, generation)
        kept = stack.client("dynamodb").get_item(TableName=table, Key=key)["Item"]
        stack.client("dynamodb").delete_item(TableName=table, Key=key)
        with pytest.raises(StoreCorrupt):
            await store.log(begun.head.key)
        stack.client("dynamodb").put_item(TableName=table, Item=kept)
    assert await store.log(begun.head.key) is not None


async def test_a_payload_that_is_gone_is_said_to_be_gone(
    store: DynamoDBTaskStore, stack: Stack, context: ContextKey
) -> None:
    new = asks(context, text="large " * 10_000)
    await store.create(new, holder="holder-1")
    bucket, s3 = stack.environment("ApiFunction")["AION_BUCKET"], stack.client("s3")
    found = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix=context.owner)["Contents"]]
    assert len(found) == 1, "one payload was large"
    s3.delete_object(Bucket=bucket, Key=found[0])
    with pytest.raises(StoreCorrupt):
        await store.log(new.key)


async def test_what_has_expired_is_not_there_though_dynamodb_has_yet_to_delete_it(
    stack: Stack, context: ContextKey, clock: ManualClock
) -> None:
    store = dynamodb_store(stack, clock)
    new = asks(context)
    begun = await store.create(new, holder="holder-1")
    assert isinstance(begun, Begun)
    await store.append(begun.lease, begun.head, done(begun), release=True)
    clock.move(31 * 24 * 3600)
    assert await store.head(new.key) is None
    assert await store.log(new.key) is None


async def test_a_conversation_begins_anew_where_the_old_one_has_expired_but_lies_there_still(
    stack: Stack, context: ContextKey, clock: ManualClock
) -> None:
    store = dynamodb_store(stack, clock)
    first = await store.create(asks(context), holder="holder-1")
    assert isinstance(first, Begun)
    await store.create(asks(context, "m-2", task_id="t-2"), holder="holder-1")
    question = done(first)
    question.status.state = TaskState.TASK_STATE_INPUT_REQUIRED
    await store.append(first.lease, first.head, question, release=True)
    clock.move(31 * 24 * 3600)
    assert await store.begin(context, holder="holder-1") is None, "what waited is gone"
    again = await store.create(asks(context, task_id="t-3"), holder="holder-1")
    assert isinstance(again, Begun), "the message is as good as new"
    assert again.lease.fence == 2, "and the fence has grown on"


async def test_every_item_says_when_it_expires_and_which_shape_it_has(
    store: DynamoDBTaskStore, stack: Stack, context: ContextKey
) -> None:
    begun = await store.create(asks(context), holder="holder-1")
    assert isinstance(begun, Begun)
    await store.create(asks(context, "m-2", task_id="t-2"), holder="holder-1")
    items = stack.client("dynamodb").scan(TableName=stack.environment("ApiFunction")["AION_TABLE"])["Items"]
    mine = [item for item in items if context.owner in item["pk"]["S"].split("#")]
    assert {item["pk"]["S"].split("#")[0] for item in mine} == {"CONTEXT", "MESSAGE", "TASK"}
    assert all("expires" in item and item["v"] == {"N": "1"} for item in mine)


# ── Each condition of a write, by the fault that it refuses ───────────────────────────────────────────────────────────


async def raced(
    store: DynamoDBTaskStore, act: Callable[[], Any], meanwhile: Callable[[], None], *, operation: str
) -> Any:
    """Do something else between what `act` reads and what it writes."""
    done: list[bool] = []

    def before(**_: Any) -> None:
        if not done:
            done.append(True)
            meanwhile()

    store._dynamodb._client.meta.events.register(f"before-call.dynamodb.{operation}", before)
    return await act()


async def test_a_turn_is_not_begun_twice_when_two_read_the_same_context(
    store: DynamoDBTaskStore, stack: Stack, context: ContextKey
) -> None:
    import asyncio

    other = dynamodb_store(stack, SystemClock())
    first = await store.create(asks(context), holder="holder-1")
    assert isinstance(first, Begun)
    await store.create(asks(context, "m-2", task_id="t-2"), holder="holder-1")
    await store.append(first.lease, first.head, done(first), release=True)
    others: list[Begun | None] = []
    mine = await raced(
        store,
        lambda: store.begin(context, holder="holder-1"),
        lambda: others.append(asyncio.run(other.begin(context, holder="holder-2"))),
        operation="TransactWriteItems",
    )
    assert mine is None
    assert others[0] is not None


async def test_a_lease_that_is_renewed_meanwhile_is_not_taken_over(
    stack: Stack, context: ContextKey, clock: ManualClock
) -> None:
    store, holder = dynamodb_store(stack, clock), dynamodb_store(stack, clock)
    begun = await store.create(asks(context), holder="holder-1")
    assert isinstance(begun, Begun)
    clock.move(31)
    heir = await raced(
        store,
        lambda: store.begin(context, holder="holder-2"),
        lambda: assert_true(holder.renew(begun.lease)),
        operation="TransactWriteItems",
    )
    assert heir is None
    head = await store.append(begun.lease, begun.head, done(begun), release=True)
    assert head.generation == 3


async def test_a_context_that_is_taken_meanwhile_is_waited_for(
    store: DynamoDBTaskStore, stack: Stack, context: ContextKey
) -> None:
    import asyncio

    other = dynamodb_store(stack, SystemClock())
    outcome = await raced(
        store,
        lambda: store.create(asks(context), holder="holder-1"),
        lambda: assert_true(
            isinstance(asyncio.run(other.create(asks(context, "m-2", task_id="t-2"), holder="holder-2")), Begun)
        ),
        operation="TransactWriteItems",
    )
    assert not isinstance(outcome, Begun)
    head = await store.head(TaskKey(context.owner, "t-1"))
    assert head is not None
    assert head.fence == 0


async def test_a_stale_fence_is_refused_even_where_the_head_has_not_moved(
    stack: Stack, context: ContextKey, clock: ManualClock
) -> None:
    store = dynamodb_store(stack, clock)
    begun = await store.create(asks(context), holder="holder-1")
    assert isinstance(begun, Begun)
    clock.move(31)
    assert await store.begin(context, holder="holder-2") is not None
    with pytest.raises(LeaseLost):
        await store.append(begun.lease, begun.head, done(begun))


def assert_true(value: bool) -> None:
    assert value
