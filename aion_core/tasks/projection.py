"""Projection of an event log to its task: `apply` defines the effect of each event. Pure."""

from collections.abc import Iterable

from aion_core.errors import StoreCorrupt
from aion_core.ports import Numbered
from aion_core.protocol.types import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


def apply(task: Task | None, entry: Numbered) -> Task:
    """Return a copy of the task with the effect of one log entry."""
    if isinstance(entry.event, Task):
        return _copy(entry.event)
    if task is None:
        raise StoreCorrupt("A log begins with its task.")
    after = _copy(task)
    _apply_to(after, entry)
    return after


def fold(log: Iterable[Numbered]) -> Task:
    """Return the task that a log's events lead to. Raises StoreCorrupt if the log does not begin with a task."""
    task: Task | None = None
    for entry in log:
        if task is None or isinstance(entry.event, Task):
            task = apply(task, entry)
        else:
            _apply_to(task, entry)
    if task is None:
        raise StoreCorrupt("A log is never empty.")
    return task


def _apply_to(task: Task, entry: Numbered) -> None:
    event = entry.event
    match event:
        case Message():
            _add_message(task, event)
        case TaskStatusUpdateEvent():
            # `status.message` is the latest message of the task; `history` has the earlier ones, each once.
            if task.status.HasField("message") and task.status.message.message_id != event.status.message.message_id:
                _add_message(task, task.status.message)
            if entry.message is not None:
                _add_message(task, entry.message)
            task.status.CopyFrom(event.status)
            if event.status.HasField("message"):
                # An answer may be an earlier message of the turn, repeated in the turn's last status.
                _remove_message(task, event.status.message.message_id)
            if event.HasField("metadata"):
                task.metadata.MergeFrom(event.metadata)
        case TaskArtifactUpdateEvent():
            _put(task, event)


def _add_message(task: Task, message: Message) -> None:
    if all(each.message_id != message.message_id for each in task.history):
        task.history.append(message)


def _remove_message(task: Task, message_id: str) -> None:
    place = next((n for n, each in enumerate(task.history) if each.message_id == message_id), None)
    if place is not None:
        del task.history[place]


def _put(task: Task, event: TaskArtifactUpdateEvent) -> None:
    """Add an artifact to the task: replace the artifact with its id, or with `append` extend it (A2A 4.2.2)."""
    for artifact in task.artifacts:
        if artifact.artifact_id == event.artifact.artifact_id:
            if event.append:
                artifact.parts.extend(event.artifact.parts)
                if event.artifact.HasField("metadata"):
                    artifact.metadata.MergeFrom(event.artifact.metadata)
            else:
                artifact.CopyFrom(event.artifact)
            return
    task.artifacts.append(event.artifact)


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy
