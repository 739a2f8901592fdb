"""Output of a graph: what it streams, as emissions, and what its turn leaves behind (R59-R66)."""

import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from uuid_utils.compat import uuid7

from aion_core.agents.langgraph.thread import OUTBOX, StateHistory, StreamedText, as_messages, messages_of
from aion_core.agents.outbound import (
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
    final_emissions,
    final_key,
    reaction_artifact,
    thread_history,
    with_artifact_id,
)
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.context import Thread
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted, hand, running_node
from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.ports import AgentArtifact, AgentMessage, AgentMetadata, AgentTyping, Chunk, Emission, TurnRequest
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

# ── Messages of the state ─────────────────────────────────────────────────────────────────────────────────────────────

Identity = tuple[str | None, str, str]
"""What tells messages apart: the id, and what is said; without an id, what is said alone."""


class AddedMessages:
    """Sees the state's messages after each step of a turn."""

    def __init__(self, before: Sequence[BaseMessage]) -> None:
        """`before` are the messages as the turn found them: none of them is ever its answer (D7)."""
        self._counts = Counter(map(_identity, before))
        self._before = {identity for identity in self._counts if identity[0]}
        self._new_identities: set[Identity] = set()
        self._all_added: list[AIMessage] = []
        """All that was added, in order, and may have been removed again."""

    def observe(self, messages: Sequence[BaseMessage]) -> None:
        """Note what is new since the last step, or has been changed: an edited message is another one."""
        counts = Counter(map(_identity, messages))
        new = {identity for identity, count in counts.items() if count > self._counts[identity]} - self._before
        self._counts = counts
        self._new_identities |= new
        self._all_added += _among(messages, new)

    def answer(self, messages: Sequence[BaseMessage]) -> Message | None:
        """Return the turn's last AIMessage with text (R80): of those that are there, else of those that were removed.

        Where the last has none, what was said along with a call of a tool is not the answer: it was said on the way.
        """
        last = _answer(_among(messages, self._new_identities)) or _answer(self._all_added)
        return message_of(last) if last is not None else None

    def latest_answer(self) -> Message | None:
        """Return the last AIMessage with text that the turn has added, other than along with a call of a tool."""
        last = _complete(self._all_added)
        return message_of(last) if last is not None else None


def message_of(message: AIMessage) -> Message:
    """Return the AIMessage as an A2A message: one text part, and its id where it has one (R79, R80)."""
    # Half a surrogate pair cannot be kept.
    text = str(message.text).encode("utf-8", "replace").decode()
    return Message(role=Role.ROLE_AGENT, message_id=message.id or "", parts=[Part(text=text)])


def _among(messages: Sequence[BaseMessage], identities: Collection[Identity]) -> list[AIMessage]:
    return [message for message in messages if isinstance(message, AIMessage) and _identity(message) in identities]


def _answer(messages: Sequence[AIMessage]) -> AIMessage | None:
    return messages[-1] if messages and messages[-1].text else _complete(messages)


def _complete(messages: Sequence[AIMessage]) -> AIMessage | None:
    return next((message for message in reversed(messages) if message.text and not message.tool_calls), None)


def _identity(message: BaseMessage) -> Identity:
    content: Any = message.content
    return message.id, message.type, content if isinstance(content, str) else repr(content)


# ── Model calls ───────────────────────────────────────────────────────────────────────────────────────────────────────


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a model call is some middleware's own, such as a summary of the conversation, by LangChain's marks."""
    return "lc_internal_call" in metadata or "lc_source" in metadata


class ModelStreams:
    """Puts the chunks of a turn's model calls and replies in order, by the id of their message."""

    def __init__(self) -> None:
        self._sequencer = StreamSequencer()
        self._namespaces: dict[str, tuple[str, ...]] = {}
        self._streamed: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        """What each model call has answering so far."""
        self._tool_callers: set[str] = set()
        """The calls that ask for tools: what they say on the way is no answer."""
        self._latest = ""

    def add(self, message: AIMessageChunk, *, namespace: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield what may be answering now, this chunk among it unless another call has the word.

        `namespace` is the checkpoint_ns of the node that the call is made in.
        """
        call = message.id or ""
        if call not in self._namespaces:
            self._namespaces[call] = tuple(namespace.split("|"))
        if not emitted:
            self._streamed.add(call)
        self._latest = call
        if message.tool_call_chunks or message.tool_calls:
            self._tool_callers.add(call)
        text = str(message.text)
        if text:
            self._texts.setdefault(call, []).append(text)
            yield from self._sequencer.add(Chunk(text, call))
        if message.chunk_position == "last":
            yield from self._sequencer.close(call)

    def add_reply(self, text: str, message_id: str) -> Iterator[Chunk]:
        """Yield what may be answering now, this chunk of a reply among it unless somebody else has the word."""
        yield from self._sequencer.add(Chunk(text, message_id))

    def discard_reply(self, message_id: str) -> Iterator[Chunk]:
        """Yield what has waited for the reply, which has been said as a whole: what of it has waited need not be."""
        yield from self._sequencer.discard(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Yield that no more comes of the call, or of the reply, and what has waited for it; it is nobody's answer."""
        self._texts.pop(message_id, None)
        yield from self._sequencer.abort(message_id)

    def has_streamed(self, call: str) -> bool:
        """Tell whether the call streams by itself: a chunk of it that a node emits has been heard already."""
        return call in self._streamed

    def close_nodes(self, namespace: tuple[str, ...], nodes: Collection[str]) -> Iterator[Chunk]:
        """Yield what waits for calls that have ended since: those namespace these nodes of the graph at the namespace."""
        depth = len(namespace)
        yield from self._sequencer.close(
            *(
                call
                for call, path in self._namespaces.items()
                if path == ("",) or (path[:depth] == namespace and _node(path[depth:]) in nodes)
            )
        )

    def close_all(self) -> Iterator[Chunk]:
        """Yield what waits, since the calls that had the word have ended."""
        yield from self._sequencer.close_all()

    def last_text(self) -> str:
        """Return all that one call has answering: the last, or, where it was silent, the last that asked for no tool."""
        answering = [call for call in self._texts if call == self._latest or call not in self._tool_callers]
        last = self._latest if self._latest in self._texts else answering[-1] if answering else ""
        return "".join(self._texts.get(last, []))


def _node(path: Sequence[str]) -> str:
    return path[0].partition(":")[0] if path else ""


# ── Replies of the author's helpers ───────────────────────────────────────────────────────────────────────────────────


class GraphReplySink:
    """`authoring.context.ReplySink` of one turn of a graph.

    Replies go through LangGraph's own custom stream, from whichever node, so that they keep the graph's order, and a node
    that runs again gives them the same keys.
    """

    def __init__(self, request: TurnRequest) -> None:
        self._request = request
        self._replies: Counter[str] = Counter()

    def next_message_id(self) -> str:
        """See `ReplySink.next_message_id`; a node that runs again gives its replies the ids that they had."""
        node = running_node()
        if not node:
            return str(uuid7())
        self._replies[node] += 1
        return str(uuid.uuid5(_IDS, f"{self._request.task.id}\0{node}\0{self._replies[node]}"))

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """See `ReplySink.chunk`."""
        get_stream_writer()(ReplyChunk(text, message_id))

    def abort(self, message_id: str) -> None:
        """See `ReplySink.abort`."""
        get_stream_writer()(StreamAborted(message_id))

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """See `ReplySink.streaming`; LangGraph does not stream a model that is called under its `nostream` tag."""
        config = var_child_runnable_config.get() or {}
        quiet = var_child_runnable_config.set({**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]})
        try:
            yield
        finally:
            with suppress(ValueError):
                var_child_runnable_config.reset(quiet)

    async def reply(self, message: Message, *, target: str | None) -> None:
        """See `ReplySink.reply`; where it goes is kept with it, for whoever distributes it."""
        if target is not None:
            message.metadata.update({TARGET: target})
        hand(get_stream_writer(), DurableReply(message, running_node()))

    async def react(self, key: str, *, message_id: str) -> None:
        """See `ReplySink.react`."""
        hand(get_stream_writer(), Reaction(key, message_id, running_node()))

    async def typing(self) -> None:
        """See `ReplySink.typing`."""
        get_stream_writer()(TypingSignal())

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[ThreadMessage]:
        """See `ReplySink.history`: what was said in the context, the turn's own message last."""
        return await thread_history(self._request, thread, limit=limit, before=before)


_IDS = uuid.UUID("0d1c3f5e-6f5b-4a39-9a40-8c4a4bd0a6c1")
"""The namespace of the ids of replies."""


# ── Events of the stream ──────────────────────────────────────────────────────────────────────────────────────────────

NODE_EMISSIONS = (ArtifactEmitted, MessageEmitted, MetadataEmitted, Reaction, DurableReply)
"""What a node hands over by `authoring.emit.hand`: counted, so that no checkpoint runs ahead of it."""

GRAPH_RUNS = ("values", "updates", "checkpoints")
"""The modes in which only a graph streams; what a task of a functional graph writes comes from a namespace too."""


class LangGraphOutbound:
    """Hears one turn of a graph, event by event."""

    def __init__(
        self,
        request: TurnRequest,
        history: StateHistory,
        streamed: StreamedText,
        *,
        earlier: str = "",
        clears_outbox: bool = False,
        functional: bool = False,
    ) -> None:
        """`earlier` is what another process of the turn has streamed, and no state holds.

        `clears_outbox`: the state's outbox is empty since the turn began. `functional`: the graph has no state at all,
        and its values are what it returns.
        """
        self._request, self._streamed, self._earlier, self._functional = request, streamed, earlier, functional
        self._added_messages = AddedMessages(messages_of(history.before))
        for values in history.since:
            self._added_messages.observe(messages_of(values))
        self._stale_outbox = None if clears_outbox else history.before.get(OUTBOX)
        self._model_streams = ModelStreams()
        self._emitted = EmittedMessages(request)
        self._values: Any = None
        self._opened = {artifact.artifact_id for artifact in request.task.artifacts}
        self._ordinals: dict[str, tuple[str, int]] = {}
        self._invoked: set[tuple[str, ...]] = {()}

    @property
    def sent(self) -> list[Message]:
        """The durable replies of the turn, in order."""
        return self._emitted.replies

    def translate(self, namespace: tuple[str, ...], mode: str, payload: Any) -> Iterator[Emission]:
        """Yield what the event has for the client; `namespace` is that of the subgraph it comes from."""
        if mode == "messages":
            # LangGraph sends whole messages here too, tool results among them: only a model's chunk is streamed.
            if isinstance(payload[0], AIMessageChunk) and not is_internal(payload[1]):
                yield from self._model_streams.add(payload[0], namespace=payload[1].get("langgraph_checkpoint_ns", ""))
            return
        if namespace not in self._invoked and mode in GRAPH_RUNS:
            self._invoked.add(namespace)
            # What a node calls a second time is counted, and that comes last; the name is the node's.
            name = next((part.partition(":")[0] for part in reversed(namespace) if ":" in part), namespace[-1])
            yield AgentMetadata({INVOKED: name}, f"{'|'.join(namespace)}/invoked")
        if mode == "custom":
            yield from self._emit(payload)
        elif mode == "values" and not namespace:
            self._values = payload
            self._added_messages.observe(messages_of(payload))
        elif mode == "updates":
            # A node has ended, and its model calls with it.
            yield from self._model_streams.close_nodes(namespace, payload)

    def close_streams(self) -> Iterator[Emission]:
        """Yield what is still to be heard of the model calls, since the turn goes on in another process."""
        yield from self._model_streams.close_all()

    def answer_before_interrupt(self, messages: Sequence[BaseMessage]) -> Iterator[Emission]:
        """Yield what the turn has answer before its question, the state's messages being these, unless it was said.

        The turn that takes the client's answer has an answer of its own; this one would be lost.
        """
        yield from self._model_streams.close_all()
        self._added_messages.observe(messages)
        answer = self._added_messages.latest_answer()
        if answer is not None and self._emitted.reply is None and not self._emitted.contains(answer):
            yield from self._message(answer, final_key(self._request, "question"))

    def finish(self) -> Iterator[Emission]:
        """Yield what is still to be said once the last event is heard, the Reply last."""
        yield from self._model_streams.close_all()
        output = TurnOutput(
            buffered=self._emitted.reply,
            outbox=self._outbox(),
            returned=self._returned(),
            spoken=self._model_streams.last_text() or self._earlier,
            emitted=self._emitted.intermediate,
        )
        yield from final_emissions(self._request, output)

    def _emit(self, payload: Any) -> Iterator[Emission]:
        match payload:
            case ArtifactEmitted():
                yield self._artifact(payload)
            case MessageEmitted(message=AIMessageChunk() as chunk):
                # Chunks without an id are one message for each run of the node that emits them.
                chunk = chunk.model_copy(update={"id": chunk.id or payload.node})
                if not self._model_streams.has_streamed(chunk.id or ""):
                    self._streamed.add_emitted(chunk.id or "", str(chunk.text))
                    yield from self._model_streams.add(chunk, namespace=payload.node.rpartition("#")[0], emitted=True)
            case MessageEmitted(message=message):
                yield from self._message(message_of(message), self._key(payload.node))
            case MetadataEmitted():
                yield AgentMetadata(payload.metadata, self._key(payload.node))
            case ReplyChunk():
                yield from self._model_streams.add_reply(payload.text, payload.message_id)
            case StreamAborted():
                yield from self._model_streams.abort(payload.message_id)
            case DurableReply():
                # Recorded now, so that no crash can lose it; it is also the answer when the turn ends (D5).
                yield from self._message(payload.message, f"{REPLY}{self._key(payload.node) or uuid7()}")
                yield from self._model_streams.discard_reply(payload.message.message_id)
            case Reaction():
                yield reaction_artifact(self._request, payload, self._key(payload.node), self._opened)
            case TypingSignal():
                yield AgentTyping()
            case _:
                # A graph may write what it likes to its own stream; only what the helpers make is meant for A2A.
                logger.debug("A custom event of the graph is not for A2A.")

    def _message(self, message: Message, key: str) -> Iterator[AgentMessage]:
        if (emission := self._emitted.emit(message, key)) is not None:
            yield emission

    def _artifact(self, emitted: ArtifactEmitted) -> AgentArtifact:
        """Return the artifact's event; an append needs an opening."""
        artifact = with_artifact_id(self._request, emitted.artifact)
        append = emitted.append and artifact.artifact_id in self._opened
        self._opened.add(artifact.artifact_id)
        return AgentArtifact(artifact, append, emitted.last_chunk, self._key(emitted.node))

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
        return _value(self._values) if self._functional else self._added_messages.answer(messages_of(self._values))

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
