"""Output of a graph's turn: the translation of its stream events to emissions, and its answer."""

import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from uuid_utils.compat import uuid7

from aion_core.agents.inbound import inbound_of, thread_history
from aion_core.agents.langgraph.answers import (
    NO_ANSWER,
    AddedMessages,
    GraphAnswer,
    ReturnedMessages,
)
from aion_core.agents.langgraph.content import OUTBOX, Graph, message_of
from aion_core.agents.langgraph.thread import StateHistory, UnreturnedOutput, first_name, last_name, messages_of
from aion_core.agents.outbound import (
    FINAL,
    INVOKED,
    REPLY,
    TARGET,
    DurableReply,
    EmittedMessages,
    Reaction,
    ReplyChunk,
    StreamAborted,
    StreamSequencer,
    TurnOutput,
    TypingSignal,
    deterministic_id,
    final_emissions,
    final_key,
    reaction_artifact,
    speaker_of,
    with_artifact_id,
)
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.context import Thread
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted, running_node, write_emission
from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.ports import AgentArtifact, AgentMessage, AgentMetadata, AgentTyping, Chunk, Emission, TurnRequest
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

# ── Model calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

_QUIET = "aion_quiet"
"""Key in the metadata of a model call within a tool. LangGraph passes the metadata on with each chunk."""


def mark_quiet(metadata: MutableMapping[str, Any]) -> None:
    """Mark a model call within a tool, such as that of another agent: it does not speak to the client."""
    metadata[_QUIET] = True


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Return True for a model call of a tool or of a LangChain middleware, such as a summary of the conversation."""
    return "lc_internal_call" in metadata or "lc_source" in metadata or _QUIET in metadata


class ModelStreams:
    """Streams of a turn's model calls and replies, sequenced so that clients get one message at a time."""

    def __init__(self, invoked: Collection[tuple[str, ...]]) -> None:
        """Start without streams. `invoked` are the namespaces of the subgraphs that have started."""
        self._sequencer, self._invoked = StreamSequencer(), invoked
        self._namespaces: dict[str, tuple[str, ...]] = {}
        self._speakers: dict[str, dict[str, str]] = {}
        self._streamed: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        """Streamed text of each model call, by message id."""
        self._tool_callers: set[str] = set()
        """Message ids of model calls that call tools. Their text is intermediate and not an answer."""
        self._latest = ""

    def add(self, message: AIMessageChunk, *, namespace: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield a model's chunk now, or buffer it if another message is streaming.

        `namespace` is the checkpoint_ns of the node that calls the model. `emitted` is True for a chunk that a node
        emits itself.
        """
        call = message.id or ""
        if call not in self._namespaces:
            self._namespaces[call] = tuple(namespace.split("|"))
            self._speakers[call] = self._speaker(call, namespace)
        if not emitted:
            self._streamed.add(call)
        self._latest = call
        if message.tool_call_chunks or message.tool_calls:
            self._tool_callers.add(call)
        text = str(message.text)
        if text:
            self._texts.setdefault(call, []).append(text)
            yield from self._sequencer.add(Chunk(text, call, speaker=self._speakers[call]))
        if message.chunk_position == "last":
            yield from self._sequencer.close(call)

    def add_reply(self, text: str, message_id: str, *, namespace: str) -> Iterator[Chunk]:
        """Yield a reply's chunk now, or buffer it if another message is streaming."""
        yield from self._sequencer.add(Chunk(text, message_id, speaker=self._speaker(message_id, namespace)))

    def discard_reply(self, message_id: str) -> Iterator[Chunk]:
        """Drop the buffered chunks of a complete reply, and yield those of the next message."""
        yield from self._sequencer.discard(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Abort a model call or a reply, so that its text is not an answer. Yield the chunks that follow."""
        self._texts.pop(message_id, None)
        yield from self._sequencer.abort(message_id)

    def has_streamed(self, call: str) -> bool:
        """Return True if the model call streams by itself, so that chunks emitted by its node are duplicates."""
        return call in self._streamed

    def close(self, *message_ids: str) -> Iterator[Chunk]:
        """Close messages that are complete. Yield the chunks that follow."""
        yield from self._sequencer.close(*message_ids)

    def close_nodes(self, namespace: tuple[str, ...], nodes: Collection[str]) -> Iterator[Chunk]:
        """Close the model calls of these nodes of the graph at `namespace`. Yield the buffered chunks that follow."""
        depth = len(namespace)
        yield from self._sequencer.close(
            *(
                call
                for call, path in self._namespaces.items()
                if path == ("",) or (path[:depth] == namespace and first_name(path[depth:]) in nodes)
            )
        )

    def close_all(self) -> Iterator[Chunk]:
        """Close all streams and yield the buffered chunks."""
        yield from self._sequencer.close_all()

    def last_text(self) -> tuple[str, str]:
        """Return the text of the last model call, or if it has no text, of the last model call without tool calls.

        Its message id comes first. Both are empty without such a text.
        """
        answering = [call for call in self._texts if call == self._latest or call not in self._tool_callers]
        last = self._latest if self._latest in self._texts else answering[-1] if answering else ""
        return last, "".join(self._texts.get(last, []))

    def _speaker(self, message_id: str, namespace: str) -> dict[str, str]:
        """Return the metadata of a message's stream delta. The agent is the innermost started subgraph around its node."""
        path = tuple(namespace.split("|"))
        around = next((path[:depth] for depth in range(len(path) - 1, 0, -1) if path[:depth] in self._invoked), ())
        return speaker_of(message_id, node=last_name(path), agent=last_name(around))


# ── Replies of the author's helpers ───────────────────────────────────────────────────────────────────────────────────


class GraphReplySink:
    """`ReplySink` of one turn of a graph.

    Replies go through LangGraph's custom stream, from any node. So they follow the graph's order, and a repeated node
    gives them the same keys.
    """

    def __init__(self, request: TurnRequest) -> None:
        self._request = request
        self._replies: Counter[str] = Counter()

    def next_message_id(self) -> str:
        """Return the next reply's message id. A repeated node gets the same ids. See `ReplySink.next_message_id`."""
        node = running_node()
        if not node:
            return str(uuid7())
        self._replies[node] += 1
        return str(uuid.uuid5(_IDS, f"{self._request.task.id}\0{node}\0{self._replies[node]}"))

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """See `ReplySink.chunk`."""
        get_stream_writer()(ReplyChunk(text, message_id, running_node()))

    def abort(self, message_id: str) -> None:
        """See `ReplySink.abort`."""
        get_stream_writer()(StreamAborted(message_id))

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Tag the model calls within as `nostream`, so that LangGraph does not stream them.

        See `ReplySink.streaming`.
        """
        config = var_child_runnable_config.get() or {}
        quiet = var_child_runnable_config.set({**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]})
        try:
            yield
        finally:
            with suppress(ValueError):
                var_child_runnable_config.reset(quiet)

    async def reply(self, message: Message, *, target: str | None) -> None:
        """Write a reply with its target in the metadata to the stream. See `ReplySink.reply`."""
        if target is not None:
            message.metadata.update({TARGET: target})
        write_emission(get_stream_writer(), DurableReply(message, running_node()))

    async def react(self, key: str, *, message_id: str) -> None:
        """See `ReplySink.react`."""
        write_emission(get_stream_writer(), Reaction(key, message_id, running_node()))

    async def typing(self) -> None:
        """See `ReplySink.typing`."""
        get_stream_writer()(TypingSignal())

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[ThreadMessage]:
        """Return the latest messages of the context. The turn's message is the last. See `ReplySink.history`."""
        return await thread_history(self._request, thread, limit=limit, before=before)


_IDS = uuid.UUID("0d1c3f5e-6f5b-4a39-9a40-8c4a4bd0a6c1")
"""UUID namespace for the message ids of replies."""


# ── Events of the stream ──────────────────────────────────────────────────────────────────────────────────────────────

NODE_EMISSIONS = (ArtifactEmitted, MessageEmitted, MetadataEmitted, Reaction, DurableReply)
"""Emissions that nodes make through `authoring.emit.write_emission`. They are recorded before the next checkpoint."""

GRAPH_RUNS = ("values", "updates", "checkpoints")
"""Stream modes in which a namespace always means a subgraph. A functional graph's task writes custom events from a
namespace too."""


BESIDE_CALLS = f"{FINAL}words:"
"""Prefix of the idempotency keys of texts beside tool calls. They are not an answer unless they end the turn."""

TOGETHER = f"{FINAL}returned:"
"""Prefix of the idempotency keys of messages that one node has returned together."""


class LangGraphOutbound:
    """Translator of a graph's stream events to the emissions of one turn."""

    def __init__(
        self,
        request: TurnRequest,
        graph: Graph,
        history: StateHistory,
        streamed: UnreturnedOutput,
        *,
        earlier: str = "",
        clears_outbox: bool = False,
    ) -> None:
        """Start with the state's history and the streamed text of the turn so far.

        `earlier` is text that another process has streamed and that is not in the state. `clears_outbox` is True if the
        turn's input has cleared the outbox.
        """
        self._request, self._streamed, self._earlier = request, streamed, earlier
        self._answer = GraphAnswer(graph, history.before)
        self._answer.observe_steps(history.since)
        self._nested: dict[tuple[str, ...], AddedMessages] = {}
        """Messages in the states of the subgraphs, by namespace."""
        self._stale_outbox = None if clears_outbox else history.before.get(OUTBOX)
        self._emitted = EmittedMessages(request)
        self.sent = self._emitted.replies
        """Messages for the client that the graph's state may lack: durable replies, then the end of the turn."""
        self._in_state: set[str] = set()
        """Ids of emitted messages that the state has under other ids."""
        self._values: Any = None
        self._opened = {artifact.artifact_id for artifact in request.task.artifacts}
        self._ordinals: dict[str, tuple[str, int]] = {}
        self._invoked: set[tuple[str, ...]] = {()}
        self._model_streams = ModelStreams(self._invoked)
        self._unnamed: dict[str, str] = {}
        """Message ids of chunks without an id, by the run of their node."""

    def add_sent(self, message: Message) -> None:
        """Add a message of the end of the turn to the sent messages, unless the state has it under another id."""
        if message.message_id not in self._in_state:
            self.sent.append(message)

    def sent_beside_state(self) -> list[Message]:
        """Return the durable replies that the graph's last values do not contain as messages with the same ids."""
        known = {message.id for message in messages_of(self._values)}
        return [message for message in self.sent if message.message_id not in known]

    def translate(self, namespace: tuple[str, ...], mode: str, payload: Any) -> Iterator[Emission]:
        """Yield the emissions of one stream event. `namespace` is that of its subgraph, empty for the graph itself."""
        if mode == "messages":
            # LangGraph also sends whole messages here, such as tool results. Only a model's chunks are streamed.
            if isinstance(payload[0], AIMessageChunk) and not is_internal(payload[1]):
                yield from self._model_streams.add(payload[0], namespace=payload[1].get("langgraph_checkpoint_ns", ""))
            return
        if namespace not in self._invoked and mode in GRAPH_RUNS:
            self._invoked.add(namespace)
            yield AgentMetadata({INVOKED: last_name(namespace)}, f"{'|'.join(namespace)}/invoked")
        if mode == "custom":
            yield from self._emit(payload)
        elif mode == "values" and not namespace:
            self._values = payload
            self._answer.added.observe(messages_of(payload))
            yield from self._words_beside_calls()
        elif mode == "values":
            self._nested.setdefault(namespace, AddedMessages([])).observe(messages_of(payload))
        elif mode == "updates":
            if not namespace:
                self._answer.observe_update(payload)
            # The nodes in this update have ended, and so have their model calls.
            yield from self._model_streams.close_nodes(namespace, payload)

    def returned_together(self, returned: ReturnedMessages) -> Iterator[Emission]:
        """Yield the messages that a node has returned together, without those in its state already.

        The answer of the turn has the id of its message. A reply of the author's code is the answer in place of them.
        """
        state = self._nested.get(returned.namespace) if returned.namespace else self._answer.added
        new = [message for message in returned.messages if state is None or not state.contains(message)]
        if len(new) > 1 and self._emitted.reply is None:
            for number, message in enumerate(new):
                yield from self._message(message_of(message), f"{TOGETHER}{returned.run}/{number}")

    def close_streams(self) -> Iterator[Emission]:
        """Yield the buffered chunks of all streams, before the turn continues in another process."""
        yield from self._model_streams.close_all()

    def answer_before_interrupt(self, messages: Sequence[BaseMessage]) -> Iterator[Emission]:
        """Yield the last AIMessage that the turn added before an interrupt, unless it was emitted already.

        `messages` are the messages of the state. The next turn does not emit this message, so it would be lost.
        """
        yield from self._model_streams.close_all()
        self._answer.added.observe(messages)
        yield from self._words_beside_calls()
        answer = self._answer.added.latest_answer()
        if answer is not None and self._emitted.reply is None and not self._emitted.contains(answer):
            yield from self._message(answer, final_key(self._request, "question"))

    def finish(self) -> Iterator[Emission]:
        """Yield the remaining emissions after the last stream event. The last one is the Reply."""
        yield from self._model_streams.close_all()
        for number, message in enumerate(self._answer.returned_before(self._values)):
            yield from self._message(message_of(message), f"{TOGETHER}{self._request.turn.id}/{number}")
        output = TurnOutput(
            buffered=self._emitted.reply,
            outbox=self._outbox(),
            returned=self._under_its_id(self._answer.returned(self._values)),
            streamed=self._streamed_text(),
            output=self._answer.output(self._values, self._streamed.structured),
            emitted=self._emitted.intermediate,
        )
        if output == TurnOutput() and inbound_of(self._request).event is None:
            output = replace(output, output=self._answer.written(self._values) if not self._opened else None)
            if output == TurnOutput():
                logger.warning(NO_ANSWER)
        yield from final_emissions(self._request, output)

    def _under_its_id(self, returned: Message | None) -> Message | None:
        """Return a message that the turn has emitted with the same content, or else the returned message itself."""
        message = self._emitted.latest_equal(returned, TOGETHER) if returned is not None else None
        if message is not None and message is not returned:
            self._in_state.add(message.message_id)
        return message

    def _streamed_text(self) -> Message | None:
        """Return the text of the last model call as a message, from this process or from an earlier one."""
        message_id, text = self._model_streams.last_text()
        message = Message(role=Role.ROLE_AGENT, parts=[Part(text=text or self._earlier)])
        if text and not self._emitted.has_other(message_id, message):
            message.message_id = message_id
        return message if text or self._earlier else None

    def _emit(self, payload: Any) -> Iterator[Emission]:
        match payload:
            case ArtifactEmitted():
                yield self._artifact(payload)
            case MessageEmitted(message=AIMessageChunk() as chunk):
                chunk = chunk.model_copy(update={"id": chunk.id or self._unnamed_id(payload.node)})
                if not self._model_streams.has_streamed(chunk.id or ""):
                    self._streamed.add_emitted(chunk.id or "", str(chunk.text))
                    yield from self._model_streams.add(chunk, namespace=payload.node.rpartition("#")[0], emitted=True)
            case MessageEmitted(message=message):
                # The whole message is the end of its chunks.
                yield from self._model_streams.close(message.id or "", self._unnamed_id(payload.node))
                yield from self._message(message_of(message), self._key(payload.node))
            case MetadataEmitted():
                yield AgentMetadata(payload.metadata, self._key(payload.node))
            case ReplyChunk():
                run = payload.node.rpartition("#")[0]
                yield from self._model_streams.add_reply(payload.text, payload.message_id, namespace=run)
            case StreamAborted():
                yield from self._model_streams.abort(payload.message_id)
            case DurableReply():
                # Record the reply now, so that no crash loses it. It is also the answer at the end of the turn.
                yield from self._message(payload.message, f"{REPLY}{self._key(payload.node) or uuid7()}")
                yield from self._model_streams.discard_reply(payload.message.message_id)
            case Reaction():
                yield reaction_artifact(self._request, payload, self._key(payload.node), self._opened)
            case TypingSignal():
                yield AgentTyping()
            case _:
                # A graph may write any value to its stream. Only values written by the helpers become A2A events.
                logger.debug("A custom event of the graph is not for A2A.")

    def _message(self, message: Message, key: str) -> Iterator[AgentMessage]:
        if (emission := self._emitted.emit(message, key)) is not None:
            yield emission

    def _artifact(self, emitted: ArtifactEmitted) -> AgentArtifact:
        """Return the emission of an artifact. The first chunk of an artifact is never marked as appended."""
        artifact = with_artifact_id(self._request, emitted.artifact)
        append = emitted.append and artifact.artifact_id in self._opened
        self._opened.add(artifact.artifact_id)
        return AgentArtifact(artifact, append, emitted.last_chunk, self._key(emitted.node))

    def _unnamed_id(self, node: str) -> str:
        """Return the message id of the chunks without an id from one run of a node. They form one message."""
        if node and node not in self._unnamed:
            self._unnamed[node] = deterministic_id(self._request.task.id, node)
        return self._unnamed.get(node, "")

    def _key(self, node: str) -> str:
        """Return the idempotency key of an emission, from the run of its node and a counter."""
        if not node:
            return ""
        # A retried node repeats its emissions from the first one, so the counter starts again.
        name, _, attempt = node.rpartition("#")
        tried, ordinal = self._ordinals.get(name, (attempt, 0))
        ordinal = ordinal if tried == attempt else 0
        self._ordinals[name] = (attempt, ordinal + 1)
        return f"{name}/{ordinal}"

    def _words_beside_calls(self) -> Iterator[Emission]:
        """Yield the text that a model has added to its tool calls, as intermediate messages."""
        for number, message in self._answer.added.beside_tool_calls():
            key = f"{BESIDE_CALLS}{self._request.turn.id}/{number}"
            if self._emitted.get(key) is None:
                yield from self._model_streams.close(message.id or "")
                yield from self._message(message_of(message), key)

    def _outbox(self) -> A2AOutbox | None:
        given = self._values.get(OUTBOX) if isinstance(self._values, Mapping) else None
        return outbox_of(given) if given is not None and given != self._stale_outbox else None
