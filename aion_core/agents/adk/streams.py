"""Idempotency keys and order of an ADK turn's messages: one streams at a time, and each follows its own chunks."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from google.adk.events import Event
from msgspec import Struct

from aion_core.engine.agent import Chunk
from aion_core.protocol.types import Message


class CompleteMessage(Struct, frozen=True):
    """Complete message of an agent. It is recorded after its stream."""

    stream: str
    """Message id of its chunks; empty if it was not streamed."""
    message: Message | None
    """The message; None if its stream ends without a message, for example if an outbox replaces it."""
    key: str
    """Idempotency key of its ADK event. See `EventKeys`."""
    continues: bool = False
    """True if its agent continues after it, for example with tool calls. It is then not the answer."""


class EventKeys:
    """Idempotency keys of a turn's ADK events: the id of an event, with a number if other output had this id before.

    A custom agent may give several events the same id. A resumed turn translates the stored events in the same order,
    so each event gets the same key again.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, list[Any]] = {}

    def of(self, event: Event) -> str:
        """Return the key of the event. Chunks have the key of the next output with their id."""
        outputs = self._outputs.get(event.id, [])
        number = len(outputs)
        if not event.partial:
            output = event.content, event.output, event.actions.artifact_delta
            self._outputs[event.id] = outputs if output in outputs else [*outputs, output]
            number = self._outputs[event.id].index(output)
        return f"{event.id}#{number + 1}" if number else event.id


class MessageStreams:
    """Sequencer for messages of agents that run concurrently. Clients receive one message's chunks at a time.

    While one message streams, the chunks of other messages are buffered. A complete message waits until its own chunks
    and the earlier complete messages are sent. So the chunks of one message are never interrupted by another, they
    precede their message, and messages have the order of their ADK events.
    """

    def __init__(self) -> None:
        self._open = ""
        """Id of the streaming message; empty without one."""
        self._buffered: dict[str, list[Chunk]] = {}
        self._complete: deque[CompleteMessage] = deque()

    def add(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the chunk now, or buffer it if another message is streaming."""
        if self._open not in ("", chunk.message_id):
            self._buffered.setdefault(chunk.message_id, []).append(chunk)
        else:
            self._open = chunk.message_id
            yield chunk

    def complete(self, message: CompleteMessage) -> Iterator[Chunk | CompleteMessage]:
        """Add a complete message and end its stream. Yield the messages and chunks that no longer have to wait."""
        self._complete.append(message)
        if message.stream and message.stream == self._open:
            self._open = ""
            yield Chunk("", message.stream, ends=True)
        yield from self._released()

    def discard(self, message_id: str) -> Iterator[Chunk | CompleteMessage]:
        """End the stream of a reply that was recorded in full, and drop its buffered chunks."""
        if message_id and message_id == self._open:
            self._open = ""
            yield Chunk("", message_id, ends=True)
        self._buffered.pop(message_id, None)
        yield from self._released()

    def abort(self, message_id: str) -> Iterator[Chunk | CompleteMessage]:
        """Abort the stream of a message that stays incomplete, and drop its buffered chunks."""
        if message_id and message_id == self._open:
            self._open = ""
            yield Chunk("", message_id, breaks_off=True)
        self._buffered.pop(message_id, None)
        yield from self._released()

    def close_all(self) -> Iterator[Chunk | CompleteMessage]:
        """Yield all waiting messages and buffered chunks, including the chunks of incomplete messages."""
        self._open = ""
        yield from self._released()
        while self._buffered:
            self._open = ""
            yield from self._released()
        self._open = ""

    def _released(self) -> Iterator[Chunk | CompleteMessage]:
        """Yield complete messages in order until one must wait for its turn. If no message streams, stream the next."""
        while self._complete and not (self._open and self._complete[0].stream in self._buffered):
            message = self._complete.popleft()
            if chunks := self._buffered.pop(message.stream, None):
                yield from chunks
                yield Chunk("", message.stream, ends=True)
            yield message
        if not self._open and self._buffered:
            self._open = next(iter(self._buffered))
            yield from self._buffered.pop(self._open)
