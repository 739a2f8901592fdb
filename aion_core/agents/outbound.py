"""Output of a turn for every framework: streamed messages, replies, reactions and the final emissions."""

import logging
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import ParseDict
from msgspec import Struct
from msgspec.structs import replace

from aion_core.agents.inbound import inbound_of
from aion_core.authoring.types import A2AOutbox
from aion_core.ports import AgentArtifact, AgentMessage, Chunk, Emission, Reply, TurnRequest
from aion_core.protocol.aion.extensions import react
from aion_core.protocol.message_rules import is_reserved, without_reserved_metadata
from aion_core.protocol.types import (
    STREAM_DELTA_IDS,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
    to_json,
)
from aion_core.tasks import lifecycle

logger = logging.getLogger(__name__)

# ── Streamed messages ─────────────────────────────────────────────────────────────────────────────────────────────────


class StreamSequencer:
    """Sequencer of concurrent message streams. Clients receive the chunks of one message at a time.

    While one message streams, the chunks of the others are buffered, and they follow at its end. So chunks of two
    messages are never interleaved.
    """

    def __init__(self) -> None:
        self._open = ""
        self._buffered: dict[str, list[Chunk]] = {}
        self._closed: set[str] = set()

    def add(self, chunk: Chunk) -> list[Chunk]:
        """Return the chunk to send it now, or buffer it if another message is streaming."""
        self._closed.discard(chunk.message_id)
        if self._open and chunk.message_id != self._open:
            self._buffered.setdefault(chunk.message_id, []).append(chunk)
            return []
        self._open = chunk.message_id
        return [chunk]

    def close(self, *message_ids: str) -> Iterator[Chunk]:
        """Mark messages as complete. If one of them is streaming, end it, and yield the chunks of the next messages."""
        self._closed.update(message_ids)
        if self._open and self._open in self._closed:
            yield Chunk("", self._open, ends=True)
            yield from self._next()

    def discard(self, message_id: str) -> Iterator[Chunk]:
        """Drop the buffered chunks of a message that is now complete, and yield the chunks of the next message."""
        self._buffered.pop(message_id, None)
        yield from self.close(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Abort a message. If it is streaming, yield an abort chunk and the buffered chunks of the next message."""
        self._closed.add(message_id)
        self._buffered.pop(message_id, None)
        if message_id == self._open:
            yield Chunk("", message_id, breaks_off=True)
            yield from self._next()

    def close_all(self) -> Iterator[Chunk]:
        """Yield all buffered chunks at the end of the stream. Incomplete messages get no end chunk."""
        while self._open or self._buffered:
            yield from self._next()

    def _next(self) -> Iterator[Chunk]:
        self._open = ""
        while self._buffered and not self._open:
            message_id = next(iter(self._buffered))
            yield from self._buffered.pop(message_id)
            if message_id in self._closed:
                yield Chunk("", message_id, ends=True)
            else:
                self._open = message_id


# ── Values of the author's helpers ────────────────────────────────────────────────────────────────────────────────────

TARGET = "aion:target"
"""Metadata key of a reply for its target conversation. Only the server sets it."""


def speaker_of(message_id: str, **names: str) -> dict[str, str]:
    """Return the metadata of a stream delta: the id of its message, and the names of its speaker that are not empty.

    `node` is a LangGraph node, `agent` the sub-agent as in `agentInvoked`, and `branch` the place of an ADK agent among
    agents that run at once.
    """
    return {key: name for key, name in {"messageId": message_id, **names}.items() if name}


class ReplyChunk(Struct, frozen=True):
    """Streamed text chunk of a reply, from a helper of the author's code."""

    text: str
    message_id: str
    node: str = ""
    """Name of the run of the LangGraph node. See `running_node`."""
    agent: str = ""
    """Name of the ADK agent."""
    branch: str = ""
    """Branch of the ADK agent."""


class StreamAborted(Struct, frozen=True):
    """Abort of a streamed reply or model message, which stays incomplete."""

    message_id: str


class DurableReply(Struct, frozen=True):
    """Complete reply from a helper of the author's code, to be recorded in the task's event log."""

    message: Message
    node: str


class Reaction(Struct, frozen=True):
    """Reaction of the agent to a message, such as an emoji."""

    key: str
    message_id: str
    node: str


class TypingSignal(Struct, frozen=True):
    """Request to show a typing indicator to clients."""


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────

REPLY = "reply:"
"""Prefix of the idempotency keys of durable replies."""
FINAL = "rest:"
"""Prefix of the idempotency keys of emissions at the end of a turn or at an interrupt."""

_IDS = uuid.UUID("5d3c9c5e-59a4-4a0f-9f0b-2f6d1c0f7e11")
"""UUID namespace for deterministic ids, so that a repeated emission gets the same id."""


class EmittedMessages:
    """Durable messages emitted by one turn, by idempotency key and by message id."""

    def __init__(self, request: TurnRequest) -> None:
        self._task_id = request.task.id
        self.replies: list[Message] = []
        """Durable replies of this turn, in order."""
        self.reply: Message | None = None
        """Last durable reply of this turn, which is the turn's answer."""
        self.intermediate: Message | None = None
        """Last intermediate message of this turn, before its final emissions."""
        self._by_key: dict[str, Message] = {}
        """Messages of this turn, by idempotency key."""
        self._by_id = _earlier_messages(request)
        """Agent messages of the task, by message id."""
        self._before = frozenset(self._by_id)
        """Ids of the task's agent messages before this turn."""
        for entry in request.recorded:
            # Messages recorded by an earlier attempt count as sent, because its nodes may not run again.
            if entry.key and isinstance(entry.event, TaskStatusUpdateEvent) and entry.event.status.HasField("message"):
                self._remember(entry.event.status.message, entry.key)

    def emit(self, given: Message, key: str) -> AgentMessage | None:
        """Return the emission of a message, or None if the task has the message already.

        If this turn has emitted a message with the same key, the emission carries that message.
        """
        message = self._by_key.get(key) or self._new(given, key)
        if message is None:
            return None
        self._remember(message, key)
        return AgentMessage(message, key)

    def get(self, key: str) -> Message | None:
        """Return the message that this turn emitted under the idempotency key, or None."""
        return self._by_key.get(key)

    def has(self, message_id: str) -> bool:
        """Return True if the task has a message of the agent with this id."""
        return message_id in self._by_id

    def of_others(self, is_streamed: Callable[[str], bool]) -> list[Message]:
        """Return the messages of this turn except those for whose message id `is_streamed` returns True."""
        return [message for message in self._by_key.values() if not is_streamed(message.message_id)]

    def latest_equal(self, message: Message, prefix: str) -> Message:
        """Return a message of this turn with the given message's parts, or else the given message.

        Only the turn's last message, and messages whose keys have the prefix, are compared. So a text has one id, even
        if the agent repeats it as its answer.
        """
        emitted = [
            each
            for key, each in self._by_key.items()
            if key.startswith(prefix) or each is next(reversed(self._by_key.values()))
        ]
        return next((each for each in reversed(emitted) if list(each.parts) == list(message.parts)), message)

    def contains(self, message: Message) -> bool:
        """Return True if this turn has emitted a message with the same parts, under any id."""
        return any(list(each.parts) == list(message.parts) for each in self._by_key.values())

    def has_other(self, message_id: str, message: Message) -> bool:
        """Return True if the task has a message with this id and other parts."""
        known = self._by_id.get(message_id)
        return known is not None and list(known.parts) != list(message.parts)

    def _new(self, given: Message, key: str) -> Message | None:
        """Return a copy of the message with an id unique in the task, or None if it was emitted before."""
        message = Message()
        message.CopyFrom(given)
        message.message_id = given.message_id or deterministic_id(self._task_id, key)
        known = self._by_id.get(message.message_id)
        if known is None:
            return message
        # An interrupted node that runs again repeats its generated ids and the ids of its replies. The client received
        # the message before the interrupt, perhaps with another text.
        if not given.message_id or (key.startswith(REPLY) and message.message_id in self._before):
            return None
        if known.parts == message.parts:
            return None
        # Clients identify a task's messages by id, so a second message with the same id would be lost.
        message.message_id = deterministic_id(message.message_id, self._task_id, key)
        return message

    def _remember(self, message: Message, key: str) -> None:
        self._by_id[message.message_id] = message
        if key:
            self._by_key[key] = message
        if key.startswith(REPLY):
            self.reply = message
            if all(each.message_id != message.message_id for each in self.replies):
                self.replies.append(message)
        elif not key.startswith(FINAL):
            self.intermediate = message


def deterministic_id(*names: str) -> str:
    """Return a UUID derived from the names. The same names always give the same UUID."""
    return str(uuid.uuid5(_IDS, "\0".join(names)))


def _earlier_messages(request: TurnRequest) -> dict[str, Message]:
    """Return the agent's messages before the turn's message in the task's history, by id."""
    messages: dict[str, Message] = {}
    for message in request.task.history:
        if message.message_id == request.message.message_id:
            return messages
        if message.role == Role.ROLE_AGENT:
            messages[message.message_id] = message
    return {}


# ── Reactions ─────────────────────────────────────────────────────────────────────────────────────────────────────────

REACTION = "aion:reaction"
"""Id, or prefix of the id, of the artifact that represents a reaction."""
REACTION_NAME = "Reaction"


def reaction_artifact(request: TurnRequest, reaction: Reaction, key: str, opened: set[str]) -> AgentArtifact:
    """Return the artifact that represents a reaction, and add its id to `opened`, the ids of the artifacts so far.

    A reaction to a message from a source network is a ReactionActionPayload with the ids of that network. Any other
    reaction is an artifact with the reaction's key and the messageId.
    """
    ours = reaction.message_id == request.message.message_id
    action = react(inbound_of(request), reaction.key) if ours else None
    if action is None:
        data = {"data": {"key": reaction.key, "messageId": reaction.message_id}}
        plain = Artifact(
            artifact_id=f"{REACTION}:{reaction.message_id}", name=REACTION_NAME, parts=[ParseDict(data, Part())]
        )
        return AgentArtifact(plain, key=key)
    # A second reaction must not replace the first one in the task.
    action.artifact_id = f"{REACTION}:{reaction.message_id}:{reaction.key}" if REACTION in opened else REACTION
    action.name = REACTION_NAME
    opened.add(action.artifact_id)
    # Aion's clients read the event's metadata. The artifact has the same metadata for readers of the stored task.
    return AgentArtifact(action, key=key, metadata=to_json(action.metadata))


# ── End of the turn ───────────────────────────────────────────────────────────────────────────────────────────────────


class TurnOutput(Struct, frozen=True):
    """Possible answers of a turn, in order of precedence. The first non-empty one is the answer."""

    buffered: Message | None = None
    """Last durable reply sent with `thread.reply` or `message.reply`."""
    outbox: A2AOutbox | None = None
    """Outbox that the author's code has set as `a2a_outbox` in this turn."""
    returned: Message | None = None
    """Last answer that the framework's agent returned in this turn, such as a graph's last AIMessage."""
    streamed: Message | None = None
    """Streamed text of the turn's last model call."""
    output: Message | None = None
    """Other output of the agent, such as values of a graph's state."""
    emitted: Message | None = None
    """Last intermediate message."""


def _closing_emissions(output: TurnOutput) -> list[Emission]:
    """Return the remaining emissions at the end of a turn. The last one is the Reply."""
    if output.buffered is not None and output.outbox is not None:
        logger.warning("The turn has both a reply and an a2a_outbox: the reply is the answer.")
    if output.outbox is not None and output.outbox.task is not None:
        return _patch(output.outbox.task, output.buffered)
    if output.buffered is not None:
        return [Reply(output.buffered)]
    if output.outbox is not None and output.outbox.message is not None:
        return [Reply(without_reserved_metadata(output.outbox.message))]
    if output.returned is not None:
        return [Reply(output.returned)]
    return [Reply(output.streamed or output.output or output.emitted)]


def _patch(task: Task, buffered: Message | None) -> list[Emission]:
    """Return the emissions that merge an outbox Task into the server's task.

    They carry the artifacts, messages, metadata and final state of the outbox Task; its ids are ignored. The answer is
    its status message, else the last message of its history. With a buffered reply, that reply is the answer, and the
    outbox Task's messages are ignored.
    """
    patch = without_reserved_metadata(task)
    messages = [message for message in patch.history if message.role != Role.ROLE_USER]
    if patch.status.HasField("message"):
        messages.append(patch.status.message)
    answer = buffered or (messages[-1] if messages else None)
    before = [] if buffered is not None else messages[:-1]
    state = patch.status.state if patch.status.state in _FINAL_STATES else TaskState.TASK_STATE_COMPLETED
    return [
        # A stream delta is a preview of a message and not part of a task.
        *(AgentArtifact(artifact) for artifact in patch.artifacts if artifact.artifact_id not in STREAM_DELTA_IDS),
        *(AgentMessage(message) for message in before),
        Reply(answer, state, to_json(patch.metadata)),
    ]


_FINAL_STATES = lifecycle.TERMINAL_OR_INTERRUPTED
"""Final states that an author's outbox Task may set. Any other state becomes COMPLETED."""


INVOKED = "agentInvoked"
"""Key in a status update's metadata for the name of an invoked sub-agent."""


def final_emissions(request: TurnRequest, output: TurnOutput) -> Iterator[Emission]:
    """Yield the remaining emissions at the end of a turn, with idempotency keys and ids. The last one is the Reply."""
    for place, emission in enumerate(_closing_emissions(output)):
        # Another process may repeat the end of the turn, so the keys and ids are deterministic.
        if isinstance(emission, AgentArtifact):
            emission = replace(
                emission, artifact=with_artifact_id(request, emission.artifact), key=final_key(request, place)
            )
        elif isinstance(emission, AgentMessage):
            emission = replace(
                emission, message=_identified(request, emission.message, place), key=final_key(request, place)
            )
        elif isinstance(emission, Reply) and emission.message is not None:
            emission = replace(emission, message=_identified(request, emission.message, "answer"))
        yield emission


def final_key(request: TurnRequest, place: object) -> str:
    """Return the idempotency key of an emission at the end of the turn, from its place among them."""
    return f"{FINAL}{request.turn.id}/{place}"


def with_artifact_id(request: TurnRequest, given: Artifact) -> Artifact:
    """Return a copy of the artifact with an id.

    An artifact without an id, or with an id reserved for the server, gets an id derived from its task and its name.
    """
    artifact = Artifact()
    artifact.CopyFrom(given)
    if not artifact.artifact_id or is_reserved(artifact.artifact_id):
        artifact.artifact_id = deterministic_id(request.task.id, artifact.name)
    return artifact


def _identified(request: TurnRequest, message: Message, name: object) -> Message:
    """Set a deterministic id on a message without an id, so that a repeated end of the turn has the same id."""
    if not message.message_id:
        message.message_id = deterministic_id(request.turn.id, str(name))
    return message


# ── Internal events ───────────────────────────────────────────────────────────────────────────────────────────────────

internal_logger = logging.getLogger("aion_core.internal")


class InternalEvents:
    """Operators' log of one turn's model calls, tools and steps. It contains no content of the conversation."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._model_calls = 0
        self._steps = 0

    def llm_call(self) -> None:
        """Log `internal:llm-call` with the number of the call in this turn."""
        self._model_calls += 1
        self._log("llm-call", iteration=self._model_calls)

    def tool_start(self, name: str, call_id: str) -> None:
        """Log `internal:tool-start` without the tool's arguments."""
        self._log("tool-start", toolName=name, toolCallId=call_id)

    def tool_complete(self, call_id: str, *, success: bool) -> None:
        """Log `internal:tool-complete` with the success of the tool call."""
        self._log("tool-complete", toolCallId=call_id, success=success)

    def checkpoint(self) -> None:
        """Log `internal:checkpoint` with the number of the stored step in this turn."""
        self._steps += 1
        self._log("checkpoint", iteration=self._steps)

    def _log(self, kind: str, **fields: Any) -> None:
        if not internal_logger.isEnabledFor(logging.INFO):
            return
        event = {
            "kind": f"internal:{kind}",
            "taskId": self._task_id,
            **fields,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        internal_logger.info("internal:%s", kind, extra={"internal": event})
