"""Translation of the stream events of a graph's turn to emissions."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from msgspec.structs import replace

from aion_core.agents.emission_ids import deterministic_id
from aion_core.agents.emitted_messages import EmittedMessages
from aion_core.agents.final_answer import TurnOutput, final_emissions
from aion_core.agents.langgraph.added_messages import AddedMessages
from aion_core.agents.langgraph.author_emissions import AuthorEmissions, is_message
from aion_core.agents.langgraph.graph import OUTBOX, Graph
from aion_core.agents.langgraph.graph_answer import NO_ANSWER, GraphAnswer
from aion_core.agents.langgraph.model_calls import is_internal
from aion_core.agents.langgraph.model_streams import ModelStreams, last_name
from aion_core.agents.langgraph.said_texts import ADDED, STREAMED, SaidTexts
from aion_core.agents.langgraph.state import StateHistory, adds_text, messages_of
from aion_core.agents.langgraph.unreturned_output import NODE_METADATA, StreamedText, UnreturnedOutput, writes_in
from aion_core.agents.langgraph.written_values import artifact_of
from aion_core.agents.message_text import words_of
from aion_core.agents.speakers import INVOKED
from aion_core.agents.turn_context import inbound_of
from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.engine.agent import AgentMessage, AgentMetadata, Emission, Reply, TurnRequest
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

GRAPH_RUNS = ("values", "updates", "checkpoints")
"""Stream modes in which only a subgraph's events have a namespace. In the mode "custom", events of a functional graph's
`@task` have one too."""


class LangGraphTranslator:
    """Translator for one turn: converts the events of the graph's stream to emissions."""

    def __init__(
        self,
        request: TurnRequest,
        graph: Graph,
        history: StateHistory,
        streamed: UnreturnedOutput,
        *,
        earlier: StreamedText | None = None,
        clears_outbox: bool = False,
    ) -> None:
        """Start with the `history` of the state, and `streamed`, the turn's output that the state lacks.

        `earlier` is text that another process has streamed and that the state lacks. `clears_outbox` is True if the
        turn's input has cleared the outbox.
        """
        self._request, self._streamed, self._earlier = request, streamed, earlier
        self._answer, self._before = GraphAnswer(graph, history), history.before
        self._stale_outbox = None if clears_outbox else history.before.get(OUTBOX)
        self._emitted = EmittedMessages(request)
        self.sent = self._emitted.replies
        """Messages for the client that the graph's state may lack: durable replies, then the end of the turn."""
        self._in_state: set[str] = set()
        """Ids of emitted messages that the state has under other ids."""
        self._values: Any = None
        self._invoked: set[tuple[str, ...]] = {()}
        self._model_streams = ModelStreams(self._invoked, streamed.failed)
        self._said = SaidTexts(request.turn.id, self._emitted, self._model_streams, self._answer.added)
        self.said = self._said.texts
        """Texts that the turn has said so far."""
        self._author = AuthorEmissions(request, self._emitted, self._model_streams, streamed)
        for values in history.since:
            self._said.add_step(messages_of(values), has_outbox=self._outbox(values) is not None)
        for text in self.said:
            text.has_waited = True  # in another process, which has streamed it
        self._said.add_earlier(earlier)
        self._answer.values.observe_steps(history.since)

    def add_sent(self, emission: Emission) -> None:
        """Add a final message of the turn to the messages that the state must get, unless it has them under another id.

        Said texts are not added: they are in the state, or the author's node has decided not to return them. Neither is
        a message without text, because models refuse an empty message.
        """
        if not isinstance(emission, Reply | AgentMessage) or emission.message is None:
            return
        if isinstance(emission, AgentMessage) and emission.key.startswith((STREAMED, ADDED)):
            return
        if emission.message.message_id not in self._in_state and words_of(emission.message):
            self.sent.append(emission.message)

    def sent_beside_state(self) -> list[Message]:
        """Return the messages sent to the client that are missing in the graph's last values.

        Leave out the words of a HumanMessage that a node has added: the model would read them twice.
        """
        if not self.sent:
            return []
        known = {message.id for message in messages_of(self._values)}
        sent = (message for message in self.sent if message.message_id not in known)
        return [message for message in sent if not adds_text(self._values, self._before, words_of(message))]

    def translate(self, namespace: tuple[str, ...], mode: str, payload: Any) -> Iterator[Emission]:
        """Yield the emissions of one stream event. `namespace` names its subgraph; it is empty for the main graph."""
        if mode == "messages":
            # Skip all but a model's chunks, because in this mode LangGraph also sends whole messages, such as tool
            # results.
            if isinstance(payload[0], AIMessageChunk) and not is_internal(payload[1]):
                chunk, run = payload[0], payload[1].get("langgraph_checkpoint_ns", "")
                if not self._model_streams.has_streamed(chunk.id or ""):
                    yield from self._said.before_call(chunk.id or "", self._model_streams.next_key(run))
                yield from self._model_streams.add(chunk, namespace=run)
            return
        if namespace not in self._invoked and mode in GRAPH_RUNS:
            self._invoked.add(namespace)
            yield AgentMetadata({INVOKED: last_name(namespace)}, f"{'|'.join(namespace)}/invoked")
        if mode == "custom":
            if is_message(payload):
                yield from self._said.all()
            yield from self._author.translate(payload)
        elif mode == "values":
            yield from self._end_step(namespace, payload)
        elif mode == "updates" and not namespace:
            writes = [*writes_in(payload)]
            self._answer.observe_writes(writes, may_be_cached=NODE_METADATA in payload)
            self._said.note_writes(values for _, values in writes)
        elif mode == "tasks":
            yield from self._model_streams.end_run(payload)

    def before_node(self) -> Iterator[Emission]:
        """Yield the chunks of messages that wait because they may be the answer: a node runs now, and may take long."""
        for message in self._said.waiting():
            yield from self._model_streams.add_reply(words_of(message), message.message_id, namespace="")
            yield from self._model_streams.close(message.message_id)

    def close_streams(self) -> Iterator[Emission]:
        """Yield the buffered chunks of all streams, because the turn is suspended and another process resumes it."""
        yield from self.before_node()
        yield from self._model_streams.close_all()

    def before_failure(self) -> Iterator[Emission]:
        """Yield the texts that were said before the turn failed."""
        yield from self._said.all()

    def before_question(self, messages: Sequence[BaseMessage]) -> Iterator[Emission]:
        """Yield the texts that were said before an interrupt. `messages` has the messages of the state.

        They must be recorded now, because the next turn does not record them.
        """
        yield from self._model_streams.close_all()
        self._said.add_step(messages, has_outbox=self._outbox(self._values) is not None)
        yield from self._said.all()

    def finish(self) -> Iterator[Emission]:
        """Yield the remaining emissions after the last stream event, ending with the Reply."""
        yield from self._model_streams.close_all()
        self._said.add_messages(self._answer.returned_before(self._values), has_outbox=False)
        final = list(final_emissions(self._request, self._output()))
        messages = [
            each.message for each in final if isinstance(each, AgentMessage | Reply) and each.message is not None
        ]
        yield from self._said.rest(messages)
        yield from final

    def _output(self) -> TurnOutput:
        """Return the possible answers of the turn, without those that come after its answer."""
        output = TurnOutput(
            buffered=self._emitted.reply,
            outbox=self._outbox(self._values),
            declared=self._under_its_id(self._answer.values.declared(self._values)),
            returned=self._returned(),
            emitted=self._emitted.intermediate,
        )
        return output if output.is_decided() else self._with_values(output)

    def _with_values(self, output: TurnOutput) -> TurnOutput:
        """Return the possible answers with the streamed text, and with the values that nodes have written."""
        values, written = self._values, self._answer.values
        if (streamed := self._streamed_text()) is not None:
            output = replace(output, streamed=streamed, values=written.beside(values, words_of(streamed)))
        else:
            output = replace(output, values=written.alone(values) or self._answer.structured(self._streamed.structured))
        if output == TurnOutput() and inbound_of(self._request).event is None:
            # A file or data that the author's code has emitted is the result of a turn without any other output.
            data = written.last_resort(values) if not self._author.opened else None
            returned = self._answer.cached() or self._answer.as_human(values, self._request.message.message_id)
            output = replace(output, returned=returned, values=data)
            if output == TurnOutput() and not self._answer.has_unsent:
                logger.warning(NO_ANSWER)
        if output.values is not None and not written.fits(output.values):
            output = replace(output, values=None, large_values=artifact_of(output.values))
        return output

    def _end_step(self, namespace: tuple[str, ...], values: Any) -> Iterator[Emission]:
        """Yield the texts that are said by the end of a step. `values` are those of its graph's state."""
        if namespace:
            self._said.nested.setdefault(namespace, AddedMessages([])).observe(messages_of(values))
            return
        self._values = values
        self._answer.values.end_step()
        if not self._answer.is_functional:
            self._said.add_step(messages_of(values), has_outbox=self._outbox(values) is not None)
        yield from self._said.until_now()

    def _under_its_id(self, answer: Message | None) -> Message | None:
        """Return the answer under the id with which its text was recorded or streamed; else the answer itself."""
        if answer is None or self._emitted.has(answer.message_id):
            return answer
        known = self._said.client_id(answer.message_id) if answer.message_id else self._said.id_of(answer)
        if not known and (sent := self._emitted.last_by_author(answer)) is not None:
            known = sent.message_id
        if known and not self._emitted.has_other(known, answer):
            answer.message_id = known
        return answer

    def _returned(self) -> Message | None:
        """Return the answer in the state's messages, or the return value of a functional graph."""
        returned = self._under_its_id(self._answer.returned(self._values, self._request.message.message_id))
        if returned is None and self._streamed.structured is None:
            returned = self._answer.tool_results(self._values)
        if returned is not None:
            returned.message_id = returned.message_id or deterministic_id(self._request.turn.id, "answer")
            self._in_state.add(returned.message_id)
        return returned

    def _streamed_text(self) -> Message | None:
        """Return the text of the last model call, of this process or an earlier one, as a message."""
        message_id, text = self._model_streams.last_text()
        if not text and self._earlier is not None:
            message_id, text = self._earlier.call, self._earlier.text
        message = Message(role=Role.ROLE_AGENT, parts=[Part(text=utf8(text))])
        if text and not self._emitted.has_other(message_id, message):
            message.message_id = message_id
        return message if text else None

    def _outbox(self, values: Any) -> A2AOutbox | None:
        """Return the outbox in the values of the state; None if it is that of an earlier turn."""
        given = values.get(OUTBOX) if isinstance(values, Mapping) else None
        return outbox_of(given) if given is not None and given != self._stale_outbox else None
