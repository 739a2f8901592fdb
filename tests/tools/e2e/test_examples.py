"""Commands in the READMEs of the examples: each prints the output shown there.

One `aion dev` serves the agents of all examples: starting one takes seconds of CPU.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.e2e import forked
from tests.support.listening import free_port
from tests.support.server import ROOT, aion_dev, serving

EXAMPLES = ROOT / "examples"
READMES = sorted(EXAMPLES.glob("*/README.md"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = re.compile(r"^((?:\w+=\S+ )*)aion dev (\S+)", re.MULTILINE)
ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")

OBJECT = re.compile(r'^\{\n.*?^\}$|^\{"[^\n]*\}$', re.MULTILINE | re.DOTALL)


def outputs_of(readme: Path) -> list[tuple[str, str]]:
    """Return pairs of a README's `aion send` block and the output block below it."""
    blocks = [(found[1], found[2]) for found in FENCE.finditer(readme.read_text(encoding="utf-8"))]
    return [
        (text, output)
        for (language, text), (following, output) in pairwise(blocks)
        if (language, following) == ("sh", "text") and "aion send" in text
    ]


AGENTS = [readme for readme in READMES if outputs_of(readme)]
IN_TEST = {"adk", "approval", "executor"}
"""An example of each framework. The others run in `make test-deep`."""


def served(readme: Path) -> dict[Path, dict[str, str]]:
    """Return each folder served by an `aion dev` command in the section "Run", with the command's variables."""
    run = readme.read_text(encoding="utf-8").partition("\n## Run\n")[2].partition("\n## ")[0]
    return {ROOT / found[2]: dict(each.split("=", 1) for each in found[1].split()) for found in SERVED.finditer(run)}


def config_of(folder: Path) -> Any:
    return yaml.safe_load((folder / "aion.yaml").read_text(encoding="utf-8"))["aion"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Serve all agents; return a folder in which `aion send` finds the server."""
    folder = tmp_path_factory.mktemp("examples")
    agents: dict[str, Any] = {}
    remotes: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for example, given in (each for readme in AGENTS for each in served(readme).items()):
        variables |= given
        remotes |= config_of(example).get("remotes", {})
        for name, agent in config_of(example)["agents"].items():
            assert name not in agents
            agents[name] = {**agent, "path": str(example / agent["path"])}
    (folder / "aion.yaml").write_text(
        yaml.safe_dump({"aion": {"remotes": remotes, "agents": agents}}), encoding="utf-8"
    )
    port = free_port()
    variables |= {"PORT": str(port), "WEATHER_URL": f"http://127.0.0.1:{port}/agents/weather", "JOB_STEP_SECONDS": "0"}
    variables["TRIP_SECONDS_PER_WORD"] = "0"
    command = aion_dev("--no-reload", "--config", str(folder / "aion.yaml"))
    with serving(command, AION_DATA_DIR=str(folder / ".aion"), **variables):
        yield folder


def test_readme_of_each_example_agent_shows_command_output() -> None:
    agents = {path.relative_to(EXAMPLES).parts[0] for path in EXAMPLES.rglob("agent.py")}
    assert {readme.parent.name for readme in AGENTS} == agents


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are passed to forked processes")
@pytest.mark.parametrize(
    "readme",
    [
        pytest.param(each, id=each.parent.name, marks=[pytest.mark.deep] * (each.parent.name not in IN_TEST))
        for each in AGENTS
    ],
)
def test_commands_in_example_readme_print_output_shown_there(readme: Path, folder: Path) -> None:
    agent = next(iter(config_of(list(served(readme))[-1])["agents"]))
    for commands, output in outputs_of(readme):
        printed = "".join(run(line, folder, agent) for line in commands.splitlines())
        assert masked(printed) == masked(output)


def run(line: str, folder: Path, agent: str) -> str:
    """Run a line of a shell block; `aion send` calls the README's agent. Return what the line prints."""
    words = shlex.split(line)
    if words[:2] == ["aion", "send"]:
        environ = {name: value for name, value in os.environ.items() if name != "AION_DATA_DIR"}
        done = forked.run("aion_tools.cli", *words[1:], "--agent", agent, env=environ, cwd=folder)
        assert done.returncode in (0, 3), done
        return done.stdout + done.stderr
    return subprocess.run(["bash", "-ec", line], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def masked(text: str) -> list[str]:
    """Return the lines with `<id>` for each id, and each JSON object as one line with sorted keys."""
    compact = OBJECT.sub(lambda found: json.dumps(json.loads(found[0]), sort_keys=True), ID.sub("<id>", text))
    return [line for line in compact.splitlines() if line]
