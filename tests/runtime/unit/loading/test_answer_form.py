"""Place of an agent's answer where aion.yaml leaves it open: the same in `aion dev`, after `aion init`, and on AWS."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aion_core.engine.agent_options import AnswerAs
from aion_core.loading.deployment import read_deployment_config
from aion_tools.package.selection import select
from aion_tools.project.existing import agents_in
from tests.support.isolated import isolated_imports

GRAPH = "from langgraph.graph import MessagesState, StateGraph\ngraph = StateGraph(MessagesState).compile()\n"
ADK = "from google.adk.agents import Agent\nroot_agent = Agent(name='a', model='m')\n"
LANGGRAPH_JSON = '{"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}'
YAML = "aion:\n  agents:\n    agent: {path: PATH, name: A, description: x}\n"

ARTIFACT, MESSAGE = AnswerAs.ARTIFACT, AnswerAs.MESSAGE
PROJECTS: Mapping[str, tuple[AnswerAs, Mapping[str, str]]] = {
    "graph alone": (MESSAGE, {"graph.py": GRAPH}),
    "langgraph.json": (ARTIFACT, {"graph.py": GRAPH, "langgraph.json": LANGGRAPH_JSON}),
    "langgraph.json below src": (
        ARTIFACT,
        {"src/graph.py": GRAPH, "langgraph.json": LANGGRAPH_JSON.replace("./graph.py", "./src/graph.py")},
    ),
    "ADK agent": (MESSAGE, {"helper/__init__.py": "from . import agent", "helper/agent.py": ADK}),
    "ADK agent with agent.json": (
        ARTIFACT,
        {"helper/__init__.py": "from . import agent", "helper/agent.py": ADK, "helper/agent.json": "{}"},
    ),
    "graph beside an agent.json": (MESSAGE, {"graph.py": GRAPH, "agent.json": "{}"}),
    "aion.yaml": (MESSAGE, {"graph.py": GRAPH, "aion.yaml": YAML.replace("PATH", "graph.py:graph")}),
    "aion.yaml beside a langgraph.json": (
        ARTIFACT,
        {
            "graph.py": GRAPH,
            "langgraph.json": LANGGRAPH_JSON,
            "aion.yaml": YAML.replace("PATH", "graph.py:graph"),
        },
    ),
    "aion.yaml that decides": (
        MESSAGE,
        {
            "graph.py": GRAPH,
            "langgraph.json": LANGGRAPH_JSON,
            "aion.yaml": YAML.replace("PATH", "graph.py:graph").replace("x}", "x, answer: message}"),
        },
    ),
}


@pytest.fixture(params=PROJECTS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[AnswerAs, Path]]:
    """Return the expected form, and the folder of the project."""
    expected, files = PROJECTS[request.param]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with isolated_imports(tmp_path):
        yield expected, tmp_path


def form_in(folder: Path) -> AnswerAs | None:
    """Return the form that a process serves: `aion dev` in a folder without an aion.yaml, a function from the file."""
    file = folder / "aion.yaml"
    [agent] = read_deployment_config(file if file.is_file() else folder).agents.values()
    return agent.answer


def test_form_is_that_of_the_projects_own_server(project: tuple[AnswerAs, Path]) -> None:
    expected, folder = project
    assert form_in(folder) is expected


def test_form_stays_after_init(project: tuple[AnswerAs, Path]) -> None:
    expected, folder = project
    found = agents_in(folder)
    assert found is not None
    if found.yaml:
        (folder / "aion.yaml").write_text(found.yaml)
        assert ("answer: artifact" in found.yaml) is (expected is ARTIFACT)
    assert form_in(folder) is expected


def test_form_stays_in_the_package(project: tuple[AnswerAs, Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Copy the files that `aion build` selects: the function must find what decides."""
    expected, folder = project
    packaged = tmp_path_factory.mktemp("package")
    for file in select(folder).files:
        place = packaged / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    assert form_in(packaged) is expected
