"""Registry of agent frameworks: one entry adds a framework, with its adapter, its package and its documentation."""

import tomllib
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aion_core.engine.agent import Agent, Emission, Reply, TurnRequest
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.discovery.python_files import agent_file
from aion_core.loading.frameworks import FRAMEWORKS, AgentDependencies, Framework
from aion_core.loading.load_errors.missing_packages import missing_framework_remedy
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.protocol.types import Message, Part, Role
from aion_tools.cli.checks.local import check_agents
from aion_tools.package.imports import frameworks_of
from aion_tools.testing import serve
from tests.runtime.unit.loading.isolated import isolated_imports
from tests.support.server import ROOT

TOY = Framework(
    title="a toy",
    adapter=__name__,
    classes=(("toyframe", "Toy"),),
    objects="a Toy",
    remedy="Fix the toy.",
    imports=("toyframe",),
    scanned=("toyframe",),
    constructors=frozenset({"Toy"}),
    distribution="toy-frame",
    missing=("toyframe",),
)


class ToyAgent:
    """Adapter of a toy framework: it answers with the toy's text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def load(self) -> None:
        """See `Agent.load`."""

    def input_modes(self) -> tuple[str, ...]:
        """See `Agent.input_modes`."""
        return ()

    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """See `Agent.run`."""
        yield Reply(Message(role=Role.ROLE_AGENT, message_id="m-toy", parts=[Part(text=self._text)]))


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Return the adapter for a toy agent."""
    return ToyAgent(loaded.agent.text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Project with an agent of a framework that only an added entry in the registry makes known."""
    monkeypatch.setitem(FRAMEWORKS, "toy", TOY)
    (tmp_path / "toyframe").mkdir()
    (tmp_path / "toyframe" / "__init__.py").write_text("class Toy:\n    text = 'Hello from a toy.'\n")
    (tmp_path / "agent.py").write_text("from toyframe import Toy\n\nmine = Toy()\n")
    (tmp_path / "aion.yaml").write_text("aion: {agents: {toy: {path: agent.py}}}\n")
    with isolated_imports(tmp_path):
        yield tmp_path


async def test_agent_of_registered_framework_answers(project: Path) -> None:
    async with serve(project / "aion.yaml") as client:
        assert (await client.ask("Hello")).text == "Hello from a toy."


def test_agent_of_registered_framework_is_discovered(project: Path) -> None:
    found = agent_file(project / "agent.py")
    assert found is not None
    assert found.names == ("mine",)


def test_registered_framework_is_packaged(project: Path) -> None:
    assert frameworks_of(project / "agent.py", [project]) == {"toy"}


def test_aion_doctor_names_registered_framework(project: Path) -> None:
    [check] = check_agents(read_deployment_config(project / "aion.yaml"))
    assert "agent.py is a toy, loaded in" in str(check)


def test_remedy_for_missing_framework_names_extra_to_install(project: Path) -> None:
    assert missing_framework_remedy("toyframe", project).startswith("This is a toy: install aion-lambda[toy,local]")


def test_error_for_unsupported_object_lists_supported_agent_objects(project: Path) -> None:
    (project / "agent.py").write_text("mine = 1\n")
    (project / "aion.yaml").write_text("aion: {agents: {toy: {path: 'agent.py:mine'}}}\n")
    [check] = check_agents(read_deployment_config(project / "aion.yaml"))
    assert "which is not an agent" in str(check)
    assert all(framework.objects in str(check) for framework in FRAMEWORKS.values())


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("name", [name for name, framework in FRAMEWORKS.items() if framework.distribution])
def test_extra_of_each_framework_requires_framework_package(name: str) -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    packages = {Requirement(line).name for line in extras.get(name, ())}
    assert FRAMEWORKS[name].distribution in packages, f"Add the extra {name} to pyproject.toml, and run `make lock`."


def test_import_linter_contract_lists_each_framework_adapter() -> None:
    [contract] = [each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if "adapters of" in each["name"]]
    adapters = {framework.adapter.rpartition(".")[0] for framework in FRAMEWORKS.values()}
    assert adapters == set(contract["modules"]), f"Name the package under {contract['name']!r} in pyproject.toml."


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_framework_builder_is_importable(name: str) -> None:
    assert callable(FRAMEWORKS[name].builder())
