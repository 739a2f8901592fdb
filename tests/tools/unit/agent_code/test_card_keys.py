"""`aion init` writes what the author has already written about an agent into aion.yaml, without running code."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from aion_core.loading.deployment import read_deployment_config
from aion_tools.project.existing import agents_in
from tests.runtime.unit.loading.card_sources.sources import CARD, LANGGRAPH, card_of
from tests.support.isolated import isolated_imports

ADK = """
from google.adk.agents import Agent

ABOUT = (
    "Answers questions about "
    "the weather."
)


def forecast(city: str) -> dict:
    \"\"\"Forecast for a city.\"\"\"
    return {}


root_agent = Agent(name="weather", model="gemini-2.5-flash", description=ABOUT, instruction="secret", tools=[forecast])
"""
JSON_CARD = {
    "name": "Weather desk",
    "description": "From agent.json.",
    "version": "2.0.0",
    "url": "https://x.test",
    "defaultInputModes": ["text"],
    "skills": [{"id": "ask", "name": "Ask", "description": "Asks.", "tags": ["a"], "examples": ["Rain?"]}],
}
EXECUTOR = """
from a2a.server.agent_execution import AgentExecutor


class Shout(AgentExecutor):
    \"\"\"Shouts.\"\"\"

    def __init__(self, ending: str = "!") -> None:
        self.ending = ending

    async def execute(self, context, event_queue):
        pass

    async def cancel(self, context, event_queue):
        pass
"""
MAIN = """
import os

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types import AgentCard, AgentSkill
from agent_executor import Shout

if __name__ == "__main__":
    skill = AgentSkill(id="shout", name="Shout", description="Shouts.", tags=["text"], examples=["hi"])
    card = AgentCard(name="Shouter", description="Shouts what you say.", version="3.0.0", url=os.environ["URL"],
        default_input_modes=["text"], skills=[skill])
    handler = DefaultRequestHandler(agent_executor=Shout(), task_store=None, agent_card=card)
"""
NAMED = LANGGRAPH.replace(".compile()", '.compile(name="Report writer")')
PROJECT = "[project]\nname = 'x'\ndescription = 'From pyproject.'\n"

SKILL = {"id": "ask", "name": "Ask", "description": "Asks.", "tags": ["a"], "examples": ["Rain?"]}
CASES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "graph's name": ({"agent.py": NAMED}, {"name": "Report writer"}),
    "name in a chain": (
        {"agent.py": f"{NAMED.rstrip()}.with_config(recursion_limit=5)\n"},
        {"name": "Report writer"},
    ),
    "docstring": ({"agent.py": f'"""Writes reports.\n\nMore."""\n{LANGGRAPH}'}, {"description": "Writes reports."}),
    "pyproject": ({"agent.py": LANGGRAPH, "pyproject.toml": PROJECT}, {"description": "From pyproject."}),
    "template": ({"agent.py": '"""LangGraph single-node graph template."""\n' + LANGGRAPH}, {}),
    "entrypoint": (
        {
            "agent.py": "from langgraph.func import entrypoint\n\n\n@entrypoint()\ndef desk(text: str) -> str:\n"
            '    """Answers at the desk."""\n    return text\n'
        },
        {"description": "Answers at the desk."},
    ),
    "langgraph.json": (
        {
            "agent.py": NAMED,
            "langgraph.json": '{"graphs": {"desk": {"path": "./agent.py:graph", "description": "From the object form."}}}',
        },
        {"name": "Report writer", "description": "From the object form.", "answer": "artifact"},
    ),
    "ADK's description": ({"agent.py": ADK}, {"description": "Answers questions about the weather."}),
    "ADK App": (
        {"agent.py": f"{ADK}\nfrom google.adk.apps import App\napp = App(name='x', root_agent=root_agent)\n"},
        {"description": "Answers questions about the weather."},
    ),
    "agent.json": (
        {"agent.py": ADK, "agent.json": json.dumps(JSON_CARD)},
        {
            "name": "Weather desk",
            "description": "From agent.json.",
            "version": "2.0.0",
            "skills": [SKILL],
            "answer": "artifact",
        },
    ),
    "agent.json without ADK": ({"agent.py": LANGGRAPH, "agent.json": json.dumps(JSON_CARD)}, {}),
    "AgentCard": (
        {"agent.py": f"{LANGGRAPH}{CARD}\nagent_card = AgentCard(name='Desk', description='Sits at the desk.')\n"},
        {"name": "Desk", "description": "Sits at the desk."},
    ),
    "executor's server": (
        {"agent_executor.py": EXECUTOR, "__main__.py": MAIN},
        {
            "name": "Shouter",
            "description": "Shouts what you say.",
            "version": "3.0.0",
            "skills": [
                {"id": "shout", "name": "Shout", "description": "Shouts.", "tags": ["text"], "examples": ["hi"]}
            ],
        },
    ),
    "executor's docstring": ({"agent_executor.py": EXECUTOR}, {"description": "Shouts."}),
    "broken values": (
        {"agent.py": f"{LANGGRAPH}{CARD}\ncard = AgentCard(name=f'{{1}}', description=str(2), version='  ')\n"},
        {},
    ),
}


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path) -> Iterator[None]:
    with isolated_imports(tmp_path):
        yield


def written(folder: Path, files: dict[str, str]) -> dict[str, Any]:
    """Return the keys of the only agent in the aion.yaml that `aion init` writes."""
    for name, text in files.items():
        (folder / name).write_text(text)
    found = agents_in(folder)
    assert found is not None
    (folder / "aion.yaml").write_text(found.yaml)
    read_deployment_config(folder / "aion.yaml")
    [agent] = yaml.safe_load(found.yaml)["aion"]["agents"].values()
    return {key: value for key, value in agent.items() if key != "path"}


@pytest.mark.parametrize("case", CASES)
def test_init_writes_card_of_author(tmp_path: Path, case: str) -> None:
    files, keys = CASES[case]
    assert written(tmp_path, files) == keys


@pytest.mark.parametrize(
    "case", ["graph's name", "docstring", "entrypoint", "agent.json", "AgentCard", "executor's docstring"]
)
async def test_card_is_same_before_and_after_init(tmp_path: Path, case: str) -> None:
    """What `aion init` reads without running the code is what the loaded code says."""
    files, _ = CASES[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = agents_in(tmp_path)
    assert found is not None
    before = await card_of(tmp_path)
    (tmp_path / "aion.yaml").write_text(found.yaml)
    after = await card_of(tmp_path)
    assert {**before, "skills": None} == {**after, "skills": None}
