"""Admission of a message: either its turn begins or it is queued; the writes of both cases."""

from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.admission import follow_ups, messages, new_tasks, repeats
from aion_core.engine.admission.messages import FollowUp, NewTask
from aion_core.engine.admission.repeats import KnownMessage
from aion_core.engine.agent_options import PushEvents, WhenBusy
from aion_core.engine.context import changes, conditions
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import ContextInUse, Duplicate, Interrupted, TurnQueued, TurnStarted
from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Head, Log, Numbered
from aion_core.engine.task import subscribers
from aion_core.engine.task.head import advance, moved, with_calls_as_read
from aion_core.engine.task.transition import HeadMove, NewEvent, Transition
from aion_core.errors import InvalidMessage, MessageIdReused
from aion_core.protocol.types import Message, Part, Role, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table.conditions import Condition
from aion_core.table.times import moment
from tests.support.given import AT, CONTEXT, EXPIRES, TASK, TIMES, head, lease, turn
from tests.support.rows import each_row

ENQUEUE, REJECT, INTERRUPT = WhenBusy.ENQUEUE, WhenBusy.REJECT, WhenBusy.INTERRUPT
MESSAGE = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="hi")])
PUSH = PushConfig("p", "https://example.com", events=PushEvents.STATUS_AND_ARTIFACT)

NEW = ContextRecord()
FREE = ContextRecord(fence=3, queue_version=2, exists=True)
GONE = replace(FREE, expired=True)
RUNS = replace(FREE, holder="me", until=TIMES.now + 1, running=turn())
WAITS = replace(FREE, waiting=(turn(2),))
ASKS = replace(FREE, interrupted="t-1")
UNTIL = moment(TIMES.now + 1)


def new(**more: Any) -> NewTask:
    return messages.new_task(MESSAGE, CONTEXT, task_id="t-1", turn_id="u-1", at=AT, context_is_new=False, **more)


# ── A repeated message ────────────────────────────────────────────────────────────────────────────────────────────────


def test_repeat_of_known_message_is_duplicate() -> None:
    assert KnownMessage("t-1", b"hash").repeated(b"hash") == Duplicate("t-1")
    with pytest.raises(MessageIdReused):
        KnownMessage("t-1", b"hash").repeated(b"other")


def test_created_task_is_recognised_after_lost_store_response() -> None:
    mine = head()
    assert new_tasks.created_before(new(), RUNS, mine, "me") == TurnStarted(lease(), mine)
    assert new_tasks.created_before(new(), RUNS, mine, "you") == TurnQueued(mine, UNTIL)
    assert new_tasks.created_before(new(), WAITS, mine, "me") == TurnQueued(mine)


UNFIT, LACKS = InvalidMessage("unfit"), InvalidMessage("lacks")


@each_row(
    ("record", "given", "refusal"),
    [
        (NEW, {}, None),
        (NEW, {"start_refusal": UNFIT, "first_refusal": LACKS}, UNFIT),
        (RUNS, {"start_refusal": UNFIT}, UNFIT),
        (NEW, {"first_refusal": LACKS}, LACKS),
        (GONE, {"first_refusal": LACKS}, LACKS),
        (FREE, {"first_refusal": LACKS}, None),
        (RUNS, {"first_refusal": LACKS}, None),
    ],
)
def test_message_that_lacks_fields_is_refused_without_state(
    record: ContextRecord, given: dict[str, Any], refusal: InvalidMessage | None
) -> None:
    assert new_tasks.start_refusal(new(**given), record) is refusal


# ── A new task ────────────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("record", "when_busy", "refusal"),
    [
        (FREE, REJECT, None),
        (RUNS, ENQUEUE, None),
        (RUNS, REJECT, ContextInUse("t-1")),
        (RUNS, INTERRUPT, ContextInUse("t-1")),
        (WAITS, REJECT, ContextInUse("t-2")),
        (ASKS, ENQUEUE, Interrupted("t-1")),
        (replace(ASKS, waiting=(turn(2),)), REJECT, Interrupted("t-1")),
    ],
)
def test_busy_or_full_context_refuses_new_task(record: ContextRecord, when_busy: WhenBusy, refusal: object) -> None:
    assert new_tasks.refused(record, when_busy) == refusal


@each_row("record", [NEW, FREE, RUNS, WAITS, ASKS])
def test_answer_needs_interrupted_task_in_its_context(record: ContextRecord) -> None:
    answer = new()
    answer.events[0].history[0].metadata.update({"interruptId": "i-1"})  # type: ignore[union-attr]
    assert new_tasks.answers_nothing(answer, record) is (record is not ASKS)
    assert not new_tasks.answers_nothing(new(), record)


def test_context_with_twenty_queued_turns_is_full() -> None:
    assert not new_tasks.is_full(replace(FREE, waiting=(turn(),) * 19))
    assert new_tasks.is_full(replace(FREE, waiting=(turn(),) * 20))


def events(task: NewTask, *, notified: tuple[bool, bool]) -> tuple[NewEvent, NewEvent]:
    first, second = task.events
    return (
        NewEvent(TASK, 1, first, request=task.request, notifies=notified[0]),
        NewEvent(TASK, 2, second, notifies=notified[1]),
    )


@pytest.mark.parametrize("record", [NEW, FREE, GONE], ids=["new", "free", "expired"])
def test_new_task_runs_in_free_context(record: ContextRecord) -> None:
    task = new(request={"a": 1})
    mine = lease(fence=record.fence + 1, tries=1)
    after = replace(new_tasks.first_head(task), fence=mine.fence)
    created = new_tasks.created(task, record, holder="me", when_busy=REJECT, times=TIMES)
    assert created == Transition(
        TurnStarted(mine, after),
        changes.acquired(mine, record, TIMES),
        events=events(task, notified=(False, False)),
    )


@each_row(
    ("record", "holder", "when_busy", "only_if"),
    [
        (RUNS, "me", ENQUEUE, conditions.MAY_WAIT_BEHIND_OTHERS),
        (WAITS, "me", ENQUEUE, conditions.MAY_WAIT_BEHIND_OTHERS),
        (RUNS, None, ENQUEUE, conditions.MAY_WAIT),
        (FREE, None, ENQUEUE, conditions.MAY_WAIT),
        (FREE, None, REJECT, conditions.MAY_WAIT_ALONE),
        (NEW, None, INTERRUPT, conditions.MAY_WAIT_ALONE),
    ],
)
def test_new_task_is_queued_in_busy_context(
    record: ContextRecord, holder: str | None, when_busy: WhenBusy, only_if: Condition
) -> None:
    task = new()
    after = new_tasks.first_head(task)
    created = new_tasks.created(task, record, holder=holder, when_busy=when_busy, times=TIMES)
    assert created == Transition(
        TurnQueued(after, UNTIL if record.holder else None),
        changes.queued(CONTEXT.owner, turn(), only_if, TIMES),
        events=events(task, notified=(False, False)),
    )


@pytest.mark.parametrize("when_busy", [ENQUEUE, REJECT])
def test_task_queued_in_expired_context_starts_new_queue(when_busy: WhenBusy) -> None:
    created = new_tasks.created(new(), GONE, holder=None, when_busy=when_busy, times=TIMES)
    assert created.context == changes.queued_anew(CONTEXT.owner, turn(), GONE, TIMES)


def test_new_task_with_push_config_notifies_subscriber() -> None:
    task = new(push=PUSH)
    created = new_tasks.created(task, FREE, holder="me", when_busy=ENQUEUE, times=TIMES)
    assert created.events == events(task, notified=(False, True))
    after = created.outcome.head
    assert (after.push_epoch, after.push_events) == (1, PushEvents.STATUS_AND_ARTIFACT)


# ── A message to a task ───────────────────────────────────────────────────────────────────────────────────────────────

INPUT = head(state=TaskState.TASK_STATE_INPUT_REQUIRED)


def message(before: Head, **more: Any) -> FollowUp:
    """Return a message to the task, with turn `u-9`."""
    return messages.follow_up(MESSAGE, before, Task(), turn_id="u-9", at=AT, request={"a": 1}, **more)


@each_row(
    ("before", "record", "when_busy", "takes"),
    [
        (INPUT, ASKS, ENQUEUE, True),
        (INPUT, ASKS, REJECT, True),
        (head(), RUNS, INTERRUPT, True),
        (head(), RUNS, ENQUEUE, False),
        (head(), WAITS, INTERRUPT, False),
        (head(), replace(RUNS, running=turn(2)), INTERRUPT, False),
    ],
)
def test_answer_or_interrupting_message_starts_turn_immediately(
    before: Head, record: ContextRecord, when_busy: WhenBusy, takes: bool
) -> None:
    """Send the answer to an interrupt, or a message that replaces a running turn of the same task."""
    assert follow_ups.takes_over(message(before), record, when_busy) is takes


def test_running_turn_is_detected_when_task_requires_input() -> None:
    assert follow_ups.another_runs(message(INPUT), RUNS)
    assert not follow_ups.another_runs(message(INPUT), ASKS)
    assert not follow_ups.another_runs(message(head()), RUNS)


def test_recorded_follow_up_is_recognised_after_lost_store_response() -> None:
    mine, now = turn(id="u-9"), head(generation=3)
    followed = message(head())
    assert follow_ups.followed_before(followed, replace(RUNS, running=mine), now, "me") == TurnStarted(
        lease(id="u-9"), now
    )
    assert follow_ups.followed_before(followed, replace(RUNS, waiting=(turn(2), mine)), now, "me") == TurnQueued(
        now, UNTIL
    )
    assert follow_ups.followed_before(followed, replace(RUNS, waiting=(turn(2),)), now, "me") is None


@each_row(
    ("now", "takes", "subscribes", "gone_on"),
    [
        (None, True, False, True),
        (None, False, False, True),
        (head(), True, True, False),
        (head(), False, False, False),
        (head(push_epoch=1), True, False, True),
        (head(push_epoch=1), False, True, True),
        (head(push_epoch=1), False, False, False),
        (head(generation=3), True, False, True),
        (head(generation=3), False, False, False),
        (INPUT, False, False, True),
        (head(state=TaskState.TASK_STATE_COMPLETED), False, True, True),
    ],
)
def test_admission_detects_task_changed_since_read(
    now: Head | None, takes: bool, subscribes: bool, gone_on: bool
) -> None:
    assert follow_ups.has_changed(head(), now, takes=takes, subscribes=subscribes) is gone_on


def test_message_without_push_config_registers_no_subscriber() -> None:
    assert not follow_ups.has_changed(head(), head(push_epoch=1), takes=False)


@each_row("push", [None, PUSH])
@each_row("holder", [None, "me"])
@each_row(("before", "record"), [(INPUT, ASKS), (head(), RUNS)])
def test_message_to_existing_task_starts_turn_or_is_queued_first(
    before: Head, record: ContextRecord, holder: str | None, push: PushConfig | None
) -> None:
    """The message's turn begins or is first in the queue; the head's change does not depend on the fence."""
    followed = message(before, push=push)
    subscribed = replace(before, push_epoch=1, push_events=PUSH.events) if push else before
    after = replace(advance(subscribed, followed.event), fence=4)
    answers = before is INPUT
    taken = follow_ups.taken(followed, record, holder=holder, expires=77, token="t", times=TIMES)
    mine = lease(id="u-9", message_generation=3, tries=1, fence=4)
    outcome: TurnStarted | TurnQueued
    if holder is None:
        outcome = TurnQueued(after)
        change = changes.queued_first(followed.turn, record, 4, TIMES, answers=answers)
    else:
        outcome = TurnStarted(mine, after)
        acquire = changes.acquired_for_input if answers else changes.acquired_interrupting
        change = acquire(mine, record, TIMES)
    move = moved(before, after, expires=77, fence=False)
    assert taken == Transition(
        outcome,
        change,
        (HeadMove(move if answers else with_calls_as_read(move, before), after),),
        (NewEvent(TASK, 3, followed.event, followed.message, {"a": 1}, token="t", notifies=push is not None),),
    )


@each_row("push", [None, PUSH])
@each_row("record", [RUNS, WAITS, replace(WAITS, interrupted="t-9")])
def test_message_to_running_task_is_queued(record: ContextRecord, push: PushConfig | None) -> None:
    """Queuing a message sets the timer that starts its turn, unless another task of the context requires input first."""
    followed = message(head(), push=push)
    asks = record.interrupted is not None
    only_if = conditions.HAS_ROOM if asks else conditions.MAY_WAIT
    after = head(push_epoch=1, push_events=PUSH.events) if push else head()
    move = HeadMove(subscribers.subscribed(head(), after, while_running=True), after)
    assert follow_ups.queued(followed, record, TIMES) == Transition(
        TurnQueued(after, UNTIL if record is RUNS else None),
        changes.queued(CONTEXT.owner, turn(id="u-9", message_generation=0), only_if, TIMES, timer=not asks),
        (move,) if push else (),
    )


@each_row(
    ("base", "repeated", "task_id", "number"),
    [
        (1, "first", "", 0),
        (1, "second", "t", 3),
        (1, "second", "", 3),
        (1, "waits", "t", 4),
        (1, "waits", "", 0),
        (2, "first", "t", 2),
        (2, "second", "t", 3),
    ],
)
def test_event_that_recorded_a_repeated_message_is_found(base: int, repeated: str, task_id: str, number: int) -> None:
    """Search a log that begins with the task or with a snapshot, and a message that still waits for its turn."""
    first = Numbered(base, Task(history=[Message(message_id="first")]))
    between = [Numbered(each, TaskStatusUpdateEvent()) for each in range(base + 1, 3)]
    recorded = Numbered(3, TaskStatusUpdateEvent(), message=Message(message_id="second"))
    log = Log(head(generation=4), (first, *between, recorded, Numbered(4, TaskStatusUpdateEvent())))
    assert repeats.repeated_at(Message(message_id=repeated, task_id=task_id), log) == number


@each_row(
    ("retention", "lives_still", "moves"),
    [(3600, 1801, False), (3600, 1800, False), (3600, 1799, True), (3 * 86400, 2 * 86400, False),
     (3 * 86400, 2 * 86400 - 1, True)],
)  # fmt: skip
def test_tasks_expiry_is_written_only_if_noticeably_later(retention: int, lives_still: int, moves: bool) -> None:
    """Write a later expiry only for a gain of a day, or of half of a shorter retention."""
    times = replace(TIMES, retention=retention)
    expected = times.seconds + retention if moves else None
    assert follow_ups.new_expiry(times.seconds + lives_still, times) == expected


def test_task_stored_without_expiry_gets_no_expiry() -> None:
    assert follow_ups.new_expiry(None, TIMES) is None
    assert follow_ups.new_expiry(0, TIMES) == EXPIRES
