"""What the model calls of a turn speak, one call after another, though several may speak at once (R61, R63).

A stream delta carries one call. While one is open the chunks of the others wait, and are spoken when it has ended: a
client sees whole answers, never two woven into one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk

from aion_core.ports import Chunk


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a model call is some middleware's own, such as a summary of the conversation, by LangChain's marks."""
    return "lc_internal_call" in metadata or "lc_source" in metadata


class ModelCalls:
    """Puts the chunks of a turn's model calls in order, by call."""

    def __init__(self) -> None:
        self._open = ""
        self._waiting: dict[str, list[Chunk]] = {}
        self._ended: set[str] = set()
        self._within: dict[str, tuple[str, ...]] = {}
        self._streamed: set[str] = set()
        self._said: dict[str, list[str]] = {}

    def hear(self, message: AIMessageChunk, *, within: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield what may be spoken now, this chunk among it unless another call has the word.

        `within` is the checkpoint_ns of the node that the call is made in.
        """
        call = message.id or ""
        if call not in self._within:
            self._within[call] = tuple(within.split("|"))
        if not emitted:
            self._streamed.add(call)
        text = str(message.text)
        if text:
            chunk = Chunk(text, call)
            if call != self._open and self._open:
                self._waiting.setdefault(call, []).append(chunk)
            else:
                self._open = call
                yield self._spoken(chunk)
        if message.chunk_position == "last":
            self._ended.add(call)
            if call == self._open:
                yield from self._next()

    def streams(self, call: str) -> bool:
        """Tell whether the call streams by itself: a chunk of it that a node emits has been heard already."""
        return call in self._streamed

    def end_of(self, namespace: tuple[str, ...], nodes: Collection[str]) -> Iterator[Chunk]:
        """Yield what waits for calls that have ended since: those within these nodes of the graph at the namespace."""
        depth = len(namespace)
        for call, within in self._within.items():
            if within == ("",) or (within[:depth] == namespace and _node(within[depth:]) in nodes):
                self._ended.add(call)
        if self._open in self._ended:
            yield from self._next()

    def end_all(self) -> Iterator[Chunk]:
        """Yield what waits, since the calls that had the word have ended."""
        self._ended.add(self._open)
        self._ended.update(self._waiting)
        yield from self._next()

    def last_text(self) -> str:
        """Return all that one call has spoken: the one that was heard last."""
        return "".join(next(reversed(self._said.values()), []))

    def _next(self) -> Iterator[Chunk]:
        self._open = ""
        while self._waiting and not self._open:
            call = next(iter(self._waiting))
            for chunk in self._waiting.pop(call):
                yield self._spoken(chunk)
            self._open = "" if call in self._ended else call

    def _spoken(self, chunk: Chunk) -> Chunk:
        self._said.setdefault(chunk.message_id, []).append(chunk.text)
        return chunk


def _node(within: Sequence[str]) -> str:
    return within[0].partition(":")[0] if within else ""
