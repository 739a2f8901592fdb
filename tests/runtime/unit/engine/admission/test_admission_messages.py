"""Conversion of a message to a NewTask or FollowUp, and recognition of a message that was sent before."""

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.admission import messages, new_tasks, repeats
from aion_core.engine.admission.messages import FollowUp, NewTask
from aion_core.engine.outcomes import Duplicate
from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Numbered, Turn
from aion_core.engine.task import updates
from aion_core.engine.turn import end, progress
from aion_core.errors import ContextBusy, InvalidTransition, LeaseLost, MessageIdReused
from aion_core.protocol.types import (
    Message,
    Part,
    Role,
    Task,
    TaskStatusUpdateEvent,
)
from tests.support.given import AT, CONTEXT, TASK, at, head
from tests.support.rows import each_row

MESSAGE = Message(
    message_id="m-1",
    role=Role.ROLE_USER,
    parts=[Part(text="hi")],
    extensions=["https://example.com/ext"],
    reference_task_ids=["t-7"],
)
PUSH = PushConfig("p", "https://example.com")


def named(**more: Any) -> Message:
    """Return MESSAGE with the task id and context id that the server adds when it stores a message."""
    copy = Message()
    copy.CopyFrom(MESSAGE)
    for name, value in {"task_id": "t-1", "context_id": "c", **more}.items():
        setattr(copy, name, value)
    return copy


def new(**more: Any) -> NewTask:
    return messages.new_task(MESSAGE, CONTEXT, task_id="t-1", turn_id="u-1", at=AT, **{"context_is_new": False, **more})


# ── A new task ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_message_creates_submitted_and_working_events() -> None:
    made = new(context_is_new=True, request={"a": 1}, idempotency_key="key", push=PUSH)
    assert made == NewTask(
        key=TASK,
        context=CONTEXT,
        context_is_new=True,
        message_id="m-1",
        content_hash=repeats.content_hash(MESSAGE),
        events=(
            Task(id="t-1", context_id="c", status=at("SUBMITTED"), history=[named()]),
            TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at("WORKING")),
        ),
        turn=Turn("u-1", "t-1", message_generation=1),
        request={"a": 1},
        idempotency_key="key",
        push=PUSH,
    )
    assert MESSAGE.task_id == ""


def test_new_task_record_has_empty_optional_fields() -> None:
    assert (new().request, new().idempotency_key, new().push) == ({}, "", None)


def test_push_config_without_id_has_id_of_task() -> None:
    unnamed = replace(PUSH, id="")
    assert new(push=unnamed).push == replace(PUSH, id="t-1")
    assert message(push=unnamed).push == replace(PUSH, id="t-1")


def test_initial_state_of_task_reflects_its_first_events() -> None:
    assert new_tasks.first_head(new()) == head(fence=0)


def test_first_event_of_task_log_contains_request() -> None:
    made = new(request={"a": 1})
    assert new_tasks.first_log(made) == (Numbered(1, made.events[0], request={"a": 1}), Numbered(2, made.events[1]))


# ── A message to a task ───────────────────────────────────────────────────────────────────────────────────────────────


def message(**more: Any) -> FollowUp:
    return messages.follow_up(MESSAGE, head(), Task(id="t-1"), turn_id="u-9", at=AT, **more)


def test_message_to_existing_task_becomes_follow_up() -> None:
    assert message(request={"a": 1}, push=PUSH) == FollowUp(
        head=head(),
        task=Task(id="t-1"),
        message_id="m-1",
        content_hash=repeats.content_hash(MESSAGE),
        event=TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at("WORKING")),
        message=named(),
        turn=Turn("u-9", "t-1", message_generation=3),
        request={"a": 1},
        push=PUSH,
    )
    assert (message().request, message().push) == ({}, None)
    assert MESSAGE.task_id == ""


def test_cancel_event_contains_reason_message() -> None:
    event = updates.canceled(head(), AT, "No longer wanted.")
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


# ── A repeated message ────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    "other",
    [
        {"role": Role.ROLE_AGENT},
        {"task_id": "t-2"},
        {"parts": [Part(text="ho")]},
        {"extensions": []},
        {"reference_task_ids": ["t-8"]},
    ],
)
def test_change_of_content_changes_message_hash(other: dict[str, Any]) -> None:
    fields = {name: getattr(MESSAGE, name) for name in ("role", "parts", "extensions", "reference_task_ids")}
    assert repeats.content_hash(Message(**fields)) == repeats.content_hash(MESSAGE)
    assert repeats.content_hash(Message(**{**fields, **other})) != repeats.content_hash(MESSAGE)


def test_message_content_hash_is_deterministic() -> None:
    """protobuf may serialise the map of a part's metadata in any order: the hash must not depend on it."""
    part = Part(text="hi")
    part.metadata.update(dict.fromkeys("abcdefgh", "x"))
    content = Message(role=Role.ROLE_USER, parts=[part])
    expected = hashlib.sha256(content.SerializeToString(deterministic=True)).digest()
    assert repeats.content_hash(content) == expected


def test_repeated_message_is_found_in_task_history() -> None:
    history = [named(message_id="m-0"), named()]
    assert repeats.holds_message(Task(id="t-1", history=history), MESSAGE)
    assert not repeats.holds_message(Task(id="t-1", history=history[:1]), MESSAGE)
    assert not repeats.holds_message(Task(id="t-1", history=[named(role=Role.ROLE_AGENT)]), MESSAGE)


def test_message_id_with_different_content_in_history_is_refused() -> None:
    other = named()
    other.parts[0].text = "ho"
    with pytest.raises(MessageIdReused):
        repeats.holds_message(Task(id="t-1", history=[other]), MESSAGE)


def test_repeated_message_id_with_different_content_is_refused() -> None:
    assert repeats.repeat_of(b"1", "t-1", b"1") == Duplicate("t-1")
    with pytest.raises(MessageIdReused, match=r"^This messageId or .* Use a new one for the new message\.$"):
        repeats.repeat_of(b"1", "t-1", b"2")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (new_tasks.queue_is_full, ContextBusy, "20 messages already wait in this context."),
        (progress.task_changed, LeaseLost, "The task has changed since it was read."),
        (end.no_turn_waits, InvalidTransition, "No turn waits for the task:"),
    ],
)
def test_admission_error_states_its_reason(error: Any, kind: type[Exception], text: str) -> None:
    refusal = error()
    assert type(refusal) is kind
    assert str(refusal).startswith(text)
