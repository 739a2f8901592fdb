"""What an executor enqueues, as what a turn says: each event once, under the server's ids, and one end."""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import Struct
from uuid_utils.compat import uuid7

from aion_core.agents.executor.queue import What
from aion_core.agents.outbound import (
    DurableReply,
    Reaction,
    ReplyChunk,
    StreamAborted,
    TypingSignal,
    reaction_artifact,
    with_artifact_id,
)
from aion_core.errors import AgentFailed
from aion_core.ports import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    AgentTyping,
    Chunk,
    Emission,
    InputRequired,
    Reply,
    TurnRequest,
)
from aion_core.protocol.message_rules import without_reserved_metadata
from aion_core.protocol.types import (
    STREAM_DELTA_IDS,
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
from aion_core.tasks import lifecycle

logger = logging.getLogger(__name__)

NOTHING_SAID = "The executor returned without an answer, and did not say how the task has ended."


class Outbound:
    """Hears one turn of an executor, event by event."""

    def __init__(self, asked: TurnRequest, *, repeats: bool) -> None:
        """`repeats`: whether a turn may be run again from its message, and say again what is recorded."""
        self._asked, self._repeats = asked, repeats
        self.ending: Reply | InputRequired | None = None
        """How the turn ended, once the executor has said so."""
        self._heard = self._answered = False
        self._waits: InputRequired | None = None
        """The authorization that the executor waits for, or returns to wait for."""
        self._said: Message | None = None
        """The last message on the way."""
        self._replied: Message | None = None
        """The last durable reply by a helper; it is the answer of an end that has none of its own (D5)."""
        self._metadata = MessageToDict(asked.task.metadata)
        self._before = {artifact.artifact_id for artifact in asked.task.artifacts} - _opened_in(asked)
        """The artifacts of the task's earlier turns."""
        self._opened: set[str] = set()
        self._reactions = set(self._before)
        """Those, and the reactions of this turn."""
        self._repeated: Counter[str] = Counter()
        self._recorded = {entry.key: entry.event for entry in asked.recorded if entry.key}

    def hear(self, what: What) -> Iterator[Emission]:
        """Yield what is to be recorded of it; what comes after the end is ignored, with a warning."""
        if self.ending is not None:
            logger.warning("A %s after the executor's end is ignored.", type(what).__name__)
            return
        for emission in self._emissions(what):
            if isinstance(emission, Reply | InputRequired):
                self.ending = emission
            self._answered = self._answered or isinstance(emission, AgentMessage | AgentArtifact)
            yield emission
        self._heard = True

    def returned(self) -> Reply | InputRequired:
        """Return how a turn ends whose executor has returned without an end: completed, with what it said last.

        Raises AgentFailed where it has said nothing that could be an answer.
        """
        if self._waits is not None:
            return self._waits
        if not self._answered:
            raise AgentFailed(NOTHING_SAID)
        return Reply(self._replied or self._said)

    def _emissions(self, what: What) -> Iterator[Emission]:
        match what:
            case Message():
                yield Reply(_own(what))
            case TaskStatusUpdateEvent():
                yield from self._status(what.status, _metadata(what.metadata))
            case TaskArtifactUpdateEvent():
                yield from self._artifact(what.artifact, what.append, what.last_chunk, _metadata(what.metadata))
            case Task():
                yield from self._task(what)
            case DurableReply():
                self._replied = what.message
                yield self._say(self._replied, {})
            case ReplyChunk():
                yield Chunk(what.text, what.message_id)
            case StreamAborted():
                yield Chunk("", what.message_id, breaks_off=True)
            case TypingSignal():
                yield AgentTyping()
            case Reaction():
                key = self._key(what.key.encode() + what.message_id.encode())
                yield reaction_artifact(self._asked, what, key, self._reactions)

    def _status(self, status: TaskStatus, metadata: dict[str, Any]) -> Iterator[Emission]:
        message = _own(status.message) if status.HasField("message") else None
        if status.state in lifecycle.TERMINAL:
            yield Reply(message or self._replied, status.state, metadata)
        elif status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            yield InputRequired(message or self._question("The agent waits for an answer."), status.state, metadata)
        else:
            waits = status.state == TaskState.TASK_STATE_AUTH_REQUIRED
            self._waits = None
            if message is not None:
                yield self._say(message, metadata)
            elif changes := self._changes(metadata):
                yield AgentMetadata(changes, self._key(repr(sorted(changes.items())).encode()))
            if waits:
                # An executor may wait in execute() for an authorization that is given elsewhere, and then go on: the
                # client hears of it at once, and the turn ends with it only where execute() returns (SDK: AgentExecutor).
                self._waits = InputRequired(
                    self._said
                    if message is not None and self._said is not None
                    else self._question("The agent waits for an authorization."),
                    status.state,
                    metadata,
                )
            self._metadata |= metadata

    def _task(self, task: Task) -> Iterator[Emission]:
        """Yield what the executor's own Task adds to the server's; one that comes later is ignored, as by the SDK."""
        if self._heard or self._asked.before() is not None:
            logger.warning("The task is there already: the executor's Task is ignored. Enqueue its updates.")
            return
        for artifact in task.artifacts:
            yield from self._artifact(artifact, append=False, last_chunk=True, metadata={})
        for message in task.history:
            if message.role != Role.ROLE_USER:
                yield self._say(_own(message), {})
        yield from self._status(task.status, _metadata(task.metadata))

    def _artifact(
        self, given: Artifact, append: bool, last_chunk: bool, metadata: dict[str, Any]
    ) -> Iterator[Emission]:
        if given.artifact_id in STREAM_DELTA_IDS:
            # A preview of what is being said, and no part of the task (R62).
            yield Chunk("".join(part.text for part in given.parts), f"delta/{self._asked.turn.id}")
            return
        artifact = with_artifact_id(self._asked, without_reserved_metadata(given))
        continues = append and artifact.artifact_id in self._before and artifact.artifact_id not in self._opened
        # What the lost try of a turn has recorded under this id is replaced by its repeat. What continues an artifact
        # of an earlier turn cannot be: there, the same is not said twice.
        key = self._key(artifact.SerializeToString(deterministic=True)) if continues else ""
        append = append and (continues or artifact.artifact_id in self._opened)
        if not continues:
            self._opened.add(artifact.artifact_id)
        yield AgentArtifact(artifact, append, last_chunk, key, metadata)

    def _say(self, message: Message, metadata: dict[str, Any]) -> AgentMessage:
        key = self._key(_content(message))
        recorded = self._recorded.get(key)
        if isinstance(recorded, TaskStatusUpdateEvent):
            message.message_id = recorded.status.message.message_id
        self._said = message
        return AgentMessage(message, key, metadata)

    def _changes(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        return {key: held for key, held in metadata.items() if self._metadata.get(key) != held}

    def _question(self, otherwise: str) -> Message:
        """Return what was said last, as the question of an executor that asks without one."""
        return self._said or Message(message_id=str(uuid7()), role=Role.ROLE_AGENT, parts=[Part(text=otherwise)])

    def _key(self, content: bytes) -> str:
        """Return what tells this from its repeat: what it says, and how often this try has said the same before."""
        if not self._repeats:
            return ""
        digest = hashlib.sha256(content).hexdigest()[:32]
        self._repeated[digest] += 1
        return f"executor:{self._asked.turn.id}/{digest}/{self._repeated[digest]}"


def _opened_in(asked: TurnRequest) -> set[str]:
    """Return the artifacts that an earlier try of this turn has opened."""
    return {
        entry.event.artifact.artifact_id
        for entry in asked.recorded
        if isinstance(entry.event, TaskArtifactUpdateEvent) and not entry.event.append
    }


def _own(message: Message) -> Message:
    """Return a copy without the server's keys, with an id; the other ids are set where it is recorded (R75, R76)."""
    own = without_reserved_metadata(message)
    own.message_id = own.message_id or str(uuid7())
    return own


def _content(message: Message) -> bytes:
    """Return what a message says, whatever its ids."""
    content = Message()
    content.CopyFrom(message)
    for field in ("message_id", "task_id", "context_id"):
        content.ClearField(field)
    return content.SerializeToString(deterministic=True)


def _metadata(given: Struct) -> dict[str, Any]:
    return MessageToDict(_clean(given)) if given.fields else {}


def _clean(struct: Struct) -> AnyMessage:
    # A Struct by itself is no metadata of anything yet.
    return without_reserved_metadata(Message(metadata=struct)).metadata
