"""Projection of a task from its event log: the task is the fold of its events. Pure.

The task's history has every message of the task, and so the message of its status as the last one (seed S0 2.1, S1: an
answer is appended to the task's history). A client may look for an answer in either place. The log stores it once, and
so does a snapshot.
"""

from collections.abc import Iterable

from aion_core.engine.records import Numbered
from aion_core.errors import StoreCorrupt
from aion_core.protocol.answer_artifacts import is_answer
from aion_core.protocol.types import Artifact, Message, Part, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


def fold(log: Iterable[Numbered]) -> Task:
    """Return the task resulting from a log's events. Raises StoreCorrupt if the log does not begin with a task."""
    task: Task | None = None
    # Look messages and artifacts up by id, because a search would make each event of a long log slower than the last.
    known: set[str]
    artifacts: dict[str, Artifact]
    for entry in log:
        if isinstance(entry.event, Task):
            task = Task()
            task.CopyFrom(entry.event)
            known = {message.message_id for message in task.history}
            if task.status.HasField("message"):
                _add_message(task, task.status.message, known)
            artifacts = {artifact.artifact_id: artifact for artifact in reversed(task.artifacts)}
        elif task is None:
            raise StoreCorrupt("A log begins with its task.")
        else:
            _apply_to(task, entry, known, artifacts)
    if task is None:
        raise StoreCorrupt("A log is never empty.")
    return task


def with_message_once(task: Task) -> Task:
    """Return the task with its status message in its status only: not at the end of its history too.

    Snapshots are stored in this form, and `fold` restores the other. It is also the form of the a2a-sdk's own server.
    """
    message = task.status.message
    if not (message.message_id and task.history and task.history[-1] == message):
        return task
    once = Task()
    once.CopyFrom(task)
    del once.history[-1]
    return once


def _apply_to(task: Task, entry: Numbered, known: set[str], artifacts: dict[str, Artifact]) -> None:
    """Apply the event to the task. `known` has the ids of its history's messages, `artifacts` its artifacts by id."""
    event = entry.event
    match event:
        case Message():
            _add_message(task, event, known)
        case TaskStatusUpdateEvent():
            if entry.message is not None:
                _add_message(task, entry.message, known)
            task.status.CopyFrom(event.status)
            if event.status.HasField("message"):
                # Move a message that the history has to its end: the last status may repeat a message as the answer.
                _remove_message(task, event.status.message.message_id, known)
                _add_message(task, event.status.message, known)
            if event.HasField("metadata"):
                task.metadata.MergeFrom(event.metadata)
        case TaskArtifactUpdateEvent():
            _put(task, event, artifacts)
            if is_answer(event.artifact):
                # The artifact replaces the message with its id, which the agent has sent before the turn's end.
                _remove_message(task, event.artifact.artifact_id, known)
                if task.status.message.message_id == event.artifact.artifact_id:
                    task.status.ClearField("message")


def _add_message(task: Task, message: Message, known: set[str]) -> None:
    if message.message_id not in known:
        known.add(message.message_id)
        task.history.append(message)


def _remove_message(task: Task, message_id: str, known: set[str]) -> None:
    if message_id in known:
        known.remove(message_id)
        del task.history[next(n for n, each in enumerate(task.history) if each.message_id == message_id)]


def _put(task: Task, event: TaskArtifactUpdateEvent, artifacts: dict[str, Artifact]) -> None:
    """Add an artifact to the task. With the same id, replace it, or extend it if `append` is set (A2A 4.2.2)."""
    artifact = artifacts.get(event.artifact.artifact_id)
    if artifact is None:
        task.artifacts.append(event.artifact)
        artifacts[event.artifact.artifact_id] = task.artifacts[-1]
    elif event.append:
        _append(artifact, event.artifact.parts)
        if event.artifact.HasField("metadata"):
            artifact.metadata.MergeFrom(event.artifact.metadata)
    else:
        artifact.CopyFrom(event.artifact)


def _append(artifact: Artifact, parts: Iterable[Part]) -> None:
    """Add parts to an artifact. A text that follows a text continues it: many clients put a line between two parts."""
    for part in parts:
        last = artifact.parts[-1] if artifact.parts else None
        if last is not None and _is_only_text(last) and _is_only_text(part):
            last.text += part.text
        else:
            artifact.parts.append(part)


def _is_only_text(part: Part) -> bool:
    return [field.name for field, _ in part.ListFields()] == ["text"]
