"""Wheel installed in a new environment with an empty home: `aion new`, `aion dev`, `aion build`, and the built functions.

Nothing is imported from this checkout; the official client sends the requests.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest

from aion_tools.shipped import shipped
from aion_tools.stack.stack import LocalStack
from tests.support.e2e.rest_api import ARN
from tests.support.e2e.runtime_emulator import emulated
from tests.support.installed import Installed, installed
from tests.support.recorded import recorded_event

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the packages and the runtime emulator are for Linux"),
    # Allow fifteen minutes, because the first test installs an environment, and the build several packages.
    pytest.mark.timeout(900),
]

# Beginning of a private key, without the key's content.
PLANTED_KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n-----END PRIVATE KEY-----\n"
PRIVATE_MODULE = "def mark(text):\n    return f'[{text}]'\n"
ANSWERS = """
import cowsay
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from private.words import mark


def answer(state: MessagesState) -> dict:
    return {"messages": [AIMessage(mark(f"{cowsay.__name__} heard {state['messages'][-1].content}"))]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel with the extra `local`, but without LangGraph and ADK."""
    return installed(tmp_path_factory.mktemp("tools"), "local")


@dataclass(frozen=True)
class NewProject:
    """Project created by `aion new`, with its virtual environment."""

    folder: Path
    printed: str

    @property
    def aion(self) -> str:
        """Return the path of the project's `aion` command."""
        return str(self.folder / ".venv" / "bin" / "aion")


@pytest.fixture(scope="module")
def new_project(tools: Installed, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], NewProject]:
    """Return a function that creates and installs the project of a framework, once for each framework."""

    @cache
    def made(framework: str) -> NewProject:
        folder = tmp_path_factory.mktemp(framework)
        printed = tools.run("aion", "new", "my-agent", "--framework", framework, cwd=folder)
        tools.run("uv", "sync", "--quiet", cwd=folder / "my-agent")
        return NewProject(folder / "my-agent", printed)

    return made


@pytest.fixture
def project(new_project: Callable[[str], NewProject], tmp_path: Path) -> Iterator[NewProject]:
    """Return the LangGraph project; restore its files after the test."""
    made = new_project("langgraph")
    environment = shutil.ignore_patterns(".venv")
    shutil.copytree(made.folder, tmp_path / "before", ignore=environment)
    yield made
    for path in made.folder.iterdir():
        if path.name != ".venv":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(tmp_path / "before", made.folder, dirs_exist_ok=True)


@contextmanager
def served(where: Installed, folder: Path, *command: str) -> Iterator[str]:
    """Run `aion dev` in the folder until the block ends; yield its URL."""
    process = subprocess.Popen(
        [*command, "dev", "--port", "0"],
        cwd=folder,
        env=where.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    printed = []
    try:
        for line in process.stdout:
            printed.append(line)
            if line.startswith("Press Ctrl-C"):
                break
        found = re.search(r"(http://127\.0\.0\.1:\d+)/", "".join(printed))
        assert found, "".join(printed)
        yield found[1]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(timeout=60)
        process.stdout.close()


async def ask(url: str, text: str) -> tuple[str, str]:
    """Send the text with the official client; return the streamed text, and the answer in the task.

    A new project answers with an artifact; other agents of these tests with a message.
    """
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        message = Message(message_id=f"m-{text}", role=Role.ROLE_USER, parts=[Part(text=text)])
        streamed, answer, task_id = "", "", ""
        async for event in client.send_message(SendMessageRequest(message=message)):
            task_id = event.task.id or task_id
            if event.HasField("artifact_update"):
                streamed += "".join(part.text for part in event.artifact_update.artifact.parts)
            if event.HasField("status_update") and event.status_update.status.HasField("message"):
                answer = "".join(part.text for part in event.status_update.status.message.parts)
        if not answer:
            task = await client.get_task(GetTaskRequest(id=task_id))
            answer = "".join(part.text for artifact in task.artifacts for part in artifact.parts)
    return streamed, answer


def answered_by(function: Path, folder: Path, text: str) -> str:
    """Run the built ApiFunction under the runtime emulator, and send the text; return the answer's text."""
    code, scratch = folder / "code", folder / "runtime"
    scratch.mkdir()
    with zipfile.ZipFile(function) as archive:
        archive.extractall(code)
        for entry in archive.infolist():
            (code / entry.filename).chmod(entry.external_attr >> 16 & 0o777)
    with LocalStack.start() as stack:
        environ = {**stack.environment("ApiFunction"), "AWS_SAM_LOCAL": "true"}
        event = recorded_event("rest_api_v1", path="/message:send", isBase64Encoded=False)
        message = {"messageId": "m-built", "role": "ROLE_USER", "parts": [{"text": text}]}
        event["requestContext"]["identity"]["userArn"] = ARN  # API Gateway puts the signer's ARN here
        event["body"] = json.dumps({"message": message})
        with emulated(code, "handlers.api.handler", environ, scratch) as url:
            answer = httpx.post(url, json=event, timeout=120).json()
    assert answer["statusCode"] == 200, answer
    body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
    task = json.loads(body)["task"]
    answered = task["status"].get("message") or task["artifacts"][0]
    return "".join(part["text"] for part in answered["parts"])


# --- The command ---


@pytest.mark.deep
def test_installation_without_extras_has_help_and_names_extra(bare: Installed, tmp_path: Path) -> None:
    said = bare.run("aion", "--help", cwd=tmp_path)
    assert "For a project:" in said
    assert "is missing. Install aion-lambda[local]" in " ".join(said.split())
    assert bare.run("aion", "--version", cwd=tmp_path).startswith("aion, version ")
    assert "Usage: aion" in bare.run("aion", "dev", "--help", cwd=tmp_path)
    (tmp_path / "agent.py").write_text("from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n")
    (tmp_path / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    (tmp_path / "template.yaml").touch()
    for command, remedy in (("dev", "Install aion-lambda[local]"), ("doctor", "pip install 'aion-lambda[local]'")):
        said = bare.run("aion", command, cwd=tmp_path, fails=True)
        assert "is missing." in said
        assert remedy in said
        assert "Traceback" not in said
    with zipfile.ZipFile(bare.wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"aion", "aion_core", "aion_tools"}


# --- A new project ---


def test_printed_commands_work_in_new_project(tools: Installed, project: NewProject) -> None:
    """Run the commands that `aion new` prints, in an environment without frameworks."""
    assert f"No package index has this aion-lambda, so its wheel is vendor/{tools.wheel.name}." in project.printed
    commands = [line.strip() for line in project.printed.partition("Next:\n")[2].splitlines()]
    assert commands == ["cd my-agent", "uv run aion dev", "uv run pytest"]
    assert (project.folder / "uv.lock").is_file()
    assert "1 passed" in tools.run(*commands[-1].split(), cwd=project.folder)
    with served(tools, project.folder, *commands[1].removesuffix(" dev").split()) as url:
        streamed, answer = asyncio.run(ask(url, "hello"))
        printed = tools.run(project.aion, "send", "How many words are these?", cwd=project.folder)
    assert answer
    assert streamed in ("", answer), "what was streamed is the answer"
    assert "Your message has 5 words." in printed


@pytest.mark.deep
@pytest.mark.parametrize("source", ["clone", "find-links"])
def test_project_contains_wheel_of_unreleased_aion_lambda(tools: Installed, tmp_path: Path, source: str) -> None:
    """Run `aion new` by uvx. No record of an installation names the folder of UV_FIND_LINKS."""
    links: dict[str, Any] = {"UV_FIND_LINKS": str(tools.wheel.parent)} if source == "find-links" else {}
    wanted = "aion-lambda[local]" if links else f"{shipped()}[local]"
    tools.run("uvx", "--from", wanted, "aion", "new", "my-agent", "--framework", "executor", cwd=tmp_path, **links)
    lock = tomllib.loads((tmp_path / "my-agent" / "uv.lock").read_text())
    sources = [each["source"] for each in lock["package"] if each["name"] == "aion-lambda"]
    assert sources == [{"path": f"vendor/{tools.wheel.name}"}]


@pytest.mark.deep
def test_copied_project_works_on_another_machine(tools: Installed, project: NewProject, tmp_path: Path) -> None:
    """Copy the project away from this machine's wheel and caches. The package registries are there."""
    shutil.copytree(project.folder, tmp_path / "copy", ignore=shutil.ignore_patterns(".venv", ".aion", "__pycache__"))
    machine: dict[str, Any] = {"UV_CACHE_DIR": str(tmp_path / "cache")}
    hidden = tools.wheel.rename(tmp_path / "hidden.whl")
    try:
        tools.run("uv", "sync", "--quiet", "--locked", cwd=tmp_path / "copy", **machine)
        assert "1 passed" in tools.run("uv", "run", "--locked", "pytest", cwd=tmp_path / "copy", **machine)
    finally:
        hidden.rename(tools.wheel)


@pytest.mark.deep
@pytest.mark.parametrize("framework", ["adk", "executor"])
def test_new_project_is_tested_served_and_built(
    tools: Installed, new_project: Callable[[str], NewProject], tmp_path: Path, framework: str
) -> None:
    made = new_project(framework)
    assert " passed" in tools.run("uv", "run", "--quiet", "pytest", "-q", cwd=made.folder)
    with served(tools, made.folder, made.aion) as url:
        streamed, answer = asyncio.run(ask(url, "hello"))
    assert answer
    assert streamed in ("", answer), "what was streamed is the answer"
    tools.run(made.aion, "build", "ApiFunction", "TaskFunction", cwd=made.folder)
    assert answered_by(made.folder / ".aion" / "build" / "ApiFunction.zip", tmp_path, "hello") == answer


@pytest.mark.deep
def test_build_packages_project_code_without_secret_or_ignored_files(
    tools: Installed, project: NewProject, tmp_path: Path
) -> None:
    """Package a private module and an added dependency, but not .env, .git, .venv and ignored files."""
    folder = project.folder
    tools.run("uv", "add", "--quiet", "cowsay", cwd=folder)
    tools.run("uv", "run", "--locked", "python", "-c", "import cowsay", cwd=folder)
    written = {
        "agent.py": ANSWERS,
        "private/words.py": PRIVATE_MODULE,
        ".env": "OPENAI_API_KEY=sk-planted",
        ".git/config": "[core]\n",
        "notes.secret": "planted",
        "deploy.txt": PLANTED_KEY,
    }
    for name, text in written.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with (folder / ".gitignore").open("a") as ignored:
        ignored.write("\n*.secret\n")
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py:graph}}}")
    refused = tools.run(project.aion, "build", "ApiFunction", cwd=folder, fails=True)
    assert "deploy.txt, line 1: a private key (private-key)" in refused
    (folder / "deploy.txt").unlink()
    said = tools.run(project.aion, "build", "ApiFunction", cwd=folder)
    assert re.search(r"ApiFunction: \d+ MB for .*; agents: mine \(agent\.py", said)
    assert re.search(r"excluded: \.env, .*notes\.secret \(matched by \.gitignore\)", said)
    package = folder / ".aion" / "build" / "ApiFunction.zip"
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
        assert {"agent.py", "private/words.py", "cowsay/__init__.py", "aion.yaml", "handlers/api.py"} <= set(names)
        tops = {name.split("/")[0] for name in names}
        assert not {".env", ".git", ".venv", ".aion", "tests", "notes.secret", "uv.lock", "moto"} & tops
        assert not any(b"sk-planted" in archive.read(name) for name in names if name.endswith((".py", ".yaml", ".txt")))
    assert answered_by(package, tmp_path, "hello") == "[cowsay heard hello]"
    # Run the Makefile rule that `sam build` calls for a function, with the same installed dependencies.
    artifacts = tmp_path / "artifacts"
    said = tools.run("make", "build-SweepFunction", f"ARTIFACTS_DIR={artifacts}", cwd=folder)
    assert "SweepFunction: " in said
    assert (artifacts / "handlers" / "sweep.py").is_file()
