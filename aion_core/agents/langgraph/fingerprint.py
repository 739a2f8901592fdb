"""Which graph's steps a thread was left in: a graph that has lost some of them cannot go on where that one stopped.

LangGraph itself ends such a run at once, as if nothing were left to do.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from langgraph.pregel import Pregel

from aion_core.agents.langgraph.graph import Graph

NODES = "aion:nodes"
"""The key in a checkpoint's metadata under which the names of its graph's nodes stand."""

REDEPLOYED = "The agent was deployed anew with other steps in the middle of this turn; send the message again."


def of(graph: Graph) -> str:
    """Return the names of the graph's nodes, and of its subgraphs', whatever their order."""
    return "\n".join(sorted(_names(graph)))


def fits(graph: Graph, metadata: Mapping[str, Any] | None) -> bool:
    """Tell whether the graph has each node that the graph had which wrote a checkpoint with this metadata."""
    written_by = (metadata or {}).get(NODES, "")
    return set(written_by.split("\n")) <= {"", *_names(graph)}


def _names(graph: Graph) -> Iterator[str]:
    yield from graph.nodes
    for namespace, nested in graph.get_subgraphs(recurse=True):
        if isinstance(nested, Pregel):  # a RemoteGraph is deployed by itself
            yield from (f"{namespace}|{name}" for name in nested.nodes)
