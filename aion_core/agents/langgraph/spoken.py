"""What the model calls and the streamed replies of a turn speak, one after another, though several may at once (R61, R63).

A stream delta carries one of them. While one is open the chunks of the others wait, and are spoken when it has ended: a
client sees whole answers, never two woven into one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk

from aion_core.ports import Chunk


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a model call is some middleware's own, such as a summary of the conversation, by LangChain's marks."""
    return "lc_internal_call" in metadata or "lc_source" in metadata


class Speakers:
    """Puts the chunks of a turn's model calls and replies in order, by the id of their message."""

    def __init__(self) -> None:
        self._open = ""
        """Who has the word."""
        self._waiting: dict[str, list[Chunk]] = {}
        self._ended: set[str] = set()
        self._within: dict[str, tuple[str, ...]] = {}
        self._streamed: set[str] = set()
        self._said: dict[str, list[str]] = {}
        """What each model call has spoken so far."""
        self._asking: set[str] = set()
        """The calls that ask for tools: what they say on the way is no answer."""
        self._latest = ""

    def hear(self, message: AIMessageChunk, *, within: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield what may be spoken now, this chunk among it unless another call has the word.

        `within` is the checkpoint_ns of the node that the call is made in.
        """
        call = message.id or ""
        if call not in self._within:
            self._within[call] = tuple(within.split("|"))
        if not emitted:
            self._streamed.add(call)
        self._latest = call
        if message.tool_call_chunks or message.tool_calls:
            self._asking.add(call)
        text = str(message.text)
        if text:
            self._said.setdefault(call, []).append(text)
            yield from self._speak(Chunk(text, call))
        if message.chunk_position == "last":
            self._ended.add(call)
            if call == self._open:
                yield from self._next()

    def reply(self, text: str, message_id: str) -> Iterator[Chunk]:
        """Yield what may be spoken now, this chunk of a reply among it unless somebody else has the word."""
        yield from self._speak(Chunk(text, message_id))

    def replied(self, message_id: str) -> Iterator[Chunk]:
        """Yield what has waited for the reply, which has been said as a whole: what of it has waited need not be."""
        yield from self._leave(message_id)

    def broke_off(self, message_id: str) -> Iterator[Chunk]:
        """Yield that no more comes of the call, or of the reply, and what has waited for it; it is nobody's answer."""
        self._said.pop(message_id, None)
        self._ended.add(message_id)
        if message_id == self._open:
            yield Chunk("", message_id, breaks_off=True)
        yield from self._leave(message_id)

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
        """Return all that one call has spoken: the last, or, where it was silent, the last that asked for no tool."""
        spoken = [call for call in self._said if call == self._latest or call not in self._asking]
        last = self._latest if self._latest in self._said else spoken[-1] if spoken else ""
        return "".join(self._said.get(last, []))

    def _speak(self, chunk: Chunk) -> Iterator[Chunk]:
        if self._open and chunk.message_id != self._open:
            self._waiting.setdefault(chunk.message_id, []).append(chunk)
        else:
            self._open = chunk.message_id
            yield chunk

    def _leave(self, message_id: str) -> Iterator[Chunk]:
        self._waiting.pop(message_id, None)
        if message_id == self._open:
            yield from self._next()

    def _next(self) -> Iterator[Chunk]:
        self._open = ""
        while self._waiting and not self._open:
            speaker = next(iter(self._waiting))
            yield from self._waiting.pop(speaker)
            self._open = "" if speaker in self._ended else speaker


def _node(within: Sequence[str]) -> str:
    return within[0].partition(":")[0] if within else ""
