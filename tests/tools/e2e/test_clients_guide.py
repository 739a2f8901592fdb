"""Code blocks of docs/clients.md, run in the page's order against the page's example agent under `aion dev`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.environments import NodeMissing, node_with
from tests.support.server import ROOT, ServerProcess, aion_dev, serving

GUIDE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(?!\n|text)(.*?)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
FILES = {title[1]: code for info, code in FENCES if (title := re.search(r'title="(.+)"', info))}
BLOCK = re.compile(
    r"^(?P<language>curl|Python|TypeScript)(?:, (?P<version>1\.0|0\.3))?:\n\n```\w+\n(?P<code>.*?)^```$", re.M | re.S
)
VERSIONS = ("1.0", "0.3")
RUN_PYTHON = """
import ast, asyncio, sys
asyncio.run(eval(compile(sys.stdin.read(), "clients.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)))
"""

SECOND = """
    second: {path: agent.py:graph, name: Second}
"""

EXPECTED = {
    "Set-up": "Booking",
    "Credentials": "Books tables and rooms",
    "SendMessage": "INPUT_REQUIRED.*Which day",
    "JSON-RPC": "INPUT_REQUIRED.*Which day|Which day.*input-required",
    "Answer a question": "COMPLETED.*Booked for Tuesday",
    "SendStreamingMessage": "SUBMITTED.*WORKING.*INPUT_REQUIRED",
    "GetTask": "INPUT_REQUIRED.*Which day",
    "ListTasks": "INPUT_REQUIRED.*Which day",
    "CreateTaskPushNotificationConfig": "mine.*whsec_",
    "GetTaskPushNotificationConfig": "mine.*https://hooks.example.com/a2a",
    "ListTaskPushNotificationConfigs": "mine",
    "DeleteTaskPushNotificationConfig": "^(0 webhooks|(\\{\\})?20[04])$",
    "SubscribeToTask": "INPUT_REQUIRED.*WORKING.*COMPLETED",
    "CancelTask": "TASK_STATE_CANCELL?ED",
    "GetExtendedAgentCard": "Books tables and rooms",
    "Errors": "Task not found",
}
"""Pattern of the output by section, in every language and version."""
EXPECTED_OF_V03 = {"SubscribeToTask": "INPUT_REQUIRED"}
"""Patterns for v0.3 only: in v0.3 a stream ends when its task requires input."""


@dataclass(frozen=True)
class GuideBlock:
    """Code block of a section. `versions` are its protocol versions."""

    section: str
    language: str
    versions: tuple[str, ...]
    code: str


def blocks() -> list[GuideBlock]:
    found = []
    for section in re.split(r"^##+ ", GUIDE, flags=re.MULTILINE)[1:]:
        for match in BLOCK.finditer(section):
            versions = (match["version"],) if match["version"] else VERSIONS
            found.append(GuideBlock(section.partition("\n")[0], match["language"], versions, match["code"]))
    return found


BLOCKS = blocks()


def of(language: str, version: str) -> list[GuideBlock]:
    return [block for block in BLOCKS if block.language == language and version in block.versions]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Run `aion dev` with the page's two files, and a second agent in its aion.yaml."""
    folder = tmp_path_factory.mktemp("booking")
    for name, text in FILES.items():
        (folder / name).write_text(text + SECOND if name == "aion.yaml" else text, encoding="utf-8")
    with serving(aion_dev(), AION_CONFIG=str(folder / "aion.yaml")) as server:
        yield server


def lines_of(command: list[str], code: str, environment: Mapping[str, str], folder: Path = ROOT) -> Iterator[str]:
    """Run a command with the code as standard input; yield each line that it prints. Expect exit code 0."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin as into:
        into.write(code)
        into.close()
        yield from (line.rstrip("\n") for line in process.stdout)
    assert process.returncode == 0, f"{command[0]} exited with {process.returncode}"


def lines_of_curl(url: str, version: str) -> Iterator[str]:
    """Run each curl block in a new shell. The variable TASK is the id of the task in the last response."""
    task = ""
    for block in of("curl", version):
        yield f"## {block.section}"
        # Leave out the page's URL, because the test server has another port.
        code = "set -eu\n" + re.sub(r"^export AGENT=.*$", "", block.code, flags=re.MULTILINE)
        for line in lines_of(["bash"], code, {"AGENT": url, "AION_KEY": "aion_key", "TASK": task}):
            yield line
            if new := re.search(r'\{"task": ?\{"id": ?"([^"]+)"', line):
                task = new[1]


def lines_of_program(language: str, url: str, version: str) -> Iterator[str]:
    """Run all blocks as one program; print each section's heading before the output of its blocks."""
    say = 'print("## {}")' if language == "Python" else 'console.log("## {}");'
    yield from lines_of_code(
        language,
        "\n".join(f"{say.format(block.section)}\n{block.code}" for block in of(language, version)),
        url,
        version,
    )


def lines_of_code(language: str, code: str, url: str, version: str = "1.0") -> Iterator[str]:
    """Run a program in Python or TypeScript, which is type-checked first."""
    command, folder = [sys.executable, "-u", "-c", RUN_PYTHON], ROOT
    if language == "TypeScript":
        try:
            command, folder = (
                ["node", "typescript.mjs"],
                node_with(ROOT / "tests" / "support" / "js"),
            )
        except NodeMissing as missing:
            pytest.skip(f"NOT PROVEN: the TypeScript blocks. {missing}")
    yield from lines_of(command, code, {"AGENT": url, "AION_KEY": "aion_key", "A2A_VERSION": version}, folder)


def by_section(lines: Iterable[str], url: str) -> dict[str, str]:
    """Return the output of each section. When a client has subscribed to the task, answer the task's question."""
    section, printed = "", dict[str, list[str]]()
    for line in lines:
        if line.startswith("## "):
            section = line.removeprefix("## ")
            continue
        printed.setdefault(section, []).append(line)
        if section == "SubscribeToTask" and "INPUT_REQUIRED" in line:
            task = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", line)
            assert task is not None, line
            message = {"messageId": "m-1", "taskId": task[0], "role": "ROLE_USER", "parts": [{"text": "Tuesday"}]}
            httpx.post(f"{url}/message:send", json={"message": message}, timeout=60).raise_for_status()
    return {section: "\n".join(lines) for section, lines in printed.items()}


@pytest.mark.parametrize(
    ("language", "version"),
    [
        *(("curl", version) for version in VERSIONS),
        ("Python", "1.0"),
        pytest.param("Python", "0.3", marks=pytest.mark.deep),
        *(pytest.param("TypeScript", version, marks=pytest.mark.deep) for version in VERSIONS),
    ],
)
def test_clients_guide_code_prints_expected_output(language: str, version: str, agent: ServerProcess) -> None:
    lines = lines_of_curl(agent.url, version) if language == "curl" else lines_of_program(language, agent.url, version)
    printed = by_section(lines, agent.url)
    expected = EXPECTED | EXPECTED_OF_V03 if version == "0.3" else EXPECTED
    for section in {block.section for block in of(language, version)}:
        assert re.search(expected[section], printed[section], re.DOTALL | re.MULTILINE), (section, printed)


@pytest.mark.parametrize("language", ["Python", pytest.param("TypeScript", marks=pytest.mark.deep)])
def test_clients_guide_reads_card_of_second_agent(language: str, agent: ServerProcess) -> None:
    setup = next(block.code for block in of(language, "1.0") if block.section == "Set-up")
    assert list(lines_of_code(language, setup, f"{agent.url}/agents/second")) == ["Second"]


def test_clients_guide_has_no_untested_code() -> None:
    assert {block.section for block in BLOCKS} == set(EXPECTED)
    assert len(FENCES) == len(BLOCKS) + len(FILES)
