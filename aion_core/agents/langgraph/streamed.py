"""What a turn has streamed and its state will not hold, kept beside the thread for whoever ends the turn (R81).

Text that a node streams and does not return is gone with its process: the node, once it has ended, does not run again.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from langgraph.types import Command

BESIDE = "aion:streamed"
"""The checkpoint_ns of the record, one for each turn: in the thread, and out of the graph's sight."""


class Streamed:
    """Knows what the model calls of a turn have streamed, and keeps the last that no node has returned."""

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, config: RunnableConfig, *, returns: bool) -> None:
        """`returns`: whether the state has messages, and what a node returns of them is kept there."""
        self._saver, self._returns = saver, returns
        self._turn = config["metadata"]["run_id"]
        place = {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": BESIDE}
        self._config: RunnableConfig = {"configurable": place, "metadata": {"run_id": self._turn}}
        self._checkpoint = empty_checkpoint()
        self._under_way: set[UUID] = set()
        self._unreturned: dict[str, str] = {}
        self._kept = ""

    def began_to_stream(self, call: UUID) -> None:
        """Note that the client hears this model call."""
        self._under_way.add(call)

    def ended(self, call: UUID, message: BaseMessage) -> None:
        """Note what a model call has said as a whole."""
        if call in self._under_way:
            self._under_way.discard(call)
            if message.text:
                self._unreturned[message.id or str(call)] = str(message.text)

    def emitted(self, call: str, text: str) -> None:
        """Note a chunk that a node has emitted."""
        self._unreturned[call] = self._unreturned.get(call, "") + text

    def returned(self, output: Any) -> None:
        """Note what a node has returned: the messages in there are the state's to keep."""
        if self._returns and self._unreturned:
            for message in _messages_in(output):
                self._unreturned.pop(message.id or "", None)

    async def keep(self) -> None:
        """Keep what no node has returned, unless it is kept already."""
        text = next(reversed(self._unreturned.values()), "")
        if self._saver is not None and text != self._kept:
            metadata: Any = {"source": "update", "step": 0, "parents": {}, "text": text}
            await self._saver.aput(self._config, self._checkpoint, metadata, {})
            self._kept = text

    async def earlier(self) -> str:
        """Return what another process of this turn has kept."""
        found = await self._saver.aget_tuple(self._config) if self._saver is not None else None
        metadata: Mapping[str, Any] | CheckpointMetadata = found.metadata if found is not None else {}
        return str(metadata.get("text", "")) if metadata.get("run_id") == self._turn else ""


def _messages_in(output: Any) -> Iterator[BaseMessage]:
    if isinstance(output, BaseMessage):
        yield output
    elif isinstance(output, Command):
        yield from _messages_in(output.update)
    elif isinstance(output, Mapping):
        for held in output.values():
            yield from _messages_in(held)
    elif isinstance(output, list | tuple):
        for held in output:
            if isinstance(held, BaseMessage | Command):
                yield from _messages_in(held)
