"""Output of a turn, the same for every framework: its streamed messages, its replies and its end."""

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from aion_core.agents.inbound import inbound_of
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.context import Thread, User
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
)
from aion_core.tasks import lifecycle

logger = logging.getLogger(__name__)

# ── Streamed messages ─────────────────────────────────────────────────────────────────────────────────────────────────


class Floor:
    """Puts chunks in order, by the id of their message: a stream delta carries one message at a time (R61, R63).

    While one is open the chunks of the others wait, and follow when it has ended: a client sees whole answers, never two
    woven into one.
    """

    def __init__(self) -> None:
        self._open = ""
        self._waiting: dict[str, list[Chunk]] = {}
        self._ended: set[str] = set()

    def speak(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the chunk, unless another message has the word."""
        if self._open and chunk.message_id != self._open:
            self._waiting.setdefault(chunk.message_id, []).append(chunk)
        else:
            self._open = chunk.message_id
            yield chunk

    def end(self, *message_ids: str) -> Iterator[Chunk]:
        """Yield what has waited for these messages, of which nothing more comes."""
        self._ended.update(message_ids)
        if self._open in self._ended:
            yield from self._next()

    def leave(self, message_id: str) -> Iterator[Chunk]:
        """Yield what has waited for this message, which has been said as a whole: what of it has waited need not be."""
        self._waiting.pop(message_id, None)
        if message_id == self._open:
            yield from self._next()

    def broke_off(self, message_id: str) -> Iterator[Chunk]:
        """Yield that no more comes of the message, and what has waited for it."""
        self._ended.add(message_id)
        if message_id == self._open:
            yield Chunk("", message_id, breaks_off=True)
        yield from self.leave(message_id)

    def end_all(self) -> Iterator[Chunk]:
        """Yield what waits, since all that had the word have ended."""
        self._ended.add(self._open)
        self._ended.update(self._waiting)
        yield from self._next()

    def _next(self) -> Iterator[Chunk]:
        self._open = ""
        while self._waiting and not self._open:
            speaker = next(iter(self._waiting))
            yield from self._waiting.pop(speaker)
            self._open = "" if speaker in self._ended else speaker


# ── Values of the author's helpers ────────────────────────────────────────────────────────────────────────────────────

TARGET = "aion:target"
"""Where a reply goes, in its metadata; the server's to set."""


@dataclass(frozen=True, slots=True)
class ChunkSaid:
    """A chunk of a reply, as it comes."""

    text: str
    message_id: str


@dataclass(frozen=True, slots=True)
class BrokeOff:
    """No more comes of what was being said under this id, a reply or a model's message: it is not whole."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Replied:
    """A durable reply."""

    message: Message
    node: str


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction to a message."""

    key: str
    message_id: str
    node: str


@dataclass(frozen=True, slots=True)
class IsTyping:
    """The agent is writing."""


async def history_of(asked: TurnRequest, thread: Thread, *, limit: int, before: str | None) -> Sequence[ThreadMessage]:
    """Return what was said in the turn's context, as `ReplySink.history` does: the turn's own message last."""
    if limit <= 0:
        return []
    said = await _said(asked, limit, before)
    names = {Role.ROLE_AGENT: asked.context.agent}
    owner = asked.context.owner
    return [
        ThreadMessage(raw=message, user=User(names.get(message.role, owner)), thread=thread)
        for message in said[-limit:]
    ]


async def _said(asked: TurnRequest, limit: int, before: str | None) -> list[Message]:
    this = asked.message
    if asked.history is None:
        # Only the task is at hand.
        said = list(asked.task.history)
        place = next((n for n, message in enumerate(said) if message.message_id == before), len(said))
        return said[:place]
    if before not in (None, this.message_id):
        return list(await asked.history(limit, before))
    # Whoever reads the context may or may not count the message that it is being read for.
    earlier = [each for each in await asked.history(limit + 1, None) if each.message_id != this.message_id]
    return earlier if before is not None else [*earlier, this]


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────

REPLY = "reply:"
"""What the key of a durable reply begins with, to be known among what was recorded."""
REST = "rest:"
"""What the key begins with of what is said when the graph has ended, or asks."""

_IDS = uuid.UUID("5d3c9c5e-59a4-4a0f-9f0b-2f6d1c0f7e11")
"""The namespace of the ids that are made again where the same is said again."""


class SaidMessages:
    """The durable messages of one turn, by their keys and ids."""

    def __init__(self, asked: TurnRequest) -> None:
        self._task_id = asked.task.id
        self.replies: list[Message] = []
        """The durable replies, in order."""
        self.reply: Message | None = None
        """The one that was said last, which is the turn's answer (D5)."""
        self.emitted: Message | None = None
        """The last message that is none of the replies."""
        self._by_key: dict[str, Message] = {}
        """What this turn has said."""
        self._by_id = _said_before(asked)
        """What the task has said."""
        self._before = frozenset(self._by_id)
        """The ids of what it had said before this turn."""
        for entry in asked.recorded:
            # What an earlier try of this turn has said is said; its nodes may not run again to say it.
            if entry.key and isinstance(entry.event, TaskStatusUpdateEvent) and entry.event.status.HasField("message"):
                self._remember(entry.event.status.message, entry.key)

    def say(self, given: Message, key: str) -> AgentMessage | None:
        """Return the message as it is to be recorded, None where it was said before.

        What has this key in the log already, since its node runs again, is returned as it is there.
        """
        message = self._by_key.get(key) or self._new(given, key)
        if message is None:
            return None
        self._remember(message, key)
        return AgentMessage(message, key)

    def under(self, key: str) -> Message | None:
        """Return what this turn has said under the key, None where it has not."""
        return self._by_key.get(key)

    def holds(self, message: Message) -> bool:
        """Tell whether this turn has said the same, under whichever id."""
        return any(list(said.parts) == list(message.parts) for said in self._by_key.values())

    def _new(self, given: Message, key: str) -> Message | None:
        """Return a copy with an id that no other message of the task has, None where it was said before."""
        message = Message()
        message.CopyFrom(given)
        message.message_id = given.message_id or made_id(self._task_id, key)
        known = self._by_id.get(message.message_id)
        if known is None:
            return message
        # An id that was made for its key, and a reply's of an earlier turn, come again where the node runs again that
        # asked: it has said this before its question, if in other words.
        if not given.message_id or (key.startswith(REPLY) and message.message_id in self._before):
            return None
        if known.parts == message.parts:
            return None
        # A task's messages are told apart by their ids: under the id of another one this would be lost.
        message.message_id = made_id(message.message_id, self._task_id, key)
        return message

    def _remember(self, message: Message, key: str) -> None:
        self._by_id[message.message_id] = message
        if key:
            self._by_key[key] = message
        if key.startswith(REPLY):
            self.reply = message
            if all(said.message_id != message.message_id for said in self.replies):
                self.replies.append(message)
        elif not key.startswith(REST):
            self.emitted = message


def made_id(*names: str) -> str:
    """Return an id that is the same whenever it is made of the same names."""
    return str(uuid.uuid5(_IDS, "\0".join(names)))


def _said_before(asked: TurnRequest) -> dict[str, Message]:
    """Return what the agent said in the task before the turn's message, by its id."""
    said: dict[str, Message] = {}
    for message in asked.task.history:
        if message.message_id == asked.message.message_id:
            return said
        if message.role == Role.ROLE_AGENT:
            said[message.message_id] = message
    return {}


# ── Reactions ─────────────────────────────────────────────────────────────────────────────────────────────────────────

REACTION = "aion:reaction"
"""The id of a reaction's artifact, by which Aion's clients know it; or what it begins with."""
NAME = "Reaction"


def reaction_of(asked: TurnRequest, reacted: Reacted, key: str, opened: set[str]) -> AgentArtifact:
    """Return a reaction to a message as the client hears it; `opened` are the ids of the artifacts, it is added to them.

    To the message of a source network it is a ReactionActionPayload in that network's own ids; to any other it holds
    the key and the messageId.
    """
    ours = reacted.message_id == asked.message.message_id
    action = react(inbound_of(asked), reacted.key) if ours else None
    if action is None:
        data = {"data": {"key": reacted.key, "messageId": reacted.message_id}}
        plain = Artifact(artifact_id=f"{REACTION}:{reacted.message_id}", name=NAME, parts=[ParseDict(data, Part())])
        return AgentArtifact(plain, key=key)
    # A second reaction does not take the first one's place in the task.
    action.artifact_id = f"{REACTION}:{reacted.message_id}:{reacted.key}" if REACTION in opened else REACTION
    action.name = NAME
    opened.add(action.artifact_id)
    # Aion's clients look at the event for what it is; the artifact says it to who reads the task.
    return AgentArtifact(action, key=key, metadata=MessageToDict(action.metadata))


# ── End of the turn ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Left:
    """The outputs of a turn in order of precedence: the first one is its answer."""

    buffered: Message | None = None
    """The last durable reply that went through a helper: `thread.reply`, `message.reply`."""
    outbox: A2AOutbox | None = None
    """What the author returned as `a2a_outbox`, in this turn."""
    returned: Message | None = None
    """The last answer that the framework itself added in this turn."""
    spoken: str = ""
    """What the last model call of this turn streamed."""
    emitted: Message | None = None
    """The last message that was emitted on the way; it is the answer only where there is no other (D6)."""


def resolve(left: Left) -> list[Emission]:
    """Return what is still to be said, the last of it the Reply."""
    if left.buffered is not None and left.outbox is not None:
        logger.warning("The turn has both a reply and an a2a_outbox: the reply is the answer (D5).")
    if left.outbox is not None and left.outbox.task is not None:
        return _patch(left.outbox.task, left.buffered)
    if left.buffered is not None:
        return [Reply(left.buffered)]
    if left.outbox is not None and left.outbox.message is not None:
        return [Reply(without_reserved_metadata(left.outbox.message))]
    if left.returned is not None:
        return [Reply(left.returned)]
    if left.spoken:
        return [Reply(Message(role=Role.ROLE_AGENT, parts=[Part(text=left.spoken)]))]
    return [Reply(left.emitted)]


def _patch(task: Task, buffered: Message | None) -> list[Emission]:
    """Return an outbox Task as what it adds to the server's: its artifacts, messages, metadata and end (R78).

    Its ids are ignored (R75). Its status message is the answer, else the last message of its history; where a reply
    was buffered that is the answer, and the messages are left out (D5).
    """
    patch = without_reserved_metadata(task)
    said = [message for message in patch.history if message.role != Role.ROLE_USER]
    if patch.status.HasField("message"):
        said.append(patch.status.message)
    answer = buffered or (said[-1] if said else None)
    before = [] if buffered is not None else said[:-1]
    state = patch.status.state if patch.status.state in _ENDS else TaskState.TASK_STATE_COMPLETED
    return [
        # A stream delta is a preview, and no part of a task (R62).
        *(AgentArtifact(artifact) for artifact in patch.artifacts if artifact.artifact_id not in STREAM_DELTA_IDS),
        *(AgentMessage(message) for message in before),
        Reply(answer, state, MessageToDict(patch.metadata)),
    ]


_ENDS = lifecycle.TERMINAL_OR_INTERRUPTED
"""How an author's Task may say that the turn ended; an outbox Task that says FAILED ends FAILED."""


INVOKED = "agentInvoked"
"""The metadata key of the status update that says which sub-agent was invoked (R39)."""


def last_words(asked: TurnRequest, left: Left) -> Iterator[Emission]:
    """Yield what is still to be said of what the turn has left, the Reply last."""
    for place, emission in enumerate(resolve(left)):
        # The end may be reached again, by another process: what was said of it keeps its key and its id.
        if isinstance(emission, AgentArtifact):
            emission = replace(emission, artifact=settled(asked, emission.artifact), key=rest_key(asked, place))
        elif isinstance(emission, AgentMessage):
            emission = replace(
                emission, message=_identified(asked, emission.message, place), key=rest_key(asked, place)
            )
        elif isinstance(emission, Reply) and emission.message is not None:
            emission = replace(emission, message=_identified(asked, emission.message, "answer"))
        yield emission


def rest_key(asked: TurnRequest, place: object) -> str:
    """Return the key of what is said at this place of the turn's end."""
    return f"{REST}{asked.turn.id}/{place}"


def settled(asked: TurnRequest, given: Artifact) -> Artifact:
    """Settle an artifact's identity: the id that was given, else (task, name); ids of the server's are its own."""
    artifact = Artifact()
    artifact.CopyFrom(given)
    if not artifact.artifact_id or is_reserved(artifact.artifact_id):
        artifact.artifact_id = made_id(asked.task.id, artifact.name)
    return artifact


def _identified(asked: TurnRequest, message: Message, name: object) -> Message:
    """Give a message of the turn's end an id that it has again where that is reached again."""
    if not message.message_id:
        message.message_id = made_id(asked.turn.id, str(name))
    return message


# ── Internal events ───────────────────────────────────────────────────────────────────────────────────────────────────

internal_logger = logging.getLogger("aion_core.internal")


class InternalEvents:
    """Logs one turn's model calls, tools and steps: lines of fixed fields, without any content; no client sees them."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._model_calls = 0
        self._steps = 0

    def llm_call(self) -> None:
        """Log `internal:llm-call`, with which of the turn's calls it is."""
        self._model_calls += 1
        self._log("llm-call", iteration=self._model_calls)

    def tool_start(self, name: str, call_id: str) -> None:
        """Log `internal:tool-start`; the arguments are not logged."""
        self._log("tool-start", toolName=name, toolCallId=call_id)

    def tool_complete(self, call_id: str, *, success: bool) -> None:
        """Log `internal:tool-complete`."""
        self._log("tool-complete", toolCallId=call_id, success=success)

    def checkpoint(self) -> None:
        """Log `internal:checkpoint`, with which of the turn's steps is stored."""
        self._steps += 1
        self._log("checkpoint", iteration=self._steps)

    def _log(self, kind: str, **fields: Any) -> None:
        event = {
            "kind": f"internal:{kind}",
            "taskId": self._task_id,
            **fields,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        internal_logger.info("internal:%s", kind, extra={"internal": event})
