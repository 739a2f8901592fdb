"""Texts that a turn says to its client: which of them become messages of the task, when, and in which order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from aion_core.agents.emission_ids import FINAL
from aion_core.agents.emitted_messages import EmittedMessages
from aion_core.agents.langgraph.added_messages import AddedMessages
from aion_core.agents.langgraph.model_streams import ModelStreams
from aion_core.agents.langgraph.parts import has_content, message_of
from aion_core.agents.langgraph.said_text import SaidText, add_in_order
from aion_core.agents.langgraph.state import messages_of
from aion_core.agents.langgraph.unreturned_output import StreamedText
from aion_core.agents.message_text import words_of
from aion_core.engine.agent import AgentMessage
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role

STREAMED = f"{FINAL}streamed:"
"""Prefix of the idempotency keys of texts that a model has streamed."""

ADDED = f"{FINAL}added:"
"""Prefix of the idempotency keys of messages that a node has added to the state, and that no model has streamed."""


class SaidTexts:
    """Texts of one turn in the order in which they were said.

    A text is complete when the node of its model has ended, or when it is a message in the state. A complete text that
    may be the turn's answer waits until a later text follows, until the author's code sends a message, or until the end
    of the turn. All others are recorded at once.
    """

    def __init__(self, turn: str, emitted: EmittedMessages, streams: ModelStreams, added: AddedMessages) -> None:
        """Start without texts. `added` has the messages that the turn adds to the state of the main graph."""
        self._turn, self._emitted, self._streams, self._added = turn, emitted, streams, added
        self.nested: dict[tuple[str, ...], AddedMessages] = {}
        """Messages in the states of the subgraphs, by namespace."""
        self.texts: list[SaidText] = []
        """The texts so far, in the order in which they were said."""
        self._by_id: dict[str, SaidText] = {}
        self._writes: list[Mapping[str, Any]] = []
        """What the nodes of the current step have written so far."""
        self._count, self._streamed = 0, 0

    def add_earlier(self, streamed: StreamedText | None) -> None:
        """Add the last text that an earlier process of the turn has streamed, unless it has no name or is known."""
        if streamed is not None and streamed.key and streamed.call not in self._by_id:
            text = SaidText(f"{STREAMED}{streamed.key}", streamed.call, earlier=streamed.text)
            self._by_id[streamed.call] = text
            self.texts.append(text)

    def add_step(self, messages: Sequence[BaseMessage], *, has_outbox: bool) -> None:
        """Add the texts of the messages that a step of the main graph has added. `messages` are those of its state.

        With `has_outbox`, the state has an outbox of this turn. See `add_messages`.
        """
        self._writes = []
        new = [message for message in self._added.observe(messages) if has_content(message)]
        unstreamed = self.add_messages(new, has_outbox=has_outbox) if new else []
        if len(unstreamed) > 1:
            # Record messages that were added together at the same time, because a client shows them together.
            for text in unstreamed:
                text.is_due = True

    def add_messages(self, messages: Sequence[AIMessage], *, has_outbox: bool) -> list[SaidText]:
        """Add messages in their order, and return the texts of those that no model has streamed.

        Leave out messages that no model has made if the turn has an outbox or a reply, because these replace them.
        """
        self._add_calls()
        is_replaced = has_outbox or self._emitted.reply is not None
        texts = [text for each in messages if (text := self._text_of(each)) and not (is_replaced and text.is_by_author)]
        add_in_order(self.texts, texts, self._streams.run_of)
        return [text for text in texts if not text.call]

    def note_writes(self, writes: Iterable[Mapping[str, Any]]) -> None:
        """Note what a node has written. It is in the state only after the end of its step."""
        self._writes += writes

    def until_now(self) -> Iterator[AgentMessage]:
        """Yield the texts that are complete after a step, except the last ones if they may be the turn's answer.

        These are the last message in the state, and the text of the last model call after it.
        """
        self._add_calls()
        if self.texts:
            latest = self._streams.last_text()[0]
            yield from self._before(latest or next((text.call for text in self.texts if text.earlier), ""))

    def before_call(self, call: str, key: str) -> Iterator[AgentMessage]:
        """Yield the texts that are complete when a model begins to speak, except the last message in the state.

        If the model of an earlier process has begun the same call, which `key` names, its text is said again.
        """
        self._add_calls()
        if self.texts:
            self.texts[:] = [text for text in self.texts if not text.earlier or text.key != f"{STREAMED}{key}"]
            yield from self._before(call)

    def _before(self, latest: str) -> Iterator[AgentMessage]:
        last, complete = self._added.last_id(), self._complete()
        while complete and complete[-1].may_wait(latest, last):
            if complete.pop().message is not None:
                break
        yield from self._record(complete)

    def waiting(self) -> Iterator[Message]:
        """Yield once each message that no model has streamed, and that is not recorded yet."""
        for text in self._complete():
            if text.call or text.has_waited or not text.message_id:
                continue
            text.has_waited = True
            message = self._message_of(text)
            if message is None or not words_of(message) or self._emitted.is_by_author(message):
                continue
            if not self._emitted.has_other(message.message_id, message):
                yield message

    def all(self) -> Iterator[AgentMessage]:
        """Yield all complete texts."""
        self._add_calls()
        yield from self._record(self._complete())

    def rest(self, answer: Sequence[Message]) -> Iterator[AgentMessage]:
        """Yield the remaining texts at the end of the turn, except those of the messages in its `answer`."""
        self._add_calls()
        texts = self._complete(every=True)
        yield from self._record([text for text in texts if not any(self._is_in(final, text) for final in answer)])

    def id_of(self, message: Message) -> str:
        """Return the message id under which this text was recorded or streamed; "" if the turn has not said it."""
        recorded = [
            each.message_id
            for each in self._emitted.recorded_as(FINAL).values()
            if self._emitted.are_alike(each, message)
        ]
        return recorded[-1] if recorded else self._streams.latest_call(words_of(message))

    def client_id(self, message_id: str) -> str:
        """Return the id under which the client has the text of this message; "" if it has not received the text."""
        if (text := self._by_id.get(message_id)) is None:
            return ""
        recorded = self._emitted.get(text.key)
        return recorded.message_id if recorded is not None else text.call

    def _add_calls(self) -> None:
        for call in self._streams.calls_after(self._streamed):
            self._streamed += 1
            if call not in self._by_id:
                self._by_id[call] = text = SaidText(f"{STREAMED}{self._streams.key_of(call)}", call)
                self.texts.append(text)

    def _text_of(self, message: AIMessage) -> SaidText | None:
        """Return the text of a message in the state; None if the turn has the text already."""
        self._count += 1
        known = self._by_id.get(message.id or "") if message.id else None
        if known is not None:
            is_new, known.message = known.message is None, message
            return known if is_new else None
        text = self._streamed_copy(message) or SaidText(f"{ADDED}{self._turn}/{self._count}", message=message)
        text.message = message
        if message.id:
            self._by_id[message.id] = text
        return text

    def _streamed_copy(self, message: AIMessage) -> SaidText | None:
        """Return the streamed text that a node has put into a message of its own, which has another id."""
        words = str(message.text).strip()
        for text in reversed(self.texts):
            if text.message is None and words and words == (text.earlier or self._streams.text_of(text.call)).strip():
                return text
        # Another process of this turn may have streamed and recorded the text.
        for key, recorded in self._emitted.recorded_as(STREAMED).items():
            if words_of(recorded).strip() == words and not self._added.has_seen(recorded.message_id):
                return SaidText(key, recorded.message_id)
        return None

    def _complete(self, *, every: bool = False) -> list[SaidText]:
        """Return the texts that are complete and not recorded yet. With `every`, include those of running nodes."""
        return [
            text
            for text in self.texts
            if self._emitted.get(text.key) is None
            and not self._emitted.has(text.client_id)
            and self._is_complete(text, every=every)
        ]

    def _is_complete(self, text: SaidText, *, every: bool) -> bool:
        if text.message is not None or text.earlier:
            return True
        return self._streams.has_said(text.call, ended=not every)

    def _record(self, texts: Sequence[SaidText]) -> Iterator[AgentMessage]:
        for text in texts:
            message = self._message_of(text)
            if message is None or self._emitted.is_by_author(message):
                continue
            message.message_id = text.client_id
            if (emission := self._emitted.emit(message, text.key)) is not None:
                yield emission

    def _message_of(self, text: SaidText) -> Message | None:
        """Return the newest version of a text: that of a state, or else the streamed one.

        Return None if the author's code has removed the message from the state.
        """
        for added in (self._added, *self.nested.values()):
            if added.has_seen(text.message_id):
                current = added.current(text.message_id)
                return message_of(current) if current is not None and has_content(current) else None
        message = text.message or self._returned(text.call)
        if message is not None:
            return message_of(message) if has_content(message) else None
        spoken = text.earlier or self._streams.text_of(text.call)
        parts = [Part(text=utf8(spoken))]
        return Message(role=Role.ROLE_AGENT, message_id=text.call, parts=parts) if spoken else None

    def _returned(self, call: str) -> AIMessage | None:
        """Return the message of this model call that a node of the current step has returned, perhaps edited."""
        returned = (each for values in self._writes for each in messages_of(values) if each.id == call)
        return next((each for each in returned if isinstance(each, AIMessage)), None)

    def _is_in(self, final: Message, text: SaidText) -> bool:
        """Return True if the final message is this text. A text that is only streamed is also known by its words."""
        if final.message_id and final.message_id in (text.message_id, text.client_id):
            return True
        if text.message is not None and text.message_id:
            return False
        message = self._message_of(text)
        return message is not None and bool(final.parts) and words_of(message) == words_of(final)
