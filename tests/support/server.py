"""Start and stop of `aion dev` as a process, as on a user's terminal."""

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.e2e.forked import ForkedProcess, started

ROOT = Path(__file__).parents[2]
_URL = re.compile(r"(?:available|server) at (http://127\.0\.0\.1:\d+)/")
TIMEOUT = 120
"""Timeout in seconds; it expires only on a failure."""


@dataclass
class ServerProcess:
    """Running server, with the address that it printed."""

    process: "subprocess.Popen[bytes] | ForkedProcess"
    url: str
    printed: list[str]
    reading: threading.Thread
    """Thread that adds the lines to `printed` until the end of the output."""

    def stop(self) -> int:
        """Send SIGINT to the process group, like Ctrl-C in a terminal. Afterwards `printed` is the whole output."""
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(TIMEOUT)
        self.reading.join(TIMEOUT)
        return code


@contextmanager
def serving(command: list[str], **environ: str) -> Iterator[ServerProcess]:
    """Start a server, and stop it when the block ends. Its state is in a new folder, unless AION_DATA_DIR names one."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _serving(command, {"AION_DATA_DIR": folder, **environ})


def _serving(command: list[str], environ: Mapping[str, str]) -> Iterator[ServerProcess]:
    process, bytes_of_output = started(command, {**os.environ, "PORT": "0", **environ})
    output = io.TextIOWrapper(bytes_of_output, encoding="utf-8")
    printed: list[str] = []
    try:
        for line in output:
            printed.append(line)
            if line.startswith("Press Ctrl-C"):
                break
        url = _URL.search("".join(printed))
        assert url is not None, f"{command} did not start:\n{''.join(printed)}"
        reading = threading.Thread(target=lambda: printed.extend(output), daemon=True)
        reading.start()
        try:
            yield ServerProcess(process, url[1], printed, reading)
        finally:
            kill(process)
            # Wait for the thread, because closing the output during a read would raise an error in the thread.
            reading.join(TIMEOUT)
    finally:
        kill(process)
        output.close()


def kill(process: "subprocess.Popen[bytes] | ForkedProcess") -> None:
    """Kill the process's group, unless the process has ended."""
    if process.poll() is None:
        # Ignore the error, because the process may end by itself between the check and the signal.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def make_dev() -> list[str]:
    """Return the README's command, in the environment of the tests."""
    return ["make", "--no-print-directory", "dev", f"VENV={sys.prefix}"]


def aion_dev(*arguments: str) -> list[str]:
    """Return the command of `make dev`."""
    return [sys.executable, "-m", "aion_tools.cli", "dev", *arguments]
