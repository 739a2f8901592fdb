"""Projects whose agent has chosen sources for its card."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.support.service import http

LANGGRAPH = """
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("node", lambda state: {}).add_edge(START, "node").compile()
"""
CARD = """
from a2a.types import AgentCard, AgentProvider, AgentSkill


def card(name="module"):
    return AgentCard(
        name=name, description="module", version="module", documentation_url="https://module.test",
        icon_url="https://module.test/icon", provider=AgentProvider(organization="module", url="https://module.test"),
        default_input_modes=["text/module"], default_output_modes=["text/module"],
        skills=[AgentSkill(id="module", name="module", description="module", tags=["module"])],
    )
"""
ADK = """
from google.adk.agents import Agent

root_agent = Agent(name="helper", model="gemini-2.5-flash", DESCRIPTION)
"""


class Source(NamedTuple):
    """A source of a card's field."""

    value: Callable[[Any, str], bool]
    """Function from the card and a field to True if the field has the value of this source."""


def _has(text: str) -> Callable[[Any, str], bool]:
    return lambda card, field: text in json.dumps(card[field])


SOURCES = {
    "aion.yaml": Source(_has("yaml")),
    "AgentCard": Source(_has("module")),
    "agent.json": Source(_has("json")),
    "graph": Source(_has("compiled")),
    "ADK": Source(_has("adk")),
    "input": Source(lambda card, field: card[field] == ["application/json"]),
    "output": Source(lambda card, field: card[field] == ["application/json"]),
    "docstring": Source(_has("docstring")),
    "pyproject": Source(_has("pyproject")),
    "default": Source(
        lambda card, field: (
            {
                "name": "helper",
                "description": "helper has no description.",
                "version": "1.0.0",
                "defaultInputModes": ["text/plain", "application/json", "application/octet-stream"],
                "defaultOutputModes": ["text/plain"],
            }.get(field, card.get(field))
            == card.get(field)
        )
    ),
}

FIELDS = {
    "name": ["aion.yaml", "AgentCard", "agent.json", "graph", "default"],
    "description": ["aion.yaml", "AgentCard", "agent.json", "ADK", "docstring", "pyproject", "default"],
    "version": ["aion.yaml", "AgentCard", "agent.json", "default"],
    "documentationUrl": ["aion.yaml", "AgentCard", "agent.json"],
    "iconUrl": ["aion.yaml", "AgentCard", "agent.json"],
    "provider": ["aion.yaml", "AgentCard", "agent.json"],
    "skills": ["aion.yaml", "AgentCard", "agent.json", "ADK", "default"],
    "defaultInputModes": ["aion.yaml", "input", "AgentCard", "agent.json", "default"],
    "defaultOutputModes": ["aion.yaml", "AgentCard", "agent.json", "output", "default"],
}
"""Sources of each field of a card, in order of precedence."""

_YAML = {
    "name": "name: yaml",
    "description": "description: yaml",
    "version": "version: yaml",
    "documentationUrl": "documentation_url: https://yaml.test",
    "iconUrl": "icon_url: https://yaml.test",
    "provider": "provider: {organization: yaml, url: https://yaml.test}",
    "skills": "skills: [{id: yaml, name: yaml, description: yaml}]",
    "defaultInputModes": "input_modes: [text/yaml]",
    "defaultOutputModes": "output_modes: [text/yaml]",
}
_AGENT_JSON = {
    "name": "json",
    "description": "json",
    "version": "json",
    "url": "https://json.test",
    "documentationUrl": "https://json.test",
    "iconUrl": "https://json.test",
    "provider": {"organization": "json", "url": "https://json.test"},
    "defaultInputModes": ["text/json"],
    "defaultOutputModes": ["text/json"],
    "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
    "security": [{"basic": []}],
    "skills": [{"id": "json", "name": "json", "description": "json", "tags": ["json"]}],
}


OF_GRAPHS = ("graph", "input", "output")


def project(folder: Path, field: str, sources: Sequence[str]) -> Path:
    """Write a project whose agent `helper` has these sources for a field of its card. Return its folder."""
    place = folder / "helper"
    place.mkdir()
    docstring = '"""From the docstring."""\n' if "docstring" in sources else ""
    (place / "__init__.py").write_text(f"{docstring}{_source(sources)}")
    option = f", {_YAML[field]}" if "aion.yaml" in sources else ""
    (folder / "aion.yaml").write_text(f"aion: {{agents: {{helper: {{path: helper{option}}}}}}}")
    (folder / "agent.py").write_text(LANGGRAPH)
    if "agent.json" in sources:
        (place / "agent.json").write_text(json.dumps(_AGENT_JSON))
    if "pyproject" in sources:
        (folder / "pyproject.toml").write_text("[project]\nname = 'x'\ndescription = 'From pyproject.'\n")
    return folder


def _source(sources: Sequence[str]) -> str:
    card = f"{CARD}\nagent_card = card()\n" if "AgentCard" in sources else ""
    # Sources of one framework only: a graph that comes first is one of LangGraph, and agent.json belongs to ADK.
    if sources and sources[0] not in OF_GRAPHS and {"ADK", "agent.json"} & set(sources):
        return ADK.replace("DESCRIPTION", 'description="adk"' if "ADK" in sources else "") + card
    source = LANGGRAPH
    if "graph" in sources:
        source = source.replace(".compile()", '.compile(name="compiled")')
    if "input" in sources or "output" in sources:
        typed = (
            "from typing import TypedDict\nclass Number(TypedDict):\n    number: int\nclass Out(Number):\n    pass\n"
        )
        source = typed + source.replace("MessagesState)", "Number, output_schema=Out)")
    return source + card


def deployed_app(folder: Path) -> FastAPI:
    """Return the app of the project, whose agents are not loaded yet."""
    return build_app(Settings.from_environ({"AION_CONFIG": str(_config(folder)), "AION_STORE": "memory"}))


async def card_of(folder: Path) -> Any:
    """Return the card of the project's agent at the root, from a new process."""
    async with http(deployed_app(folder)) as client:
        return (await client.get("/.well-known/agent-card.json")).json()


def _config(folder: Path) -> Path:
    return folder / "aion.yaml" if (folder / "aion.yaml").is_file() else folder
