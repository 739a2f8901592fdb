"""What a graph streams, as emissions, and what its turn leaves behind (R59-R66)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from uuid_utils.compat import uuid7

from aion_core.agents.ending import INVOKED, last_words, rest_key, settled
from aion_core.agents.langgraph.added import Added, message_of
from aion_core.agents.langgraph.graph import OUTBOX
from aion_core.agents.langgraph.spoken import Speakers, is_internal
from aion_core.agents.langgraph.streamed import Streamed
from aion_core.agents.langgraph.thread import Past, as_messages, messages_of
from aion_core.agents.reaction import reaction_of
from aion_core.agents.reply import Left
from aion_core.agents.said import REPLY, SaidMessages
from aion_core.agents.sink import BrokeOff, ChunkSaid, IsTyping, Reacted, Replied
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted
from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.ports import Asked, Emission, Emitted, Noted, Said, Typing
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

HANDED = (ArtifactEmitted, MessageEmitted, MetadataEmitted, Reacted, Replied)
"""What a node hands over by `authoring.emit.hand`: counted, so that no checkpoint runs ahead of it."""

GRAPH_RUNS = ("values", "updates", "checkpoints")
"""The modes in which only a graph streams; what a task of a functional graph writes comes from a namespace too."""


class Outbound:
    """Hears one turn of a graph, event by event."""

    def __init__(
        self,
        asked: Asked,
        past: Past,
        streamed: Streamed,
        *,
        earlier: str = "",
        clears_outbox: bool = False,
        functional: bool = False,
    ) -> None:
        """`earlier` is what another process of the turn has streamed, and no state holds.

        `clears_outbox`: the state's outbox is empty since the turn began. `functional`: the graph has no state at all,
        and its values are what it returns.
        """
        self._asked, self._streamed, self._earlier, self._functional = asked, streamed, earlier, functional
        self._added = Added(messages_of(past.before))
        for values in past.since:
            self._added.see(messages_of(values))
        self._stale_outbox = None if clears_outbox else past.before.get(OUTBOX)
        self._speakers = Speakers()
        self._said = SaidMessages(asked)
        self._values: Any = None
        self._opened = {artifact.artifact_id for artifact in asked.task.artifacts}
        self._ordinals: dict[str, tuple[str, int]] = {}
        self._invoked: set[tuple[str, ...]] = {()}

    @property
    def sent(self) -> list[Message]:
        """The durable replies of the turn, in order."""
        return self._said.replies

    def hear(self, namespace: tuple[str, ...], mode: str, payload: Any) -> Iterator[Emission]:
        """Yield what the event has for the client; `namespace` is that of the subgraph it comes from."""
        if mode == "messages":
            # LangGraph sends whole messages here too, tool results among them: only a model's chunk is streamed.
            if isinstance(payload[0], AIMessageChunk) and not is_internal(payload[1]):
                yield from self._speakers.hear(payload[0], within=payload[1].get("langgraph_checkpoint_ns", ""))
            return
        if namespace not in self._invoked and mode in GRAPH_RUNS:
            self._invoked.add(namespace)
            # What a node calls a second time is counted, and that comes last; the name is the node's.
            name = next((part.partition(":")[0] for part in reversed(namespace) if ":" in part), namespace[-1])
            yield Noted({INVOKED: name}, f"{'|'.join(namespace)}/invoked")
        if mode == "custom":
            yield from self._emit(payload)
        elif mode == "values" and not namespace:
            self._values = payload
            self._added.see(messages_of(payload))
        elif mode == "updates":
            # A node has ended, and its model calls with it.
            yield from self._speakers.end_of(namespace, payload)

    def silence(self) -> Iterator[Emission]:
        """Yield what is still to be heard of the model calls, since the turn goes on in another process."""
        yield from self._speakers.end_all()

    def before_question(self, messages: Sequence[BaseMessage]) -> Iterator[Emission]:
        """Yield what the turn has answered before its question, the state's messages being these, unless it was said.

        The turn that takes the client's answer has an answer of its own; this one would be lost.
        """
        yield from self._speakers.end_all()
        self._added.see(messages)
        answered = self._added.so_far()
        if answered is not None and self._said.reply is None and not self._said.holds(answered):
            yield from self._say(answered, rest_key(self._asked, "question"))

    def rest(self) -> Iterator[Emission]:
        """Yield what is still to be said once the last event is heard, the Reply last."""
        yield from self._speakers.end_all()
        left = Left(
            buffered=self._said.reply,
            outbox=self._outbox(),
            returned=self._returned(),
            spoken=self._speakers.last_text() or self._earlier,
            emitted=self._said.emitted,
        )
        yield from last_words(self._asked, left)

    def _emit(self, payload: Any) -> Iterator[Emission]:
        match payload:
            case ArtifactEmitted():
                yield self._artifact(payload)
            case MessageEmitted(message=AIMessageChunk() as chunk):
                # Chunks without an id are one message for each run of the node that emits them.
                chunk = chunk.model_copy(update={"id": chunk.id or payload.node})
                if not self._speakers.streams(chunk.id or ""):
                    self._streamed.emitted(chunk.id or "", str(chunk.text))
                    yield from self._speakers.hear(chunk, within=payload.node.rpartition("#")[0], emitted=True)
            case MessageEmitted(message=message):
                yield from self._say(message_of(message), self._key(payload.node))
            case MetadataEmitted():
                yield Noted(payload.metadata, self._key(payload.node))
            case ChunkSaid():
                yield from self._speakers.reply(payload.text, payload.message_id)
            case BrokeOff():
                yield from self._speakers.broke_off(payload.message_id)
            case Replied():
                # Recorded now, so that no crash can lose it; it is also the answer when the turn ends (D5).
                yield from self._say(payload.message, f"{REPLY}{self._key(payload.node) or uuid7()}")
                yield from self._speakers.replied(payload.message.message_id)
            case Reacted():
                yield reaction_of(self._asked, payload, self._key(payload.node), self._opened)
            case IsTyping():
                yield Typing()
            case _:
                # A graph may write what it likes to its own stream; only what the helpers make is meant for A2A.
                logger.debug("A custom event of the graph is not for A2A.")

    def _say(self, message: Message, key: str) -> Iterator[Said]:
        if (said := self._said.say(message, key)) is not None:
            yield said

    def _artifact(self, emitted: ArtifactEmitted) -> Emitted:
        """Return the artifact's event; an append needs an opening."""
        artifact = settled(self._asked, emitted.artifact)
        append = emitted.append and artifact.artifact_id in self._opened
        self._opened.add(artifact.artifact_id)
        return Emitted(artifact, append, emitted.last_chunk, self._key(emitted.node))

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

    def _returned(self) -> Message | None:
        return _value(self._values) if self._functional else self._added.answer(messages_of(self._values))

    def _outbox(self) -> A2AOutbox | None:
        given = self._values.get(OUTBOX) if isinstance(self._values, Mapping) else None
        return outbox_of(given) if given is not None and given != self._stale_outbox else None


def _value(values: Any) -> Message | None:
    """Return what a functional graph, an `@entrypoint`, returned, where that is a text, a message, or some of them."""
    if isinstance(values, str) and values:
        return Message(role=Role.ROLE_AGENT, parts=[Part(text=values)])
    returned = messages_of(values) if isinstance(values, Mapping) else as_messages(values)
    last = next((message for message in reversed(returned) if isinstance(message, AIMessage) and message.text), None)
    return message_of(last) if last is not None else None
