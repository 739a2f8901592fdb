"""Task store on DynamoDB with faults: each write happens once or not at all, and the caller gets its true outcome."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.outcomes import Duplicate, Interrupted, TurnFinished, TurnQueued, TurnStarted
from aion_core.engine.records import Head
from aion_core.engine.task.transition import MOST_TOGETHER
from aion_core.engine.task_store import TaskStore
from aion_core.engine.timers import ExpiredTimer
from aion_core.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.table import keys
from tests.runtime.contract.faults import TRANSACT, UPDATE, Faults
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.databases import Stack
from tests.support.stores import LEASE_SECONDS, dynamodb_store


@pytest.fixture
def chat(stack: Stack, clock: ManualClock) -> StoreConversation:
    return StoreConversation(dynamodb_store(stack, clock), clock)


@pytest.fixture
def there(stack: Stack, clock: ManualClock, chat: StoreConversation) -> StoreConversation:
    """Return the same context, used by another process."""
    there = StoreConversation(dynamodb_store(stack, clock), clock, chat.context)
    there.tasks = chat.tasks
    return there


@pytest.fixture
def faults(chat: StoreConversation) -> Faults:
    assert isinstance(chat.store, TaskStore)
    return Faults(chat.store)


@dataclass(frozen=True)
class Deed:
    """Test case: a store operation, the preparation before it, and the check of its result."""

    before: Callable[[StoreConversation], Awaitable[Any]]
    """Prepares the context and returns the argument of `call`; a repeated call has the same argument."""
    call: Callable[[StoreConversation, Any], Awaitable[Any]]
    done: Callable[[StoreConversation, Any], Awaitable[None]]
    operation: str = TRANSACT


DEEDS: dict[str, Deed] = {}


def deed(call: Callable[[StoreConversation, Any], Awaitable[Any]], operation: str = TRANSACT) -> Callable[[Any], Any]:
    """Make a Deed from an async generator: it yields the argument of `call`, then receives and checks the result."""

    def of(steps: Any) -> Any:
        running: dict[StoreConversation, Any] = {}

        async def before(chat: StoreConversation) -> Any:
            running[chat] = steps(chat)
            return await anext(running[chat])

        async def done(chat: StoreConversation, outcome: Any) -> None:
            with pytest.raises(StopAsyncIteration):
                await running.pop(chat).asend(outcome)

        DEEDS[steps.__name__] = Deed(before, call, done, operation)
        return steps

    return of


async def _create(chat: StoreConversation, given: tuple[Any, str | None, WhenBusy]) -> Any:
    new, holder, when_busy = given
    return await chat.store.create(new, holder=holder, when_busy=when_busy)


async def _follow_up(chat: StoreConversation, given: tuple[Any, str | None, WhenBusy]) -> Any:
    more, holder, when_busy = given
    return await chat.store.follow_up(more, holder=holder, when_busy=when_busy)


async def _append(chat: StoreConversation, given: tuple[Any, ...]) -> Head:
    turn, *events = given
    return await chat.store.append(turn.lease, turn.head, *events, keys=[f"k{n}" for n in range(len(events))])


async def _finish(chat: StoreConversation, given: tuple[TurnStarted, Any, bool]) -> TurnFinished:
    turn, event, run_next = given
    return await chat.store.finish(turn.lease, turn.head, event, has_time=lambda: run_next)


async def _pause(chat: StoreConversation, turn: TurnStarted) -> None:
    await chat.store.pause(turn.lease, made_progress=True)


async def _cancel(chat: StoreConversation, given: tuple[Head, Any]) -> TurnFinished:
    return await chat.store.cancel(*given)


async def _begin(chat: StoreConversation, holder: str) -> Any:
    return await chat.store.begin(chat.context, holder=holder)


async def _claim(chat: StoreConversation, expired_timers: ExpiredTimer) -> bool:
    return bool(await chat.store.claim(expired_timers))


for policy in WhenBusy:

    async def creates(chat: StoreConversation, policy: WhenBusy = policy) -> Any:
        outcome = yield chat.message("m-1", idempotency_key="key"), "holder-1", policy
        assert isinstance(outcome, TurnStarted), "it is this call's own task, not a repeat of it"
        assert (outcome.lease.fence, outcome.lease.turn.tries) == (1, 1)
        assert outcome.head == await chat.head("t-m-1")
        await chat.ends(outcome)

    async def creates_for_later(chat: StoreConversation, policy: WhenBusy = policy) -> Any:
        outcome = yield chat.message("m-1"), None, policy
        assert isinstance(outcome, TurnQueued)
        turn = await chat.begins()
        await chat.ends(turn)
        assert await chat.store.begin(chat.context, holder="holder-2") is None, "it stands in line once"

    for steps in (creates, creates_for_later):
        steps.__name__ += f"_{policy}"
        deed(_create)(steps)


@deed(_create)
async def creates_behind_another(chat: StoreConversation) -> Any:
    first = await chat.starts("m-0")
    outcome = yield chat.message("m-1"), "holder-2", WhenBusy.ENQUEUE
    assert isinstance(outcome, TurnQueued)
    following = (await chat.ends(first, run_next=True)).next
    assert following is not None
    assert (await chat.ends(following, run_next=True)).next is None


@deed(_follow_up)
async def answers(chat: StoreConversation) -> Any:
    outcome = yield await chat.more(await chat.asks("m-1"), "m-2"), "holder-2", WhenBusy.ENQUEUE
    assert isinstance(outcome, TurnStarted)
    assert (outcome.lease.fence, outcome.lease.turn.tries, outcome.head.generation) == (2, 1, 4)
    await chat.ends(outcome)
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_follow_up)
async def answers_for_later(chat: StoreConversation) -> Any:
    outcome = yield await chat.more(await chat.asks("m-1"), "m-2"), None, WhenBusy.ENQUEUE
    assert isinstance(outcome, TurnQueued)
    await chat.ends(await chat.begins())
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_follow_up)
async def queues(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    outcome = yield await chat.more(turn.head, "m-2"), "holder-2", WhenBusy.ENQUEUE
    assert isinstance(outcome, TurnQueued)
    following = (await chat.ends(turn, WORKING, run_next=True)).next
    assert following is not None
    assert (await chat.ends(following, run_next=True)).next is None
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_follow_up)
async def interrupts(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    outcome = yield await chat.more(turn.head, "m-2"), "holder-2", WhenBusy.INTERRUPT
    assert isinstance(outcome, TurnStarted)
    assert not chat.store.holds(turn.lease)
    await chat.ends(outcome)
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_follow_up)
async def interrupts_for_later(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    outcome = yield await chat.more(turn.head, "m-2"), None, WhenBusy.INTERRUPT
    assert isinstance(outcome, TurnQueued)
    assert not chat.store.holds(turn.lease)
    await chat.ends(await chat.begins())
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_append)
async def appends(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    outcome = yield turn, chat.says(turn.head)
    assert outcome == await chat.head("t-m-1")
    assert outcome.generation == 3
    await chat.ends(replace(turn, head=outcome))


@deed(_append)
async def appends_several(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    events = [chat.says(turn.head, WORKING, f"word {n}") for n in range(MOST_TOGETHER)]
    outcome = yield turn, *events
    assert outcome == await chat.head("t-m-1")
    log = await chat.store.log(outcome.key, after=turn.head.generation)
    assert log is not None
    assert [entry.event for entry in log.events] == events
    assert [entry.key for entry in log.events] == [f"k{n}" for n in range(MOST_TOGETHER)]
    await chat.ends(replace(turn, head=outcome))


@deed(_finish)
async def finishes(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    outcome = yield turn, chat.says(turn.head, COMPLETED), False
    assert outcome == TurnFinished(await chat.head("t-m-1"))
    assert outcome.head.generation == 3


@deed(_finish)
async def finishes_asking(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    outcome = yield turn, chat.says(turn.head, INPUT_REQUIRED), True
    assert outcome == TurnFinished(await chat.head("t-m-1"))
    assert await chat.store.create(chat.message("m-3"), holder="holder-2") == Interrupted("t-m-1")


@deed(_finish)
async def finishes_before_another(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    outcome = yield turn, chat.says(turn.head, COMPLETED), False
    assert outcome == TurnFinished(await chat.head("t-m-1"), waiting=True)
    await chat.ends(await chat.begins())


@deed(_finish)
async def goes_on_with_another(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    outcome = yield turn, chat.says(turn.head, COMPLETED), True
    assert outcome.head == await chat.head("t-m-1")
    assert (outcome.next.lease.turn.id, outcome.next.lease.turn.tries) == ("turn-m-2", 1)
    await chat.ends(outcome.next)


@deed(_finish)
async def goes_on_with_the_same(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    outcome = yield turn, chat.says(turn.head, WORKING), True
    assert outcome.next.head == await chat.head("t-m-1")
    assert (outcome.head.generation, outcome.next.head.generation) == (3, 4)
    await chat.ends(outcome.next)
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_pause, UPDATE)
async def pauses(chat: StoreConversation) -> Any:
    yield await chat.starts("m-1")
    turn = await chat.begins()
    assert (turn.lease.turn.tries, turn.lease.turn.handoffs) == (1, 1)
    await chat.ends(turn)


@deed(_cancel)
async def cancels(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    outcome = yield turn.head, chat.canceled(turn.head)
    assert outcome == TurnFinished(await chat.head("t-m-1"), waiting=True)
    assert outcome.head.generation == 3
    await chat.ends(await chat.begins())


@deed(_begin)
async def begins(chat: StoreConversation) -> Any:
    await chat.waits("m-1")
    outcome = yield "holder-1"
    assert isinstance(outcome, TurnStarted)
    assert (outcome.lease.turn.tries, outcome.lease.fence) == (1, 1)
    assert outcome.head == await chat.head("t-m-1")
    await chat.ends(outcome)


@deed(_begin)
async def begins_what_was_asked_of_a_task_at_work(chat: StoreConversation) -> Any:
    turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    await chat.ends(turn, WORKING)
    outcome = yield "holder-2"
    assert (outcome.lease.turn.tries, outcome.lease.turn.message_generation) == (1, 4)
    await chat.ends(outcome)
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


@deed(_begin)
async def takes_over(chat: StoreConversation) -> Any:
    await chat.starts("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    outcome = yield "holder-2"
    assert (outcome.lease.turn.tries, outcome.lease.fence) == (2, 2)
    await chat.ends(outcome)


ONE_FOR_EACH_CALL = {deed.call: name for name, deed in reversed(DEEDS.items())}.values()
each_call = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name not in ONE_FOR_EACH_CALL)) for name in DEEDS]
)
"""One deed for each call of the store; `make test-deep` runs all deeds."""


@pytest.mark.long
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", DEEDS)
async def test_store_write_takes_effect_once_if_response_is_lost(
    chat: StoreConversation, faults: Faults, name: str, times: int
) -> None:
    deed = DEEDS[name]
    given = await deed.before(chat)
    faults.lose_answers(deed.operation, times=times)
    await deed.done(chat, await deed.call(chat, given))
    await chat.comes_to_rest()


@pytest.mark.parametrize("name", ["appends", "appends_several", "goes_on_with_another", "pauses"])
async def test_repeated_call_recognises_write_whose_response_was_lost(
    chat: StoreConversation, faults: Faults, name: str
) -> None:
    deed = DEEDS[name]
    given = await deed.before(chat)
    unreachable = lambda: faults.refuse("GetItem", code="ThrottlingException", times=2)  # noqa: E731
    faults.lose_answers(deed.operation, times=1, then=unreachable)
    with pytest.raises(StoreUnavailable):
        await deed.call(chat, given)
    await deed.done(chat, await deed.call(chat, given))
    await chat.comes_to_rest()


@pytest.mark.long
@each_call
async def test_store_call_is_retried_after_short_throttling(chat: StoreConversation, faults: Faults, name: str) -> None:
    deed = DEEDS[name]
    given = await deed.before(chat)
    faults.refuse(deed.operation, code="ThrottlingException", times=2)
    await deed.done(chat, await deed.call(chat, given))
    await chat.comes_to_rest()


@pytest.mark.long
@each_call
@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        ("TransactionCanceledException", ["None", "TransactionConflict", "None", "None", "None"]),
        pytest.param("TransactionConflictException", None, marks=pytest.mark.deep),
    ],
)
async def test_conflicting_store_write_is_retried(
    chat: StoreConversation, faults: Faults, name: str, code: str, reasons: list[str] | None
) -> None:
    deed = DEEDS[name]
    given = await deed.before(chat)
    faults.refuse(deed.operation, code=code, times=3, reasons=reasons)
    await deed.done(chat, await deed.call(chat, given))
    await chat.comes_to_rest()


@pytest.mark.long
@each_call
async def test_unavailable_store_leaves_no_partial_write(chat: StoreConversation, faults: Faults, name: str) -> None:
    deed = DEEDS[name]
    given = await deed.before(chat)
    faults.refuse(deed.operation, code="ThrottlingException", times=3)
    with pytest.raises(StoreUnavailable):
        await deed.call(chat, given)
    await deed.done(chat, await deed.call(chat, given))
    await chat.comes_to_rest()


@pytest.mark.long
@each_call
async def test_permanent_aws_error_raises_store_error(chat: StoreConversation, faults: Faults, name: str) -> None:
    deed = DEEDS[name]
    given = await deed.before(chat)
    faults.refuse(deed.operation, code="AccessDeniedException", times=1)
    with pytest.raises(StoreError) as raised:
        await deed.call(chat, given)
    assert not isinstance(raised.value, StoreUnavailable)


async def test_timer_claim_fails_on_retry_if_first_response_was_lost(chat: StoreConversation, faults: Faults) -> None:
    await chat.waits("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    expired_timers = ExpiredTimer(chat.context, chat.clock.now())
    faults.lose_answers(UPDATE, times=1)
    with pytest.raises(StoreUnavailable):
        await chat.store.claim(expired_timers)
    assert not await chat.store.claim(expired_timers), "it may be another's"
    await chat.comes_to_rest()


async def test_throttled_timer_claim_raises_store_unavailable(chat: StoreConversation, faults: Faults) -> None:
    await chat.waits("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    expired_timers = ExpiredTimer(chat.context, chat.clock.now())
    faults.refuse(UPDATE, code="ThrottlingException", times=1)
    with pytest.raises(StoreUnavailable):
        await chat.store.claim(expired_timers)
    assert await chat.store.claim(expired_timers)


async def test_lease_renewal_is_retried_after_conflict_but_not_after_throttling(
    chat: StoreConversation, faults: Faults
) -> None:
    turn = await chat.starts("m-1")
    faults.refuse(UPDATE, code="TransactionConflictException", times=1)
    assert chat.store.renew(turn.lease)
    faults.refuse(UPDATE, code="ThrottlingException", times=1)
    with pytest.raises(StoreUnavailable):
        chat.store.renew(turn.lease)


# ── Concurrent writers ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_append_to_canceled_task_is_refused(
    chat: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    for call in (_append, _finish, _cancel, _follow_up):
        chat.tasks.clear()
        turn = await chat.starts(f"m-{call.__name__}")
        task_id = turn.head.key.task_id
        event = chat.says(turn.head, COMPLETED)
        given: Any = {
            _append: (turn, event),
            _finish: (turn, event, True),
            _cancel: (turn.head, chat.canceled(turn.head)),
            _follow_up: (await chat.more(turn.head, "more"), "holder-2", WhenBusy.INTERRUPT),
        }[call]
        faults.meanwhile(partial(there.cancels, task_id))
        with pytest.raises(LeaseLost):
            await call(chat, given)
        head = await chat.head(task_id)
        assert (head.generation, await chat.state(task_id)) == (3, "canceled")
        await chat.comes_to_rest()


async def test_same_message_in_two_processes_creates_one_task(
    chat: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    faults.meanwhile(lambda: there.starts("m-1", task_id="t-there"))
    assert await chat.store.create(chat.message("m-1"), holder="holder-1") == Duplicate("t-there")
    assert await chat.store.head(chat.key("t-m-1")) is None
    await chat.comes_to_rest()


async def test_worker_cannot_suspend_turn_that_another_has_taken_over(
    chat: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await chat.starts("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    heirs = faults.meanwhile(lambda: there.begins("holder-2"), operation=UPDATE)
    with pytest.raises(LeaseLost):
        await chat.store.pause(turn.lease, made_progress=True)
    await chat.ends(heirs[0])
    await chat.comes_to_rest()


async def test_end_of_turn_skips_queued_turn_canceled_meanwhile(
    chat: StoreConversation, there: StoreConversation, faults: Faults
) -> None:
    turn = await chat.starts("m-1")
    for message_id in ("m-2", "m-3"):
        await chat.waits(message_id)
    faults.meanwhile(lambda: there.cancels("t-m-2"), nth=2)
    following = (await chat.ends(turn, run_next=True)).next
    assert following is not None
    assert following.lease.turn.id == "turn-m-3"
    await chat.comes_to_rest()


# ── Payloads ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_missing_s3_object_of_event_raises_store_corrupt(chat: StoreConversation, stack: Stack) -> None:
    new = chat.message("m-1", "large " * 10_000)
    await chat.store.create(new, holder="holder-1")
    bucket, s3 = stack.environment("ApiFunction")["AION_BUCKET"], stack.client("s3")
    prefix = keys.owner_folder("tasks", chat.context.owner)
    found = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]]
    assert len(found) == 1, "one payload was large"
    s3.delete_object(Bucket=bucket, Key=found[0])
    with pytest.raises(StoreCorrupt):
        await chat.store.log(new.key)
