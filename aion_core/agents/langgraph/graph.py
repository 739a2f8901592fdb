"""Compiled graph of a LangGraph agent: keys of its state, tools of its nodes, the function of an `@entrypoint`."""

from collections.abc import Callable, Iterator
from typing import Any

from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

Graph = Pregel[Any, Any, Any, Any]

MESSAGES, INBOX, OUTBOX = "messages", "a2a_inbox", "a2a_outbox"
"""Keys of a graph's state for messages: LangChain's messages, the received A2A message, and A2A messages to send."""

ROOT = "__root__"
"""LangGraph's name for the channel of a state without keys."""

STRUCTURED = "structured_response"
"""Key of the state for the structured output of LangChain's prebuilt agents."""


def has_single_value(graph: Graph) -> bool:
    """Return True if the graph's state is one value without keys, as that of `StateGraph(dict)`."""
    return isinstance(graph, CompiledStateGraph) and ROOT in graph.builder.schemas[graph.builder.input_schema]


def entrypoint_function(graph: Graph) -> Callable[..., Any] | None:
    """Return the author's function of an `@entrypoint`; None for another graph."""
    if isinstance(graph, CompiledStateGraph) or graph.input_channels != START or len(graph.nodes) != 1:
        return None
    [node] = graph.nodes.values()
    # LangGraph runs a plain function in a thread, by a wrapper in `afunc`.
    found = getattr(node.bound, "func", None) or getattr(node.bound, "afunc", None)
    return found if callable(found) else None


def tools_of(graph: Graph) -> Iterator[tuple[str, Any]]:
    """Yield name and tool for each tool in the graph's ToolNodes, including those of its subgraphs."""
    for node in graph.nodes.values():
        # Recognise a ToolNode by its attribute, because its import is slow and most graphs have no ToolNode.
        tools = getattr(node.bound, "tools_by_name", None)
        if isinstance(tools, dict):
            yield from tools.items()
    for _, nested in graph.get_subgraphs():
        if isinstance(nested, Pregel):
            yield from tools_of(nested)
