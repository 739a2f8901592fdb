"""Settings and services that all turns of a LangGraph graph share."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver

from aion_core.checkpointing.persistence import BeforePut
from aion_core.ports import LongTermMemory
from aion_core.stores.retries import Fence


class SaverFactory(Protocol):
    """Factory of checkpointers, called for each turn."""

    def __call__(
        self, *, fence: Fence, before_put: BeforePut, types: Collection[type], skips_input: bool = False
    ) -> BaseCheckpointSaver[Any]:
        """Return a checkpointer that checks the turn's fencing number and awaits `before_put` before each write.

        `types` are the author's classes whose instances checkpoints may contain. With `skips_input`, the first stored
        checkpoint of a turn is the one before the graph's first node, which contains the input.
        """


class MemoryFactory(Protocol):
    """Factory of long-term memories, called at most once for each turn."""

    def __call__(self, *, fence: Fence) -> LongTermMemory:
        """Return a long-term memory that checks the turn's fencing number before each write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSetup:
    """Settings and services that all turns of a graph share."""

    name: str
    """Name of the agent."""
    configuration: Mapping[str, Any]
    """The author's own settings from aion.yaml."""
    recursion_limit: int | None
    """Maximum number of steps of a turn; None for the graph's own."""
    context: Mapping[str, Any] | None
    """Context for a graph with its own context schema; None if the context is the turn's AionContext."""
    savers: SaverFactory | None
    memories: MemoryFactory | None
    types: Collection[type]
    """The author's classes whose instances checkpoints may contain."""
    nodes: str
    """Names of the graph's nodes, from `node_names`."""
