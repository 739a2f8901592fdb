"""Project in which a user runs `sam local`: new ones of both frameworks, and a clone of the repository."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT

from aion_tools.deploy import sam_install
from aion_tools.package.cache import cache
from tests.support.containers.engine import DockerEngine
from tests.support.installed import Installed
from tests.support.listening import free_port
from tests.tools.e2e.packages import clone

KEY = "key-of-a-model-7f3a"
ANSWER = 'answer="Your message has {result}."'
KEYED = 'answer="Your message has {result}, and the key " + os.environ["MODEL_KEY"][-4:] + "."'
TIMEOUT = 600


@dataclass
class LocalProject:
    """Folder of a project, and its user's shell."""

    engine: DockerEngine
    folder: Path
    environ: dict[str, str]
    answer: str
    """The agent's answer to a message of two words."""

    def sam(self, *arguments: str) -> str:
        """Run SAM CLI and return all its output. Raise AssertionError with the output if it fails."""
        done = subprocess.run(
            ["sam", *arguments], cwd=self.folder, env=self.environ, stdout=PIPE, stderr=STDOUT, text=True
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def containers(self, folder: str = "") -> list[str]:
        """Return the ids of the containers that mount a folder of the project, or of this folder in it."""
        lines = self.engine.docker("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Mounts}}").splitlines()
        return [line.split()[0] for line in lines if f"{self.folder}/{folder}" in line]


@dataclass
class LocalServer:
    """Running server of a project's functions."""

    process: "subprocess.Popen[str]"
    url: str
    printed: list[str] = field(default_factory=list)

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit code. Afterwards `printed` is the whole output."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(TIMEOUT)


@contextmanager
def serving(project: LocalProject, command: list[str], port: int, ready: str) -> Iterator[LocalServer]:
    """Run a command until it has printed a line with `ready`; yield the server at the port until the block ends."""
    process = subprocess.Popen(
        command,
        cwd=project.folder,
        env={**project.environ, "PORT": str(port)},
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        start_new_session=True,
    )
    server, is_ready = LocalServer(process, f"http://127.0.0.1:{port}"), threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            server.printed.append(line)
            if ready in line:
                is_ready.set()
        is_ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert is_ready.wait(TIMEOUT), "".join(server.printed)
        assert process.poll() is None, "".join(server.printed)
        yield server
    finally:
        try:
            if process.poll() is None:
                server.interrupt()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            reader.join(TIMEOUT)
            print("".join(server.printed))


@contextmanager
def plain(project: LocalProject) -> Iterator[LocalServer]:
    """Run `sam build` and `sam local start-api`, as SAM's users do. Skip only the pull of the image."""
    project.sam("build")
    port = free_port()
    command = ["sam", "local", "start-api", "--port", str(port), "--skip-pull-image"]
    with serving(project, command, port, "Running on http://127.0.0.1") as server:
        yield server


@contextmanager
def complete(project: LocalProject) -> Iterator[LocalServer]:
    """Run all functions in containers by `aion sam-local`."""
    with serving(project, ["aion", "sam-local"], free_port(), "Press Ctrl-C") as server:
        yield server


def new_project(engine: DockerEngine, folder: Path, tools: Installed, framework: str) -> LocalProject:
    """Create a project by `aion new`, whose agent needs a key from .env."""
    tools.run("aion", "new", "my-agent", "--framework", framework, cwd=folder)
    project = folder / "my-agent"
    tools.run("uv", "sync", "--quiet", cwd=project)
    agent = (project / "agent.py").read_text()
    assert agent.count(ANSWER) == 1
    (project / "agent.py").write_text(agent.replace(ANSWER, KEYED))
    with (project / "aion.yaml").open("a") as file:
        file.write("  secrets: {MODEL_KEY: model-key}\n")
    (project / ".env").write_text(f"MODEL_KEY={KEY}\n")
    environ = _shell(engine, {**tools.environ, "PATH": f"{project}/.venv/bin{os.pathsep}{tools.environ['PATH']}"})
    return LocalProject(engine, project, environ, f"Your message has 2 words, and the key {KEY[-4:]}.")


def cloned_project(engine: DockerEngine, folder: Path) -> LocalProject:
    """Copy this repository with only its echo agent. Its `make` would change the environment of the tests."""
    programs = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AION_"))}
    environ = _shell(engine, {**kept, **programs, "AION_PACKAGE_CACHE": str(cache())})
    copied = clone(folder / "aion-lambda")
    (copied / "aion.yaml").write_text("aion: {agents: {echo: {path: 'examples/echo/agent.py:graph'}}}\n")
    return LocalProject(engine, copied, environ, "two words")


def _shell(engine: DockerEngine, environ: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join((environ["PATH"], str(sam_install.installed())))
    return {**environ, **sam_install.ENVIRONMENT, "PATH": path, "DOCKER_HOST": engine.host, "PYTHONUNBUFFERED": "1"}
