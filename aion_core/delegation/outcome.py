"""Put the answer of a remote agent together from its responses. Pure functions."""

from collections.abc import Iterable

from msgspec import Struct

from aion_core.authoring.remote import RemoteAnswer, answer_of_message, answer_of_task
from aion_core.engine.records import Numbered
from aion_core.engine.task import projection
from aion_core.engine.task.states import INTERRUPTED, state_name
from aion_core.errors import RemoteAgentFailed
from aion_core.protocol.answer_artifacts import as_message, is_only_streamed
from aion_core.protocol.stream_artifacts import EPHEMERAL_ID, STREAM_DELTA_IDS
from aion_core.protocol.types import Event, Message, StreamResponse, Task, TaskState

_TRANSIENT = (*STREAM_DELTA_IDS, EPHEMERAL_ID)
"""Ids of the artifacts that are not part of a task."""


class Outcome(Struct, frozen=True):
    """End of a call: a message, or a task that has ended or asks a question."""

    message: Message | None = None
    task: Task | None = None

    @property
    def state(self) -> TaskState:
        """State of the remote task; unspecified without a task."""
        return self.task.status.state if self.task is not None else TaskState.TASK_STATE_UNSPECIFIED

    @property
    def asks(self) -> bool:
        """True if the remote task waits for an answer."""
        return self.state in INTERRUPTED

    @property
    def question(self) -> Message:
        """Question of a remote task that waits for an answer."""
        return self.task.status.message if self.task is not None else Message()

    def response(self) -> StreamResponse:
        """Return the outcome as one response, as it is stored: without the status message in the history too."""
        if self.task is None:
            return StreamResponse(message=self.message)
        return StreamResponse(task=projection.with_message_once(self.task))

    def answer(self, agent: str) -> RemoteAnswer:
        """Return the answer for the author. Raises RemoteAgentFailed for a task without one."""
        if self.task is None:
            return answer_of_message(self.message or Message())
        if self.state != TaskState.TASK_STATE_COMPLETED:
            reason = "".join(part.text for part in self.task.status.message.parts)
            raise RemoteAgentFailed(agent=agent, state=state_name(self.state), reason=reason)
        return answer_of_task(self.task)


def outcome_of(responses: Iterable[StreamResponse]) -> Outcome:
    """Return the outcome of a call's responses. The task is the fold of its events, as the remote agent's own."""
    events: list[Event] = []
    for response in responses:
        kind = response.WhichOneof("payload")
        if kind == "message":
            return Outcome(message=response.message)
        if kind is not None and not is_transient_artifact(response):
            events.append(getattr(response, kind))
    if events and not isinstance(events[0], Task):
        events.insert(0, Task(id=events[0].task_id, context_id=events[0].context_id))
    return Outcome(task=_as_stored(projection.fold(Numbered(number, event) for number, event in enumerate(events))))


def _as_stored(task: Task) -> Task:
    """Return the task with the messages that an Aion agent has streamed as artifacts in its history."""
    streamed = [artifact for artifact in task.artifacts if is_only_streamed(artifact)]
    for artifact in streamed:
        task.artifacts.remove(artifact)
        task.history.append(as_message(artifact, task.id, task.context_id))
    return task


def is_transient_artifact(response: StreamResponse) -> bool:
    """Return True for a piece of streamed text, whose message follows whole, and for a typing indicator."""
    return response.HasField("artifact_update") and response.artifact_update.artifact.artifact_id in _TRANSIENT
