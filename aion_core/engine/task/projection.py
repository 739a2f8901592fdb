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
    artifacts: dict[str, GrowingArtifact] = {}
    for entry in log:
        if isinstance(entry.event, Task):
            task = Task()
            task.CopyFrom(entry.event)
            known = {message.message_id for message in task.history}
            if task.status.HasField("message"):
                _add_message(task, task.status.message, known)
            artifacts = {artifact.artifact_id: GrowingArtifact(artifact) for artifact in reversed(task.artifacts)}
        elif task is None:
            raise StoreCorrupt("A log begins with its task.")
        else:
            _apply_to(task, entry, known, artifacts)
    if task is None:
        raise StoreCorrupt("A log is never empty.")
    for artifact in artifacts.values():
        artifact.write()
    return task


def with_message_once(task: Task) -> Task:
    """Return the task with its status message in its status only: not at the end of its history too.

    Snapshots are stored in this form, and `fold` restores the other. It is also the form of the a2a-sdk's own server.
    """
    if not _has_message_twice(task):
        return task
    once = Task()
    once.CopyFrom(task)
    del once.history[-1]
    return once


def fold_once(log: Iterable[Numbered]) -> Task:
    """Return the task of `fold` in the form of `with_message_once`, without a copy of a task that may be large."""
    task = fold(log)
    if _has_message_twice(task):
        del task.history[-1]
    return task


def _has_message_twice(task: Task) -> bool:
    message = task.status.message
    return bool(message.message_id and task.history and task.history[-1] == message)


class GrowingArtifact:
    """An artifact to which further parts are added. A text that follows a text continues it.

    Many clients put a line between two parts. The pieces of a text are joined once, by `write`: protobuf would keep each
    earlier text of a field in memory until it frees the whole message.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self._texts: list[str] = []
        """Texts that continue the last part."""

    def add(self, parts: Iterable[Part]) -> None:
        """Add parts."""
        for part in parts:
            if is_only_text(part) and (self._texts or (self.artifact.parts and is_only_text(self.artifact.parts[-1]))):
                self._texts.append(part.text)
            else:
                self.write()
                self.artifact.parts.append(part)

    def replace(self, artifact: Artifact) -> None:
        """Replace the whole artifact."""
        self._texts.clear()
        self.artifact.CopyFrom(artifact)

    def write(self) -> None:
        """Write the added texts to the artifact, which has all parts from then on."""
        if self._texts:
            last = self.artifact.parts[-1]
            last.text = "".join([last.text, *self._texts])
            self._texts.clear()


def is_only_text(part: Part) -> bool:
    """Return True for a part with a text and nothing else, such as metadata."""
    return [field.name for field, _ in part.ListFields()] == ["text"]


def _apply_to(task: Task, entry: Numbered, known: set[str], artifacts: dict[str, GrowingArtifact]) -> None:
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


def _put(task: Task, event: TaskArtifactUpdateEvent, artifacts: dict[str, GrowingArtifact]) -> None:
    """Add an artifact to the task. With the same id, replace it, or extend it if `append` is set (A2A 4.2.2)."""
    growing = artifacts.get(event.artifact.artifact_id)
    if growing is None:
        task.artifacts.append(event.artifact)
        artifacts[event.artifact.artifact_id] = GrowingArtifact(task.artifacts[-1])
    elif event.append:
        growing.add(event.artifact.parts)
        if event.artifact.HasField("metadata"):
            growing.artifact.metadata.MergeFrom(event.artifact.metadata)
    else:
        growing.replace(event.artifact)
