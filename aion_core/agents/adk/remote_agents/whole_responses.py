"""Responses of a remote agent in the form that ADK reads without losing a part. Pure.

ADK stores an artifact's last chunk only, and reads a task's artifacts without its message, or the message without them.
"""

from collections.abc import Iterator

from aion_core.engine.task.states import TERMINAL_OR_INTERRUPTED
from aion_core.protocol.stream_artifacts import EPHEMERAL_ID, STREAM_DELTA_ID
from aion_core.protocol.types import (
    Artifact,
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
        self._open: dict[str, TaskArtifactUpdateEvent] = {}
        """The artifacts of which more chunks may follow, as received so far."""
        self._said: set[str] = set()
        """Ids of the whole artifacts."""

    def of(self, response: StreamResponse) -> Iterator[StreamResponse]:
        """Yield the response as ADK should receive it."""
        match response.WhichOneof("payload"):
            case "task":
                yield from self._of_task(response.task)
            case "artifact_update":
                yield from self._of_artifact(response.artifact_update)
            case "status_update" if response.status_update.status.state in TERMINAL_OR_INTERRUPTED:
                yield from self._close()
                yield self._of_status(response.status_update)
            case _:
                yield response

    def _of_task(self, task: Task) -> Iterator[StreamResponse]:
        is_settled = task.status.state in TERMINAL_OR_INTERRUPTED
        last = task.status.message.message_id  # some servers repeat it as the last of the history
        said = [each for each in task.history if each.role == Role.ROLE_AGENT and each.message_id != last]
        if not task.artifacts and not said:
            yield StreamResponse(task=task)
            return
        for message in said:
            status = TaskStatus(state=TaskState.TASK_STATE_WORKING, message=message)
            yield StreamResponse(
                status_update=TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=status)
            )
        for artifact in task.artifacts:
            update = TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=is_settled
            )
            yield from self._of_artifact(update)
        if is_settled or task.status.HasField("message"):
            yield self._of_status(
                TaskStatusUpdateEvent(
                    task_id=task.id, context_id=task.context_id, status=task.status, metadata=task.metadata
                )
            )

    def _of_status(self, update: TaskStatusUpdateEvent) -> StreamResponse:
        """Return a status without a message that was an artifact too, as an Aion agent with `answer: both` sends it."""
        response = StreamResponse(status_update=update)
        if update.status.message.message_id in self._said:
            response.status_update.status.ClearField("message")
        return response

    def _of_artifact(self, update: TaskArtifactUpdateEvent) -> Iterator[StreamResponse]:
        artifact_id = update.artifact.artifact_id
        if artifact_id in TRANSIENT:
            yield StreamResponse(artifact_update=update)
            return
        if artifact_id in self._said and update.append and not any(part.text for part in update.artifact.parts):
            return  # metadata of an artifact that ADK has whole
        known = artifact_id in self._open
        whole = self._open.pop(artifact_id, None)
        if whole is None or not update.append:
            whole = TaskArtifactUpdateEvent()
            whole.CopyFrom(update)
        else:
            whole.artifact.parts.extend(update.artifact.parts)
            whole.artifact.metadata.MergeFrom(update.artifact.metadata)
        if update.last_chunk:
            self._said.add(artifact_id)
            yield _last(whole)
            return
        self._open[artifact_id] = whole
        if (update.append or not known) and all(part.WhichOneof("content") == "text" for part in update.artifact.parts):
            yield StreamResponse(artifact_update=update)

    def _close(self) -> Iterator[StreamResponse]:
        """Yield the artifacts whose end the remote agent has not announced."""
        for whole in self._open.values():
            yield _last(whole)
        self._open.clear()


def _last(whole: TaskArtifactUpdateEvent) -> StreamResponse:
    artifact = Artifact()
    artifact.CopyFrom(whole.artifact)
    return StreamResponse(
        artifact_update=TaskArtifactUpdateEvent(
            task_id=whole.task_id,
            context_id=whole.context_id,
            artifact=artifact,
            last_chunk=True,
            metadata=whole.metadata,
        )
    )
