"""The examples' READMEs: each example is listed, and its commands name it."""

import re
from pathlib import Path

import pytest

from aion_core.agents.discovery import discover

EXAMPLES = Path(__file__).parent
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir() and not folder.name.startswith("_"))


def test_every_example_is_listed() -> None:
    linked = re.findall(r"\]\((.+?)/README\.md\)", (EXAMPLES / "README.md").read_text())
    assert sorted(linked) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_example_is_explained_and_found_by_its_command(name: str) -> None:
    text = (EXAMPLES / name / "README.md").read_text()
    for target in re.findall(r"^aion dev (\S+)$", text, re.MULTILINE):
        assert target.startswith(f"examples/{name}")
        assert discover(EXAMPLES.parent / target).agents
