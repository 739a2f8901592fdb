"""Compiled graph of an agent, prepared for all its turns."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from langgraph.channels import DeltaChannel, LastValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel._write import ChannelWrite, ChannelWriteTupleEntry
from msgspec import Struct

from aion_core.agents.langgraph.graph import INBOX, OUTBOX, Graph
from aion_core.delegation.remotes import Remotes
from aion_core.errors import AgentLoadError
from aion_core.state.long_term_memory import LongTermMemory

SaverFactory = Callable[..., BaseCheckpointSaver[Any]]
"""Factory of checkpointers with the keyword arguments of `TableSaver`. Each turn calls it.

The checkpointer checks the turn's `fence` and awaits `log_first` before each write. Without a fence, it is for reads.
`types` has the author's classes whose instances checkpoints may contain, and `has_channel` tells by a checkpoint
namespace and a channel's name if the graph has this channel. With `skips_input`, the checkpointer does not
store the turn's first checkpoint (the bare input), because the next one, before the graph's first node, contains the
input too.
"""

MemoryFactory = Callable[..., LongTermMemory]
"""Factory of long-term memories, which check the fence in the keyword argument `fence` before each write."""


class GraphSetup(Struct, frozen=True, kw_only=True):
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
    remotes: Remotes
    """Remote agents that the nodes may call."""
    types: Collection[type]
    """The author's classes whose instances checkpoints may contain."""
    nodes: str
    """Names of the graph's nodes, from `node_names`."""
    skips_input: bool
    """True if the checkpoint after the input is enough to resume the graph, from `needs_no_input_checkpoint`."""


def with_envelopes(graph: Graph) -> Graph:
    """Return the graph with its input also written to the channels `a2a_inbox` and `a2a_outbox`.

    LangGraph's START node writes only the channels of the input schema. If the schema lacks these two channels, an
    additional writer writes them.
    """
    if not isinstance(graph, CompiledStateGraph):
        return graph
    named = graph.builder.schemas[graph.builder.input_schema]
    left_out = [
        channel
        for channel in (INBOX, OUTBOX)
        if channel not in named and isinstance(graph.channels.get(channel), LastValue)
    ]
    if not left_out:
        return graph

    def envelopes(given: Any) -> list[tuple[str, Any]]:
        return [(channel, given[channel]) for channel in left_out if isinstance(given, dict) and channel in given]

    # Put this writer first, because a conditional edge at START may read the inbox.
    writers = [ChannelWrite((ChannelWriteTupleEntry(mapper=envelopes),)), *graph.nodes[START].writers]
    return graph.copy(update={"nodes": {**graph.nodes, START: graph.nodes[START].copy({"writers": writers})}})


def needs_no_input_checkpoint(graph: Graph) -> bool:
    """Return True if the graph can resume from the checkpoint after the input.

    It cannot if a conditional edge chooses the first node by the input, or if a DeltaChannel is rebuilt from the writes
    of all earlier checkpoints.
    """
    if not isinstance(graph, CompiledStateGraph) or START in graph.builder.branches:
        return False
    return not any(isinstance(channel, DeltaChannel) for channel in graph.channels.values())


_ASYNC_METHODS = ("aget_tuple", "aput", "aput_writes")
"""Names of the checkpointer methods that LangGraph calls during a turn."""


def check_saver(graph: Graph) -> None:
    """Raise AgentLoadError if the author has compiled the graph with a checkpointer without async methods."""
    saver = graph.checkpointer
    if isinstance(saver, BaseCheckpointSaver) and any(
        _is_unimplemented(getattr(type(saver), name)) for name in _ASYNC_METHODS
    ):
        raise AgentLoadError(
            f"the graph's own checkpointer, {type(saver).__name__}, has no async methods",
            do=f"Compile the graph without it, or with its async version, such as Async{type(saver).__name__}.",
        )


def _is_unimplemented(method: Any) -> bool:
    # A method whose code names NotImplementedError counts as missing: the base class's methods raise this error, and so
    # do the async methods of LangGraph's synchronous savers.
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names
