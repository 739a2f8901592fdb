"""Drawing of an ADK agent: the tree of its sub-agents, or the graph of a workflow, with the tools of each."""

from collections.abc import Iterator

from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.agent_tree import nodes_in
from aion_tools.dev.console.drawing.drawing import Drawing, DrawnEdge, DrawnPart, PartKind


def drawn_tree(root: BaseNode) -> Drawing:
    """Return the agents below `root` with their tools. A toolset is one part, because only a turn knows its tools."""
    parts: dict[str, DrawnPart] = {}
    edges: dict[DrawnEdge, None] = {}
    for part, found in _below(root, root.name):
        parts.setdefault(part.id, part)
        edges.update(dict.fromkeys(found))
    return Drawing(list(parts.values()), list(edges))


def _below(node: BaseNode, path: str) -> Iterator[tuple[DrawnPart, list[DrawnEdge]]]:
    """Yield this agent, its tools and the agents below it, each with the edges that begin at it."""
    names = [
        str(getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__))
        for tool in getattr(node, "tools", ())
    ]
    tools = [DrawnPart(f"{path}/{name}()", name, PartKind.TOOL) for name in names]
    edges = [DrawnEdge(path, tool.id, conditional=True) for tool in tools]
    inner = {each.name: each for each in nodes_in(node)}
    if not isinstance(node, Workflow):
        edges += [DrawnEdge(path, f"{path}/{name}") for name in inner]
    elif node.graph is not None:
        edges += [
            DrawnEdge(
                f"{path}/{each.from_node.name}",
                f"{path}/{each.to_node.name}",
                "" if each.route is None else str(each.route),
                each.route is not None,
            )
            for each in node.graph.edges
        ]
    yield DrawnPart(path, node.name, PartKind.AGENT), edges
    for tool in tools:
        yield tool, []
    for name, each in inner.items():
        yield from _below(each, f"{path}/{name}")
