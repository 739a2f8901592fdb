"""Life cycle of a task: transitions, timestamps, and the head and the task after an event."""

import re
import resource
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

from aion_core.engine.records import Numbered
from aion_core.engine.task import projection, states, timestamps
from aion_core.engine.task.head import advance
from aion_core.errors import InvalidTransition, StoreCorrupt
from aion_core.protocol.types import (
    Artifact,
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
from tests.support.given import AT, STATES, at, head, status
from tests.support.rows import each_row

ENDS = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
FOLLOWS = {
    "SUBMITTED": {"WORKING"} | ENDS,
    "WORKING": {"WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED"} | ENDS,
    "INPUT_REQUIRED": {"WORKING"} | ENDS,
    "AUTH_REQUIRED": {"WORKING"} | ENDS,
}


@each_row("before", STATES)
def test_task_state_has_allowed_next_states(before: str) -> None:
    following = {after for after in STATES if states.may_follow(STATES[before], STATES[after])}
    assert following == FOLLOWS.get(before, set())


def test_event_updates_state_time_and_number_of_task() -> None:
    event = status("INPUT_REQUIRED")
    later = AT + timedelta(seconds=1)
    assert advance(head(), event) == head(generation=3, state=STATES["INPUT_REQUIRED"], timestamp=later)
    assert advance(head(), TaskArtifactUpdateEvent()) == head(generation=3)
    assert advance(head(), Task(status=at("COMPLETED"))).state == STATES["COMPLETED"]


def test_first_task_event_may_have_any_state() -> None:
    before = head(state=STATES["SUBMITTED"], generation=0)
    assert advance(before, status("INPUT_REQUIRED")).generation == 1


@pytest.mark.parametrize("event", [status(), TaskArtifactUpdateEvent()], ids=["status", "artifact"])
def test_event_after_terminal_state_is_refused(event: Event) -> None:
    with pytest.raises(InvalidTransition, match=r"^The task is canceled: nothing can follow\.$"):
        advance(head(state=STATES["CANCELED"]), event)


def test_invalid_state_transition_is_refused() -> None:
    with pytest.raises(InvalidTransition, match=r"^auth-required does not follow input-required\.$"):
        advance(head(state=STATES["INPUT_REQUIRED"], generation=1), status("AUTH_REQUIRED"))


@each_row(("microsecond", "milliseconds"), [(0, 1), (999, 1), (2999, 2), (678_901, 678)])
def test_status_timestamp_has_whole_milliseconds(microsecond: int, milliseconds: int) -> None:
    """Convert a time of a whole second: its JSON has milliseconds too."""
    zone = timezone(timedelta(hours=2))
    made = timestamps.status_at(STATES["WORKING"], AT.replace(microsecond=microsecond).astimezone(zone))
    assert made == at("WORKING", AT.replace(microsecond=milliseconds * 1000))
    assert timestamps.timestamp_of(made) == AT.replace(microsecond=milliseconds * 1000)


def test_timestamp_is_rounded_down_to_a_microsecond() -> None:
    stamp = Timestamp(seconds=2, nanos=1999)
    assert timestamps.timestamp_of(TaskStatus(timestamp=stamp)) == datetime(1970, 1, 1, 0, 0, 2, 1, tzinfo=UTC)


@each_row(
    ("event", "time"),
    [
        (status("WORKING", seconds=0), AT),
        (Task(status=at("WORKING")), AT),
        (Task(), None),
        (TaskStatusUpdateEvent(), None),
        (Message(), None),
        (TaskArtifactUpdateEvent(), None),
    ],
)
def test_only_tasks_and_status_events_have_times(event: Event, time: datetime | None) -> None:
    assert timestamps.time_of(event) == time


@each_row(("later", "milliseconds"), [(-1.0, 0.0), (0.0, 0.0), (0.0005, 0.5), (2.5, 2500.0)])
def test_milliseconds_between_times_are_never_negative(later: float, milliseconds: float) -> None:
    assert timestamps.milliseconds(AT, AT + timedelta(seconds=later)) == milliseconds


# ── Timestamps ────────────────────────────────────────────────────────────────────────────────────────────────────────


SECOND = datetime(2026, 11, 22, 0, 52, 11, tzinfo=UTC)


def written(at: datetime) -> str:
    return str(MessageToDict(timestamps.status_at(TaskState.TASK_STATE_WORKING, at))["timestamp"])


@each_row(
    ("microsecond", "expected"),
    [(0, "001"), (999, "001"), (1000, "001"), (1999, "001"), (2000, "002"), (27_000, "027"), (999_999, "999")],
)
def test_timestamp_always_has_milliseconds(microsecond: int, expected: str) -> None:
    """The JSON of protobuf would omit the milliseconds of whole seconds."""
    assert written(SECOND.replace(microsecond=microsecond)) == f"2026-11-22T00:52:11.{expected}Z"


def test_timestamps_sort_as_text() -> None:
    moments = [SECOND + timedelta(microseconds=250 * step) for step in range(-8, 9)]
    texts = [written(moment) for moment in moments]
    assert texts == sorted(texts)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text) for text in texts)


def test_timestamp_is_written_in_utc() -> None:
    assert written(SECOND.replace(microsecond=5000).astimezone(timezone(timedelta(hours=2)))).endswith("T00:52:11.005Z")


def fold(events: Iterable[Event]) -> Task:
    return projection.fold(Numbered(number, event) for number, event in enumerate(events, start=1))


def apply(task: Task, event: Event, message: Message | None = None) -> Task:
    return projection.fold([Numbered(1, task), Numbered(2, event, message)])


ALL_STATES = [cast("TaskState", state) for state in TaskState.values() if state]


def said(text: str, role: Role = Role.ROLE_AGENT) -> Message:
    return Message(message_id=text, role=role, parts=[Part(text=text)])


def submitted() -> Task:
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        history=[said("question", Role.ROLE_USER)],
    )


def entered(state: TaskState, text: str = "", **metadata: object) -> TaskStatusUpdateEvent:
    event = TaskStatusUpdateEvent(status=TaskStatus(state=state, message=said(text) if text else None))
    if metadata:
        event.metadata.update(metadata)  # type: ignore[arg-type]
    return event


def artifact(text: str, *, artifact_id: str = "a", append: bool = False, **metadata: object) -> TaskArtifactUpdateEvent:
    event = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id=artifact_id, parts=[Part(text=text)]), append=append)
    if metadata:
        event.artifact.metadata.update(metadata)  # type: ignore[arg-type]
    return event


def texts(task: Task) -> dict[str, list[str]]:
    return {entry.artifact_id: [part.text for part in entry.parts] for entry in task.artifacts}


WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED


def ids(task: Task) -> list[str]:
    return [message.message_id for message in task.history]


def test_status_message_is_also_last_of_history() -> None:
    """`history` has each message once, and `status` has the latest one too, whole."""
    task = fold([submitted(), entered(WORKING, "one"), entered(WORKING, "two"), entered(COMPLETED, "answer")])
    assert ids(task) == ["question", "one", "two", "answer"]
    assert task.history[-1] == task.status.message == said("answer")
    assert task.status.state == COMPLETED
    assert ids(apply(task, said("two"))) == ["question", "one", "two", "answer"]
    assert ids(apply(task, said("three"))) == ["question", "one", "two", "answer", "three"]


@each_row("state", ALL_STATES)
def test_history_ends_with_status_message_in_each_state(state: TaskState) -> None:
    assert ids(fold([submitted(), entered(state, "last")])) == ["question", "last"]
    assert ids(fold([submitted(), entered(state)])) == ["question"]


def test_status_without_message_clears_previous_status_message() -> None:
    task = fold([submitted(), entered(WORKING, "one"), entered(COMPLETED)])
    assert not task.status.HasField("message")
    assert ids(task) == ["question", "one"]


def test_edited_message_replaces_its_first_form() -> None:
    """Enter the same id with another text: the history has the new text, at its end."""
    edited = said("one")
    edited.parts[0].text = "one, edited"
    task = fold([submitted(), entered(WORKING, "one"), TaskStatusUpdateEvent(status=TaskStatus(message=edited))])
    assert list(task.history) == [said("question", Role.ROLE_USER), edited]


# ── Snapshots ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_task_with_message_once_has_it_in_status_only() -> None:
    """Fold the form of a snapshot: the result is the task again. The task itself is not changed."""
    task = fold([submitted(), entered(WORKING, "one"), entered(COMPLETED, "answer")])
    once = projection.with_message_once(task)
    assert (ids(once), once.status) == (["question", "one"], task.status)
    assert ids(task) == ["question", "one", "answer"]
    assert fold([once]) == fold([task]) == task


@pytest.mark.parametrize(
    "task", [submitted(), fold([submitted(), entered(WORKING, "one"), entered(COMPLETED)]), Task()]
)
def test_task_without_status_message_has_one_form(task: Task) -> None:
    assert projection.with_message_once(task) == task


def test_events_after_snapshot_give_the_whole_logs_task() -> None:
    """Fold a question, its answer and the agent's end, from a snapshot after each event, in both forms of a snapshot."""
    asks = entered(TaskState.TASK_STATE_INPUT_REQUIRED, "which?")
    answered = Numbered(3, entered(WORKING), said("this one", Role.ROLE_USER))
    log = [Numbered(1, submitted()), Numbered(2, asks), answered, Numbered(4, entered(COMPLETED, "which?"))]
    whole = projection.fold(log)
    assert ids(whole) == ["question", "this one", "which?"]
    for end in range(1, 5):
        until = projection.fold(log[:end])
        once = projection.with_message_once(until)
        assert projection.fold_once(log[:end]) == once
        for snapshot in (until, once):
            assert projection.fold([Numbered(end, snapshot), *log[end:]]) == whole


def test_task_metadata_is_merged_key_by_key() -> None:
    task = fold([submitted(), entered(WORKING, a=1, deep={"x": 1}), entered(WORKING, b=[1], deep={"y": 2})])
    assert MessageToDict(task.metadata) == {"a": 1, "b": [1], "deep": {"y": 2}}


def test_artifact_event_replaces_or_extends_artifact() -> None:
    """`append` of the event decides whether it replaces the artifact or adds to it (A2A 4.2.2). Text continues text."""
    events: list[Event] = [
        submitted(),
        artifact("one"),
        artifact("two", append=True, m=1),
        artifact("x", artifact_id="b"),
    ]
    task = fold(events)
    assert texts(task) == {"a": ["onetwo"], "b": ["x"]}
    assert dict(task.artifacts[0].metadata) == {"m": 1}
    assert texts(apply(task, artifact("new"))) == {"a": ["new"], "b": ["x"]}
    assert texts(apply(task, artifact("none yet", artifact_id="z", append=True)))["z"] == ["none yet"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory from /proc")
def test_many_chunks_need_memory_of_one_text() -> None:
    """Add 4,000 chunks. Were each joined to the text at once, protobuf would keep 160 MB of earlier texts."""
    chunk = "0123456789" * 2
    events: list[Event] = [submitted(), *(artifact(chunk, append=number > 0) for number in range(4000))]
    before = _resident_bytes()
    task = fold(events)
    assert texts(task) == {"a": [chunk * 4000]}
    assert _resident_bytes() - before < 50 * len(chunk) * 4000


def _resident_bytes() -> int:
    """Return the memory of this process: protobuf's own is not in Python's statistics."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_only_plain_text_continues_the_text_before_it() -> None:
    named = Part(text="b", filename="b.txt")
    for first, second in ((Part(text="a"), named), (named, Part(text="a")), (Part(raw=b"1"), Part(raw=b"2"))):
        event = artifact("")
        event.artifact.parts[0].CopyFrom(first)
        more = artifact("", append=True)
        more.artifact.parts[0].CopyFrom(second)
        assert list(fold([submitted(), event, more]).artifacts[0].parts) == [first, second]


def test_artifact_of_answer_replaces_its_message_in_the_history() -> None:
    """A helper has sent the message during the turn. The task has it once."""
    first, second = entered(WORKING, "one"), entered(WORKING, "two")
    for answered in (first, second):
        message = answered.status.message
        answer = artifact(message.parts[0].text, artifact_id=message.message_id)
        answer.artifact.metadata.update({"aion:answers": "m-1"})
        task = fold([submitted(), first, second, answer, entered(COMPLETED)])
        kept = [each.message_id for each in task.history]
        assert message.message_id not in kept
        assert len(kept) == 2
        assert list(texts(task)) == [message.message_id]
        assert fold([submitted(), first, second, answer]).status.message.message_id != message.message_id


def test_building_task_from_events_does_not_change_events() -> None:
    events: list[Event] = [submitted(), entered(WORKING, "one", a=1), artifact("one"), said("two")]
    packed = [event.SerializeToString(deterministic=True) for event in events]
    task = fold(events)
    before = task.SerializeToString(deterministic=True)
    for event in events[1:]:
        apply(task, event)
    assert task.SerializeToString(deterministic=True) == before
    assert [event.SerializeToString(deterministic=True) for event in events] == packed


def test_folding_whole_log_equals_applying_its_events_one_by_one() -> None:
    events: list[Event] = [entered(WORKING, "one"), artifact("a"), said("two"), entered(COMPLETED, "end")]
    task = submitted()
    for event in events:
        task = apply(task, event)
    assert task == fold([submitted(), *events])


def test_message_recorded_twice_is_once_in_history() -> None:
    message = said("two")
    assert fold([submitted(), message, message]) == fold([submitted(), message])


@pytest.mark.parametrize(
    "event",
    [lambda text: entered(WORKING, text), lambda text: artifact(text, artifact_id=text)],
    ids=["status", "artifact"],
)
def test_fold_of_long_log_takes_linear_work(event: Callable[[str], Event]) -> None:
    def lines(number: int) -> int:
        events, count, before = [submitted(), *(event(f"{each}") for each in range(number))], 0, sys.gettrace()

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal count
            count += event == "line"
            return trace

        sys.settrace(trace)
        try:
            fold(events)
        finally:
            sys.settrace(before)
        return count

    assert lines(400) < 5 * lines(100)


@pytest.mark.parametrize(
    ("events", "text"), [([], "A log is never empty."), ([entered(WORKING)], "A log begins with its task.")]
)
def test_log_without_initial_task_event_raises_store_corrupt(events: list[Event], text: str) -> None:
    with pytest.raises(StoreCorrupt) as raised:
        fold(events)
    assert str(raised.value) == text


def test_terminal_state_is_followed_by_no_state() -> None:
    assert {states.state_name(state) for state in states.TERMINAL} == {
        "completed", "failed", "canceled", "rejected",
    }  # fmt: skip
    for before in states.TERMINAL:
        assert not any(states.may_follow(before, after) for after in ALL_STATES)


def test_nonterminal_states_can_become_failed() -> None:
    for before in set(ALL_STATES) - states.TERMINAL:
        assert states.may_follow(before, TaskState.TASK_STATE_FAILED)
        assert not states.may_follow(before, TaskState.TASK_STATE_SUBMITTED)


@pytest.mark.parametrize("state", sorted(states.INTERRUPTED))
def test_interrupted_task_may_return_to_working(state: TaskState) -> None:
    assert states.may_follow(state, WORKING)
    assert states.may_follow(WORKING, state)


def test_history_has_answer_once_after_its_interrupt() -> None:
    """Fold an interrupt and its answer: the history has each once, in this order."""
    asked = fold([submitted(), entered(TaskState.TASK_STATE_INPUT_REQUIRED, "which?")])
    answer = said("this one", Role.ROLE_USER)
    task = apply(asked, entered(WORKING), answer)
    assert [entry.message_id for entry in task.history] == ["question", "which?", "this one"]
    done = apply(apply(task, entered(WORKING, "end")), entered(COMPLETED, "end"))
    assert ids(done) == ["question", "which?", "this one", "end"]
    assert done.status.message == said("end")


def test_message_repeated_in_final_status_moves_to_the_end() -> None:
    """The history has each message once, with that of the status at its end."""
    working, completed = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
    task = fold([submitted(), entered(working, "one"), entered(working, "two"), entered(working, n=1)])
    assert ids(task) == ["question", "one", "two"]
    task = apply(task, entered(completed, "one"))
    assert ids(task) == ["question", "two", "one"]
    assert task.status.message.message_id == "one"
