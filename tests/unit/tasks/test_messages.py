"""What a message becomes, where an event leaves a task's head, and which events are notified."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from aion_core.errors import ContextBusy, IllegalMove, LeaseLost, MessageIdReused, TooManyPushConfigs
from aion_core.ports import FollowUp, Head, NewTask, Numbered, PushConfig, PushEvents, Repeated, Turn
from aion_core.protocol.types import (
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from aion_core.tasks import ingress, lifecycle, pushed
from tests.unit.tasks.given import AT, CONTEXT, TASK, head, status

STATES = {name.removeprefix("TASK_STATE_"): TaskState.Value(name) for name in TaskState.keys()}  # noqa: SIM118  # no dict
MESSAGE = Message(
    message_id="m-1",
    role=Role.ROLE_USER,
    parts=[Part(text="hi")],
    extensions=["https://example.com/ext"],
    reference_task_ids=["t-7"],
)
PUSH = PushConfig("p", "https://example.com")


def at(state: str, when: datetime = AT) -> TaskStatus:
    """A status at a time of whole milliseconds."""
    made = TaskStatus(state=STATES[state])
    made.timestamp.FromDatetime(when)
    return made


def named(**more: Any) -> Message:
    """The message as its task's log holds it."""
    copy = Message()
    copy.CopyFrom(MESSAGE)
    for name, value in {"task_id": "t-1", "context_id": "c", **more}.items():
        setattr(copy, name, value)
    return copy


def new(**more: Any) -> NewTask:
    return ingress.new_task(MESSAGE, CONTEXT, task_id="t-1", turn_id="u-1", at=AT, **{"context_is_new": False, **more})


# ── A new task ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_message_becomes_submitted_and_working_task() -> None:
    made = new(context_is_new=True, request={"a": 1}, idempotency_key="key", push=PUSH)
    assert made == NewTask(
        key=TASK,
        context=CONTEXT,
        context_is_new=True,
        message_id="m-1",
        content_hash=ingress.content_hash(MESSAGE),
        events=(
            Task(id="t-1", context_id="c", status=at("SUBMITTED"), history=[named()]),
            TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at("WORKING")),
        ),
        turn=Turn("u-1", "t-1", asked=1),
        request={"a": 1},
        idempotency_key="key",
        push=PUSH,
    )
    assert MESSAGE.task_id == ""


def test_new_task_has_no_request_key_nor_push_by_default() -> None:
    assert (new().request, new().idempotency_key, new().push) == ({}, "", None)


def test_push_config_without_id_has_id_of_task() -> None:
    unnamed = replace(PUSH, id="")
    assert new(push=unnamed).push == replace(PUSH, id="t-1")
    assert message(push=unnamed).push == replace(PUSH, id="t-1")


def test_new_task_has_head_after_its_events() -> None:
    assert ingress.first_head(new()) == head(fence=0)
    untouched = ingress.first_head(replace(new(), events=()))
    assert untouched == head(
        state=STATES["SUBMITTED"], timestamp=datetime(1970, 1, 1, tzinfo=UTC), generation=0, fence=0
    )


def test_new_task_has_log_with_request_of_first_event() -> None:
    made = new(request={"a": 1})
    assert ingress.first_log(made) == (Numbered(1, made.events[0], request={"a": 1}), Numbered(2, made.events[1]))


# ── A message to a task ───────────────────────────────────────────────────────────────────────────────────────────────


def message(**more: Any) -> FollowUp:
    return ingress.follow_up(MESSAGE, head(), Task(id="t-1"), turn_id="u-9", at=AT, **more)


def test_message_becomes_follow_up_of_task() -> None:
    assert message(request={"a": 1}, push=PUSH) == FollowUp(
        head=head(),
        task=Task(id="t-1"),
        message_id="m-1",
        content_hash=ingress.content_hash(MESSAGE),
        event=TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at("WORKING")),
        asked=named(),
        turn=Turn("u-9", "t-1", asked=3),
        request={"a": 1},
        push=PUSH,
    )
    assert (message().request, message().push) == ({}, None)
    assert MESSAGE.task_id == ""


def test_cancellation_names_its_reason() -> None:
    event = ingress.canceled(head(), AT, "No longer wanted.")
    said = event.status.message
    expected = TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at("CANCELED"))
    expected.status.message.CopyFrom(
        Message(
            message_id=said.message_id,
            role=Role.ROLE_AGENT,
            task_id="t-1",
            context_id="c",
            parts=[Part(text="No longer wanted.")],
        )
    )
    assert event == expected
    assert len(said.message_id) == 36


# ── A repeat ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "other",
    [
        {"role": Role.ROLE_AGENT},
        {"task_id": "t-2"},
        {"parts": [Part(text="ho")]},
        {"extensions": []},
        {"reference_task_ids": ["t-8"]},
    ],
    ids=str,
)
def test_content_hash_differs_with_content(other: dict[str, Any]) -> None:
    fields = {name: getattr(MESSAGE, name) for name in ("role", "parts", "extensions", "reference_task_ids")}
    assert ingress.content_hash(Message(**fields)) == ingress.content_hash(MESSAGE)
    assert ingress.content_hash(Message(**{**fields, **other})) != ingress.content_hash(MESSAGE)


def test_content_hash_is_deterministic() -> None:
    """Metadata of a part is a map, which protobuf serialises in any order by default."""
    part = Part(text="hi")
    part.metadata.update(dict.fromkeys("abcdefgh", "x"))
    content = Message(role=Role.ROLE_USER, parts=[part])
    expected = hashlib.sha256(content.SerializeToString(deterministic=True)).digest()
    assert ingress.content_hash(content) == expected


def test_task_holds_message_already() -> None:
    history = [named(message_id="m-0"), named()]
    assert ingress.is_in(Task(id="t-1", history=history), MESSAGE)
    assert not ingress.is_in(Task(id="t-1", history=history[:1]), MESSAGE)
    assert not ingress.is_in(Task(id="t-1", history=[named(role=Role.ROLE_AGENT)]), MESSAGE)


def test_task_holds_other_content_under_message_id() -> None:
    other = named()
    other.parts[0].text = "ho"
    with pytest.raises(MessageIdReused):
        ingress.is_in(Task(id="t-1", history=[other]), MESSAGE)


def test_repeat_with_other_content_is_refused() -> None:
    assert ingress.repeat_of(b"1", "t-1", b"1") == Repeated("t-1")
    with pytest.raises(MessageIdReused, match=r"^This messageId, or .* Give the new message one of its own\.$"):
        ingress.repeat_of(b"1", "t-1", b"2")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ingress.too_many_wait, ContextBusy, "20 messages wait in this context already."),
        (ingress.another_runs, ContextBusy, "Another message of this context is being answered."),
        (ingress.no_longer_asked, LeaseLost, "The task is no longer as it was read."),
        (ingress.nothing_left_to_do, IllegalMove, "Nothing waits for the task:"),
    ],
)
def test_refusal_says_why(error: Any, kind: type[Exception], text: str) -> None:
    refusal = error()
    assert type(refusal) is kind
    assert str(refusal).startswith(text)


# ── States ────────────────────────────────────────────────────────────────────────────────────────────────────────────

ENDS = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
FOLLOWS = {
    "SUBMITTED": {"WORKING"} | ENDS,
    "WORKING": {"WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED"} | ENDS,
    "INPUT_REQUIRED": {"WORKING"} | ENDS,
    "AUTH_REQUIRED": {"WORKING"} | ENDS,
}


@pytest.mark.parametrize("before", STATES)
def test_states_follow_each_other(before: str) -> None:
    following = {after for after in STATES if lifecycle.may_follow(STATES[before], STATES[after])}
    assert following == FOLLOWS.get(before, set())


def test_event_moves_head_on() -> None:
    event = status("INPUT_REQUIRED")
    later = AT + timedelta(seconds=1)
    assert lifecycle.advance(head(), event) == head(generation=3, state=STATES["INPUT_REQUIRED"], timestamp=later)
    assert lifecycle.advance(head(), TaskArtifactUpdateEvent()) == head(generation=3)
    assert lifecycle.advance(head(), Task(status=at("COMPLETED"))).state == STATES["COMPLETED"]


def test_first_event_may_have_any_state() -> None:
    before = head(state=STATES["SUBMITTED"], generation=0)
    assert lifecycle.advance(before, status("INPUT_REQUIRED")).generation == 1


@pytest.mark.parametrize("event", [status(), TaskArtifactUpdateEvent()], ids=["status", "artifact"])
def test_nothing_follows_end(event: Event) -> None:
    with pytest.raises(IllegalMove, match=r"^The task is canceled: nothing follows\.$"):
        lifecycle.advance(head(state=STATES["CANCELED"]), event)


def test_state_that_may_not_follow_is_refused() -> None:
    with pytest.raises(IllegalMove, match=r"^auth-required does not follow input-required\.$"):
        lifecycle.advance(head(state=STATES["INPUT_REQUIRED"], generation=1), status("AUTH_REQUIRED"))


@pytest.mark.parametrize(("microsecond", "milliseconds"), [(0, 1), (999, 1), (2999, 2), (678_901, 678)])
def test_status_has_whole_milliseconds(microsecond: int, milliseconds: int) -> None:
    """Never a whole second: its JSON would have another form."""
    zone = timezone(timedelta(hours=2))
    made = lifecycle.status_at(STATES["WORKING"], AT.replace(microsecond=microsecond).astimezone(zone))
    assert made == at("WORKING", AT.replace(microsecond=milliseconds * 1000))
    assert lifecycle.timestamp_of(made) == AT.replace(microsecond=milliseconds * 1000)


# ── Subscribers ───────────────────────────────────────────────────────────────────────────────────────────────────────

EVENTS: dict[str, Event] = {
    "status": TaskStatusUpdateEvent(),
    "artifact": TaskArtifactUpdateEvent(),
    "task": Task(),
    "message": Message(),
}


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        (None, set()),
        (PushEvents.STATUS, {"status"}),
        (PushEvents.STATUS_AND_ARTIFACT, {"status", "artifact"}),
        (PushEvents.ALL, {"status", "artifact", "task", "message"}),
    ],
)
def test_subscribers_want_some_events(events: PushEvents | None, wanted: set[str]) -> None:
    listened = head(push_events=events)
    assert {name for name, event in EVENTS.items() if pushed.listened_to(listened, event)} == wanted


@pytest.mark.parametrize(
    ("before", "events", "after"),
    [
        (None, "status", "status"),
        ("status", "all", "all"),
        ("all", "status", "all"),
        ("status+artifact", "status", "status+artifact"),
        ("status", "status+artifact", "status+artifact"),
    ],
)
def test_head_knows_widest_choice_of_events(before: str | None, events: str, after: str) -> None:
    known: Head = head(push_epoch=4, push_events=PushEvents(before) if before else None)
    subscribed = pushed.listening(known, replace(PUSH, events=PushEvents(events)))
    assert subscribed == head(push_epoch=5, push_events=PushEvents(after))


def test_head_without_subscribers_has_next_epoch() -> None:
    assert pushed.deserted(head(push_epoch=4, push_events=PushEvents.ALL)) == head(push_epoch=5)


def test_task_has_ten_push_configs() -> None:
    nine = [f"p-{number}" for number in range(9)]
    pushed.check_room(nine, PUSH)
    pushed.check_room([*nine, "p"], PUSH)
    with pytest.raises(TooManyPushConfigs, match=r"^The task has 10 push notification configs already\. Delete one"):
        pushed.check_room([*nine, "p-9"], PUSH)
