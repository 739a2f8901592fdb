"""Container engine of this machine: docker, or an engine that answers docker's program."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from aion_core.errors import AionError
from aion_tools.programs import machine_architecture

INSTALL = "https://docs.docker.com/engine/install/"
WITHOUT = "`aion dev` needs no containers."
_PROCESSORS = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_HOST = "DOCKER_HOST"
_SECONDS = 60


class EngineError(AionError):
    """Container engine that is missing, does not run, or refuses a container. The message names the remedy."""


@dataclass(frozen=True)
class Engine:
    """A running container engine."""

    program: str
    """Path of docker's program."""
    host: str
    """Address of the engine for SAM CLI, which reads DOCKER_HOST, but not the contexts of docker's program."""
    architecture: str
    """Processor of its containers by Lambda's name."""
    is_rootless: bool = False
    """True if the engine runs without root, in a network of its own."""

    @classmethod
    def found(cls) -> Self:
        """Return the engine that docker's program uses. Raises EngineError."""
        program = shutil.which("docker")
        if program is None:
            raise EngineError(_not_installed())
        try:
            processor = _output([program, "version", "--format", "{{.Server.Arch}}"])
        except EngineError as error:
            raise EngineError(_not_running(str(error))) from None
        options = _output([program, "info", "--format", "{{.SecurityOptions}}"])
        return cls(
            program,
            os.environ.get(_HOST) or _context(program),
            _PROCESSORS.get(processor, machine_architecture()),
            "rootless" in options,
        )

    def run(self, *arguments: str) -> str:
        """Run a command of docker and return its output. Raises EngineError with the end of its error output."""
        return _output([self.program, *arguments])

    def has(self, image: str) -> bool:
        """Return True if the image is on this machine."""
        try:
            self.run("image", "inspect", image, "--format", "{{.Id}}")
        except EngineError:
            return False
        return True

    def pull(self, image: str) -> None:
        """Pull the image, and show docker's progress. Raises EngineError."""
        if subprocess.run([self.program, "pull", image]).returncode:  # noqa: S603 - no shell
            registry = image.partition("/")[0]
            raise EngineError(
                f"The image {image} cannot be pulled (see above). It is public: if you are online, an expired login may be the "
                f"cause (`docker logout {registry}`)."
            )

    @contextmanager
    def container(self, image: str, *command: str) -> Iterator[str]:
        """Run a command in a new container, and yield the container's id until the block ends. Raises EngineError."""
        program, *arguments = command
        try:
            made = self.run("run", "--detach", "--entrypoint", program, image, *arguments)
        except EngineError as error:
            raise EngineError(f"docker cannot run a container: {error}. {WITHOUT}") from None
        try:
            yield made
        finally:
            self._remove([made])

    def remove_containers(self, folders: Iterable[str]) -> None:
        """Remove all containers that mount one of these folders."""
        filters = [f"--filter=volume={folder}" for folder in folders]
        if filters and (found := self.run("ps", "--all", "--quiet", *filters).split()):
            self._remove(found)

    def _remove(self, containers: list[str]) -> None:
        self.run("rm", "--force", "--volumes", *containers)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603 - no shell
    except subprocess.TimeoutExpired:
        raise EngineError(f"docker did not answer within {_SECONDS} seconds") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise EngineError(lines[-1].rstrip(".") if lines else f"docker ended with code {done.returncode}")
    return done.stdout.strip()


def _context(program: str) -> str:
    """Return the address of the engine in docker's current context, or "" if the program knows no contexts."""
    try:
        return _output([program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"])
    except EngineError:
        return ""


def _not_installed() -> str:
    if shutil.which("podman"):
        return (
            "SAM CLI speaks to an engine by docker's interface, and docker's program is not installed. For podman install "
            f"podman-docker, start podman.socket, and set {_HOST} to its address. {WITHOUT}"
        )
    return f"docker is not installed, and SAM CLI runs the functions in containers: {INSTALL}. {WITHOUT}"


def _not_running(reason: str) -> str:
    if "permission denied" in reason.lower():
        return (
            f"You may not use docker ({reason}). Add yourself to its group: `sudo usermod -aG docker $USER`, then log in again. "
            f"{WITHOUT}"
        )
    named = os.environ.get(_HOST)
    start = (
        f"Start it, or correct {_HOST}, which is {named}"
        if named
        else "Start it: `sudo systemctl start docker`, or Docker Desktop"
    )
    return f"docker does not run ({reason}). {start}. {WITHOUT}"
