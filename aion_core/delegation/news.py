"""News of a remote task: what the remote agent says that its caller has not heard yet, also after a lost stream. Pure."""

from collections.abc import Collection, Iterator

from aion_core.engine.task.states import TERMINAL_OR_INTERRUPTED
from aion_core.protocol.stream_artifacts import STREAM_DELTA_ID
from aion_core.protocol.types import (
    Artifact,
    Message,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)


class RemoteNews:
    """The remote task as its caller has heard of it, from the responses of one or more streams."""

    def __init__(self, heard: Collection[str] = ()) -> None:
        """`heard` has the ids of the messages and artifacts that an earlier attempt of the caller has recorded."""
        self._heard = set(heard)
        self._has_begun = bool(heard)
        """True if the caller has heard of the task before, so that a Task repeats what it has heard."""
        self._open: set[str] = set()
        """Ids of the artifacts of which only the first chunks have arrived."""
        self._cut: set[str] = set()
        """Ids of the artifacts whose chunks were lost with a stream: the rest of the chunks would be a text with a gap."""
        self.is_settled = False
        """True after a message, and after a status that ends or interrupts the task."""
        self.state = TaskState.TASK_STATE_UNSPECIFIED
        """State of the remote task, as last heard."""
        self.task_id = ""

    def lost_stream(self) -> None:
        """Note that the stream has ended too early. The next response is a Task, or continues somewhere."""
        self._cut |= self._open
        self._open.clear()

    def resumes(self, task_id: str) -> None:
        """Note that an earlier attempt of the caller has reached this task."""
        self.task_id, self._has_begun = task_id, True

    @property
    def is_incomplete(self) -> bool:
        """True if an artifact has arrived only in part, so that the whole task must be read."""
        return bool(self._cut - {STREAM_DELTA_ID})

    def of(self, response: StreamResponse) -> Iterator[StreamResponse]:
        """Yield the part of a response that is new, in the form of a stream's responses."""
        match response.WhichOneof("payload"):
            case "message":
                self.is_settled = True
                yield response
            case "task":
                self.task_id = response.task.id
                if self._has_begun:
                    yield from self._of_task(response.task)
                else:
                    self._begin(response.task)
                    yield response
            case "status_update":
                self.task_id = self.task_id or response.status_update.task_id
                if self._is_news(response.status_update):
                    yield response
            case "artifact_update":
                self.task_id = self.task_id or response.artifact_update.task_id
                if self._is_piece(response.artifact_update):
                    yield response

    def _begin(self, task: Task) -> None:
        self._has_begun = True
        self._heard |= {message.message_id for message in task.history}
        self._heard |= {artifact.artifact_id for artifact in task.artifacts}
        self._open |= _growing(task)
        self._note(task.status.state)

    def _of_task(self, task: Task) -> Iterator[StreamResponse]:
        """Yield what is new in a task of which the caller has heard before."""
        is_settled, growing = task.status.state in TERMINAL_OR_INTERRUPTED, _growing(task)
        for message in task.history:
            if message.message_id == task.status.message.message_id:
                continue  # some servers repeat the status message as the last of the history
            self._cut.discard(message.message_id)  # an Aion agent streams each message as an artifact
            if message.role == Role.ROLE_AGENT and self._is_new(message.message_id):
                yield StreamResponse(status_update=_said(task, message))
        for artifact in task.artifacts:
            if self._is_new(artifact.artifact_id) or artifact.artifact_id in self._cut:
                self._cut.discard(artifact.artifact_id)
                self._open |= growing & {artifact.artifact_id}
                yield StreamResponse(artifact_update=_whole(task, artifact, last=is_settled))
        if is_settled or (task.status.HasField("message") and self._is_new(task.status.message.message_id)):
            status = TaskStatusUpdateEvent(
                task_id=task.id, context_id=task.context_id, status=task.status, metadata=task.metadata
            )
            self._note(task.status.state)
            yield StreamResponse(status_update=status)

    def _is_news(self, update: TaskStatusUpdateEvent) -> bool:
        """Return False for a status whose message the caller has heard, if the task goes on."""
        self._has_begun = True
        self._cut.discard(STREAM_DELTA_ID)
        self._note(update.status.state)
        has_message = update.status.HasField("message")
        return self.is_settled or not has_message or self._is_new(update.status.message.message_id)

    def _is_piece(self, update: TaskArtifactUpdateEvent) -> bool:
        """Return False for the rest of an artifact whose first chunks were lost."""
        self._has_begun = True
        artifact_id = update.artifact.artifact_id
        if artifact_id in self._cut:
            # The whole artifact comes with the task. A model's streamed text comes as a message, so it need not.
            if artifact_id == STREAM_DELTA_ID and update.last_chunk:
                self._cut.discard(artifact_id)
            return False
        if update.last_chunk:
            self._open.discard(artifact_id)
            self._heard.add(artifact_id)
        else:
            self._open.add(artifact_id)
        return True

    def _is_new(self, heard_id: str) -> bool:
        if heard_id in self._heard:
            return False
        self._heard.add(heard_id)
        return True

    def _note(self, state: TaskState) -> None:
        self.state = state
        self.is_settled = state in TERMINAL_OR_INTERRUPTED


def _growing(task: Task) -> set[str]:
    """Return the ids of the artifacts of a task that goes on: they may grow, also while nobody listens."""
    is_settled = task.status.state in TERMINAL_OR_INTERRUPTED
    return set() if is_settled else {artifact.artifact_id for artifact in task.artifacts}


def _said(task: Task, message: Message) -> TaskStatusUpdateEvent:
    """Return the status update by which a stream would have delivered the message."""
    event = TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id)
    event.status.state = TaskState.TASK_STATE_WORKING
    event.status.message.CopyFrom(message)
    return event


def _whole(task: Task, artifact: Artifact, *, last: bool) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=last)
