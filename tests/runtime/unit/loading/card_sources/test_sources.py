"""Sources of an agent's card, from aion.yaml down to the default: each field has the first source that states it.

The table in docs/cards.md lists the same sources: tests/repository/docs/test_cards.py compares them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.unit.loading.card_sources.sources import (
    FIELDS,
    LANGGRAPH,
    SOURCES,
    card_of,
    project,
)
from tests.support.isolated import isolated_imports


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path) -> Iterator[None]:
    with isolated_imports(tmp_path):
        yield


@pytest.mark.parametrize(("field", "number"), [(field, at) for field, row in FIELDS.items() for at in range(len(row))])
async def test_field_has_first_source_that_states_it(tmp_path: Path, field: str, number: int) -> None:
    """Give the agent this source and all later ones: the card has this one's value."""
    sources = FIELDS[field][number:]
    card = await card_of(project(tmp_path, field, sources))
    assert SOURCES[sources[0]].value(card, field), card


async def test_graph_without_any_source_says_so(tmp_path: Path) -> None:
    card = await card_of(project(tmp_path, "description", []))
    assert (card["name"], card["description"]) == ("helper", "helper has no description.")
    [skill] = card["skills"]
    said = {name: skill[name] for name in ("id", "name", "description", "tags")}
    assert said == {"id": "chat", "name": "helper", "description": "helper has no description.", "tags": ["chat"]}


@pytest.mark.parametrize("name", ["LangGraph", "agent", "graph"])
async def test_generic_name_of_graph_is_not_used(tmp_path: Path, name: str) -> None:
    (tmp_path / "agent.py").write_text(LANGGRAPH.replace(".compile()", f".compile(name={name!r})"))
    (tmp_path / "aion.yaml").write_text("aion: {agents: {helper: {path: agent.py}}}")
    assert (await card_of(tmp_path))["name"] == "helper"


@pytest.mark.parametrize("start", ["def make():", "async def make():", "def make(config):", "async def make(config):"])
async def test_description_is_docstring_of_factory(tmp_path: Path, start: str) -> None:
    source = (
        f'"""Answer questions."""\n{LANGGRAPH}\n\n{start}\n    """Answer questions about orders."""\n    return graph\n'
    )
    (tmp_path / "agent.py").write_text(source)
    (tmp_path / "aion.yaml").write_text("aion: {agents: {helper: {path: 'agent.py:make'}}}")
    assert (await card_of(tmp_path))["description"] == "Answer questions about orders."


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        ("Answer questions\\nabout orders.\\n\\nThe rest is for developers.", "Answer questions about orders."),
        ("LangGraph single-node graph template.\\n\\nReturns a predefined response.", "helper has no description."),
        ("word " * 200, f"{' '.join(['word'] * 99)}…"),
    ],
)
async def test_description_is_first_paragraph_of_docstring(tmp_path: Path, docstring: str, text: str) -> None:
    (tmp_path / "agent.py").write_text(f'"""{docstring}"""\n{LANGGRAPH}'.encode().decode("unicode_escape"))
    (tmp_path / "aion.yaml").write_text("aion: {agents: {helper: {path: agent.py}}}")
    assert (await card_of(tmp_path))["description"] == text


@pytest.mark.parametrize("content", ["[1]", "{", '{"name": 1}'])
async def test_unreadable_agent_json_is_named_in_log(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = project(tmp_path, "name", ["agent.json"])
    (folder / "helper" / "agent.json").write_text(content)
    assert (await card_of(folder))["name"] == "helper"
    assert f"{folder / 'helper' / 'agent.json'} is not used for the agent's card" in caplog.text


async def test_card_of_a2a_03_in_module_is_read(tmp_path: Path) -> None:
    old = """
from a2a.compat.v0_3.types import AgentCapabilities, AgentCard, AgentSkill
card = AgentCard(
    name="Older", description="Written for 0.3.", version="2.0.0", url="https://x.test/", capabilities=AgentCapabilities(),
    default_input_modes=["text"], default_output_modes=["text"],
    skills=[AgentSkill(id="old", name="Old", description="Old.", tags=["old"])],
)
"""
    (tmp_path / "agent.py").write_text(f"{LANGGRAPH}{old}")
    (tmp_path / "aion.yaml").write_text("aion: {agents: {helper: {path: agent.py}}}")
    card = await card_of(tmp_path)
    assert (card["name"], card["version"], card["skills"][0]["id"]) == ("Older", "2.0.0", "old")
    assert "https://x.test/" not in json.dumps(card)


ADK = """
from google.adk.agents import Agent
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool


def forecast(city: str) -> dict:
    \"\"\"Forecast for a city,
    up to ten days.

    Args:
        city: Name of the city.
    \"\"\"
    return {"sky": "blue"}


def silent(city: str) -> dict:
    return {}


poet = Agent(name="poet", model="gemini-2.5-flash", description="Writes poems.", instruction="secret words")
guide = Agent(name="guide", model="gemini-2.5-flash", description="Guides.", tools=[forecast])
root_agent = Agent(
    name="weather",
    model="gemini-2.5-flash",
    description="Answers questions about the weather in any city.",
    instruction="secret words",
    tools=[forecast, FunctionTool(forecast), AgentTool(poet), silent],
    sub_agents=[guide],
)
"""


async def test_adk_agent_has_skills_of_its_tools_and_sub_agents(tmp_path: Path) -> None:
    (tmp_path / "weatherx").mkdir()
    (tmp_path / "weatherx" / "__init__.py").touch()
    (tmp_path / "weatherx" / "agent.py").write_text(ADK)
    card = await card_of(tmp_path)
    assert card["description"] == "Answers questions about the weather in any city."
    assert {skill["id"]: (skill["description"], skill["tags"]) for skill in card["skills"]} == {
        "weather": ("Answers questions about the weather in any city.", ["weather"]),
        "weather-forecast": ("Forecast for a city, up to ten days.", ["tool"]),
        "weather-poet": ("Writes poems.", ["tool"]),
        "guide": ("Guides.", ["sub-agent"]),
        "guide-forecast": ("Forecast for a city, up to ten days.", ["tool"]),
    }
    assert "secret words" not in json.dumps(card)


async def test_workflow_of_adk_has_skills_of_its_agents(tmp_path: Path) -> None:
    workflow = (
        "from google.adk import Workflow\nroot_agent = Workflow(name='flow', edges=[('START', guide, forecast)])\n"
    )
    (tmp_path / "agent.py").write_text(ADK.partition("root_agent")[0] + workflow)
    card = await card_of(tmp_path)
    assert [skill["id"] for skill in card["skills"]] == ["guide", "guide-forecast"]


def uris(card: Any) -> list[str]:
    return [each["uri"] for each in card["capabilities"].get("extensions", [])]


USES = {
    "context in a node": ("", "from aion.langgraph import get_aion_context\n", True),
    "module beside": (
        "from aion.langgraph import get_aion_context\ndef help(): pass\n",
        "from beside import help\n",
        True,
    ),
    "emit functions only": ("", "from aion.langgraph import emit_data\n", False),
    "nothing": ("", "", False),
}


@pytest.mark.parametrize("kind", USES)
async def test_card_lists_aion_extensions_only_if_used(tmp_path: Path, kind: str) -> None:
    beside, source, uses = USES[kind]
    (tmp_path / "beside.py").write_text(beside)
    (tmp_path / "agent.py").write_text(source + LANGGRAPH)
    for written, listed in (("", uses), ("true", True), ("false", False)):
        option = f"capabilities: {{aion_extensions: {written}}}" if written else ""
        (tmp_path / "aion.yaml").write_text(f"aion: {{agents: {{helper: {{path: agent.py, {option}}}}}}}")
        assert bool(uris(await card_of(tmp_path))) is listed, written
