"""READMEs of the examples: each example is listed, explained, and served by the command in its README."""

import re
import tomllib
from pathlib import Path

import pytest

from aion_core.loading.discovery.discover import discover

EXAMPLES = Path(__file__).parent
NAMES = sorted(readme.parent.name for readme in EXAMPLES.glob("*/README.md"))
SECTIONS = ["Run", "Try", "Adapt this example"]


def test_examples_readme_lists_every_example() -> None:
    linked = re.findall(r"\]\((.+?)/README\.md\)", (EXAMPLES / "README.md").read_text())
    assert sorted(linked) == NAMES
    folders = {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir() and not folder.name.startswith("_")}
    assert folders == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_readme_of_example_has_sections_and_command_for_its_agents(name: str) -> None:
    text = (EXAMPLES / name / "README.md").read_text()
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections[:3] == SECTIONS
    agents = [path.parent.relative_to(EXAMPLES.parent).as_posix() for path in (EXAMPLES / name).rglob("agent.py")]
    assert "Deploy" in sections or not agents
    served = re.findall(r"^(?:\w+=\S+ )*aion dev (\S+)", text, re.MULTILINE)
    assert set(agents) <= set(served)
    for target in served:
        assert discover(EXAMPLES.parent / target).agents


@pytest.mark.parametrize("name", ["mcp", "react"])
def test_versions_in_example_requirements_equal_those_of_uv_lock(name: str) -> None:
    locked = tomllib.loads((EXAMPLES.parent / "uv.lock").read_text())["package"]
    versions = {f"{package['name']}=={package.get('version')}" for package in locked}
    lines = (EXAMPLES / name / "requirements.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} <= versions
