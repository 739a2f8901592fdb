"""Drawing of a LangGraph graph."""

from langgraph.graph import END, START

from aion_core.agents.langgraph.graph import Graph
from aion_tools.dev.console.drawing.drawing import Drawing, DrawnEdge, DrawnPart, PartKind


def drawn_graph(graph: Graph) -> Drawing:
    """Return the graph's nodes and edges as `get_graph` tells them, with the nodes of its subgraphs."""
    found = graph.get_graph(xray=True)
    parts = [
        DrawnPart(node, node.rpartition(":")[2], PartKind.END if node in (START, END) else PartKind.NODE)
        for node in found.nodes
    ]
    edges = [
        DrawnEdge(each.source, each.target, _label(each.data, each.target), each.conditional) for each in found.edges
    ]
    return Drawing(parts, edges)


def _label(data: object, target: str) -> str:
    """Return the name of a route, unless it is that of the node to which it leads."""
    text = "" if data is None else str(data)
    return "" if text == target.rpartition(":")[2] else text
