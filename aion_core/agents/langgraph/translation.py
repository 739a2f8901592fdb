"""Translation of the stream events of a graph's turn to emissions."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.agents.emission_ids import FINAL, REPLY, deterministic_id, final_key, with_artifact_id
from aion_core.agents.emitted_messages import EmittedMessages
from aion_core.agents.final_answer import TurnOutput, final_emissions
from aion_core.agents.helper_calls import DurableReply, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.agents.langgraph.added_messages import AddedMessages
from aion_core.agents.langgraph.callbacks import is_internal
from aion_core.agents.langgraph.graph import OUTBOX, Graph
from aion_core.agents.langgraph.graph_answer import NO_ANSWER, GraphAnswer
from aion_core.agents.langgraph.model_streams import ModelStreams, last_name
from aion_core.agents.langgraph.parts import has_content, message_of
from aion_core.agents.langgraph.returned_together import ReturnedMessages
from aion_core.agents.langgraph.state import StateHistory, messages_of
from aion_core.agents.langgraph.unreturned_output import UnreturnedOutput
from aion_core.agents.reactions import reaction_artifact
from aion_core.agents.speakers import INVOKED
from aion_core.agents.turn_context import inbound_of
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted
from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.engine.agent import AgentArtifact, AgentMessage, AgentMetadata, AgentTyping, Emission, Reply, TurnRequest
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

NODE_EMISSIONS = (ArtifactEmitted, MessageEmitted, MetadataEmitted, Reaction, DurableReply)
"""Emissions that nodes make through `authoring.emit.write_emission`. They are recorded before the next checkpoint."""

GRAPH_RUNS = ("values", "updates", "checkpoints")
"""Stream modes in which only a subgraph's events have a namespace. In the mode "custom", events of a functional graph's
`@task` have one too."""

BESIDE_CALLS = f"{FINAL}words:"
"""Prefix of the idempotency keys of texts beside tool calls. They are not an answer unless they end the turn."""

TOGETHER = f"{FINAL}returned:"
"""Prefix of the idempotency keys of messages that one node has returned together."""

STREAMED = f"{FINAL}streamed:"
"""Prefix of the idempotency keys of streamed texts that are not the turn's answer."""


class LangGraphTranslator:
    """Translator for one turn: converts the events of the graph's stream to emissions."""

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
        """Start with the `history` of the state, and `streamed`, the turn's output that the state lacks.

        `earlier` is text that another process has streamed and that the state lacks. `clears_outbox` is True if the
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
        self._model_streams = ModelStreams(self._invoked, streamed.failed)
        self._unnamed: dict[str, str] = {}
        """Message ids of chunks without an id, by the run of their node."""
        self._resumed = bool(history.since) or request.turn.tries > 1

    def add_sent(self, emission: Emission) -> None:
        """Add a final message of the turn to the messages that the state must get, unless it has them under another id.

        Streamed text is not added, because the author's node has decided not to return it to the state.
        """
        if isinstance(emission, AgentMessage) and emission.key.startswith(STREAMED):
            return
        if isinstance(emission, Reply | AgentMessage) and emission.message is not None:
            self.sent += [emission.message] if emission.message.message_id not in self._in_state else []

    def sent_beside_state(self) -> list[Message]:
        """Return the messages sent to the client whose ids are missing in the graph's last values."""
        known = {message.id for message in messages_of(self._values)}
        return [message for message in self.sent if message.message_id not in known]

    def translate(self, namespace: tuple[str, ...], mode: str, payload: Any) -> Iterator[Emission]:
        """Yield the emissions of one stream event. `namespace` names its subgraph; it is empty for the main graph."""
        if mode == "messages":
            # Skip all but a model's chunks, because in this mode LangGraph also sends whole messages, such as tool
            # results.
            if isinstance(payload[0], AIMessageChunk) and not is_internal(payload[1]):
                chunk, run = payload[0], payload[1].get("langgraph_checkpoint_ns", "")
                if not self._model_streams.has_streamed(chunk.id or ""):
                    yield from self._earlier_texts(chunk.id or "")
                yield from self._model_streams.add(chunk, namespace=run)
            return
        if namespace not in self._invoked and mode in GRAPH_RUNS:
            self._invoked.add(namespace)
            yield AgentMetadata({INVOKED: last_name(namespace)}, f"{'|'.join(namespace)}/invoked")
        if mode == "custom":
            yield from self._emit(payload)
        elif mode == "values" and not namespace:
            self._values = payload
            self._answer.added.observe(messages_of(payload))
            yield from self._earlier_texts(self._model_streams.last_text()[0])
            yield from self._words_beside_calls()
        elif mode == "values":
            self._nested.setdefault(namespace, AddedMessages([])).observe(messages_of(payload))
        elif mode == "updates":
            if not namespace:
                self._answer.observe_update(payload)
        elif mode == "tasks":
            yield from self._model_streams.end_run(payload)

    def returned_together(self, returned: ReturnedMessages) -> Iterator[Emission]:
        """Yield the messages of a node that has returned several at once, except those already in its graph's state.

        If one of them becomes the turn's answer, the answer keeps the id of that message. If the author's code has sent
        a reply, nothing is yielded, because the reply is the answer.
        """
        state = self._nested.get(returned.namespace) if returned.namespace else self._answer.added
        new = [message for message in returned.messages if state is None or not state.contains(message)]
        if len(new) > 1 and self._emitted.reply is None:
            for number, message in enumerate(new):
                yield from self._message(message_of(message), f"{TOGETHER}{returned.run}/{number}")

    def close_streams(self) -> Iterator[Emission]:
        """Yield the buffered chunks of all streams, because the turn is suspended and another process resumes it."""
        yield from self._model_streams.close_all()

    def before_failure(self) -> Iterator[Emission]:
        """Yield the streamed texts of the nodes that had ended when the turn failed."""
        yield from self._texts_beside([])

    def answer_before_interrupt(self, messages: Sequence[BaseMessage]) -> Iterator[Emission]:
        """Yield the last AIMessage that the turn added before an interrupt, unless it was emitted already.

        `messages` has the messages of the state. The message must be emitted now, because the next turn does not emit
        it.
        """
        yield from self._model_streams.close_all()
        self._answer.added.observe(messages)
        answer = self._answer.added.latest_answer()
        yield from self._texts_beside([answer] if answer is not None else [])
        yield from self._words_beside_calls()
        if answer is not None and self._emitted.reply is None and not self._emitted.contains(answer):
            yield from self._message(answer, final_key(self._request, "question"))

    def finish(self) -> Iterator[Emission]:
        """Yield the remaining emissions after the last stream event, ending with the Reply."""
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
            written = self._answer.written(self._values) if not self._opened else None
            output = replace(output, last_resort=self._answer.cached() or written)
            if output == TurnOutput() and not self._answer.has_unsent:
                logger.warning(NO_ANSWER)
        final = list(final_emissions(self._request, output))
        messages = [
            each.message for each in final if isinstance(each, AgentMessage | Reply) and each.message is not None
        ]
        yield from self._texts_beside(messages, every=True)
        yield from final

    def _earlier_texts(self, latest: str) -> Iterator[Emission]:
        """Yield the streamed texts of ended nodes, except texts that may still be the turn's answer.

        The answer may be the text of the model call `latest` or the last message of the state.
        """
        last = self._answer.added.last()
        yield from self._texts_beside([Message(message_id=latest), *([last] if last is not None else [])])

    def _texts_beside(self, others: Sequence[Message], *, every: bool = False) -> Iterator[Emission]:
        """Yield the streamed texts of ended nodes, except those that the turn has already emitted or `others` contains.

        With `every`, include the texts of all nodes. Otherwise yield one of the `others` too once a later text follows,
        so that the history has the order of the model calls. If it becomes the answer after all, it keeps its id.
        """
        for earlier in self._answer.added.of_models() if self._resumed else ():
            # Restore the text that an earlier process of this turn has streamed, because that process may have crashed
            # before recording the text.
            if earlier.id not in self._streamed.calls and not self._model_streams.has_streamed(earlier.id or ""):
                self._model_streams.restore(earlier.id or "", str(earlier.text))
        texts = self._model_streams.ended_texts(self._is_done, every=every)
        if every and self._earlier and self._earlier not in [text for _, text, _ in texts]:
            texts.insert(0, ("", self._earlier, self._request.turn.id))
        held: list[tuple[str, str, str, Message | None]] = []
        for call, text, run in texts:
            key = f"{STREAMED}{run}"
            if call and call in [each.message_id for each in others]:
                held.append((key, call, text, None))
                continue
            if self._emitted.get(key) is not None:
                continue
            # Skip a text that was emitted already, because a model call of an earlier process may have run again. A
            # streamed call is compared by its own id only, because two model calls may produce equal texts.
            known = self._emitted.of_others(self._model_streams.has_streamed if call else lambda _: False)
            message = self._as_stated(call, text)
            if message is None or any(_is_same(each, message, call) for each in known):
                continue
            if (other := next((each for each in others if _is_same(each, message, call)), None)) is not None:
                held.append((key, call, text, other))
                continue
            for its_key, its_call, its_text, candidate in [] if every else held:
                candidate = candidate or self._as_stated(its_call, its_text)
                if candidate is not None and self._emitted.get(its_key) is None:
                    yield from self._message(candidate, its_key)
            held.clear()
            yield from self._message(message, key)

    def _is_done(self, call: str) -> bool:
        return call in self._streamed.failed or self._emitted.has(call)

    def _as_stated(self, call: str, text: str) -> Message | None:
        """Return the state's version of a streamed message; if the state never had the message, make it from the text.

        Return None if the author's code has removed the message from the state.
        """
        for added in (self._answer.added, *self._nested.values()):
            if added.has_seen(call):
                stated = added.current(call)
                return message_of(stated) if stated is not None and has_content(stated) else None
        return Message(role=Role.ROLE_AGENT, message_id=call, parts=[Part(text=utf8(text))])

    def _under_its_id(self, returned: Message | None) -> Message | None:
        """Return the emitted message with the same content, so that the answer has its id; else the given message."""
        if returned is not None and not returned.message_id:
            # Use the id of an earlier model call with this text, because a functional graph may return the text of an
            # earlier `@task`.
            call = self._model_streams.latest_call(_text(returned))
            if self._emitted.has(call) and not self._emitted.has_other(call, returned):
                returned.message_id = call
                return returned
        message = self._emitted.latest_equal(returned, TOGETHER) if returned is not None else None
        if message is not None and returned is not None and self._model_streams.has_streamed(message.message_id):
            # Do not use the emitted message, because it belongs to another model call with an equal text.
            return returned
        if message is not None and message is not returned:
            self._in_state.add(message.message_id)
        return message

    def _streamed_text(self) -> Message | None:
        """Return the text of the last model call, of this process or an earlier one, as a message."""
        message_id, text = self._model_streams.last_text()
        message = Message(role=Role.ROLE_AGENT, parts=[Part(text=utf8(text or self._earlier))])
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
                # Close the stream of this message's chunks before the complete message is emitted.
                yield from self._model_streams.close(message.id or "", self._unnamed_id(payload.node))
                yield from self._message(message_of(message), self._key(payload.node))
            case MetadataEmitted():
                yield AgentMetadata(payload.metadata, self._key(payload.node))
            case ReplyChunk():
                run = payload.site.rpartition("#")[0]
                yield from self._model_streams.add_reply(payload.text, payload.message_id, namespace=run)
            case StreamAborted():
                yield from self._model_streams.abort(payload.message_id)
            case DurableReply():
                # Record the reply of `thread.reply` now, so that it survives a crash of the process. At the end of the
                # turn, its message becomes the answer of the task.
                yield from self._message(payload.message, f"{REPLY}{self._key(payload.site) or uuid7()}")
                yield from self._model_streams.discard_reply(payload.message.message_id)
            case Reaction():
                yield reaction_artifact(self._request, payload, self._key(payload.site), self._opened)
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
        append = emitted.append and artifact.artifact_id in self._opened
        self._opened.add(artifact.artifact_id)
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

    def _words_beside_calls(self) -> Iterator[Emission]:
        """Yield text that a model has produced together with tool calls, as intermediate messages."""
        for number, message in self._answer.added.beside_tool_calls():
            key = f"{BESIDE_CALLS}{self._request.turn.id}/{number}"
            if self._emitted.get(key) is None:
                yield from self._model_streams.close(message.id or "")
                yield from self._message(message_of(message), key)

    def _outbox(self) -> A2AOutbox | None:
        given = self._values.get(OUTBOX) if isinstance(self._values, Mapping) else None
        return outbox_of(given) if given is not None and given != self._stale_outbox else None


def _is_same(message: Message, streamed: Message, call: str) -> bool:
    """Return True if the message has the model call's id or the same text as the call's streamed message."""
    return message.message_id == call != "" or (bool(message.parts) and _text(message) == _text(streamed))


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts)
