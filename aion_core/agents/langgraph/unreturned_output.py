"""Output of a turn that the graph's state lacks."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.types import Command
from msgspec import Struct

from aion_core.agents.langgraph.graph import STRUCTURED
from aion_core.agents.langgraph.parts import sent_data
from aion_core.protocol.message_json import to_json
from aion_core.protocol.text import utf8

STREAMED_NAMESPACE = "aion:streamed"
"""Checkpoint namespace (`checkpoint_ns`) in the thread for a turn's streamed text. The graph does not see it."""


class StreamedText(Struct, frozen=True):
    """Text of a model call that no node has returned."""

    text: str
    call: str = ""
    """Message id of the model call."""
    key: str = ""
    """Name of the model call, as in `ModelStreams.key_of`; "" for chunks emitted by the author's code."""


class UnreturnedOutput:
    """Output of a turn that the graph's state lacks: streamed text, and structured responses of subgraphs.

    The last streamed text that no node has returned, and the last structured response, are stored. Otherwise they would
    be lost with the process, because a finished node does not run again.
    """

    def __init__(
        self, saver: Callable[[], BaseCheckpointSaver[Any]] | None, config: RunnableConfig, *, returns: bool
    ) -> None:
        """Start without output. `returns` is True if the graph's state has a key for messages.

        The first use calls `saver` to get the checkpointer. If `saver` is None, nothing is stored.
        """
        self._make_saver, self._returns = saver, returns
        self._turn = config["metadata"]["run_id"]
        place = {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": STREAMED_NAMESPACE}
        self._config: RunnableConfig = {"configurable": place, "metadata": {"run_id": self._turn}}
        self._streaming: dict[UUID, str] = {}
        """Names of the model calls that are streaming."""
        self._counts: Counter[str] = Counter()
        self.failed: set[str] = set()
        """Message ids of the model calls of failed attempts of nodes."""
        self._unreturned: dict[str, StreamedText] = {}
        self.structured: Any = None
        """Last structured response of a subgraph as JSON, also from an earlier process; None without one."""
        self._stored: tuple[StreamedText, Any] = (StreamedText(""), None)

    @cached_property
    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        return self._make_saver() if self._make_saver is not None else None

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return empty_checkpoint()

    def start(self, call: UUID, run: str) -> None:
        """Mark this model call as streaming to the client. `run` is the checkpoint_ns of the node that calls it."""
        self._streaming[call] = f"{run}/{self._counts[run]}"
        self._counts[run] += 1

    def complete(self, call: UUID, message: BaseMessage) -> None:
        """Add the complete message of a model call. Store its text if it was streamed."""
        key = self._streaming.pop(call, None)
        if key is not None and message.text:
            message_id = message.id or str(call)
            self._unreturned[message_id] = StreamedText(str(message.text), message_id, key)

    def discard(self, calls: Collection[str]) -> None:
        """Remove the messages of a node's failed attempt, because the node may run again."""
        self.failed.update(calls)
        for call in calls:
            self._unreturned.pop(call, None)

    def add_emitted(self, call: str, text: str) -> None:
        """Append a text chunk emitted by the author's code to the text of its message. `call` is the message's id."""
        known = self._unreturned.get(call, StreamedText(""))
        self._unreturned[call] = StreamedText(known.text + text, call)

    def remove_returned(self, output: Any) -> None:
        """Remove the messages in a node's return value, because the graph's state stores these messages."""
        if self._returns and self._unreturned:
            for message in _messages_in(output):
                self._unreturned.pop(message.id or "", None)

    def add_structured(self, output: Any) -> None:
        """Record the structured response in the return value of a subgraph's node, if it has one."""
        for written in updates_in(output):
            if (part := sent_data(written.get(STRUCTURED))) is not None:
                self.structured = to_json(part)["data"]

    async def store(self) -> None:
        """Store the last unreturned text and the last structured response, unless they are stored already."""
        output = next(reversed(self._unreturned.values()), StreamedText("")), self.structured
        if output != self._stored and self._saver is not None:
            text = output[0]
            metadata: Any = {"source": "update", "step": 0, "parents": {}, "text": utf8(text.text)}
            metadata |= {"call": text.call, "key": text.key}
            if self.structured is not None:
                metadata["structured"] = json.dumps(self.structured)
            await self._saver.aput(self._config, self._checkpoint, metadata, {})
            self._stored = output

    async def load_earlier(self) -> StreamedText | None:
        """Load the structured response stored by an earlier process of this turn. Return that process's text, or None."""
        found = await self._saver.aget_tuple(self._config) if self._saver is not None else None
        metadata: Mapping[str, Any] | CheckpointMetadata = found.metadata if found is not None else {}
        if metadata.get("run_id") != self._turn:
            return None
        self.structured = json.loads(str(metadata.get("structured", "null")))
        text, call, key = (str(metadata.get(name, "")) for name in ("text", "call", "key"))
        return StreamedText(text, call, key) if text else None


def updates_in(output: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings in a node's return value that LangGraph writes to the state."""
    for each in output if isinstance(output, list | tuple) else [output]:
        written = each.update if isinstance(each, Command) else each
        if isinstance(written, dict | Mapping):
            yield written


NODE_METADATA = "__metadata__"
"""Key of LangGraph's own data in an event of the mode "updates"."""


def writes_in(update: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each node in an event of the mode "updates" with the values that it has written to the state."""
    for node, written in update.items() if isinstance(update, Mapping) else ():
        for values in updates_in(written) if node != NODE_METADATA else ():
            yield node, values


def _messages_in(output: Any) -> Iterator[BaseMessage]:
    if isinstance(output, BaseMessage):
        yield output
    elif isinstance(output, Command):
        yield from _messages_in(output.update)
    elif isinstance(output, dict | Mapping):
        for value in output.values():
            yield from _messages_in(value)
    elif isinstance(output, list | tuple):
        for value in output:
            if isinstance(value, BaseMessage | Command):
                yield from _messages_in(value)
