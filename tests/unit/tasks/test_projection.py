"""Projection of a log to its task."""

from collections.abc import Iterable
from typing import cast

import pytest
from google.protobuf.json_format import MessageToDict

from aion_core.errors import StoreCorrupt
from aion_core.ports import Numbered
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
from aion_core.tasks import lifecycle, projection


def fold(events: Iterable[Event]) -> Task:
    return projection.fold(Numbered(number, event) for number, event in enumerate(events, start=1))


def apply(task: Task | None, event: Event) -> Task:
    return projection.apply(task, Numbered(1, event))


STATES = [cast("TaskState", state) for state in TaskState.values() if state]


def said(text: str, role: Role = Role.ROLE_AGENT) -> Message:
    return Message(message_id=text, role=role, parts=[Part(text=text)])


def submitted() -> Task:
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        history=[said("question", Role.ROLE_USER)],
    )


def status(state: TaskState, text: str = "", **metadata: object) -> TaskStatusUpdateEvent:
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


def test_task_history_precedes_status_message() -> None:
    """Each message once."""
    task = fold([submitted(), status(WORKING, "one"), status(WORKING, "two"), status(COMPLETED, "answer")])
    assert [entry.message_id for entry in task.history] == ["question", "one", "two"]
    assert task.status.message == said("answer")
    assert task.status.state == COMPLETED
    assert [entry.message_id for entry in apply(task, said("two")).history] == ["question", "one", "two"]


def test_status_without_message_clears_previous_status_message() -> None:
    task = fold([submitted(), status(WORKING, "one"), status(COMPLETED)])
    assert not task.status.HasField("message")
    assert [entry.message_id for entry in task.history] == ["question", "one"]


def test_task_metadata_is_merged_key_by_key() -> None:
    task = fold([submitted(), status(WORKING, a=1, deep={"x": 1}), status(WORKING, b=[1], deep={"y": 2})])
    assert MessageToDict(task.metadata) == {"a": 1, "b": [1], "deep": {"y": 2}}


def test_artifact_event_replaces_or_extends_artifact() -> None:
    """A2A 4.2.2."""
    events: list[Event] = [
        submitted(),
        artifact("one"),
        artifact("two", append=True, m=1),
        artifact("x", artifact_id="b"),
    ]
    task = fold(events)
    assert texts(task) == {"a": ["one", "two"], "b": ["x"]}
    assert dict(task.artifacts[0].metadata) == {"m": 1}
    assert texts(apply(task, artifact("new"))) == {"a": ["new"], "b": ["x"]}
    assert texts(apply(task, artifact("none yet", artifact_id="z", append=True)))["z"] == ["none yet"]


def test_projection_does_not_change_its_arguments() -> None:
    events: list[Event] = [submitted(), status(WORKING, "one", a=1), artifact("one"), said("two")]
    packed = [event.SerializeToString(deterministic=True) for event in events]
    task = fold(events)
    before = task.SerializeToString(deterministic=True)
    for event in events[1:]:
        apply(task, event)
    assert task.SerializeToString(deterministic=True) == before
    assert [event.SerializeToString(deterministic=True) for event in events] == packed


def test_folding_log_equals_applying_each_event() -> None:
    events: list[Event] = [submitted(), status(WORKING, "one"), artifact("a"), said("two"), status(COMPLETED, "end")]
    task: Task | None = None
    for event in events:
        task = apply(task, event)
    assert task == fold(events)


@pytest.mark.parametrize("events", [[], [status(WORKING)]])
def test_log_without_initial_task_event_is_corrupt(events: list[Event]) -> None:
    with pytest.raises(StoreCorrupt):
        fold(events)


def test_terminal_state_is_followed_by_no_state() -> None:
    assert {lifecycle.state_name(state) for state in lifecycle.TERMINAL} == {
        "completed", "failed", "canceled", "rejected",
    }  # fmt: skip
    for before in lifecycle.TERMINAL:
        assert not any(lifecycle.may_follow(before, after) for after in STATES)


def test_nonterminal_states_can_become_failed() -> None:
    for before in set(STATES) - lifecycle.TERMINAL:
        assert lifecycle.may_follow(before, TaskState.TASK_STATE_FAILED)
        assert not lifecycle.may_follow(before, TaskState.TASK_STATE_SUBMITTED)


@pytest.mark.parametrize("state", sorted(lifecycle.INTERRUPTED))
def test_interrupted_task_may_return_to_working(state: TaskState) -> None:
    assert lifecycle.may_follow(state, WORKING)
    assert lifecycle.may_follow(WORKING, state)


def test_clients_message_precedes_its_event_in_history() -> None:
    """In the history an answer follows its interrupt; each message once."""
    asked = fold([submitted(), status(TaskState.TASK_STATE_INPUT_REQUIRED, "which?")])
    answer = said("this one", Role.ROLE_USER)
    task = projection.apply(asked, Numbered(3, status(WORKING), message=answer))
    assert [entry.message_id for entry in task.history] == ["question", "which?", "this one"]
    done = apply(apply(task, status(WORKING, "end")), status(COMPLETED, "end"))
    assert [entry.message_id for entry in done.history] == ["question", "which?", "this one"]
    assert done.status.message == said("end")


def test_reply_before_metadata_appears_once_in_task() -> None:
    """`status.message` is the latest message, `history` has the earlier ones, each once."""
    working, completed = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
    task = fold([submitted(), status(working, "one"), status(working, "two"), status(working, n=1)])
    assert [message.message_id for message in task.history] == ["question", "one", "two"]
    task = projection.apply(task, Numbered(5, status(completed, "two")))
    assert [message.message_id for message in task.history] == ["question", "one"]
    assert task.status.message.message_id == "two"
