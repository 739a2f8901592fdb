"""`make sam-local`: `sam local start-api` with the built functions and an embedded stack."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from aion_tools.deploy import sam_install
from aion_tools.programs import UvMissing
from aion_tools.stack import EmulatorError
from aion_tools.stack.stack import SETTINGS, LocalStack
from aion_tools.template.reader import FUNCTION, TemplateError

ROOT = sam_install.ROOT
# File for `sam local --env-vars`: SAM sets only variables from this file that the template declares.
ENV_VARS = ROOT / ".env.local.json"
# Host name of this machine inside Docker Desktop's containers.
DESKTOP = "host.docker.internal"


class CannotRun(Exception):
    """Error if SAM cannot run because a requirement is missing. The message names the requirement."""


def write_env_vars(stack: LocalStack, reached_at: str | None, base_url: str, file: Path) -> None:
    """Write the file for `sam local --env-vars`, with the environment variables of the functions' containers."""
    environments = {
        # Disable authentication, because here no AWS service checks signatures and only this machine can call.
        name: {**stack.environment(name, reached_at=reached_at), "AION_BASE_URL": base_url, "AION_AUTH": "off"}
        for name in stack.template.resources(FUNCTION)
    }
    file.write_text(json.dumps(environments, indent=2))


def sam_environment() -> dict[str, str]:
    """Return the environment variables for SAM. SAM passes credentials among them to the containers."""
    environ = {**os.environ, **sam_install.ENVIRONMENT, **SETTINGS}
    # Remove the AWS profile, because a profile that does not exist is an error.
    environ.pop("AWS_PROFILE", None)
    return environ


def run(port: int, addresses: tuple[str, str] | None, more: list[str]) -> int:
    """Serve the API on a port of this machine until a signal, and return SAM's exit code."""
    _check_docker()
    sam = str(sam_install.installed() / "sam")
    environ = sam_environment()
    if subprocess.run([sam, "build"], cwd=ROOT, env=environ).returncode:  # noqa: S603
        raise CannotRun("sam build failed")
    host, reached_at = addresses or _addresses()
    base_url = f"http://127.0.0.1:{port}"
    with LocalStack.start(ROOT / "template.yaml", host=host) as stack, _env_vars(stack, reached_at, base_url):
        # Invoke the functions for messages and schedules from this process, because SAM does not poll queues.
        os.environ.pop("AWS_PROFILE", None)
        for name in stack.template.resources(FUNCTION):
            os.environ.update(stack.environment(name), AION_BASE_URL=base_url, AION_AUTH="off")
        stack.poll(environ={"AION_BASE_URL": base_url})
        command = [sam, "local", "start-api", "--env-vars", str(ENV_VARS), "--port", str(port), *more]
        return _run(command, environ)


def _check_docker() -> None:
    docker = shutil.which("docker")
    if docker is None:
        raise CannotRun("docker is not installed; SAM runs functions in containers, `make dev` does not")
    done = subprocess.run([docker, "info"], capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CannotRun(f"docker does not run ({' '.join(reason)}); `make dev` does not need it")


def _addresses() -> tuple[str, str]:
    """Return an address of this machine that only containers can reach, and its name inside containers."""
    command = ["docker", "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}"]
    gateway = subprocess.run(command, capture_output=True, text=True).stdout.strip()  # noqa: S603
    if gateway:
        with contextlib.suppress(OSError), socket.create_server((gateway, 0)):
            return gateway, gateway
    # Docker Desktop runs containers in a virtual machine and forwards connections to the host name DESKTOP to this
    # machine's loopback address.
    return "127.0.0.1", DESKTOP


@contextlib.contextmanager
def _env_vars(stack: LocalStack, reached_at: str, base_url: str) -> Iterator[None]:
    write_env_vars(stack, reached_at, base_url, ENV_VARS)
    try:
        yield
    finally:
        ENV_VARS.unlink(missing_ok=True)


def _run(command: list[str], environ: dict[str, str]) -> int:
    """Run SAM until it ends, and return its exit code. After Ctrl-C, SAM removes its containers."""
    with subprocess.Popen(command, cwd=ROOT, env=environ) as sam:  # noqa: S603
        try:
            return sam.wait()
        except KeyboardInterrupt:
            return sam.wait()
        finally:
            sam.terminate()


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and run SAM. Unknown options are passed to `sam local start-api`."""
    parser = argparse.ArgumentParser(prog="python -m scripts.sam_local", description=__doc__)
    parser.add_argument("--port", type=int, default=3000, help="port of the API on 127.0.0.1 (%(default)s)")
    parser.add_argument("--host", help="address of the stack, if docker does not report one")
    parser.add_argument("--reached-at", help="the name of that address in a container")
    given, more = parser.parse_known_args(arguments)
    addresses = (given.host, given.reached_at or given.host) if given.host else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        return run(given.port, addresses, more)
    except (CannotRun, EmulatorError, TemplateError, sam_install.SamMissing, UvMissing) as error:
        print(f"sam-local: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
