"""Registry of agent frameworks: one entry adds a framework, with its adapter, its package and its documentation."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aion_core.loading.discovery.python_files import agent_file
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.load_errors.missing_packages import missing_framework_remedy
from tests.support.server import ROOT
from tests.support.toy_framework import project

__all__ = ["project"]


def test_agent_of_registered_framework_is_discovered(project: Path) -> None:
    found = agent_file(project / "agent.py")
    assert found is not None
    assert found.names == ("mine",)


def test_remedy_for_missing_framework_names_extra_to_install(project: Path) -> None:
    assert missing_framework_remedy("toyframe", project).startswith("This is a toy: install aion-lambda[toy,local]")


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("name", [name for name, framework in FRAMEWORKS.items() if framework.distribution])
def test_extra_of_each_framework_requires_framework_package(name: str) -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    packages = {Requirement(line).name for line in extras.get(f"{name}-agent", ())}
    assert FRAMEWORKS[name].distribution in packages, (
        f"Add the extra {name}-agent to pyproject.toml, and run `make lock`."
    )
    (own,) = map(Requirement, extras[name])
    assert own.extras == {"api", f"{name}-agent"}, "a project's lock must have what every function needs"


def test_import_linter_contract_lists_each_framework_adapter() -> None:
    [contract] = [each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if "adapters of" in each["name"]]
    adapters = {framework.adapter.rpartition(".")[0] for framework in FRAMEWORKS.values()}
    assert adapters == set(contract["modules"]), f"Name the package under {contract['name']!r} in pyproject.toml."
