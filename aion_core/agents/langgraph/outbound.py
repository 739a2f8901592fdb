"""What a graph streams, as emissions, and what its turn leaves behind (R59-R66)."""

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.json_format import ParseDict
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from uuid_utils.compat import uuid7

from aion_core.agents.langgraph.sink import ChunkSaid, IsTyping, Reacted, Replied
from aion_core.agents.langgraph.spoken import ModelCalls
from aion_core.agents.langgraph.thread import messages_of
from aion_core.agents.reply import Left, resolve
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted
from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.ports import Asked, Chunk, Emission, Emitted, Noted, Reply, Said, Typing
from aion_core.protocol.extensions import is_reserved
from aion_core.protocol.types import Artifact, Message, Part, Role, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)

INVOKED = "agentInvoked"
"""The metadata key of the status update that says which sub-agent was invoked (R39)."""
REACTION = "aion:reaction"
"""What the id of a reaction's artifact begins with."""

HANDED = (ArtifactEmitted, MessageEmitted, MetadataEmitted, Reacted, Replied)
"""What a node hands over by `authoring.emit.hand`: counted, so that no checkpoint runs ahead of it."""

REPLY = "reply:"
"""What the key of a durable reply begins with, to be known among what was recorded."""

_ARTIFACTS = uuid.UUID("5d3c9c5e-59a4-4a0f-9f0b-2f6d1c0f7e11")
"""The namespace of the ids that artifacts get from their task and name."""


class Outbound:
    """Hears one turn of a graph, event by event."""

    def __init__(self, asked: Asked, before: Mapping[str, Any], *, clears_outbox: bool) -> None:
        """`before` are the state's values as the turn found them; `clears_outbox`: its outbox is empty since then."""
        self._asked = asked
        self._before = messages_of(before)
        self._stale_outbox = None if clears_outbox else before.get("a2a_outbox")
        self._calls = ModelCalls()
        self.sent: list[Message] = []
        """The durable replies of the turn, in order."""
        self._values: Any = None
        self._emitted: Message | None = None
        self._opened = {artifact.artifact_id for artifact in asked.task.artifacts}
        self._ordinals: dict[str, tuple[str, int]] = {}
        self._invoked: set[tuple[str, ...]] = {()}
        self._buffered: Message | None = None
        self._said: dict[str, Message] = {}
        for entry in asked.recorded:
            # What an earlier try of this turn has said is said; its nodes may not run again to say it.
            if entry.key and isinstance(entry.event, TaskStatusUpdateEvent) and entry.event.status.HasField("message"):
                self._said[entry.key] = entry.event.status.message
                self._remember(entry.event.status.message, entry.key)

    def hear(self, namespace: tuple[str, ...], mode: str, payload: Any) -> Iterator[Emission]:
        """Yield what the event has for the client; `namespace` is that of the subgraph it comes from."""
        if namespace not in self._invoked:
            self._invoked.add(namespace)
            name = namespace[-1].partition(":")[0]
            yield Noted({INVOKED: name}, f"{'|'.join(namespace)}/invoked")
        if mode == "messages":
            # LangGraph sends whole messages here too, tool results among them: only a model's chunk is streamed.
            if isinstance(payload[0], AIMessageChunk):
                yield from self._calls.hear(payload[0])
        elif mode == "custom":
            yield from self._emit(payload)
        elif mode == "values" and not namespace:
            self._values = payload
        elif mode == "updates":
            # A node has ended, and its model calls with it.
            yield from self._calls.end_all()

    def rest(self) -> Iterator[Emission]:
        """Yield what is still to be said once the last event is heard, the Reply last."""
        yield from self._calls.end_all()
        left = Left(
            buffered=self._buffered,
            outbox=self._outbox(),
            returned=answer_of(self._messages(), self._before) or _returned_value(self._values),
            spoken=self._calls.last_text(),
            emitted=self._emitted,
        )
        for emission in resolve(left):
            if isinstance(emission, Emitted):
                emission = replace(emission, artifact=self._settled(emission.artifact))
            elif isinstance(emission, Reply) and emission.message is not None:
                emission = replace(emission, message=self._identified(emission.message))
            yield emission

    def _emit(self, payload: Any) -> Iterator[Emission]:
        match payload:
            case ArtifactEmitted():
                yield self._artifact(payload)
            case MessageEmitted(message=AIMessageChunk() as chunk):
                yield from self._calls.hear(chunk, emitted=True)
            case MessageEmitted(message=message):
                yield self._say(message_of(message), self._key(payload.node))
            case MetadataEmitted():
                yield Noted(payload.metadata, self._key(payload.node))
            case ChunkSaid():
                yield Chunk(payload.text, payload.message_id)
            case Replied():
                # Recorded now, so that no crash can lose it; it is also the answer when the turn ends (D5).
                yield self._say(payload.message, f"{REPLY}{self._key(payload.node) or uuid7()}")
            case Reacted():
                yield self._reaction(payload)
            case IsTyping():
                yield Typing()
            case _:
                # A graph may write what it likes to its own stream; only what the helpers make is meant for A2A.
                logger.debug("A custom event of the graph is not for A2A.")

    def _say(self, message: Message, key: str) -> Said:
        # A node that runs again says what it said: the message keeps the id by which it is known.
        message = self._said.get(key, message)
        if not message.message_id:
            message.message_id = str(uuid7())
        if key:
            self._said[key] = message
        self._remember(message, key)
        return Said(message, key)

    def _remember(self, message: Message, key: str) -> None:
        if key.startswith(REPLY):
            self._buffered = message
            if all(said.message_id != message.message_id for said in self.sent):
                self.sent.append(message)
        else:
            self._emitted = message

    def _artifact(self, emitted: ArtifactEmitted) -> Emitted:
        """Return the artifact's event; an append needs an opening."""
        artifact = self._settled(emitted.artifact)
        append = emitted.append and artifact.artifact_id in self._opened
        self._opened.add(artifact.artifact_id)
        return Emitted(artifact, append, emitted.last_chunk, self._key(emitted.node))

    def _settled(self, given: Artifact) -> Artifact:
        """Settle an artifact's identity: the id that was given, else (task, name); ids of the server's are its own."""
        artifact = Artifact()
        artifact.CopyFrom(given)
        if not artifact.artifact_id or is_reserved(artifact.artifact_id):
            artifact.artifact_id = str(uuid.uuid5(_ARTIFACTS, f"{self._asked.task.id}\0{artifact.name}"))
        return artifact

    def _identified(self, message: Message) -> Message:
        """Give the answer an id that it has again where the turn's end is reached again."""
        if not message.message_id:
            message.message_id = str(uuid.uuid5(_ARTIFACTS, f"{self._asked.turn.id}\0answer"))
        return message

    def _reaction(self, reacted: Reacted) -> Emitted:
        data = {"data": {"key": reacted.key, "messageId": reacted.message_id}}
        artifact = Artifact(
            artifact_id=f"{REACTION}:{reacted.message_id}", name="Reaction", parts=[ParseDict(data, Part())]
        )
        return Emitted(artifact, key=self._key(reacted.node))

    def _key(self, node: str) -> str:
        """Return what tells this emission from its repeat: the node's run, and how many it has made before."""
        if not node:
            return ""
        # A node that is tried again, after an error, begins to say the same again.
        name, _, attempt = node.rpartition("#")
        tried, ordinal = self._ordinals.get(name, (attempt, 0))
        ordinal = ordinal if tried == attempt else 0
        self._ordinals[name] = (attempt, ordinal + 1)
        return f"{name}/{ordinal}"

    def _messages(self) -> Sequence[Any]:
        messages = self._values.get("messages") if isinstance(self._values, Mapping) else None
        return messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()

    def _outbox(self) -> A2AOutbox | None:
        given = self._values.get("a2a_outbox") if isinstance(self._values, Mapping) else None
        return outbox_of(given) if given is not None and given != self._stale_outbox else None


def answer_of(messages: Sequence[Any], before: Sequence[BaseMessage]) -> Message | None:
    """Return the last AIMessage with text that was added, or changed, since `before`; never an older one (D7, R80).

    Messages are told apart by their ids; where they have none, by their place.
    """
    known = {message.id: message.content for message in before if message.id}
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if not isinstance(message, AIMessage) or not message.text:
            continue
        if message.id in known and known[message.id] == message.content:
            continue
        if not message.id and place < len(before):
            continue
        return message_of(message)
    return None


def message_of(message: AIMessage) -> Message:
    """Return the AIMessage as an A2A message: one text part, and its id where it has one (R79, R80)."""
    # Half a surrogate pair cannot be kept.
    text = str(message.text).encode("utf-8", "replace").decode()
    return Message(role=Role.ROLE_AGENT, message_id=message.id or "", parts=[Part(text=text)])


def _returned_value(values: Any) -> Message | None:
    """Return what a functional graph, an `@entrypoint`, returned, where that is a text or a message."""
    if isinstance(values, AIMessage) and values.text:
        return message_of(values)
    if isinstance(values, str) and values:
        return Message(role=Role.ROLE_AGENT, parts=[Part(text=values)])
    return None
