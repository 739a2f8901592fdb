"""Emissions that the author's code makes with aion's helpers: files, data, messages, metadata and replies."""

import logging
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from uuid_utils import uuid7

from aion_core.agents.emission_ids import REPLY, deterministic_id, with_artifact_id
from aion_core.agents.emitted_messages import EmittedMessages
from aion_core.agents.helper_calls import DurableReply, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.agents.langgraph.model_streams import ModelStreams
from aion_core.agents.langgraph.parts import message_of
from aion_core.agents.langgraph.unreturned_output import UnreturnedOutput
from aion_core.agents.reactions import reaction_artifact
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted
from aion_core.engine.agent import AgentArtifact, AgentMessage, AgentMetadata, AgentTyping, Emission, TurnRequest
from aion_core.protocol.types import Message

logger = logging.getLogger(__name__)

NODE_EMISSIONS = (ArtifactEmitted, MessageEmitted, MetadataEmitted, Reaction, DurableReply)
"""Emissions that nodes make through `authoring.emit.write_emission`. They are recorded before the next checkpoint."""


def is_message(payload: Any) -> bool:
    """Return True for an event of the mode "custom" that sends a complete message to the client."""
    if isinstance(payload, MessageEmitted):
        return not isinstance(payload.message, AIMessageChunk)
    return isinstance(payload, DurableReply)


class AuthorEmissions:
    """Translator of what the nodes of one turn write with aion's helpers to LangGraph's stream writer."""

    def __init__(
        self, request: TurnRequest, emitted: EmittedMessages, streams: ModelStreams, unreturned: UnreturnedOutput
    ) -> None:
        self._request, self._emitted, self._streams, self._unreturned = request, emitted, streams, unreturned
        self.opened = {artifact.artifact_id for artifact in request.task.artifacts}
        """Ids of the task's artifacts."""
        self._ordinals: dict[str, tuple[str, int]] = {}
        self._unnamed: dict[str, str] = {}
        """Message ids of chunks without an id, by the run of their node."""

    def translate(self, payload: Any) -> Iterator[Emission]:
        """Yield the emissions of an event of the mode "custom"."""
        match payload:
            case ArtifactEmitted():
                yield self._artifact(payload)
            case MessageEmitted(message=AIMessageChunk() as chunk):
                chunk = chunk.model_copy(update={"id": chunk.id or self._unnamed_id(payload.node)})
                if not self._streams.has_streamed(chunk.id or ""):
                    self._unreturned.add_emitted(chunk.id or "", str(chunk.text))
                    yield from self._streams.add(chunk, namespace=payload.node.rpartition("#")[0], emitted=True)
            case MessageEmitted(message=message):
                # Close the stream of this message's chunks before the complete message is emitted.
                yield from self._streams.close(message.id or "", self._unnamed_id(payload.node))
                yield from self._message(message_of(message), self._key(payload.node))
            case MetadataEmitted():
                yield AgentMetadata(payload.metadata, self._key(payload.node))
            case ReplyChunk():
                run = payload.site.rpartition("#")[0]
                yield from self._streams.add_reply(payload.text, payload.message_id, namespace=run)
            case StreamAborted():
                yield from self._streams.abort(payload.message_id)
            case DurableReply():
                # Record the reply of `thread.reply` now, so that it survives a crash of the process. At the end of the
                # turn, its message becomes the answer of the task.
                yield from self._message(payload.message, f"{REPLY}{self._key(payload.site) or uuid7()}")
                yield from self._streams.discard_reply(payload.message.message_id)
            case Reaction():
                yield reaction_artifact(self._request, payload, self._key(payload.site), self.opened)
            case TypingSignal():
                yield AgentTyping()
            case _:
                # Ignore other values, because a graph may write any value to its stream. Only values from aion's
                # helpers become A2A events.
                logger.debug("A custom event of the graph is not for A2A.")

    def _message(self, message: Message, key: str) -> Iterator[AgentMessage]:
        if (emission := self._emitted.emit(message, key)) is not None:
            yield emission

    def _artifact(self, emitted: ArtifactEmitted) -> AgentArtifact:
        """Return the emission of an artifact. The first chunk of an artifact is never sent with `append`."""
        artifact = with_artifact_id(self._request, emitted.artifact)
        append = emitted.append and artifact.artifact_id in self.opened
        self.opened.add(artifact.artifact_id)
        return AgentArtifact(artifact, append, emitted.last_chunk, self._key(emitted.node))

    def _unnamed_id(self, node: str) -> str:
        """Return a message id for chunks without an id. The chunks of one run of a node form one message."""
        if node and node not in self._unnamed:
            self._unnamed[node] = deterministic_id(self._request.task.id, node)
        return self._unnamed.get(node, "")

    def _key(self, node: str) -> str:
        """Return the idempotency key of an emission, made of its node's run and a counter."""
        if not node:
            return ""
        # Restart the counter for a new attempt of the node, so that repeated emissions get the same keys.
        name, _, attempt = node.rpartition("#")
        tried, ordinal = self._ordinals.get(name, (attempt, 0))
        ordinal = ordinal if tried == attempt else 0
        self._ordinals[name] = (attempt, ordinal + 1)
        return f"{name}/{ordinal}"
