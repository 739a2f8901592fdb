"""ADK agents as people export them, found by aion.yaml and served by the whole deployment; and what is imported for it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from aion_core.agents.config import AgentConfig
from aion_core.agents.frameworks import FRAMEWORKS, AgentDependencies
from aion_core.agents.loader import LazyAgent
from aion_core.agents.objects import LoadedObject
from aion_core.bootstrap import build_app
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent
from aion_core.settings import Settings
from tests.support.adk import ask, said, served
from tests.support.service import http, parts

ROOT = Path(__file__).parents[4]
SPEAKS = """
from collections.abc import AsyncGenerator
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

class Speaks(BaseAgent):
    async def _run_async_impl(self, ctx) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content=types.ModelContent(f"I am {self.name}."))
"""
FILES = {
    "an instance": ("mine = Speaks(name='mine')", "I am mine."),
    "a class": ("", "I am Speaks."),
    "a function": ("def make():\n    return Speaks(name='made')", "I am made."),
    "an async function": ("async def make():\n    return Speaks(name='made')", "I am made."),
    "an App": ("inner = Speaks(name='inner')\napp = App(name='app', root_agent=inner)", "I am inner."),
    "a sequence": (
        "one = Speaks(name='one')\nroot_agent = SequentialAgent(name='root', sub_agents=[one])",
        "I am one.",
    ),
    "in parallel": ("one = Speaks(name='one')\nroot = ParallelAgent(name='root', sub_agents=[one])", "I am one."),
    "a loop": ("one = Speaks(name='one')\nr = LoopAgent(name='r', sub_agents=[one], max_iterations=1)", "I am one."),
    "a workflow": ("one = Speaks(name='one')\nw = Workflow(name='w', edges=[('START', one)])", "I am one."),
}


NO_DEPENDENCIES: AgentDependencies = cast("AgentDependencies", None)


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Replace the adapter's `build_agent`: the sessions are those of the test's own engine."""
    return served(loaded.agent, name=config.name)


@pytest.fixture
def own_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FRAMEWORKS, "adk", replace(FRAMEWORKS["adk"], adapter=__name__))


def loaded(file: Path, name: str = "") -> LazyAgent:
    return LazyAgent("agent", AgentConfig(path=f"{file.name}{name}"), file.parent, NO_DEPENDENCIES)


@pytest.mark.usefixtures("own_sessions")
@pytest.mark.parametrize("export", FILES)
async def test_agents_as_people_export_them(export: str, tmp_path: Path) -> None:
    """R43, section 3, aion.yaml: what is part of another agent is not taken for one by itself."""
    code, answer = FILES[export]
    file = tmp_path / f"adk_{export.replace(' ', '_')}.py"
    file.write_text(SPEAKS + code)
    name = ":make" if "make" in code else ""
    async with http(parts(loaded(file, name)).app()) as client:
        assert said(await ask(client, "SendMessage")) == answer


@pytest.mark.usefixtures("own_sessions")
@pytest.mark.parametrize("is_package", [True, False])
@pytest.mark.parametrize("path", ["{}/agent.py", "{}/agent.py:root_agent", "{}.agent"])
async def test_a_file_that_imports_its_neighbours_by_dots_is_a_module_of_its_package(
    path: str, is_package: bool, tmp_path: Path
) -> None:
    """As `adk create` lays an agent out."""
    name = f"dotted_{abs(hash((path, is_package)))}"
    folder = tmp_path / name
    folder.mkdir()
    if is_package:
        (folder / "__init__.py").write_text("from . import agent")
    (folder / "speaking.py").write_text(SPEAKS)
    (folder / "agent.py").write_text("from .speaking import Speaks\nroot_agent = Speaks(name='dotted')")
    agent = LazyAgent("agent", AgentConfig(path=path.format(name)), tmp_path, NO_DEPENDENCIES)
    async with http(parts(agent).app()) as client:
        assert said(await ask(client, "SendMessage")) == "I am dotted."


@pytest.mark.usefixtures("own_sessions")
def test_two_agents_in_one_file_have_to_be_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "adk_two.py"
    file.write_text(f"{SPEAKS}one = Speaks(name='one')\ntwo = Speaks(name='two')")
    with pytest.raises(ConfigurationError, match="holds several agents: one, two"):
        loaded(file).load()


@pytest.mark.usefixtures("own_sessions")
def test_what_an_app_refuses_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "adk_broken.py"
    file.write_text(f"{SPEAKS}root = Speaks(name='no name')")
    with pytest.raises(ConfigurationError, match=r"adk_broken\.py cannot be imported"):
        loaded(file).load()


@pytest.mark.parametrize("dialect", ["SendMessage", "message/send"])
async def test_the_example_answers_in_a_whole_deployment(dialect: str, tmp_path: Path) -> None:
    """The bootstrap's own sessions and artifacts, in memory; the next turn is another message of the same session."""
    config = tmp_path / "aion.yaml"
    config.write_text(f"aion: {{agents: {{count: {{path: {ROOT / 'examples/adk/agent.py'}}}}}}}")
    settings = Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(config)})
    async with http(build_app(settings)) as client:
        task = await ask(client, dialect, "one two three")
        assert said(task) == "Your message has 3 words."
        again = await ask(client, dialect, "four", message_id="m-2", contextId=task["contextId"])
        assert said(again) == "Your message has 1 words."


def test_sessions_on_dynamodb_need_a_key_to_be_sealed_with(tmp_path: Path) -> None:
    """The missing variable is named."""
    config = tmp_path / "aion.yaml"
    config.write_text(f"aion: {{agents: {{count: {{path: {ROOT / 'examples/adk/agent.py'}}}}}}}")
    from aion_core.bootstrap.engine import build_engine
    from aion_core.bootstrap.operations import build_operations

    environ = {
        "AION_TABLE": "t",
        "AION_BUCKET": "b",
        "AION_TASK_QUEUE_URL": "https://sqs/q",
        "AION_CONFIG": str(config),
    }
    settings = Settings.from_environ(environ)
    with pytest.raises(ConfigurationError, match="AION_KMS_KEY"):
        build_engine(settings, build_operations(settings)).agents["count"].load()


@pytest.mark.parametrize(
    ("path", "loads", "never"),
    [("examples/adk/agent.py", "google.adk", "langgraph"), ("examples/echo/agent.py", "langgraph", "google.adk")],
    ids=["ADK", "LangGraph"],
)
def test_a_deployment_imports_one_framework_and_only_when_it_is_needed(
    path: str, loads: str, never: str, tmp_path: Path
) -> None:
    """Fixed decision 11: on `sys.modules`, before and after a turn."""
    config = tmp_path / "aion.yaml"
    config.write_text(f"aion: {{agents: {{one: {{path: {ROOT / path}}}}}}}")
    program = f"""
import asyncio, sys, httpx
from aion_core.bootstrap import build_app
from aion_core.settings import Settings
app = build_app(Settings.from_environ({{"AION_STORE": "memory", "AION_CONFIG": {str(config)!r}}}))
before = {loads!r} in sys.modules
async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        message = {{"messageId": "m", "role": "ROLE_USER", "parts": [{{"text": "hi"}}]}}
        answer = await client.post(
            "/", json={{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {{"message": message}}}}
        )
        print(answer.json()["result"]["task"]["status"]["state"])
asyncio.run(main())
print(before, {loads!r} in sys.modules, [name for name in sys.modules if name.partition(".")[0] == {never!r} or
      name.startswith({never!r} + ".") or name == {never!r}])
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.splitlines() == ["TASK_STATE_COMPLETED", "False True []"], ran.stderr
