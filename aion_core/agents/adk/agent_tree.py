"""Tree of the agents of an ADK App."""

from collections.abc import Iterator, Sequence

from google.adk.planners import BuiltInPlanner
from google.adk.workflow import BaseNode, Workflow


def planning_agents(root: BaseNode) -> frozenset[str]:
    """Return the names of the agents whose text must not be streamed, because it contains their plans.

    ADK marks a plan as a thought only in the complete text. In a partial event, the plan looks like an answer.
    """
    planners = ((node.name, getattr(node, "planner", None)) for _, node in nodes_below(root))
    return frozenset(name for name, planner in planners if planner and not isinstance(planner, BuiltInPlanner))


def nodes_below(node: BaseNode, above: str = "") -> Iterator[tuple[str, BaseNode]]:
    """Yield this node and all nodes below it, each with its path, which begins with `above`."""
    path = f"{above}/{node.name}"
    yield path, node
    for each in nodes_in(node):
        yield from nodes_below(each, path)


def has_namesake(root: BaseNode) -> bool:
    """Return True if a node below this Workflow has its name: by their events the two can't be told apart."""
    below = (node for _, node in nodes_below(root) if node is not root)
    return isinstance(root, Workflow) and any(node.name == root.name for node in below)


def nodes_in(node: BaseNode) -> Sequence[BaseNode]:
    """Return the nodes of a workflow's graph, or the sub-agents of an agent."""
    if isinstance(node, Workflow):
        return node.graph.nodes if node.graph is not None else ()
    return getattr(node, "sub_agents", ())
