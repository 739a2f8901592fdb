"""Translation of an executor's queued events to emissions.

Each event is recorded once, with ids set by the server. A turn has exactly one ending.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Never

from google.protobuf.struct_pb2 import Struct
from uuid_utils import uuid7

from aion_core.agents.emission_ids import with_artifact_id
from aion_core.agents.executor.event_queue import ExecutorEvent
from aion_core.agents.executor.resumption import has_started_over
from aion_core.agents.final_answer import TurnOutput
from aion_core.agents.helper_calls import DurableReply, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.agents.reactions import reaction_artifact
from aion_core.agents.restarts import NO_ANSWER_AFTER_RESTART
from aion_core.agents.speakers import speaker_of
from aion_core.agents.streams import StreamSequencer
from aion_core.engine.agent import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    AgentTyping,
    Chunk,
    Emission,
    InputRequired,
    Reply,
    TaskUsed,
    TurnRequest,
)
from aion_core.engine.task import states
from aion_core.engine.task.projection import with_message_once
from aion_core.errors import AgentFailed
from aion_core.protocol.message_json import to_json
from aion_core.protocol.reserved_keys import without_reserved_metadata
from aion_core.protocol.stream_artifacts import STREAM_DELTA_IDS
from aion_core.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

logger = logging.getLogger(__name__)

NO_ANSWER = "The executor returned without an answer, and without a status that ends the task."


class ExecutorTranslator:
    """Translator for one turn: converts the executor's queued events to emissions."""

    def __init__(self, request: TurnRequest, *, restarts: bool) -> None:
        """Start without output.

        `restarts` is True if a crashed turn starts over from its message. Then the emissions get idempotency keys, so
        that a repeated emission is recorded once.
        """
        self._request, self._restarts, self._sequencer = request, restarts, StreamSequencer[Never]()
        self.ending: Reply | InputRequired | None = None
        """Ending of the turn; None until the executor has sent it."""
        self._started = self._answered = self._uses_task = False
        self._authorization: InputRequired | None = None
        """Ending of the turn if the executor returns while it waits for an authorization."""
        self._announcement: AgentMessage | AgentMetadata | None = None
        """Emission that asks for the authorization while the executor continues; None after it was yielded."""
        self._message: Message | None = None
        """Last intermediate message."""
        self._reply: Message | None = None
        """Last durable reply of a helper, which is the answer of an ending without a message."""
        self._metadata = to_json(request.task.metadata)
        self._earlier = {artifact.artifact_id for artifact in request.task.artifacts} - _opened_by_retry(request)
        """Ids of the artifacts of earlier turns."""
        self._opened: set[str] = set()
        """Ids of the artifacts opened by this attempt of the turn."""
        self._reactions = set(self._earlier)
        """Ids of earlier turns' artifacts and of this turn's reactions."""
        self._counts: Counter[str] = Counter()
        before = request.before() or Task()
        taken = (request.message, before.status.message, *before.history)
        self._contents = {message.message_id: b"" for message in taken}
        """Contents of this turn's messages by message id; empty for a message before the executor's first."""
        self._recorded = {entry.key: entry.event for entry in request.recorded if entry.key}

    def translate(self, event: ExecutorEvent) -> Iterator[Emission]:
        """Yield the emissions of an event. Ignore an event after the turn's ending, with a warning in the log."""
        if self.ending is not None:
            logger.warning("A %s after the executor's end is ignored.", type(event).__name__)
            return
        yield from self.announce()
        if not self._uses_task and not _may_precede_message(event):
            self._uses_task = True
            yield TaskUsed()
        for emission in self._emissions(event):
            if isinstance(emission, Reply | InputRequired):
                yield from self.close_streams()
                self._check_restart(emission)
                self.ending = emission
            self._answered = self._answered or isinstance(emission, AgentMessage | AgentArtifact)
            yield emission
        self._started = True

    def _check_restart(self, ending: Reply | InputRequired) -> None:
        """Raise AgentFailed if the turn has started over, and completes its task without any output.

        The executor may believe that the lost attempt has done its work. The first attempt may complete a task without
        output, because its executor says so.
        """
        completes = isinstance(ending, Reply) and ending.state == TaskState.TASK_STATE_COMPLETED
        if completes and ending.message is None and not self._answered and has_started_over(self._request):
            raise AgentFailed(NO_ANSWER_AFTER_RESTART)

    def is_announcing(self) -> bool:
        """Return True if a request for an authorization has not been yielded: see `announce`."""
        return self._announcement is not None

    def announce(self) -> Iterator[AgentMessage | AgentMetadata]:
        """Yield the request for an authorization, if any, because the executor continues while it waits.

        If the executor returns instead, the ending has the request, and clients would see it twice.
        """
        if self._announcement is not None:
            announcement, self._announcement = self._announcement, None
            self._answered = self._answered or isinstance(announcement, AgentMessage)
            yield announcement

    def close_streams(self) -> Iterator[Chunk]:
        """Yield the buffered chunks of all streams, before the end of the turn."""
        yield from self._sequencer.close_all()

    def end(self) -> Reply | InputRequired:
        """Return the ending of a turn whose `execute()` has returned without sending an ending.

        The executor's last reply or message completes the task. If the executor waits for an authorization, the ending
        is AUTH_REQUIRED. Raises AgentFailed if the executor has sent neither a message nor an artifact.
        """
        if self._authorization is not None:
            return self._authorization
        if not self._answered:
            raise AgentFailed(NO_ANSWER)
        return Reply(TurnOutput(buffered=self._reply, emitted=self._message).answer())

    def _emissions(self, event: ExecutorEvent) -> Iterator[Emission]:
        match event:
            case Message():
                yield Reply(self._own(event), as_message=not self._uses_task)
            case TaskStatusUpdateEvent():
                yield from self._status(event.status, _metadata(event.metadata))
            case TaskArtifactUpdateEvent():
                yield from self._artifact(event.artifact, event.append, event.last_chunk, _metadata(event.metadata))
            case Task():
                yield from self._task(event)
            case DurableReply():
                message_id, self._reply = event.message.message_id, event.message
                yield self._intermediate(self._reply, {})
                yield from self._sequencer.discard(message_id)
            case ReplyChunk():
                chunk = Chunk(event.text, event.message_id, speaker=speaker_of(event.message_id))
                yield from self._sequencer.add(chunk)
            case StreamAborted():
                yield from self._sequencer.abort(event.message_id)
            case TypingSignal():
                yield AgentTyping()
            case Reaction():
                key = self._key(event.key.encode() + event.message_id.encode())
                yield reaction_artifact(self._request, event, key, self._reactions)

    def _status(self, status: TaskStatus, metadata: dict[str, Any]) -> Iterator[Emission]:
        message = self._own(status.message) if status.HasField("message") else None
        if status.state in states.TERMINAL:
            yield Reply(message or self._reply, status.state, metadata)
        elif status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            yield InputRequired(
                message or self._question("The agent is waiting for an answer."), status.state, metadata
            )
        else:
            self._authorization = None
            emission: AgentMessage | AgentMetadata | None = None
            if message is not None:
                emission = self._intermediate(message, metadata)
            elif changes := self._changes(metadata):
                emission = AgentMetadata(changes, self._key(repr(sorted(changes.items())).encode()))
            self._metadata |= metadata
            if status.state == TaskState.TASK_STATE_AUTH_REQUIRED:
                # AUTH_REQUIRED ends the turn only if execute() returns, because it may wait for an out-of-band
                # authorization and then continue (SDK: AgentExecutor).
                shown = message or self._question("The agent is waiting for authorization.")
                self._authorization, self._announcement = InputRequired(shown, status.state, metadata), emission
            elif emission is not None:
                yield emission

    def _task(self, task: Task) -> Iterator[Emission]:
        """Yield the emissions of a Task from the executor. Like the SDK, ignore the Task if the task exists already."""
        if self._started or self._request.before() is not None:
            level = logging.WARNING if self._has_news(task) else logging.DEBUG
            logger.log(level, "The task exists already: the executor's Task is ignored. Enqueue its updates.")
            return
        for artifact in task.artifacts:
            yield from self._artifact(artifact, append=False, last_chunk=True, metadata={})
        # A task read from this server repeats its status message as the last of its history: send it once.
        for message in with_message_once(task).history:
            if message.role != Role.ROLE_USER:
                yield self._intermediate(self._own(message), {})
        yield from self._status(task.status, _metadata(task.metadata))

    def _has_news(self, task: Task) -> bool:
        """Return True if a Task has messages or artifacts besides those that the executor has received or sent."""
        status = [task.status.message] if task.status.HasField("message") else []
        return any(message.message_id not in self._contents for message in (*task.history, *status)) or any(
            artifact.artifact_id not in self._earlier | self._opened for artifact in task.artifacts
        )

    def _artifact(
        self, given: Artifact, append: bool, last_chunk: bool, metadata: dict[str, Any]
    ) -> Iterator[Emission]:
        if given.artifact_id in STREAM_DELTA_IDS:
            # Stream the text without storing an artifact, because a stream delta is a preview of a message.
            text = "".join(part.text for part in given.parts)
            name = f"delta/{self._request.turn.id}"
            if not append:
                # Close the stream of the earlier text, because a chunk without `append` replaces that text.
                yield from self._sequencer.close(name)
            yield from self._sequencer.add(Chunk(text, name))
            if last_chunk:
                yield from self._sequencer.close(name)
            return
        artifact = with_artifact_id(self._request, without_reserved_metadata(given))
        continues = append and artifact.artifact_id in self._earlier and artifact.artifact_id not in self._opened
        # Use an idempotency key for a chunk of an earlier turn's artifact, because a restarted turn would append the
        # chunk twice. Other artifacts need no key, because a restarted turn replaces them.
        key = self._key(artifact.SerializeToString(deterministic=True)) if continues else ""
        append = append and (continues or artifact.artifact_id in self._opened)
        if not continues:
            self._opened.add(artifact.artifact_id)
        yield AgentArtifact(artifact, append, last_chunk, key, metadata)

    def _own(self, message: Message) -> Message:
        """Return a copy of the message with a message id, and without metadata keys reserved for the server.

        The message gets a new id if its id belongs to another message of the task. Otherwise it would replace that
        message in the task's history.
        """
        own = without_reserved_metadata(message)
        content = _content(own)
        if not own.message_id or self._contents.setdefault(own.message_id, content) != content:
            own.message_id = str(uuid7())
        return own

    def _intermediate(self, message: Message, metadata: dict[str, Any]) -> AgentMessage:
        """Return the emission of an intermediate message. If an earlier attempt has recorded it, use that id."""
        key = self._key(_content(message))
        recorded = self._recorded.get(key)
        if isinstance(recorded, TaskStatusUpdateEvent):
            message.message_id = recorded.status.message.message_id
        self._message = message
        return AgentMessage(message, key, metadata)

    def _changes(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in metadata.items() if self._metadata.get(key) != value}

    def _question(self, default: str) -> Message:
        """Return the question for a status without a message: the executor's last message, or else the default text."""
        return self._message or Message(message_id=str(uuid7()), role=Role.ROLE_AGENT, parts=[Part(text=default)])

    def _key(self, content: bytes) -> str:
        """Return the idempotency key of an emission.

        The key consists of the turn's id, a hash of the content, and the number of earlier emissions with equal content
        in this attempt. So a restarted turn gives repeated emissions the same keys.
        """
        if not self._restarts:
            return ""
        digest = hashlib.sha256(content).hexdigest()[:32]
        self._counts[digest] += 1
        return f"executor:{self._request.turn.id}/{digest}/{self._counts[digest]}"


def _may_precede_message(event: ExecutorEvent) -> bool:
    """Return True if the answer may be a Message after this event: for a Message, or for a new Task without content."""
    if isinstance(event, Task):
        submitted = event.status.state == TaskState.TASK_STATE_SUBMITTED and not event.status.HasField("message")
        return submitted and not event.artifacts and all(each.role == Role.ROLE_USER for each in event.history)
    return isinstance(event, Message)


def _opened_by_retry(request: TurnRequest) -> set[str]:
    """Return the ids of the artifacts that earlier attempts of this turn have opened."""
    return {
        entry.event.artifact.artifact_id
        for entry in request.recorded
        if isinstance(entry.event, TaskArtifactUpdateEvent) and not entry.event.append
    }


def _content(message: Message) -> bytes:
    """Return the serialized content of a message without its ids."""
    content = Message()
    content.CopyFrom(message)
    for field in ("message_id", "task_id", "context_id"):
        content.ClearField(field)
    return content.SerializeToString(deterministic=True)


def _metadata(given: Struct) -> dict[str, Any]:
    """Return metadata as a dict, without the keys reserved for the server."""
    return to_json(without_reserved_metadata(Message(metadata=given)).metadata) if given.fields else {}
