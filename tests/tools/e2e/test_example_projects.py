"""Examples as projects: `aion doctor`, `aion init` and `aion build` succeed for each."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.e2e import forked
from tests.support.e2e.runtime_emulator import lambda_python
from tests.support.server import ROOT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the packages and the forked processes are for Linux"),
    # Allow fifteen minutes, because a test builds a package if the cache is empty.
    pytest.mark.timeout(900),
]

FOLDERS = sorted(path.parent for path in (ROOT / "examples").rglob("agent.py"))
WITH_PACKAGES = [folder for folder in FOLDERS if (folder / "requirements.txt").exists()]


def name_of(folder: Path) -> str:
    return folder.name


def aion(folder: Path, *arguments: str) -> str:
    """Run a command of `aion` in the folder; return its output."""
    done = forked.run("aion_tools.cli", *arguments, env=os.environ, cwd=folder, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(folder: Path, target: Path) -> Path:
    """Copy an example's folder, as its README tells the reader to do."""
    return shutil.copytree(folder, target / "my-agent", ignore=shutil.ignore_patterns("__pycache__", ".aion"))


@pytest.mark.parametrize(
    "folder",
    [pytest.param(folder, id=folder.name, marks=[pytest.mark.deep] * (folder.name != "echo")) for folder in FOLDERS],
)
def test_doctor_finds_no_fault_in_example(folder: Path) -> None:
    checks = json.loads(aion(folder, "doctor", "--json", "--no-template", "--port", "0"))
    found = {check["name"].split()[0] for check in checks if check["status"] == "ok"}
    assert found >= {"agent", "aion.yaml", "package"}, checks


@pytest.mark.deep
@pytest.mark.parametrize("folder", [ROOT / "examples" / "adk", *WITH_PACKAGES], ids=name_of)
def test_aion_init_turns_copied_example_into_project(folder: Path, tmp_path: Path) -> None:
    project = copied(folder, tmp_path)
    aion(project, "init")
    assert "0 FAILED" in aion(project, "doctor", "--port", "0")
    assert (project / "template.yaml").is_file()
    for file in folder.glob("*.*"):
        assert (project / file.name).read_bytes() == file.read_bytes()


@pytest.mark.deep
@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_copied_example_is_built(folder: Path, tmp_path: Path) -> None:
    """Build TaskFunction with the packages that the example requires."""
    assert "TaskFunction: " in aion(copied(folder, tmp_path), "build", "TaskFunction")


ASKED = """
import asyncio, agent

async def ask():
    async with agent.graph({}) as graph:
        return (await graph.ainvoke({"messages": [("user", "How many hats?")]}))["messages"][-1].text

print(asyncio.run(ask()))
"""


@pytest.mark.deep
def test_packaged_mcp_server_answers(tmp_path: Path) -> None:
    """Run the packaged agent with only PATH and PYTHONPATH set: it can start its MCP server."""
    project = copied(ROOT / "examples" / "mcp", tmp_path)
    aion(project, "init")  # writes a template for this machine's processor
    aion(project, "build", "TaskFunction", "--to", str(tmp_path / "code"))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "code")}
    ran = subprocess.run(
        [lambda_python()[0], "-c", ASKED], cwd="/", env=environ, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == "In stock: 3\n", ran.stderr
