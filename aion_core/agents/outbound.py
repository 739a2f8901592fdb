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
from aion_core.engine.agent import AgentArtifact, AgentMessage, Chunk, Emission, Reply, TurnRequest
from aion_core.engine.task import states
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

logger = logging.getLogger(__name__)

# ── Streamed messages ─────────────────────────────────────────────────────────────────────────────────────────────────


class StreamSequencer:
    """Sequencer for concurrent message streams. Clients receive the chunks of one message at a time.

    While one message streams, the chunks of the other messages are buffered. They are sent after it has ended, so
    chunks of two messages are never mixed.
    """

    def __init__(self) -> None:
        self.open = ""
        """Id of the message that is streaming; "" without one."""
        self._buffered: dict[str, list[Chunk]] = {}
        self._closed: set[str] = set()

    def add(self, chunk: Chunk) -> list[Chunk]:
        """Return the chunk to be sent now, or buffer it if another message is streaming."""
        self._closed.discard(chunk.message_id)
        if self.open and chunk.message_id != self.open:
            self._buffered.setdefault(chunk.message_id, []).append(chunk)
            return []
        self.open = chunk.message_id
        return [chunk]

    def close(self, *message_ids: str) -> Iterator[Chunk]:
        """Mark messages as complete. If one of them is streaming, end it and yield the buffered chunks of the next."""
        self._closed.update(message_ids)
        if self.open and self.open in self._closed:
            yield Chunk("", self.open, ends=True)
            yield from self._next()

    def discard(self, message_id: str) -> Iterator[Chunk]:
        """Drop the buffered chunks of a message that is complete. Yield the chunks of the next message."""
        self._buffered.pop(message_id, None)
        yield from self.close(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Abort a message. If it is streaming, yield an abort chunk and the buffered chunks of the next message."""
        self._closed.add(message_id)
        self._buffered.pop(message_id, None)
        if message_id == self.open:
            yield Chunk("", message_id, breaks_off=True)
            yield from self._next()

    def close_all(self) -> Iterator[Chunk]:
        """Yield all buffered chunks at the turn's end. Incomplete messages get no end chunk."""
        while self.open or self._buffered:
            yield from self._next()

    def _next(self) -> Iterator[Chunk]:
        self.open = ""
        while self._buffered and not self.open:
            message_id = next(iter(self._buffered))
            yield from self._buffered.pop(message_id)
            if message_id in self._closed:
                yield Chunk("", message_id, ends=True)
            else:
                self.open = message_id


# ── Values of the author's helpers ────────────────────────────────────────────────────────────────────────────────────

TARGET = "aion:target"
"""Metadata key of a reply for its target conversation. Only the server sets it."""


def speaker_of(message_id: str, **names: str) -> dict[str, str]:
    """Return the metadata of a stream delta: the id of its message, and the speaker's names, without empty names.

    `node` is a LangGraph node, `agent` the sub-agent as in `agentInvoked`, and `branch` identifies an ADK agent among
    those that run concurrently.
    """
    return {key: name for key, name in {"messageId": message_id, **names}.items() if name}


class ReplyChunk(Struct, frozen=True):
    """Text chunk of a reply that a helper of the author's code streams."""

    text: str
    message_id: str
    node: str = ""
    """Name of the run of the LangGraph node. See `running_node`."""
    agent: str = ""
    """Name of the ADK agent."""
    branch: str = ""
    """Branch of the ADK agent."""


class StreamAborted(Struct, frozen=True):
    """Notice that a streamed reply or model message was aborted and stays incomplete."""

    message_id: str


class DurableReply(Struct, frozen=True):
    """Complete reply from a helper of the author's code. It is recorded in the task's event log."""

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
    """Durable messages that one turn has emitted, by idempotency key and by message id."""

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
            # Include messages recorded by an earlier attempt, because nodes that finished then do not run again.
            if entry.key and isinstance(entry.event, TaskStatusUpdateEvent) and entry.event.status.HasField("message"):
                self._remember(entry.event.status.message, entry.key)

    def emit(self, given: Message, key: str) -> AgentMessage | None:
        """Return the emission of a message; None if the task has the message already.

        If this turn has emitted a message with the same key, return that message again, so that it keeps its id.
        """
        message = self._by_key.get(key) or self._new(given, key)
        if message is None:
            return None
        self._remember(message, key)
        return AgentMessage(message, key)

    def get(self, key: str) -> Message | None:
        """Return the message that this turn has emitted with this idempotency key, or None."""
        return self._by_key.get(key)

    def has(self, message_id: str) -> bool:
        """Return True if the task has a message of the agent with this id."""
        return message_id in self._by_id

    def of_others(self, is_streamed: Callable[[str], bool]) -> list[Message]:
        """Return the messages of this turn except those whose id `is_streamed` accepts."""
        return [message for message in self._by_key.values() if not is_streamed(message.message_id)]

    def latest_equal(self, message: Message, prefix: str) -> Message:
        """Return a message that this turn has emitted with the same parts; if there is none, return the given message.

        Compare only the last emitted message and those whose idempotency keys begin with `prefix`. So a text that the
        agent returns a second time, as its answer, keeps its message id.
        """
        emitted = [
            each
            for key, each in self._by_key.items()
            if key.startswith(prefix) or each is next(reversed(self._by_key.values()))
        ]
        return next((each for each in reversed(emitted) if list(each.parts) == list(message.parts)), message)

    def contains(self, message: Message) -> bool:
        """Return True if this turn has emitted a message with the same parts. The ids may differ."""
        return any(list(each.parts) == list(message.parts) for each in self._by_key.values())

    def has_other(self, message_id: str, message: Message) -> bool:
        """Return True if the task has a message with this id but other parts."""
        known = self._by_id.get(message_id)
        return known is not None and list(known.parts) != list(message.parts)

    def _new(self, given: Message, key: str) -> Message | None:
        """Return a copy of the message with an id that is unique in the task; None if it was emitted before."""
        message = Message()
        message.CopyFrom(given)
        message.message_id = given.message_id or deterministic_id(self._task_id, key)
        known = self._by_id.get(message.message_id)
        if known is None:
            return message
        # Emit nothing if an interrupted node runs again and so repeats its generated ids or the ids of its replies. The
        # client has received these messages before the interrupt, perhaps with another text.
        if not given.message_id or (key.startswith(REPLY) and message.message_id in self._before):
            return None
        if known.parts == message.parts:
            return None
        # Use another id, because clients identify messages by id and would ignore a second message with the same id.
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
    """Return the agent's messages in the task's history before the turn's message, by id."""
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
    """Return the artifact that represents a reaction, and add its id to `opened`.

    A reaction to a message of a source network is a ReactionActionPayload with that network's ids. Any other reaction
    is an artifact with the reaction's key and the messageId. `opened` has the ids of the artifacts so far.
    """
    ours = reaction.message_id == request.message.message_id
    action = react(inbound_of(request), reaction.key) if ours else None
    if action is None:
        data = {"data": {"key": reaction.key, "messageId": reaction.message_id}}
        plain = Artifact(
            artifact_id=f"{REACTION}:{reaction.message_id}", name=REACTION_NAME, parts=[ParseDict(data, Part())]
        )
        return AgentArtifact(plain, key=key)
    # Use another id for a second reaction, so that it does not replace the first reaction in the task.
    action.artifact_id = f"{REACTION}:{reaction.message_id}:{reaction.key}" if REACTION in opened else REACTION
    action.name = REACTION_NAME
    opened.add(action.artifact_id)
    # Copy the artifact's metadata to the event, because Aion's clients read the metadata of the event. Clients that get
    # the stored task read the metadata of the artifact.
    return AgentArtifact(action, key=key, metadata=to_json(action.metadata))


# ── End of the turn ───────────────────────────────────────────────────────────────────────────────────────────────────


class TurnOutput(Struct, frozen=True):
    """Possible answers of a turn, in order of precedence. The first that is not None is the answer."""

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
    """The turn's last intermediate message."""


def _closing_emissions(output: TurnOutput) -> list[Emission]:
    """Return the remaining emissions at the end of a turn, ending with the Reply."""
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

    They have the artifacts, messages, metadata and final state of the outbox Task, but not its ids. The answer is the
    status message of the outbox Task, else the last message of its history. If the author's code has sent a reply, the
    reply replaces all messages of the outbox Task.
    """
    patch = without_reserved_metadata(task)
    messages = [message for message in patch.history if message.role != Role.ROLE_USER]
    if patch.status.HasField("message"):
        messages.append(patch.status.message)
    answer = buffered or (messages[-1] if messages else None)
    before = [] if buffered is not None else messages[:-1]
    state = patch.status.state if patch.status.state in _FINAL_STATES else TaskState.TASK_STATE_COMPLETED
    return [
        # Skip stream deltas: they are previews of messages, not part of a task.
        *(AgentArtifact(artifact) for artifact in patch.artifacts if artifact.artifact_id not in STREAM_DELTA_IDS),
        *(AgentMessage(message) for message in before),
        Reply(answer, state, to_json(patch.metadata)),
    ]


_FINAL_STATES = states.TERMINAL_OR_INTERRUPTED
"""Final states that an author's outbox Task may set. Any other state becomes COMPLETED."""


INVOKED = "agentInvoked"
"""Key in a status update's metadata for the name of an invoked sub-agent."""


def final_emissions(request: TurnRequest, output: TurnOutput) -> Iterator[Emission]:
    """Yield the remaining emissions at a turn's end, with idempotency keys and ids, ending with the Reply."""
    for place, emission in enumerate(_closing_emissions(output)):
        # Use deterministic keys and ids, because another process may repeat the end of the turn.
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
    """Return the idempotency key of an emission at the end of the turn. `place` is its name or number there."""
    return f"{FINAL}{request.turn.id}/{place}"


def with_artifact_id(request: TurnRequest, given: Artifact) -> Artifact:
    """Return a copy of the artifact with an id.

    If the id is missing or reserved for the server, derive an id from the task and the artifact's name.
    """
    artifact = Artifact()
    artifact.CopyFrom(given)
    if not artifact.artifact_id or is_reserved(artifact.artifact_id):
        artifact.artifact_id = deterministic_id(request.task.id, artifact.name)
    return artifact


def _identified(request: TurnRequest, message: Message, name: object) -> Message:
    """Give a message without an id a deterministic id, so that a repeated end of the turn emits the same id."""
    if not message.message_id:
        message.message_id = deterministic_id(request.turn.id, str(name))
    return message


# ── Internal events ───────────────────────────────────────────────────────────────────────────────────────────────────

internal_logger = logging.getLogger("aion_core.internal")


class InternalEvents:
    """Log of one turn's model calls, tools and steps, for operators. It has no content of the conversation."""

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
        """Log `internal:tool-complete`, with True or False for the tool call's success."""
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
