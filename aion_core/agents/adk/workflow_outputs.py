"""Which of the outputs in ADK events is that of the root. Outputs of other nodes are input of the next node."""

from google.adk.events import Event
from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.agent_tree import nodes_in


def is_output_of_root(event: Event, root: BaseNode) -> bool:
    """Return True if the event's output is that of the root: of a Workflow, or of an agent in task mode.

    ADK names the nodes whose output it is. An event without these names is by a custom agent that is no node, or has the
    output of an earlier run of a Workflow's node, which ADK sends again when it resumes the Workflow. For the latter,
    the node's place in the graph decides.
    """
    if event.node_info.output_for is not None:
        return any("/" not in path for path in event.node_info.output_for)
    node: BaseNode | None = root
    for segment in event.node_info.path.split("/")[1:]:
        name = segment.rpartition("@")[0]
        if not (isinstance(node, Workflow) and _is_last(name, node)):
            return False
        node = next((each for each in nodes_in(node) if each.name == name), None)
    return True


def _is_last(name: str, workflow: Workflow) -> bool:
    edges = workflow.graph.edges if workflow.graph is not None else ()
    return all(edge.from_node.name != name for edge in edges)
