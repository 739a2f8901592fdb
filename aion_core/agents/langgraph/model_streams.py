"""Streams of a turn's model calls and replies, one message at a time, and the texts that they stream."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any

from langchain_core.messages import AIMessageChunk

from aion_core.agents.langgraph.thread import first_name, last_name
from aion_core.agents.outbound import StreamSequencer, speaker_of
from aion_core.ports import Chunk

_QUIET = "aion_quiet"
"""Key in the metadata of a model call within a tool. LangGraph passes the metadata on with each chunk."""


def mark_quiet(metadata: MutableMapping[str, Any]) -> None:
    """Mark a model call within a tool, such as that of another agent: it does not speak to the client."""
    metadata[_QUIET] = True


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Return True for a model call of a tool or of a LangChain middleware, such as a summary of the conversation."""
    return "lc_internal_call" in metadata or "lc_source" in metadata or _QUIET in metadata


class ModelStreams:
    """Streams of a turn's model calls and replies, sequenced so that clients get one message at a time."""

    def __init__(self, invoked: Collection[tuple[str, ...]]) -> None:
        """Start without streams. `invoked` are the namespaces of the subgraphs that have started."""
        self._sequencer, self._invoked = StreamSequencer(), invoked
        self._namespaces: dict[str, tuple[str, ...]] = {}
        self._speakers: dict[str, dict[str, str]] = {}
        self._streamed: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        """Streamed text of each model call, by message id."""
        self._tool_callers: set[str] = set()
        """Message ids of model calls that call tools. Their text is intermediate and not an answer."""
        self._latest = ""
        self._keys: dict[str, str] = {}
        """Names of the model calls by message id, from the run of their node and a counter. A repeated node has the same."""
        self._calls: Counter[str] = Counter()
        self._ended: set[str] = set()

    def add(self, message: AIMessageChunk, *, namespace: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield a model's chunk now, or buffer it if another message is streaming.

        `namespace` is the checkpoint_ns of the node that calls the model. `emitted` is True for a chunk that a node
        emits itself.
        """
        call = message.id or ""
        if call not in self._namespaces:
            self._namespaces[call] = tuple(namespace.split("|"))
            self._speakers[call] = self._speaker(call, namespace)
        if not emitted and call not in self._streamed:
            self._streamed.add(call)
            self._keys[call] = f"{namespace}/{self._calls[namespace]}"
            self._calls[namespace] += 1
        self._latest = call
        if message.tool_call_chunks or message.tool_calls:
            self._tool_callers.add(call)
        text = str(message.text)
        if text:
            self._texts.setdefault(call, []).append(text)
            yield from self._sequencer.add(Chunk(text, call, speaker=self._speakers[call]))
        if message.chunk_position == "last":
            yield from self._sequencer.close(call)

    def restore(self, call: str, text: str) -> None:
        """Add the text of a model call that an earlier process of the turn has streamed."""
        self._streamed.add(call)
        self._ended.add(call)
        self._texts[call], self._keys[call] = [text], call

    def add_reply(self, text: str, message_id: str, *, namespace: str) -> Iterator[Chunk]:
        """Yield a reply's chunk now, or buffer it if another message is streaming."""
        yield from self._sequencer.add(Chunk(text, message_id, speaker=self._speaker(message_id, namespace)))

    def discard_reply(self, message_id: str) -> Iterator[Chunk]:
        """Drop the buffered chunks of a complete reply, and yield those of the next message."""
        yield from self._sequencer.discard(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Abort a model call or a reply, so that its text is not an answer. Yield the chunks that follow."""
        self._texts.pop(message_id, None)
        yield from self._sequencer.abort(message_id)

    def has_streamed(self, call: str) -> bool:
        """Return True if the model call streams by itself, so that chunks emitted by its node are duplicates."""
        return call in self._streamed

    def close(self, *message_ids: str) -> Iterator[Chunk]:
        """Close messages that are complete. Yield the chunks that follow."""
        yield from self._sequencer.close(*message_ids)

    def close_nodes(self, namespace: tuple[str, ...], nodes: Collection[str]) -> Iterator[Chunk]:
        """Close the model calls of these nodes of the graph at `namespace`. Yield the buffered chunks that follow."""
        depth = len(namespace)
        closed = [
            call
            for call, path in self._namespaces.items()
            if path == ("",) or (path[:depth] == namespace and first_name(path[depth:]) in nodes)
        ]
        self._ended.update(closed)
        yield from self._sequencer.close(*closed)

    def close_all(self) -> Iterator[Chunk]:
        """Close all streams and yield the buffered chunks."""
        yield from self._sequencer.close_all()

    def ended_texts(self, is_done: Callable[[str], bool], *, every: bool = False) -> list[tuple[str, str, str]]:
        """Return message id, text and key of the model calls whose nodes have ended, or of all, without aborted ones.

        Calls that `is_done` knows by their message id are left out.
        """
        return [
            (call, "".join(texts), self._keys[call])
            for call, texts in self._texts.items()
            if call in self._streamed and (every or call in self._ended) and not is_done(call)
        ]

    def last_text(self) -> tuple[str, str]:
        """Return the text of the last model call, or if it has no text, of the last model call without tool calls.

        Its message id comes first. Both are empty without such a text.
        """
        answering = [call for call in self._texts if call == self._latest or call not in self._tool_callers]
        last = self._latest if self._latest in self._texts else answering[-1] if answering else ""
        return last, "".join(self._texts.get(last, []))

    def _speaker(self, message_id: str, namespace: str) -> dict[str, str]:
        """Return the metadata of a message's stream delta. The agent is the innermost started subgraph around its node."""
        path = tuple(namespace.split("|"))
        around = next((path[:depth] for depth in range(len(path) - 1, 0, -1) if path[:depth] in self._invoked), ())
        return speaker_of(message_id, node=last_name(path), agent=last_name(around))
