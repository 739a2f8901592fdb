"""Which agents a turn was left with: a deployment that has lost some of them cannot go on where that one stopped.

ADK itself would begin again where it does not find the agent that was at work, or end at once.
"""

from collections.abc import Iterator, Sequence

from google.adk.events import Event
from google.adk.workflow import BaseNode, Workflow

AGENTS = "aion:agents"
"""The key of an event's metadata under which the names of the agents stand that its deployment had."""

REDEPLOYED = "The agent was deployed anew with other agents in the middle of this turn; send the message again."


def of(root: BaseNode) -> str:
    """Return the names of the root and of all below it, each with those above it, whatever their order."""
    return "\n".join(sorted(_names(root)))


def fits(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether each agent is there that was there when one of the events was stored."""
    had = {name for event in events for name in str((event.custom_metadata or {}).get(AGENTS, "")).split("\n")}
    return had <= {"", *_names(root)}


def _names(node: BaseNode, above: str = "") -> Iterator[str]:
    name = f"{above}/{node.name}"
    yield name
    if isinstance(node, Workflow):
        inner: Sequence[BaseNode] = node.graph.nodes if node.graph is not None else ()
    else:
        inner = getattr(node, "sub_agents", ())
    for each in inner:
        yield from _names(each, name)
