"""What the model calls and the streamed replies of a turn speak, each when it has the floor (R61, R63)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk

from aion_core.agents.floor import Floor
from aion_core.ports import Chunk


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a model call is some middleware's own, such as a summary of the conversation, by LangChain's marks."""
    return "lc_internal_call" in metadata or "lc_source" in metadata


class Speakers:
    """Puts the chunks of a turn's model calls and replies in order, by the id of their message."""

    def __init__(self) -> None:
        self._floor = Floor()
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
            yield from self._floor.speak(Chunk(text, call))
        if message.chunk_position == "last":
            yield from self._floor.end(call)

    def reply(self, text: str, message_id: str) -> Iterator[Chunk]:
        """Yield what may be spoken now, this chunk of a reply among it unless somebody else has the word."""
        yield from self._floor.speak(Chunk(text, message_id))

    def replied(self, message_id: str) -> Iterator[Chunk]:
        """Yield what has waited for the reply, which has been said as a whole: what of it has waited need not be."""
        yield from self._floor.leave(message_id)

    def broke_off(self, message_id: str) -> Iterator[Chunk]:
        """Yield that no more comes of the call, or of the reply, and what has waited for it; it is nobody's answer."""
        self._said.pop(message_id, None)
        yield from self._floor.broke_off(message_id)

    def streams(self, call: str) -> bool:
        """Tell whether the call streams by itself: a chunk of it that a node emits has been heard already."""
        return call in self._streamed

    def end_of(self, namespace: tuple[str, ...], nodes: Collection[str]) -> Iterator[Chunk]:
        """Yield what waits for calls that have ended since: those within these nodes of the graph at the namespace."""
        depth = len(namespace)
        yield from self._floor.end(
            *(
                call
                for call, within in self._within.items()
                if within == ("",) or (within[:depth] == namespace and _node(within[depth:]) in nodes)
            )
        )

    def end_all(self) -> Iterator[Chunk]:
        """Yield what waits, since the calls that had the word have ended."""
        yield from self._floor.end_all()

    def last_text(self) -> str:
        """Return all that one call has spoken: the last, or, where it was silent, the last that asked for no tool."""
        spoken = [call for call in self._said if call == self._latest or call not in self._asking]
        last = self._latest if self._latest in self._said else spoken[-1] if spoken else ""
        return "".join(self._said.get(last, []))


def _node(within: Sequence[str]) -> str:
    return within[0].partition(":")[0] if within else ""
