"""Agents of a project, and what a build refuses of them."""

from pathlib import Path

import pytest

from aion_tools.agent_code.project_agents import ProjectAgents, agents_of
from aion_tools.programs import BuildError
from tests.tools.unit.package.wheels import write

AGENT = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n"


def agents(folder: Path) -> ProjectAgents:
    return agents_of(folder, [folder / "aion.yaml"])


def config(path: str, more: str = "") -> str:
    return f"aion: {{{more}agents: {{mine: {{path: '{path}'}}}}}}"


def test_agent_module_is_found_in_src_folder(tmp_path: Path) -> None:
    files = {"src/my_pkg/__init__.py": "", "src/my_pkg/graph.py": AGENT, "aion.yaml": config("my_pkg.graph:graph")}
    made = agents(write(tmp_path, files))
    assert made.agents[0].file == tmp_path / "src" / "my_pkg" / "graph.py"
    assert tmp_path / "src" in made.roots


def test_patterns_of_exclude_are_read(tmp_path: Path) -> None:
    text = config("agent.py", "exclude: ['litellm/proxy/'], ")
    assert agents(write(tmp_path, {"agent.py": AGENT, "aion.yaml": text})).exclude == ("litellm/proxy/",)


def test_folder_without_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"has no agent\. Looked for: aion\.yaml, langgraph\.json"):
        agents(write(tmp_path, {"notes.txt": ""}))


def test_adk_agent_package_must_be_built_in_parent_folder(tmp_path: Path) -> None:
    code = "from google.adk.agents import Agent\nroot_agent = Agent(name='weather')\n"
    write(tmp_path, {"weather/__init__.py": "from . import agent\n", "weather/agent.py": code})
    with pytest.raises(BuildError, match="weather is a Python package: build in its parent folder"):
        agents(tmp_path / "weather")
    assert [agent.id for agent in agents(tmp_path).agents] == ["weather"]
    assert agents(tmp_path).generated


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("{folder}/agent.py", r"agent\.py' of an agent is absolute; write it relative to aion\.yaml's folder"),
        ("agnt.py", "agnt.py' does not exist in the project's folder, .*/here: correct its path in"),
        ("../agent.py", "agent.py' is outside of the project's folder, .*/here: correct its path in"),
    ],
)
def test_agent_without_file_in_project_is_refused(tmp_path: Path, path: str, said: str) -> None:
    folder = write(tmp_path / "here", {"aion.yaml": config(path.format(folder=tmp_path / "here")), "agent.py": AGENT})
    (tmp_path / "agent.py").touch()
    with pytest.raises(BuildError, match=said):
        agents(folder)


def test_error_for_missing_agent_names_langgraph_json(tmp_path: Path) -> None:
    write(tmp_path, {"langgraph.json": '{"graphs": {"mine": "./agnt.py:graph"}, "dependencies": ["."]}'})
    with pytest.raises(BuildError, match=r"'agnt\.py:graph' does not exist .* in aion\.yaml or langgraph\.json"):
        agents(tmp_path)


def test_python_path_folder_outside_project_is_refused(tmp_path: Path) -> None:
    text = config("agent.py", "python_path: [../elsewhere], ")
    folder = write(tmp_path / "here", {"aion.yaml": text, "agent.py": AGENT})
    write(tmp_path / "elsewhere", {"words.py": ""})
    with pytest.raises(BuildError, match=r"python_path has .*elsewhere, outside of the project's folder"):
        agents(folder)


def test_aion_config_variable_naming_another_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "here", {"aion.yaml": config("agent.py"), "agent.py": AGENT})
    monkeypatch.setenv("AION_CONFIG", str(tmp_path / "elsewhere.yaml"))
    with pytest.raises(BuildError, match=r"AION_CONFIG is .*elsewhere\.yaml, but this build uses .*aion\.yaml"):
        agents(folder)
    monkeypatch.setenv("AION_CONFIG", str(folder / "aion.yaml"))
    assert agents(folder).agents
