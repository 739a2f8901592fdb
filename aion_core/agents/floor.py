"""Who has the word where several speak at once: a stream delta carries one of them, the others wait (R61, R63).

While one is open the chunks of the others wait, and are spoken when it has ended: a client sees whole answers, never two
woven into one.
"""

from collections.abc import Iterator

from aion_core.ports import Chunk


class Floor:
    """Puts chunks in order, by the id of their message."""

    def __init__(self) -> None:
        self._open = ""
        self._waiting: dict[str, list[Chunk]] = {}
        self._ended: set[str] = set()

    def speak(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the chunk, unless another message has the word."""
        if self._open and chunk.message_id != self._open:
            self._waiting.setdefault(chunk.message_id, []).append(chunk)
        else:
            self._open = chunk.message_id
            yield chunk

    def end(self, *message_ids: str) -> Iterator[Chunk]:
        """Yield what has waited for these messages, of which nothing more comes."""
        self._ended.update(message_ids)
        if self._open in self._ended:
            yield from self._next()

    def leave(self, message_id: str) -> Iterator[Chunk]:
        """Yield what has waited for this message, which has been said as a whole: what of it has waited need not be."""
        self._waiting.pop(message_id, None)
        if message_id == self._open:
            yield from self._next()

    def broke_off(self, message_id: str) -> Iterator[Chunk]:
        """Yield that no more comes of the message, and what has waited for it."""
        self._ended.add(message_id)
        if message_id == self._open:
            yield Chunk("", message_id, breaks_off=True)
        yield from self.leave(message_id)

    def end_all(self) -> Iterator[Chunk]:
        """Yield what waits, since all that had the word have ended."""
        self._ended.add(self._open)
        self._ended.update(self._waiting)
        yield from self._next()

    def _next(self) -> Iterator[Chunk]:
        self._open = ""
        while self._waiting and not self._open:
            speaker = next(iter(self._waiting))
            yield from self._waiting.pop(speaker)
            self._open = "" if speaker in self._ended else speaker
