"""What an ADK agent says about itself: its description, and a skill for each tool and sub-agent."""

import inspect
import re
from collections.abc import Iterator

from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.agent_tree import nodes_below
from aion_core.protocol.types import AgentCard, AgentSkill

MAX_SKILLS = 50
"""Maximum number of skills from tools and sub-agents. Other agents choose by them, and read all of them."""

_SECTION = re.compile(
    r"\n\s*(Args|Arguments|Parameters|Params|Returns?|Yields|Raises|Examples?|Notes?)\s*:?\s*\n", re.I
)
"""Beginning of a docstring's part about the function's arguments and result."""


def agent_card(app: App) -> AgentCard:
    """Return the card of an App's root agent, as far as its code states it. Instructions are never part of it.

    The agent's name is an identifier that many agents have, such as `root_agent`: the agent's id is left as its name.
    """
    root = app.root_agent
    if root is None:
        return AgentCard()
    skills = {skill.id: skill for skill in reversed(list(_skills(root)))}
    return AgentCard(description=root.description or "", skills=list(reversed(skills.values()))[:MAX_SKILLS])


def _skills(root: BaseNode) -> Iterator[AgentSkill]:
    """Yield the skills of the root agent, its tools, and the agents below it with their tools.

    The ids are those of ADK's `to_a2a`.
    """
    for _, node in nodes_below(root):
        if not isinstance(node, BaseAgent | Workflow):
            continue  # a function within a workflow is no skill of its own
        if node.description:
            tags = [] if node is root else ["sub-agent"]
            yield AgentSkill(id=node.name, name=node.name, description=node.description, tags=tags)
        for tool in getattr(node, "tools", ()):
            name, text = _named(tool)
            if name and text:
                yield AgentSkill(id=f"{node.name}-{name}", name=name, description=text, tags=["tool"])


def _named(tool: object) -> tuple[str, str]:
    """Return the name and the description of a tool; ("", "") for a toolset, because its tools may be on a server."""
    if isinstance(tool, BaseTool):
        return tool.name, _without_sections(tool.description or "")
    if callable(tool):
        return getattr(tool, "__name__", ""), _without_sections(inspect.getdoc(tool) or "")
    return "", ""


def _without_sections(docstring: str) -> str:
    return " ".join(_SECTION.split(f"{docstring}\n", maxsplit=1)[0].split())
