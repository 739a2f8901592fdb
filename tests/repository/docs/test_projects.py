"""docs/projects.md: its test runs, its table lists each file; the tutorial names its stack."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aion_tools.project.files import CONTENTS, Project, rendered
from aion_tools.project.names import stack_name
from aion_tools.project.origin import Origin
from tests.support.server import ROOT

GUIDE = (ROOT / "docs" / "projects.md").read_text(encoding="utf-8")


async def test_test_shown_in_projects_guide_passes_in_new_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = rendered(Project("my-agent", "langgraph", Origin()))
    for path in ("agent.py", "aion.yaml"):
        (tmp_path / path).write_text(files[path])
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(block, "docs/projects.md", "exec"), names)  # noqa: S102  # our own page
    test: Callable[[], Awaitable[None]] = names["test_agent_counts_words"]
    await test()


def test_projects_guide_lists_each_file_of_new_project() -> None:
    listed = {
        path for cell in re.findall(r"^\| (`[^|]+) \|", GUIDE, re.MULTILINE) for path in re.findall(r"`([^`]+)`", cell)
    }
    assert set(CONTENTS) <= listed


def test_tutorial_uses_stack_name_that_its_project_gets() -> None:
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    [folder] = re.findall(r"^mkdir (\S+)$", tutorial, re.MULTILINE)
    assert re.findall(r"--stack (\S+)", tutorial) == [stack_name(folder, "dev")]
