"""`sam validate`, `sam build` and `sam local start-api` on this project; an emulator replaces SAM's container."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.deploy import sam_install
from aion_tools.package.cache import cache
from aion_tools.programs import machine_architecture
from aion_tools.sam_local.env_file import PLAIN, write_private
from aion_tools.sam_local.reach import Reach
from aion_tools.sam_local.variables import in_stack
from aion_tools.stack.stack import SETTINGS, LocalStack
from aion_tools.template.reader import FUNCTION
from tests.support.e2e.api_process import api_process
from tests.support.e2e.runtime_emulator import emulated
from tests.tools.e2e.packages import file_states, package_here

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "template.yaml"
# Run this script with -P, so that modules in its folder cannot hide installed packages.
SAM_API = ROOT / "tests" / "tools" / "e2e" / "sam_api.py"
BASE_URL = "http://127.0.0.1:3000"
HERE = Reach("127.0.0.1", "127.0.0.1", ("127.0.0.0/8",))
TEXT = "Grüße, \u05e9\u05dc\u05d5\u05dd \U0001f642 and back"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the runtime emulator is a program for Linux"),
    # Allow fifteen minutes, because the first test installs SAM if necessary, and builds four packages.
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    """Start an emulated stack for this module: the sweep would otherwise find unfinished turns of other tests."""
    with LocalStack.start("template.yaml") as stack:
        yield stack


@pytest.fixture(scope="module")
def sam() -> Path:
    """Return the folder of SAM's programs."""
    return sam_install.installed()


def run(command: list[str], cwd: Path = ROOT, **environ: str) -> str:
    uv_is_found = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment = {**os.environ, **sam_install.ENVIRONMENT, **SETTINGS, **uv_is_found, **environ}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy this checkout into a new folder, and return the folder."""
    made_by_tools = shutil.ignore_patterns(
        ".git", ".venv", ".sam", ".aws-sam", ".aion", ".cache", ".*_cache", "__pycache__"
    )
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("checkout") / "aion", ignore=made_by_tools)


@pytest.fixture(scope="module")
def built(sam: Path, copied: Path) -> Path:
    """Return the folder of `sam build`, for this machine's processor."""
    # Build without samconfig.toml, because SAM then builds in a copy of the folder, and this build must work too.
    config = copied / "samconfig.toml"
    config.rename(config.with_name(".samconfig.aside"))
    template = copied / "template.yaml"
    template.write_text(template.read_text().replace("Default: x86_64", f"Default: {machine_architecture()}"))
    run([str(sam / "sam"), "build"], cwd=copied, AION_PACKAGE_CACHE=str(cache()))
    return copied / ".aws-sam" / "build"


Invoked = Callable[[str], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def invoked(sam: Path, built: Path, stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Invoked:
    """Return a context manager that runs a built function in the runtime emulator and yields its URL."""

    @contextmanager
    def invoked(function: str) -> Iterator[str]:
        scratch = tmp_path_factory.mktemp("runtime")
        env_vars = scratch / "env.json"
        functions = stack.template.resources(FUNCTION)
        write_private(env_vars, {name: in_stack(stack.environment(name), HERE, BASE_URL, "{}") for name in functions})
        command = [str(sam / "python"), "-P", str(SAM_API), "environment", str(built / "template.yaml"), str(env_vars)]
        environment = json.loads(run(command))[function]["environment"]
        with emulated(built / function, environment["AWS_LAMBDA_FUNCTION_HANDLER"], environment, scratch) as url:
            yield url

    return invoked


@pytest.fixture(scope="module")
def api(sam: Path, built: Path, invoked: Invoked) -> Iterator[str]:
    """Return the URL of SAM's local API server for the built function."""
    with invoked("ApiFunction") as url:
        command = [str(sam / "python"), "-P", str(SAM_API), "serve", str(built / "template.yaml"), url]
        with subprocess.Popen(command, env={**os.environ, **SETTINGS}, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                yield f"http://127.0.0.1:{int(server.stdout.readline())}"
            finally:
                server.kill()


def call(url: str, method: str, params: dict[str, Any]) -> httpx.Response:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(url, json=request, headers={"A2A-Version": "1.0"}, timeout=60)


def message(message_id: str, text: str) -> dict[str, Any]:
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}}


def read_task(stack: LocalStack, task_id: str) -> dict[str, Any]:
    """Read the task through another API process."""
    with api_process(stack, ROOT / "aion.yaml") as other:
        task: dict[str, Any] = call(other.url, "GetTask", {"id": task_id}).json()["result"]
        return task


# --- Validate and build ---


@pytest.mark.deep
def test_sam_validates_template(sam: Path) -> None:
    assert "is a valid SAM Template" in run([str(sam / "sam"), "validate", "--lint"])


@pytest.mark.deep
def test_sam_builds_function_without_docker(built: Path) -> None:
    code = built / "ApiFunction"
    names = {path.name for path in code.iterdir()}
    assert names >= {"aion_core", "handlers", "examples", "aion.yaml", "a2a", "fastapi", "mangum", "langgraph", "boto3"}
    assert not names & {"moto", "uvicorn", "pytest", "aion_tools", "infra", "scripts", "tests", "samcli", "bin"}
    assert not (code / "google" / "adk").exists()
    wrapper = code / "aion_core" / "lambda_runtime" / "exec-wrapper.sh"
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755


@pytest.mark.deep
def test_sam_build_and_aion_build_produce_same_files(built: Path) -> None:
    """Build the project by `sam build` and by `aion build`, and compare the files."""
    for function in ("ApiFunction", "SweepFunction"):
        assert file_states(built / function) == file_states(package_here(function).code)


@pytest.mark.deep
def test_sam_build_in_copy_writes_environment_of_project(built: Path, copied: Path) -> None:
    file = copied / PLAIN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["Parameters"]["AION_STORE"] == "memory"


@pytest.mark.deep
def test_built_template_references_built_function_code(built: Path) -> None:
    assert "CodeUri: ApiFunction" in (built / "template.yaml").read_text()


# --- The built function behind SAM's local API ---


@pytest.mark.deep
def test_message_is_answered_and_stored(api: str, stack: LocalStack) -> None:
    answer = call(api, "SendMessage", message("sam-json", TEXT))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": TEXT}]
    assert read_task(stack, task["id"]) == task


@pytest.mark.deep
def test_stream_is_answered_and_stored(api: str, stack: LocalStack) -> None:
    answer = call(api, "SendStreamingMessage", message("sam-sse", TEXT))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [
        json.loads(line.removeprefix("data: "))["result"]
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    task_id = events[0]["task"]["id"]
    assert events[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    deltas = [event["artifactUpdate"]["artifact"]["parts"][0]["text"] for event in events if "artifactUpdate" in event]
    assert "".join(deltas) == TEXT
    assert len(deltas) > 2
    assert read_task(stack, task_id)["status"] == events[-1]["statusUpdate"]["status"]


@pytest.mark.deep
def test_card_under_sam_local_has_base_url(api: str) -> None:
    card = httpx.get(f"{api}/.well-known/agent-card.json", timeout=60).json()
    assert card["supportedInterfaces"][0]["url"].startswith(BASE_URL)


@pytest.mark.deep
def test_invalid_request_gets_protocol_error(api: str) -> None:
    answer = httpx.post(api, content=b"{", headers={"Content-Type": "application/json"}, timeout=60)
    assert answer.json()["error"]["code"] == -32700
