"""Streams of a graph's model calls."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Never

from langchain_core.messages import AIMessageChunk

from aion_core.agents.speakers import speaker_of
from aion_core.agents.streams import StreamSequencer
from aion_core.engine.agent import Chunk


class ModelStreams:
    """Streams of a turn's model calls and replies. Clients receive one message at a time."""

    def __init__(self, invoked: Collection[tuple[str, ...]], failed: Collection[str] = ()) -> None:
        """Start without streams. `invoked` has the namespaces of the subgraphs that have started.

        `failed` has the message ids of model calls in failed attempts of nodes. The caller adds ids during the turn.
        """
        self._sequencer, self._invoked, self._failed = StreamSequencer[Never](), invoked, failed
        self._namespaces: dict[str, tuple[str, ...]] = {}
        self._speakers: dict[str, dict[str, str]] = {}
        self._streamed: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        """Streamed text of each model call, by message id."""
        self._tool_callers: set[str] = set()
        """Message ids of model calls that call tools. Their text is intermediate and not an answer."""
        self._latest = ""
        self._keys: dict[str, str] = {}
        """Names of the model calls, by message id. A name is made of the node's run and a counter, so that a repeated
        call gets the same name."""
        self._calls: Counter[str] = Counter()
        self._ended: set[str] = set()

    def add(self, message: AIMessageChunk, *, namespace: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield a model's chunk now, or buffer it if another message is streaming.

        `namespace` is the checkpoint_ns of the node that calls the model. `emitted` is True if the author's code has
        emitted the chunk, and False if LangGraph streams it.
        """
        call = message.id or ""
        if call not in self._namespaces:
            self._namespaces[call] = path = tuple(namespace.split("|"))
            if self._sequencer.open in self._failed and self._namespaces.get(self._sequencer.open) == path:
                # Abort the stream left open by the node's failed attempt, because this chunk comes from the node's next
                # attempt.
                yield from self.abort(self._sequencer.open)
            self._speakers[call] = self._speaker(call, namespace)
        if not emitted and call not in self._streamed:
            self._streamed.add(call)
            self._keys[call] = self.next_key(namespace)
            self._calls[namespace] += 1
        self._latest = call
        if message.tool_call_chunks or message.tool_calls:
            self._tool_callers.add(call)
        text = message.content if isinstance(message.content, str) else str(message.text)
        if text:
            self._texts.setdefault(call, []).append(text)
            yield from self._sequencer.add(Chunk(text, call, speaker=self._speakers[call]))
        if message.chunk_position == "last":
            yield from self._sequencer.close(call)

    def add_reply(self, text: str, message_id: str, *, namespace: str) -> Iterator[Chunk]:
        """Yield a reply's chunk now, or buffer it if another message is streaming."""
        yield from self._sequencer.add(Chunk(text, message_id, speaker=self._speaker(message_id, namespace)))

    def discard_reply(self, message_id: str) -> Iterator[Chunk]:
        """Drop the buffered chunks of a reply that is complete. Yield the chunks of the next message."""
        yield from self._sequencer.discard(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Abort a model call or a reply: its text is not an answer. Yield the buffered chunks of the next messages."""
        self._texts.pop(message_id, None)
        yield from self._sequencer.abort(message_id)

    def has_streamed(self, call: str) -> bool:
        """Return True if LangGraph streams this model call. Chunks emitted by the author's code are then duplicates."""
        return call in self._streamed

    def close(self, *message_ids: str) -> Iterator[Chunk]:
        """Close the streams of complete messages. Yield the buffered chunks of the next messages."""
        yield from self._sequencer.close(*message_ids)

    def end_run(self, task: Mapping[str, Any]) -> Iterator[Chunk]:
        """Close the streams of a run of a node or `@task` that has ended. If the run has failed, abort its open stream.

        `task` is the event of LangGraph's mode "tasks". The streams are matched by run, because several runs of one
        node may be active at once, as by `Send`. A run with an interrupt keeps its streams, because it runs again.
        Yield the buffered chunks of the next messages.
        """
        run = f"{task['name']}:{task['id']}"
        if task["error"] is not None and run in self._namespaces.get(self._sequencer.open, ()):
            yield from self.abort(self._sequencer.open)
        if task["error"] is not None or task["interrupts"]:
            return
        for call, path in self._namespaces.items():
            if run in path or path == ("",):
                self._ended.add(call)
        if self._sequencer.open:
            yield from self._sequencer.close(*self._ended)

    def close_all(self) -> Iterator[Chunk]:
        """Close all streams and yield the buffered chunks."""
        yield from self._sequencer.close_all()

    def calls_after(self, count: int) -> list[str]:
        """Return the message ids of the streamed model calls in the order of their first chunks, without the first ones.

        `count` is the number of calls to leave out.
        """
        return [*islice(self._keys, count, None)]

    def has_said(self, call: str, *, ended: bool) -> bool:
        """Return True if the model call has streamed a text and has not failed. With `ended`, its node must have ended."""
        return call in self._texts and call not in self._failed and (not ended or call in self._ended)

    def text_of(self, call: str) -> str:
        """Return the text that a model call has streamed; "" if it has streamed none."""
        return "".join(self._texts.get(call, ()))

    def next_key(self, namespace: str) -> str:
        """Return the name of the next model call of a node. See `key_of`."""
        return f"{namespace}/{self._calls[namespace]}"

    def key_of(self, call: str) -> str:
        """Return the name of a model call. A call that is repeated, as after a crash, has the same name."""
        return self._keys[call]

    def run_of(self, call: str) -> str:
        """Return the run of the main graph's node in which the model was called; "" for an unknown call."""
        return self._namespaces.get(call, ("",))[0]

    def last_text(self) -> tuple[str, str]:
        """Return id and text of the last model call's message; if it has no text, of the last one without tool calls.

        Both values are "" if no such call has a text.
        """
        answering = [call for call in self._texts if call == self._latest or call not in self._tool_callers]
        last = self._latest if self._latest in self._texts else answering[-1] if answering else ""
        return last, "".join(self._texts.get(last, []))

    def latest_call(self, text: str) -> str:
        """Return the message id of the last model call that has streamed exactly this text, or ""."""
        return next((call for call, texts in reversed(self._texts.items()) if "".join(texts) == text), "")

    def _speaker(self, message_id: str, namespace: str) -> dict[str, str]:
        """Return the metadata of a message's stream delta. `agent` is the innermost started subgraph with its node."""
        path = tuple(namespace.split("|"))
        around = next((path[:depth] for depth in range(len(path) - 1, 0, -1) if path[:depth] in self._invoked), ())
        return speaker_of(message_id, node=last_name(path), agent=last_name(around))


def last_name(path: Sequence[str]) -> str:
    """Return the name of the last node in a namespace.

    If a node calls its subgraph repeatedly, a counter follows the node's name in the namespace.
    """
    return next((part.partition(":")[0] for part in reversed(path) if ":" in part), path[-1] if path else "")
