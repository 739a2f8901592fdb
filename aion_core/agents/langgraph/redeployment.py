"""Parts of a graph that a later deployment lacks: nodes, recorded in checkpoints, and channels."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langgraph._internal._config import recast_checkpoint_ns
from langgraph.pregel import Pregel

from aion_core.agents.langgraph.graph import Graph
from aion_core.errors import AgentFailed

NODES = "aion:nodes"
"""Key in a checkpoint's metadata for the node names of the graph that wrote it."""

REFUSES_EARLIER_ANSWER = (
    "The agent was deployed with another schema for an earlier question, and the answer to that question does not fit it. "
    "Send the first message again with a new id."
)


def node_names(graph: Graph) -> str:
    """Return the node names of the graph and its subgraphs, as sorted lines of text."""
    return "\n".join(sorted(_names(graph)))


def missing_nodes(nodes: str, metadata: Mapping[str, Any] | None) -> list[str]:
    """Return the nodes that a checkpoint's metadata names, and that a graph with the nodes `nodes` lacks.

    If a node to run next were missing in the deployed graph, LangGraph would silently end the resumed run.
    """
    written_by = (metadata or {}).get(NODES, "")
    return sorted(set(written_by.split("\n")) - {"", *nodes.split("\n")})


def has_channel(graph: Graph, ns: str, channel: str) -> bool:
    """Return True if the graph, or its subgraph in the checkpoint namespace `ns`, has this channel, or is unknown.

    LangGraph ignores stored values of other channels. Its own channels, as that of interrupts, begin with "__".
    """
    path = recast_checkpoint_ns(ns)
    owner = dict(graph.get_subgraphs(namespace=path, recurse=True)).get(path) if path else graph
    return channel.startswith("__") or not isinstance(owner, Pregel) or channel in owner.channels


def redeployed(missing: Sequence[str], waiting: Collection[str]) -> AgentFailed:
    """Return the failure of a turn whose graph lacks the nodes `missing`. It names those for which work is `waiting`."""
    names = ", ".join([node for node in missing if node in waiting] or missing)
    return AgentFailed(
        f"The agent was deployed with other nodes during this turn, and no longer has {names}. Send the first message again "
        "with a new id.",
        f"Missing nodes: {', '.join(missing)}. A renamed node needs its old name until no turn waits for it.",
    )


def _names(graph: Graph) -> Iterator[str]:
    yield from graph.nodes
    for namespace, nested in graph.get_subgraphs(recurse=True):
        if isinstance(nested, Pregel):  # skip a RemoteGraph, because it is deployed separately
            yield from (f"{namespace}|{name}" for name in nested.nodes)
