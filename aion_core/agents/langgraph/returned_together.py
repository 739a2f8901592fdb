"""Messages that one node of a graph returns together."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.pregel import Pregel
from msgspec import Struct

from aion_core.agents.langgraph.added_messages import may_answer
from aion_core.agents.langgraph.graph import OUTBOX, Graph
from aion_core.agents.langgraph.state import messages_of
from aion_core.agents.langgraph.unreturned_output import updates_in


class ReturnedMessages(Struct, frozen=True):
    """Several AIMessages in the return value of one node, which the runner has not recorded yet."""

    namespace: tuple[str, ...]
    """Namespace of the node's graph."""
    run: str
    """The checkpoint_ns of the node's run. It is the same after a crash."""
    messages: Sequence[AIMessage]


def returned_together(graph: Graph, run: str, output: Any) -> ReturnedMessages | None:
    """Return the messages in a node's return value, if there are several and they get into the graph's state.

    `run` is the node's checkpoint_ns. A node of a subgraph counts if the subgraph itself is a node of its parent graph.
    The return value of a subgraph does not count, because its nodes have already returned these messages.
    """
    writes = list(updates_in(output))
    returned = [message for written in writes for message in messages_of(written)]
    if len(returned) < 2:
        return None
    *namespace, last = run.split("|")
    node, within = last.partition(":")[0], _graph_at(graph, namespace)
    messages = [message for message in returned if may_answer(message)]
    if len(messages) < 2 or within is None or _is_graph(within, node) or any(OUTBOX in written for written in writes):
        return None
    return ReturnedMessages(tuple(namespace), run, messages)


def _graph_at(graph: Graph, namespace: Sequence[str]) -> Graph | None:
    """Return the subgraph at a namespace; None if a function of a node calls one of the graphs on the path."""
    for part in namespace:
        node = graph.nodes.get(part.partition(":")[0])
        if node is None or not isinstance(node.bound, Pregel):
            return None
        graph = node.bound
    return graph


def _is_graph(graph: Graph, node: str) -> bool:
    return node in graph.nodes and isinstance(graph.nodes[node].bound, Pregel)
