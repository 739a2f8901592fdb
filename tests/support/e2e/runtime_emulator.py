"""Lambda's managed Python runtime without Docker: SAM CLI's runtime interface emulator with awslambdaric."""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aion_tools.deploy import sam_install
from aion_tools.package.cache import file_lock
from aion_tools.programs import find_uv, interpreter, machine_architecture
from tests.support.listening import free_port
from tests.support.server import ROOT

CLIENT = Path(__file__).with_name("runtime-client.txt")
LAMBDA_PYTHON = "3.13"

# Start an exec wrapper if the function has one, as /var/runtime/bootstrap does on Lambda.
BOOTSTRAP = """#!/bin/sh
exec ${AWS_LAMBDA_EXEC_WRAPPER:+"$AWS_LAMBDA_EXEC_WRAPPER"} "$@"
"""


def lambda_python() -> tuple[str, str]:
    """Return path and version of Lambda's Python if it is installed, else those of the tests' Python."""
    if python := interpreter(LAMBDA_PYTHON):
        return python, LAMBDA_PYTHON
    return sys.executable, ".".join(platform.python_version_tuple()[:2])


def folder_with(requirements: Path, python: str, version: str) -> Path:
    """Install the packages of a requirements file for this Python version, unless cached; return their folder."""
    folder = ROOT / ".cache" / f"{requirements.stem}-for-{version}"
    stamp = folder / requirements.name
    with file_lock(folder):
        if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
            shutil.rmtree(folder, ignore_errors=True)
            install: list[str | Path] = [find_uv(), "pip", "install", "--quiet", "--target", folder, "--python", python]
            only: list[str | Path] = [
                "--python-version",
                version,
                "--only-binary",
                ":all:",
                "--require-hashes",
                "-r",
                requirements,
            ]
            subprocess.run([*install, *only], check=True)
            stamp.write_bytes(requirements.read_bytes())
    return folder


def alone(python: str, scratch: Path) -> str:
    """Write a script that starts Python without the installed packages (`-S`); return the script's path."""
    program = scratch / "python"
    program.write_text(f'#!/bin/sh\nexec "{python}" -S "$@"\n')
    program.chmod(0o755)
    return str(program)


def emulator() -> Path:
    """Return the path of the runtime interface emulator in SAM CLI's distribution."""
    binary = "aws-lambda-rie-" + machine_architecture()
    (found,) = sam_install.installed().parent.glob(f"lib/python*/site-packages/samcli/local/rapid/{binary}")
    return found


@contextmanager
def emulated(code: Path, handler: str, environ: Mapping[str, str], scratch: Path) -> Iterator[str]:
    """Run the built function in the runtime emulator, as in SAM's container; yield the URL for invocations."""
    python, version = lambda_python()
    client = folder_with(CLIENT, python, version)
    bootstrap = scratch / "bootstrap"
    bootstrap.write_text(BOOTSTRAP)
    bootstrap.chmod(0o755)
    invoke_port, runtime_port = free_port(), free_port()
    command = [str(emulator()), "--log-level", "error"]
    command += ["--runtime-interface-emulator-address", f"127.0.0.1:{invoke_port}"]
    command += ["--runtime-api-address", f"127.0.0.1:{runtime_port}"]
    # Replace /var/task, the code's folder in a container, by the folder of the code on this machine.
    here = {name: value.replace("/var/task", str(code)) for name, value in environ.items()}
    with subprocess.Popen(
        [*command, str(bootstrap), alone(python, scratch), "-m", "awslambdaric", handler],
        cwd=code,
        env={
            **here,
            "LAMBDA_TASK_ROOT": str(code),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{code}:{client}",
            "PYTHONDONTWRITEBYTECODE": "1",  # /var/task is read-only
        },
        start_new_session=True,
    ) as process:
        try:
            _wait_for(invoke_port, process)
            yield f"http://127.0.0.1:{invoke_port}/2015-03-31/functions/function/invocations"
        finally:
            # Send SIGTERM first, because the runtime logs a long error if the emulator is killed.
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, number)
                time.sleep(0.1)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while True:
        assert process.poll() is None, "the emulator ended"
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < end, "the emulator does not answer"
            time.sleep(0.02)
