"""`aion sam-local` from start to end, with stand-ins for docker and SAM. The tests in containers use the real ones."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aion_tools.project.create import create
from aion_tools.project.files import Project
from aion_tools.project.origin import Origin
from tests.support.e2e import forked
from tests.support.listening import free_port
from tests.tools.unit.sam_local.programs import SAM, calls, docker, path_with, program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
FUNCTIONS = {"ApiFunction", "TaskFunction", "PushFunction", "SweepFunction"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new project's folder, with a secret in `.env` and another that is missing."""
    folder = tmp_path_factory.mktemp("project").resolve() / "my-agent"
    create(folder, Project("my-agent", "langgraph", Origin()))
    with (folder / "aion.yaml").open("a") as file:
        file.write("  secrets: {OPENAI_API_KEY: openai-key, TAVILY_API_KEY: tavily}\n")
    (folder / ".env").write_text("OPENAI_API_KEY=sk-1\n")
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    docker(tmp_path)
    program(tmp_path, "sam", SAM)
    return tmp_path


def environment(programs: Path, environ: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AION_", "DOCKER_"))}
    return {**kept, "PATH": path_with(programs), **environ}


def started(project: Path, programs: Path, port: int, *more: str, **environ: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "aion_tools.cli", "sam-local", "--port", str(port), *more],
        cwd=project,
        env=environment(programs, environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(project: Path, programs: Path, port: int, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run the command until it ends by itself, in a forked process."""
    given = environment(programs, environ)
    return forked.run("aion_tools.cli", "sam-local", "--port", str(port), cwd=project, env=given)


def log(programs: Path) -> list[dict[str, Any]]:
    """Return what the stand-in of SAM has written."""
    return [json.loads(line) for line in (programs / "sam.log").read_text().splitlines()]


@pytest.fixture(scope="module")
def ended(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the command until its greeting, end it by SIGTERM, and return what it has shown and called."""
    programs, port = tmp_path_factory.mktemp("programs"), free_port()
    docker(programs)
    program(programs, "sam", SAM)
    given = environment(programs, {"AWS_PROFILE": "missing", "TAVILY_API_KEY": ""})
    with (programs / "errors").open("w+") as errors:
        streams = {"stdout": subprocess.PIPE, "stderr": errors.fileno()}
        arguments = ("sam-local", "--port", str(port), "--", "--debug")
        running = forked.ForkedProcess("aion_tools.cli", *arguments, env=given, cwd=project, **streams)
        assert running.stdout is not None
        shown = ""
        for line in running.stdout:
            shown += line.decode()
            if "Ctrl-C" in shown:
                break
        here = {path.name for path in (project / ".aion" / "sam-local" / str(port)).iterdir()}
        running.terminate()
        code = running.wait(timeout=60)
        shown += running.stdout.read().decode()
        errors.seek(0)
        err = errors.read()
    return {
        "code": code,
        "out": shown,
        "err": err,
        "here": here,
        "sam": log(programs),
        "docker": calls(programs),
        "port": port,
    }


def test_greeting_follows_the_first_answer(ended: dict[str, Any]) -> None:
    assert f"My agent is available at http://127.0.0.1:{ended['port']}/" in ended["out"]
    assert "A stream arrives whole, at its end." in ended["out"]
    assert f"  curl -sN http://127.0.0.1:{ended['port']}/ -H 'Content-Type: application/json'" in ended["out"]
    assert "register http://127.0.0.1:PORT/" in ended["out"], "the address of webhooks"


def test_missing_secret_is_told_by_name_only(ended: dict[str, Any]) -> None:
    assert "TAVILY_API_KEY is not set" in ended["err"]
    assert "OPENAI_API_KEY" not in ended["err"]
    assert "sk-1" not in ended["out"] + ended["err"]


def test_build_is_for_the_engines_processor(ended: dict[str, Any]) -> None:
    folder = f".aion/sam-local/{ended['port']}/build"
    assert ended["sam"][0]["built"].endswith(folder)
    assert ended["sam"][0]["architecture"] == "x86_64"


def test_both_commands_of_sam_get_private_file_and_options(ended: dict[str, Any]) -> None:
    served = {said["command"]: said for said in ended["sam"] if "command" in said}
    assert set(served) == {"start-api", "start-lambda"}
    for said in served.values():
        assert said["mode"] == "0o600"
        assert set(said["file"]) == FUNCTIONS
        assert "--skip-pull-image" in said["options"]
        assert said["options"][said["options"].index("--warm-containers") + 1] == "LAZY"
        assert said["environ"] == {
            "DOCKER_HOST": "unix:///of/the/context.sock",
            "AWS_PROFILE": None,
            "AWS_ACCESS_KEY_ID": "local",
        }
    assert "--debug" in served["start-api"]["options"]
    assert "--debug" not in served["start-lambda"]["options"]
    variables = served["start-api"]["file"]["ApiFunction"]
    assert json.loads(variables["AION_LOCAL_ENVIRONMENT"]) == {"OPENAI_API_KEY": "sk-1"}
    assert variables["AION_BASE_URL"] == f"http://127.0.0.1:{ended['port']}"
    assert variables["AION_TABLE"]


def test_sigterm_ends_children_and_removes_files(ended: dict[str, Any], project: Path) -> None:
    assert ended["code"] == 0
    assert {said["ended"] for said in ended["sam"] if "ended" in said} == {"start-api", "start-lambda"}
    assert "env.json" in ended["here"]
    assert list((project / ".aion" / "sam-local").iterdir()) == []
    # Containers that SAM has left would mount the folders of the packages.
    volume = f"--filter=volume={project}/.aion/sam-local/{ended['port']}/build/Aion/"[:80]
    assert volume in ended["docker"][-1]
    assert "Traceback" not in ended["err"]


FAILURES = {
    "child": (
        {"TEST_FAILS": "start-lambda"},
        "`sam local start-lambda` has ended with code 1: Error: the template is empty",
    ),
    "first request": ({"TEST_STATUS": "502"}, "The agent card could not be read: 502 {}. The function's log above"),
}


@pytest.mark.parametrize(("environ", "told"), FAILURES.values(), ids=FAILURES)
def test_failure_ends_all_with_its_reason(environ: dict[str, str], told: str, project: Path, programs: Path) -> None:
    port = free_port()
    done = ran(project, programs, port, **environ)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "Ctrl-C" not in done.stdout
    assert not (project / ".aion" / "sam-local" / str(port)).exists()


@pytest.mark.deep
def test_child_that_ends_later_ends_all(project: Path, programs: Path) -> None:
    running = started(project, programs, free_port())
    with running:
        assert running.stdout is not None
        assert any("Ctrl-C" in line for line in running.stdout)
        found = subprocess.run(
            ["pgrep", "-f", f"{programs}/sam local start-api"], capture_output=True, text=True, check=True
        )
        os.kill(int(found.stdout), signal.SIGKILL)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "`sam local start-api` has ended with code -9: " in err


def test_taken_port_is_an_error_with_remedy(project: Path, programs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = ran(project, programs, port)
    assert (done.returncode, (programs / "sam.log").exists()) == (1, False)
    assert f"Port {port} cannot be used (Address already in use). Choose another" in done.stderr
    assert f"`aion sam-local --port {port + 1}`" in done.stderr


def test_missing_docker_and_missing_template_are_errors(project: Path, programs: Path) -> None:
    (programs / "docker").unlink()
    for folder, told in ((project, "docker is not installed"), (programs, "There is no template.yaml in this folder.")):
        done = ran(folder, programs, free_port(), PATH=str(programs))
        assert done.returncode == 1
        assert told in done.stderr
