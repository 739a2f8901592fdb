"""Pages of the docs, run block by block: the test writes the files, starts the servers and runs the commands.

A text block directly below a shell block is the expected output. Blocks marked as needing AWS are not run.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aion_tools.programs import find_uv
from tests.support.installed import wheel
from tests.support.pages import SCRIPTS, blocks, run, shown
from tests.support.server import ROOT

Environ = dict[str, str]


def _wheel(folder: Path) -> Environ:
    """Build the wheel for pages that install aion-lambda: PyPI does not have it yet."""
    return {"UV_FIND_LINKS": str(wheel(folder / "dist").parent)}


def _newcomer(folder: Path) -> Environ:
    """Build the wheel, and leave only uv and the system's programs on PATH."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "uv").symlink_to(find_uv())
    path = f"{programs}:/usr/local/bin:/usr/bin:/bin"
    return {**_wheel(folder), "PATH": path, "UV_PYTHON": sys.executable}


def _agents(folder: Path) -> Environ:
    """Write the agents that docs/development.md serves."""
    shutil.copytree(ROOT / "examples" / "adk", folder / "weather_agent", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src").mkdir()
    shutil.copyfile(ROOT / "examples" / "long-job" / "agent.py", folder / "src" / "agent.py")
    (folder / "aion.yaml").write_text("aion: {agents: {job: {path: src/agent.py:graph}}}", encoding="utf-8")
    return {}


PREPARED: dict[str, Callable[[Path], Environ]] = {
    "docs/development.md": _agents,
    "docs/quickstart.md": _wheel,
    "docs/tutorial.md": _newcomer,
}

LIKE = {
    "docs/development.md",
    "docs/files.md",
    "docs/from-a2a-sdk.md",
    "docs/from-adk-web.md",
    "docs/from-aion-python-sdk.md",
    "docs/from-langgraph-api.md",
    "docs/index.md",
    "docs/interrupts.md",
    "docs/long-tasks.md",
    "docs/quickstart.md",
    "docs/several-agents.md",
    "docs/tutorial.md",
}
"""Pages that other tests prove in most steps: test_installed.py, the examples and the tests of `aion dev`."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.deep] * (page in LIKE)) for page in SCRIPTS])
def test_code_blocks_on_page_print_output_shown_there(page: str, tmp_path: Path) -> None:
    environ = PREPARED[page](tmp_path) if page in PREPARED else {}
    outputs = run(page, tmp_path, **environ)
    # `since` is the output of the commands since the last text block.
    since = ""
    for block in blocks(page):
        since += outputs[block.line]
        if block.language == "text" and not block.title and block.before.endswith("```"):
            assert shown(block, since), f"{page}, line {block.line}: the block is not in this output:\n{since}"
            since = ""
