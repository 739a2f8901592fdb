"""Agents of a deployment, recorded in the events of a session to find those that a later deployment lacks."""

from collections.abc import Iterator, Sequence

from google.adk.events import Event
from google.adk.workflow import BaseNode

from aion_core.agents.adk.agent_tree import nodes_below
from aion_core.errors import AgentFailed

AGENTS = "aion:agents"
"""Key in an ADK event's metadata for the names of all agents of the deployment at that time."""


def agent_names(root: BaseNode) -> str:
    """Return the paths of the root agent and of all agents below it, as sorted lines of text."""
    return "\n".join(sorted(_paths(root)))


def missing_agents(root: BaseNode, events: Sequence[Event]) -> list[str]:
    """Return the agents that the session's events name, and that the root agent does not contain.

    ADK does not report a missing agent: it starts the turn over, or ends it at once.
    """
    recorded = {name for event in events for name in str((event.custom_metadata or {}).get(AGENTS, "")).split("\n")}
    return sorted(recorded - {"", *_paths(root)})


def redeployed(missing: Sequence[str]) -> AgentFailed:
    """Return the failure of a turn whose deployment lacks these agents."""
    return AgentFailed(
        f"The agent was deployed with other agents during this turn, and no longer has {', '.join(missing)}. Send the first "
        "message again with a new id.",
        "A renamed or moved agent needs its old name and place until no turn waits for it.",
    )


def _paths(root: BaseNode) -> Iterator[str]:
    yield from (path for path, _ in nodes_below(root))
