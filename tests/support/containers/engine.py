"""Docker engine of this machine, as tests use it."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from subprocess import PIPE, STDOUT

from tests.support.debian import PATH

LABEL = f"aion.test={os.getpid()}"
"""Label of this process's containers."""


class ContainersMissing(Exception):
    """Error: no container can run here. The message names the reason."""


class DockerError(Exception):
    """Error of a docker command."""


@dataclass(frozen=True)
class DockerEngine:
    """Running docker engine."""

    host: str
    """The engine's address, for DOCKER_HOST."""
    gateway: str
    """This machine's address in the engine's bridge; only this machine and its containers reach it."""

    @property
    def environ(self) -> dict[str, str]:
        """Return this process's environment variables, with the engine for docker, SAM CLI and other clients."""
        return {**os.environ, "PATH": PATH, "DOCKER_HOST": self.host}

    def docker(self, *arguments: str, timeout: float | None = None) -> str:
        """Run a docker command and return its output. Raise DockerError with its error message."""
        return docker(*arguments, environ=self.environ, timeout=timeout)

    def has(self, image: str) -> bool:
        """Return True if the engine has the image, without pulling it."""
        with suppress(DockerError):
            return bool(self.docker("image", "inspect", "--format", "{{.Id}}", image))
        return False

    @contextmanager
    def container(self, *arguments: str) -> Iterator[str]:
        """Run a container with the arguments of `docker run` until the block ends; yield its id."""
        container = self.docker("run", "--detach", "--label", LABEL, *arguments)
        try:
            yield container
        finally:
            self.remove("--filter", f"id={container}")

    def containers(self, *filters: str) -> list[str]:
        """Return the ids of all containers, or of those selected by options of `docker ps`."""
        return self.docker("ps", "--all", "--quiet", "--no-trunc", *filters).split()

    def remove(self, *filters: str) -> None:
        """Kill and remove the containers selected by options of `docker ps`."""
        if found := self.containers(*filters):
            self.docker("rm", "--force", "--volumes", *found)

    def logs(self, container: str) -> str:
        """Return what the container has printed so far."""
        command = ["docker", "logs", container]
        return subprocess.run(command, env=self.environ, stdout=PIPE, stderr=STDOUT, text=True, check=True).stdout

    def state(self, container: str) -> dict[str, object]:
        """Return the state of a container, such as its exit code and whether it was killed for its memory."""
        state: dict[str, object] = json.loads(self.docker("inspect", "--format", "{{json .State}}", container))
        return state


def docker(*arguments: str, environ: dict[str, str] | None = None, timeout: float | None = None) -> str:
    """Run a docker command and return its output. Raise DockerError with its error message."""
    environ = environ or {**os.environ, "PATH": PATH}
    try:
        done = subprocess.run(["docker", *arguments], env=environ, capture_output=True, text=True, timeout=timeout)
    except FileNotFoundError as error:
        raise DockerError("docker is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise DockerError(f"`docker {arguments[0]}` took longer than {timeout} s") from error
    if done.returncode:
        raise DockerError(f"`docker {arguments[0]}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def running_engine() -> DockerEngine:
    """Return the engine that docker's client uses on this machine.

    Raise DockerError if no engine answers. Raise ContainersMissing if its containers cannot reach servers of tests.
    """
    docker("info", timeout=60)
    host = docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    gateway = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
    try:
        socket.create_server((gateway, 0)).close()
    except OSError as error:
        why = f"the docker engine at {host} has no bridge on this machine ({gateway or 'no address'}: {error})"
        raise ContainersMissing(f"{why}, as Docker Desktop and rootless engines have none") from error
    return DockerEngine(host, gateway)
