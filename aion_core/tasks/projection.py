"""The task is the fold of its log: `apply` is the one place that says what an event does to it. Pure."""

from collections.abc import Iterable

from aion_core.errors import StoreCorrupt
from aion_core.ports import Numbered
from aion_core.protocol.types import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


def apply(task: Task | None, entry: Numbered) -> Task:
    """Return the task after the entry; the one that was passed in stays as it was."""
    if isinstance(entry.event, Task):
        return _copy(entry.event)
    if task is None:
        raise StoreCorrupt("A log begins with its task.")
    after = _copy(task)
    _apply_to(after, entry)
    return after


def fold(log: Iterable[Numbered]) -> Task:
    """Return the task that the log, from its first entry on, adds up to; linear in its length.

    Raises StoreCorrupt where the first is no task.
    """
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
            _say(task, event)
        case TaskStatusUpdateEvent():
            # `status.message` is the latest message and `history` what came before it, no message twice.
            if task.status.HasField("message") and task.status.message.message_id != event.status.message.message_id:
                _say(task, task.status.message)
            if entry.message is not None:
                _say(task, entry.message)
            task.status.CopyFrom(event.status)
            if event.status.HasField("message"):
                # A reply is said on the way, and is the status again when the turn ends.
                _unsay(task, event.status.message.message_id)
            if event.HasField("metadata"):
                task.metadata.MergeFrom(event.metadata)
        case TaskArtifactUpdateEvent():
            _put(task, event)


def _say(task: Task, message: Message) -> None:
    if all(said.message_id != message.message_id for said in task.history):
        task.history.append(message)


def _unsay(task: Task, message_id: str) -> None:
    place = next((n for n, said in enumerate(task.history) if said.message_id == message_id), None)
    if place is not None:
        del task.history[place]


def _put(task: Task, event: TaskArtifactUpdateEvent) -> None:
    """Add the artifact, put it in the place of an older one of its id, or continue that one (spec 4.2.2)."""
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
