"""Project whose agent is too large for a zip: its images in containers, on Lambda's Runtime API and under `sam local`."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT

import httpx
import pytest

from aion_tools import project
from aion_tools.deploy import sam_install
from aion_tools.package.functions import AGENT_FUNCTIONS
from aion_tools.programs import find_uv, machine_architecture, run
from aion_tools.project.files import samconfig
from aion_tools.stack.stack import LocalStack
from aion_tools.template.file import load
from tests.support.containers.engine import DockerEngine as Engine
from tests.support.e2e.rest_api import RestApi, rest_api
from tests.support.server import ROOT
from tests.support.service import send
from tests.tools.e2e.containers.test_lambda_conditions import AUTH, CONDITIONS, LAMBDA
from tests.tools.unit.package.wheels import pyproject, write

pytestmark = [
    pytest.mark.deep,
    # Allow half an hour, because the first test may install the dependencies and build Lambda's image.
    pytest.mark.timeout(1800),
]

ANSWER = "2 words, 1 different"
AGENT = """
import io

import pandas
import pymupdf
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def count(state: MessagesState) -> dict:
    with pymupdf.open() as document:
        document.new_page().insert_text((72, 72), state["messages"][-1].text)
        text = pymupdf.open(stream=io.BytesIO(document.tobytes()))[0].get_text()
    words = pandas.Series(text.split())
    return {"messages": [AIMessage(f"{len(words)} words, {words.nunique()} different")]}


graph = StateGraph(MessagesState).add_node("count", count).add_edge(START, "count").compile()
"""
AION_YAML = "aion:\n  image: true\n  agents:\n    documents: {path: documents.py:graph}\n"
PLANTED = "planted-7b1c9f3e5d"
SECRETS = {
    ".env": f"OPENAI_API_KEY={PLANTED}",
    ".aws/credentials": f"[default]\naws_secret_access_key = {PLANTED}",
    ".git/config": f"[remote]\nurl = https://me:{PLANTED}@example.com/mine.git",
    "npmrc": f"//example.com/:_authToken={PLANTED}",
    "prod.tfvars": f'password = "{PLANTED}"',
    "requirements-dev.txt": f"--index-url https://me:{PLANTED}@example.com/simple\npytest\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project as `aion new` writes it, with pandas, pymupdf and planted secrets."""
    template = (Path(project.__file__).with_name("files") / "every" / "template.yaml").read_text()
    files = {
        "aion.yaml": AION_YAML,
        "documents.py": AGENT,
        "template.yaml": template.replace("@architecture@", machine_architecture()).replace("@name@", "Documents"),
        "samconfig.toml": samconfig("documents"),
        "Makefile": f'build-%:\n\t@{sys.executable} -m aion_tools.cli build $* --to "$(ARTIFACTS_DIR)"\n',
        "pyproject.toml": pyproject("aion-lambda[langgraph]", "pandas", "pymupdf")
        + f'[tool.uv.sources]\naion-lambda = {{ path = "{ROOT}" }}\n',
        **SECRETS,
    }
    folder = write(tmp_path_factory.mktemp("documents"), files)
    run([find_uv(), "lock", "--quiet", "--project", str(folder)])
    return folder


def aion(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "aion_tools.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def sam(engine: Engine, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environ = {**engine.environ, **sam_install.ENVIRONMENT}
    command = [str(sam_install.installed() / "sam"), *arguments]
    return subprocess.run(command, cwd=folder, env=environ, stdout=PIPE, stderr=STDOUT, text=True)


@pytest.fixture(scope="module")
def images(engine: Engine, folder: Path) -> Iterator[dict[str, str]]:
    """Build the project by `aion build` and `sam build`, and return the image of each function with agents."""
    made = aion(folder, "build")
    assert made.returncode == 0, made.stderr
    built = sam(engine, folder, "build")
    assert built.returncode == 0, built.stdout
    resources = load(folder / ".aws-sam" / "build" / "Aion" / "template.yaml")["Resources"]
    images = {name: resources[name]["Properties"]["ImageUri"] for name in AGENT_FUNCTIONS}
    try:
        yield images
    finally:
        # `sam local` makes one more image of each.
        rapid = [f"{image.partition(':')[0]}:rapid-{machine_architecture()}" for image in images.values()]
        engine.docker("rmi", "--force", *filter(engine.has, [*images.values(), *rapid]))


@pytest.fixture(scope="module")
def stack(engine: Engine, folder: Path) -> Iterator[LocalStack]:
    """Start the emulated tables, queues and bucket where containers reach them."""
    with LocalStack.start(folder / "template.yaml", host=engine.gateway) as stack:
        yield stack


@pytest.mark.parametrize("function", AGENT_FUNCTIONS)
def test_image_has_no_planted_secret(engine: Engine, folder: Path, images: dict[str, str], function: str) -> None:
    """Read all files of the image, its history and its settings."""
    assert all(PLANTED in (folder / name).read_text() for name in SECRETS)
    container = engine.docker("create", images[function])
    try:
        exported = subprocess.Popen(["docker", "export", container], env=engine.environ, stdout=PIPE)
        assert exported.stdout is not None
        with exported.stdout:
            found = dict.fromkeys((PLANTED, "def count(state: MessagesState)"), False)
            before = b""
            while piece := exported.stdout.read(1 << 24):
                for name in found:
                    found[name] |= name.encode() in before[-100:] + piece
                before = piece
        assert exported.wait() == 0
    finally:
        engine.docker("rm", container)
    assert found == {PLANTED: False, "def count(state: MessagesState)": True}
    told = engine.docker("history", "--no-trunc", images[function]) + engine.docker("inspect", images[function])
    assert "COPY" in told
    assert PLANTED not in told


@contextmanager
def running_api(engine: Engine, image: str, stack: LocalStack) -> Iterator[RestApi]:
    """Run ApiFunction's image under Lambda's conditions until the block ends. Print its log."""
    with rest_api(engine.gateway) as api:
        environ = {
            **{
                name: value
                for name, value in stack.environment("ApiFunction").items()
                if name != "AWS_LAMBDA_EXEC_WRAPPER"
            },
            **LAMBDA,
            "AWS_LAMBDA_RUNTIME_API": api.runtime,
        }
        with engine.container(*CONDITIONS, *variables(environ), image) as container:
            try:
                yield api
            finally:
                print(engine.logs(container))


def variables(environ: dict[str, str]) -> list[str]:
    return [part for name, value in environ.items() for part in ("--env", f"{name}={value}")]


def test_task_function_of_image_runs_queued_turn(engine: Engine, images: dict[str, str], stack: LocalStack) -> None:
    """ApiFunction enqueues the turn. AWS's runtime client runs it in the other image, behind its emulator of the Runtime API."""
    environ = {**stack.environment("TaskFunction"), **LAMBDA}
    with (
        running_api(engine, images["ApiFunction"], stack) as api,
        engine.container("--publish", "127.0.0.1:0:8080", *variables(environ), images["TaskFunction"]) as container,
        httpx.Client(auth=AUTH, timeout=120, headers={"A2A-Version": "1.0"}) as http,
    ):
        address = engine.docker("port", container, "8080").splitlines()[0]
        url = f"http://{address}/2015-03-31/functions/function/invocations"
        stack.poll(
            {
                "TaskFunction": lambda event, _: httpx.post(url, json=event, timeout=300).json(),
                "PushFunction": lambda *_: None,
                "SweepFunction": lambda *_: None,
            }
        )
        try:
            request = send(parts=[{"text": "word word"}])
            request["params"]["configuration"] = {"returnImmediately": True}
            task = http.post(f"{api.url}/", json=request).json()["result"]["task"]
            assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
            ended = {"jsonrpc": "2.0", "id": 2, "method": "GetTask", "params": {"id": task["id"]}}
            deadline = time.monotonic() + 300
            while task["status"]["state"] != "TASK_STATE_COMPLETED" and time.monotonic() < deadline:
                time.sleep(0.2)
                task = http.post(f"{api.url}/", json=ended).json()["result"]
        finally:
            stack.stop_polling()
            print(engine.logs(container))
    assert task["status"]["message"]["parts"] == [{"text": ANSWER}]
