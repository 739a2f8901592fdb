"""Order of concurrent message streams: clients receive the chunks of one message at a time."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from aion_core.engine.agent import Chunk

T = TypeVar("T")


class StreamSequencer(Generic[T]):
    """Sequencer for the concurrent message streams of a turn, and for the items that follow a stream.

    While one message streams, the chunks of the other messages are buffered. They are sent after it has ended, so
    chunks of two messages are never mixed.

    An item follows its stream, such as the complete message after its chunks. It waits until the chunks of its stream
    and the earlier items are sent, so items keep their order.
    """

    def __init__(self) -> None:
        self.open = ""
        """Id of the message that is streaming; "" without one."""
        self._buffered: dict[str, list[Chunk]] = {}
        self._closed: set[str] = set()
        self._waiting: deque[tuple[str, T]] = deque()
        """Items in order, each with the message id of its stream."""

    def add(self, chunk: Chunk) -> list[Chunk]:
        """Return the chunk to be sent now, or buffer it if another message is streaming."""
        self._closed.discard(chunk.message_id)
        if self.open and chunk.message_id != self.open:
            self._buffered.setdefault(chunk.message_id, []).append(chunk)
            return []
        self.open = chunk.message_id
        return [chunk]

    def complete(self, message_id: str, item: T) -> Iterator[Chunk | T]:
        """End a stream and add the item that follows it. Yield the chunks and items that no longer have to wait.

        `message_id` is "" for an item without a stream, which only waits for the earlier items.
        """
        self._waiting.append((message_id, item))
        if message_id and message_id == self.open:
            self.open = ""
            yield Chunk("", message_id, ends=True)
        yield from self._next()

    def close(self, *message_ids: str) -> Iterator[Chunk | T]:
        """Mark messages as complete. If one of them is streaming, end it and yield the buffered chunks of the next."""
        self._closed.update(message_ids)
        if self.open and self.open in self._closed:
            ended, self.open = self.open, ""
            yield Chunk("", ended, ends=True)
        yield from self._next()

    def discard(self, message_id: str) -> Iterator[Chunk | T]:
        """Drop the buffered chunks of a message that is complete. Yield the chunks of the next message."""
        self._buffered.pop(message_id, None)
        yield from self.close(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk | T]:
        """Abort a message. If it is streaming, yield an abort chunk and the buffered chunks of the next message."""
        self._closed.add(message_id)
        self._buffered.pop(message_id, None)
        if message_id and message_id == self.open:
            self.open = ""
            yield Chunk("", message_id, breaks_off=True)
        yield from self._next()

    def close_all(self) -> Iterator[Chunk | T]:
        """Yield all items and buffered chunks at the turn's end. Incomplete messages get no end chunk."""
        self.open = ""
        yield from self._next()
        while self.open:
            self.open = ""
            yield from self._next()

    def _next(self) -> Iterator[Chunk | T]:
        """Yield the items in order until one must wait for its stream. If no message streams, stream the next one."""
        while True:
            while self._waiting and not (self.open and self._waiting[0][0] in self._buffered):
                message_id, item = self._waiting.popleft()
                if chunks := self._buffered.pop(message_id, None):
                    yield from chunks
                    yield Chunk("", message_id, ends=True)
                yield item
            if self.open or not self._buffered:
                return
            message_id = next(iter(self._buffered))
            yield from self._buffered.pop(message_id)
            if message_id in self._closed:
                yield Chunk("", message_id, ends=True)
            else:
                self.open = message_id
