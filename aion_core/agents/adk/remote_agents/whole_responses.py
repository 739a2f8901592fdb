"""Responses of a remote agent in the form that ADK reads without losing a part. Pure.

ADK stores an artifact's last chunk only, and reads a task's artifacts without its message, or the message without them.
"""

from collections.abc import Iterator

from aion_core.engine.task.projection import GrowingArtifact
from aion_core.engine.task.states import TERMINAL_OR_INTERRUPTED
from aion_core.protocol.stream_artifacts import EPHEMERAL_ID, STREAM_DELTA_ID
from aion_core.protocol.types import (
    Message,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

TRANSIENT = (STREAM_DELTA_ID, EPHEMERAL_ID)
"""Ids of artifacts that are not part of the task: streamed text and typing indicators."""


class WholeResponses:
    """Responses of one call: tasks are split into updates, and the last update of an artifact has the whole artifact."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[StreamResponse, GrowingArtifact]] = {}
        """The artifacts of which more chunks may follow, as received so far."""
        self._said: set[str] = set()
        """Ids of the whole artifacts."""

    def of(self, response: StreamResponse) -> Iterator[StreamResponse]:
        """Yield the response as ADK should receive it."""
        match response.WhichOneof("payload"):
            case "task" if response.task.artifacts or _said(response.task):
                yield from self._of_task(response.task)
            case "artifact_update":
                yield from self._of_artifact(response.artifact_update)
            case "status_update" if response.status_update.status.state in TERMINAL_OR_INTERRUPTED:
                yield from self._close()
                yield self._of_status(response)
            case _:
                yield response

    def _of_task(self, task: Task) -> Iterator[StreamResponse]:
        is_settled = task.status.state in TERMINAL_OR_INTERRUPTED
        for message in _said(task):
            status = TaskStatus(state=TaskState.TASK_STATE_WORKING, message=message)
            said = TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=status)
            yield StreamResponse(status_update=said)
        for artifact in task.artifacts:
            update = TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=is_settled
            )
            yield from self._of_artifact(update)
        if is_settled or task.status.HasField("message"):
            whole = TaskStatusUpdateEvent(
                task_id=task.id, context_id=task.context_id, status=task.status, metadata=task.metadata
            )
            yield self._of_status(StreamResponse(status_update=whole))

    def _of_status(self, response: StreamResponse) -> StreamResponse:
        """Return a status without a message that was an artifact too, as an Aion agent with `answer: both` sends it."""
        if response.status_update.status.message.message_id not in self._said:
            return response
        update = StreamResponse(status_update=response.status_update)
        update.status_update.status.ClearField("message")
        return update

    def _of_artifact(self, update: TaskArtifactUpdateEvent) -> Iterator[StreamResponse]:
        artifact_id = update.artifact.artifact_id
        if artifact_id in TRANSIENT:
            yield _piece(update)
            return
        if artifact_id in self._said and update.append and not any(part.text for part in update.artifact.parts):
            return  # metadata of an artifact that ADK has whole
        known = artifact_id in self._open
        open_one = self._open.pop(artifact_id, None)
        if open_one is None or not update.append:
            whole = StreamResponse(artifact_update=update)
            growing = GrowingArtifact(whole.artifact_update.artifact)
        else:
            whole, growing = open_one
            growing.add(update.artifact.parts)
            growing.artifact.metadata.MergeFrom(update.artifact.metadata)
        if update.last_chunk:
            self._said.add(artifact_id)
            yield _last(whole, growing)
            return
        self._open[artifact_id] = whole, growing
        if (update.append or not known) and all(part.WhichOneof("content") == "text" for part in update.artifact.parts):
            yield _piece(update)

    def _close(self) -> Iterator[StreamResponse]:
        """Yield the artifacts whose end the remote agent has not announced."""
        for whole, growing in self._open.values():
            yield _last(whole, growing)
        self._open.clear()


def _said(task: Task) -> list[Message]:
    """Return the remote agent's messages in a task, without that of its status."""
    last = task.status.message.message_id  # some servers repeat it as the last of the history
    return [each for each in task.history if each.role == Role.ROLE_AGENT and each.message_id != last]


def _piece(update: TaskArtifactUpdateEvent) -> StreamResponse:
    """Return a chunk of text that does not seem to continue another: ADK would copy all earlier ones for each chunk."""
    response = StreamResponse(artifact_update=update)
    response.artifact_update.append = False
    return response


def _last(whole: StreamResponse, growing: GrowingArtifact) -> StreamResponse:
    growing.write()
    whole.artifact_update.append, whole.artifact_update.last_chunk = False, True
    return whole
