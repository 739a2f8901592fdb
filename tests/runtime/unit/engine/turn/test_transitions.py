"""Transitions of a turn: the changes of one transaction, and its outcome."""

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import PushEvents
from aion_core.engine.context import changes
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import TurnFinished, TurnStarted
from aion_core.engine.records import Head, StoppedBy
from aion_core.engine.task import timestamps
from aion_core.engine.task.head import advance, fenced, head_item, is_over, moved
from aion_core.engine.task.transition import HeadMove, NewEvent, QueuedMessage, Transition
from aion_core.engine.turn import end as end_module
from aion_core.engine.turn import progress, start
from aion_core.engine.turn.end import TurnEnding
from aion_core.errors import InvalidTransition, LeaseLost, PendingInput
from aion_core.protocol.types import Event, Message, TaskState, stream_response
from aion_core.table import times
from aion_core.table.conditions import Absent, Both
from aion_core.table.keys import TaskKey
from tests.support.given import CONTEXT, TASK, TIMES, accepted_in, head, lease, status, turn
from tests.support.rows import each_row

DEADLINE, WORKER = StoppedBy.DEADLINE, StoppedBy.WORKER
HELD = ContextRecord(fence=3, queue_version=2, holder="me", until=TIMES.now + 1, running=turn(), exists=True)
"""The context of a turn that runs."""
WAITS = ContextRecord(fence=3, queue_version=2, waiting=(turn(), turn(2)), exists=True)
"""A context in which two turns wait."""
SUBSCRIBED = head(push_epoch=1, push_events=PushEvents.ALL)
"""The head of a task with a subscriber."""
SECOND = TaskKey("owner", "t-2")
SECOND_HEAD = head(key=SECOND, generation=5, fence=1)


def moves(before: Head, after: Head) -> HeadMove:
    return HeadMove(moved(before, after), after)


def token(event: Event, generation: int = 3, fence: int = 3) -> str:
    digest = hashlib.sha256(stream_response(event).SerializeToString()).hexdigest()
    return f"me#{fence}#{generation}#{digest}"


def ending(state: str = "COMPLETED", *, before: Head | None = None) -> TurnEnding:
    return TurnEnding(lease(), before or head(), status(state))


# ── A turn begins ─────────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("state", "over"),
    [("SUBMITTED", False), ("WORKING", False), ("INPUT_REQUIRED", False), ("COMPLETED", True), ("CANCELED", True)],
)
def test_terminal_task_state_counts_as_ended(state: str, over: bool) -> None:
    assert is_over(head(state=TaskState.Value(f"TASK_STATE_{state}"))) is over


def test_missing_task_counts_as_ended() -> None:
    assert is_over(None)


def test_queued_turns_of_ended_task_are_removed_from_context() -> None:
    change = changes.removed("t-2", WAITS, 4, TIMES)
    assert changes.dropped(WAITS, "t-2", TIMES) == Transition(None, change)


@pytest.mark.parametrize("record", [WAITS, replace(HELD, until=TIMES.now)], ids=["waiting", "abandoned"])
def test_turn_begins_with_next_fencing_number(record: ContextRecord) -> None:
    mine = lease(fence=4, tries=1)
    acquire = changes.acquired_abandoned if record.running else changes.acquired_next
    after = head(fence=4)
    assert start.begun(CONTEXT, turn(), record, head(), None, holder="me", times=TIMES) == Transition(
        TurnStarted(mine, after), acquire(mine, record, TIMES), (HeadMove(fenced(head(), 4), after),)
    )


@each_row(
    ("holder", "advanced", "tries", "handoffs"), [("me", 3, 1, 6), ("me", 2, 3, 4), ("me", 0, 3, 4), ("", 3, 3, 4)]
)
def test_count_of_attempts_restarts_if_dead_worker_stored_step(
    holder: str, advanced: int, tries: int, handoffs: int
) -> None:
    """A step stored by the dead holder makes its try the first; the earlier tries become handoffs."""
    before = turn(tries=3, handoffs=4, stopped_by=DEADLINE)
    record = replace(HELD, running=before, holder=holder, advanced=advanced)
    stopped_by = WORKER if holder else DEADLINE
    assert start.taken_over(before, record) == turn(tries=tries, handoffs=handoffs, stopped_by=stopped_by)


@pytest.mark.parametrize("queued", [QueuedMessage(Message(message_id="m"), {"a": 1}), None], ids=["stored", "gone"])
def test_queued_message_is_recorded_when_its_turn_begins(queued: QueuedMessage | None) -> None:
    """The event gets the next number and the time of the attempt; push configs are notified of it."""
    event = status()
    event.status.CopyFrom(timestamps.status_at(TaskState.TASK_STATE_WORKING, times.moment(TIMES.now)))
    after = replace(advance(SUBSCRIBED, event), fence=4)
    mine = lease(fence=4, tries=3, message_generation=3)
    begun = start.begun(
        CONTEXT, turn(tries=2, message_generation=0), WAITS, SUBSCRIBED, queued, holder="me", times=TIMES
    )
    message = queued or QueuedMessage()
    assert begun == Transition(
        TurnStarted(mine, after),
        changes.acquired_next(mine, WAITS, TIMES),
        (moves(SUBSCRIBED, after),),
        (NewEvent(TASK, 3, event, message.message, message.request, notifies=True),),
        recorded_message=(TASK, "u-1"),
    )


# ── A turn runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_appended_event_has_token_and_notifies_subscribers() -> None:
    event = status()
    after = advance(SUBSCRIBED, event)
    assert progress.appended(lease(), SUBSCRIBED, [event], ["k"]) == Transition(
        after,
        None,
        (moves(SUBSCRIBED, after),),
        (NewEvent(TASK, 3, event, key="k", token=token(event), notifies=True),),
    )
    assert not progress.appended(lease(), head(), [event], ["k"]).events[0].notifies


def test_append_token_depends_on_holder_fence_and_event() -> None:
    event, other = status(), status(seconds=2)
    assert progress.token_of(lease(), 3, event) == token(event)
    tokens = {
        progress.token_of(*call)
        for call in [
            (lease(), 3, event), (lease(holder="you"), 3, event), (lease(fence=4), 3, event), (lease(), 4, event),
            (lease(), 3, other),
        ]
    }  # fmt: skip
    assert len(tokens) == 5


def test_retried_event_notifies_subscribers_added_meanwhile() -> None:
    now = replace(SUBSCRIBED, state=TaskState.TASK_STATE_COMPLETED)
    assert progress.still_mine(head(), now) == SUBSCRIBED


@pytest.mark.parametrize("now", [None, head(generation=3), head(fence=4)], ids=["gone", "event", "fence"])
def test_retried_event_is_refused_after_lease_is_lost(now: Head | None) -> None:
    with pytest.raises(LeaseLost, match=r"^Another holder runs this context now\.$"):
        progress.still_mine(head(), now)


@each_row(
    ("made_progress", "stopped_by", "after"),
    [
        (True, DEADLINE, {"tries": 0, "handoffs": 5, "stopped_by": DEADLINE}),
        (True, None, {"tries": 0, "handoffs": 5, "stopped_by": None}),
        (False, DEADLINE, {"tries": 2, "handoffs": 4, "stopped_by": DEADLINE}),
        (False, None, {"tries": 1, "handoffs": 4, "stopped_by": WORKER}),
    ],
)
def test_suspension_updates_number_of_tries_and_handoffs_of_turn(
    made_progress: bool, stopped_by: StoppedBy | None, after: dict[str, Any]
) -> None:
    mine = lease(tries=2, handoffs=4, stopped_by=WORKER)
    left = turn(**after)
    expected = left, changes.suspended(mine, left, TIMES)
    assert progress.suspended(mine, TIMES, made_progress=made_progress, stopped_by=stopped_by) == expected


def test_suspended_turns_tries_are_never_negative() -> None:
    assert progress.suspended(lease(), TIMES, made_progress=False, stopped_by=None)[0].tries == 0


# ── A turn ends ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "requires_input", "stops_task"),
    [("WORKING", False, False), ("INPUT_REQUIRED", True, True), ("COMPLETED", False, True)],
)
def test_state_at_end_of_turn_decides_whether_task_continues(
    state: str, requires_input: bool, stops_task: bool
) -> None:
    end = ending(state)
    assert (end.requires_input, end.stops_task) == (requires_input, stops_task)
    assert end.after == advance(head(), end.event)
    assert end.token == token(end.event)


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "COMPLETED"])
def test_context_is_free_after_its_only_turn_has_finished(state: str) -> None:
    end = ending(state, before=SUBSCRIBED)
    release = changes.released_for_input if state == "INPUT_REQUIRED" else changes.released
    assert end_module.finished_alone(end) == Transition(
        TurnFinished(end.after),
        release(lease()),
        (moves(SUBSCRIBED, end.after),),
        (NewEvent(TASK, 3, end.event, token=token(end.event), notifies=True),),
    )


def test_first_queued_turn_runs_next() -> None:
    record = replace(HELD, waiting=(turn(2), turn(3)))
    assert end_module.next_turn(ending(), record) == turn(2)
    assert end_module.next_turn(ending("INPUT_REQUIRED"), replace(record, waiting=(turn(2), turn()))) == turn(2)
    assert end_module.next_turn(ending("WORKING"), replace(record, waiting=(turn(2), turn()))) == turn(2)
    assert end_module.next_turn(ending(), HELD) is None
    assert end_module.next_turn(ending("INPUT_REQUIRED"), HELD) is None


def test_turn_with_lost_lease_cannot_finish() -> None:
    with pytest.raises(LeaseLost):
        end_module.next_turn(ending(), replace(HELD, fence=4))


def test_task_with_queued_message_cannot_end() -> None:
    with pytest.raises(PendingInput, match=r"^A message waits for this task\.$"):
        end_module.next_turn(ending(), replace(HELD, waiting=(turn(2), turn())))


def test_turn_cannot_end_in_state_working_without_queued_message() -> None:
    with pytest.raises(InvalidTransition):
        end_module.next_turn(ending("WORKING"), replace(HELD, waiting=(turn(2),)))


BEFORE_SECOND = replace(HELD, waiting=(turn(2),))


@pytest.mark.parametrize(
    ("run_next", "next_head"), [(False, SECOND_HEAD), (True, None)], ids=["asked to", "task is gone"]
)
def test_end_of_turn_releases_context_for_next_queued_turn(run_next: bool, next_head: Head | None) -> None:
    end = ending(before=SUBSCRIBED)
    finished = end_module.finished(end, BEFORE_SECOND, turn(2), next_head, None, times=TIMES, run_next=run_next)
    assert finished == Transition(
        TurnFinished(end.after, waiting=True),
        changes.released_for_next(BEFORE_SECOND, TIMES),
        (moves(SUBSCRIBED, end.after),),
        (NewEvent(TASK, 3, end.event, token=token(end.event), notifies=True),),
    )


def test_lease_holder_begins_next_turn_of_another_task() -> None:
    end = ending()
    mine, after = lease(2, fence=4, tries=1), replace(SECOND_HEAD, fence=4)
    assert end_module.finished(
        end, BEFORE_SECOND, turn(2), SECOND_HEAD, None, times=TIMES, run_next=True
    ) == Transition(
        TurnFinished(end.after, next=TurnStarted(mine, after)),
        changes.transferred(mine, BEFORE_SECOND, TIMES),
        (moves(head(), end.after), HeadMove(fenced(SECOND_HEAD, 4), after)),
        (NewEvent(TASK, 3, end.event, token=token(end.event)),),
    )


def test_lease_holder_continues_task_with_its_queued_message() -> None:
    """One transaction ends the turn and begins the queued one: it changes the head once for both events."""
    end = ending("WORKING")
    record = replace(HELD, waiting=(turn(id="u-9", message_generation=0),))
    queued = QueuedMessage(Message(message_id="m"), {"a": 1})
    event = status()
    event.status.CopyFrom(timestamps.status_at(TaskState.TASK_STATE_WORKING, times.moment(TIMES.now)))
    after = replace(advance(end.after, event), fence=4)
    mine = lease(fence=4, id="u-9", tries=1, message_generation=4)
    assert end_module.finished(end, record, record.waiting[0], None, queued, times=TIMES, run_next=True) == Transition(
        TurnFinished(end.after, next=TurnStarted(mine, after)),
        changes.transferred(mine, record, TIMES),
        (moves(head(), after),),
        (NewEvent(TASK, 3, end.event, token=token(end.event)), NewEvent(TASK, 4, event, queued.message, {"a": 1})),
        recorded_message=(TASK, "u-9"),
    )


def test_lease_holder_continues_with_queued_message_of_another_task() -> None:
    end = ending()
    waiting = turn(2, message_generation=0)
    record = replace(HELD, waiting=(waiting,))
    finished = end_module.finished(end, record, waiting, SECOND_HEAD, None, times=TIMES, run_next=True)
    assert finished.recorded_message == (SECOND, "u-2")
    assert [
        (event.task, event.generation, getattr(event.event, "task_id", None))
        for event in finished.events
        if event.generation > 3
    ] == [(SECOND, 6, "t-2")]
    assert [move.after.key for move in finished.heads] == [TASK, SECOND]


NEXT_RUNS = ContextRecord(fence=4, holder="me", running=turn(2), exists=True)


@each_row(
    ("record", "waiting"),
    [
        (replace(NEXT_RUNS, fence=5), False),
        (replace(NEXT_RUNS, fence=3), False),
        (replace(NEXT_RUNS, holder="you"), False),
        (replace(NEXT_RUNS, running=None), False),
        (replace(NEXT_RUNS, waiting=(turn(3),)), None),
        (replace(WAITS), True),
        (replace(WAITS, interrupted="t-1"), False),
        (replace(WAITS, running=turn()), False),
    ],
)
def test_finished_turn_is_recognised_after_lost_store_response(record: ContextRecord, waiting: bool | None) -> None:
    """The transaction was executed: `waiting` is None if the same holder runs the next turn."""
    end = ending()
    found = end_module.finished_before(end, record, SECOND_HEAD)
    if waiting is None:
        assert found == TurnFinished(end.after, next=TurnStarted(lease(2, fence=4), SECOND_HEAD))
    else:
        assert found == TurnFinished(end.after, waiting=waiting)


def test_retried_end_of_turn_succeeds_if_next_task_is_missing() -> None:
    assert end_module.finished_before(ending(), NEXT_RUNS, None) == TurnFinished(ending().after)


# ── Cancellation ──────────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("record", "fence", "waiting"),
    [
        (HELD, 4, False),
        (replace(HELD, waiting=(turn(2),)), 4, True),
        (replace(HELD, running=turn(2), waiting=(turn(), turn(3))), 3, False),
        (WAITS, 4, True),
        (replace(WAITS, waiting=(turn(),)), 4, False),
        (replace(WAITS, interrupted="t-1"), 4, True),
        (replace(WAITS, interrupted="t-9"), 4, False),
    ],
)
def test_cancel_removes_all_turns_of_its_task(record: ContextRecord, fence: int, waiting: bool) -> None:
    """The fence increases, except while a turn of another task is running."""
    event = status("CANCELED")
    canceled = end_module.canceled(SUBSCRIBED, event, record, token="t", times=TIMES)
    after = replace(advance(SUBSCRIBED, event), fence=fence)
    assert canceled == Transition(
        TurnFinished(after, waiting=waiting),
        changes.removed("t-1", record, fence, TIMES),
        (unless_calls_begin(moves(SUBSCRIBED, after)),),
        (NewEvent(TASK, 3, event, token="t", notifies=True),),
    )


def unless_calls_begin(move: HeadMove) -> HeadMove:
    """Return the move of a head without remote calls, refused if the task has begun one."""
    assert move.change.only_if is not None
    only_if = Both((move.change.only_if, Absent("calls")))
    return HeadMove(replace(move.change, only_if=only_if), move.after)


@pytest.mark.parametrize(("known", "accepted"), [(0, "none"), (1, "one"), (2, "two")])
def test_cancel_knows_all_remote_calls(known: int, accepted: str) -> None:
    before = head(calls=known)
    [move] = end_module.canceled(before, status("CANCELED"), HELD, token="t", times=TIMES).heads
    stored = head_item(head())
    calls = {"none": {}, "one": {"calls": 1}, "two": {"calls": 2}}
    assert accepted_in(move.change, {name: {**stored, **values} for name, values in calls.items()}) == {accepted}


def test_cancel_does_not_lower_fencing_token_of_task() -> None:
    canceled = end_module.canceled(head(fence=9), status("CANCELED"), HELD, token="t", times=TIMES)
    assert canceled.outcome.head.fence == 9


@pytest.mark.parametrize(
    ("record", "waiting"), [(WAITS, True), (HELD, False), (replace(WAITS, interrupted="t-9"), False)]
)
def test_canceled_task_is_recognised_after_lost_store_response(record: ContextRecord, waiting: bool) -> None:
    event, now = status("CANCELED"), head(generation=3)
    assert end_module.canceled_before(head(), now, event, record) == TurnFinished(now, waiting=waiting)
    expected: Any = TurnFinished(advance(head(), event), waiting=waiting)
    assert end_module.canceled_before(head(), None, event, record) == expected
