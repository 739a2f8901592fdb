"""Measured server processes, with their start and end, CPU time and memory."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPS = {"aion": "handlers.api:app", "sdk": "bench.official:app", "floor": "bench.floor:app"}
"""ASGI app of each measured server with its store in memory."""
APPS_ON_SQLITE = {"aion": "handlers.api:app", "sdk": "bench.stored:sdk", "floor": "bench.stored:floor"}
"""ASGI app of each measured server with its store in SQLite files."""


@dataclass
class Server:
    """A running server process."""

    name: str
    port: int
    process: "subprocess.Popen[bytes]"
    started: float
    """Start time of the process, from `time.perf_counter`."""

    @property
    def cpu(self) -> float:
        """CPU seconds of the process so far, with its children."""
        return sum(_cpu(pid) for pid in _family(self.process.pid))

    @property
    def peak_memory(self) -> float:
        """Largest resident memory of the process so far, in MiB, with its children."""
        return sum(_peak(pid) for pid in _family(self.process.pid))

    async def ready(self) -> None:
        """Wait until the port accepts connections. Raises RuntimeError if the process ends earlier."""
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError(f"The server {self.name!r} has ended.") from None
                await asyncio.sleep(0.005)
            else:
                writer.close()
                return


@contextmanager
def server(name: str, folder: Path | None = None) -> Iterator[Server]:
    """Run the server `aion`, `sdk` or `floor` under uvicorn. It stores in SQLite files of the folder, or in memory."""
    port = _free_port()
    app = (APPS_ON_SQLITE if folder else APPS)[name]
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--http", "h11"]
    files = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder), "BENCH_FOLDER": str(folder)}
    settings = {
        "AION_CONFIG": str(ROOT / "bench/aion.yaml"),
        **(files if folder else {"AION_STORE": "memory"}),
        "AION_AUTH": "off",
        "AION_BASE_URL": f"http://127.0.0.1:{port}",
        "AION_LOG_LEVEL": "WARNING",
    }
    with _process(name, port, [*command, "--log-level", "warning", "--no-access-log"], settings) as started:
        yield started


@contextmanager
def dev_server(folder: Path) -> Iterator[Server]:
    """Run `aion dev` with its default store in the folder."""
    port = _free_port()
    command = [str(Path(sys.executable).with_name("aion")), "dev", "--port", str(port), "--data-dir", str(folder)]
    with _process("aion dev", port, command, {"AION_CONFIG": str(ROOT / "bench/aion.yaml")}) as started:
        yield started


@contextmanager
def _process(name: str, port: int, command: list[str], settings: dict[str, str]) -> Iterator[Server]:
    process = subprocess.Popen(  # noqa: S603  # our own command
        command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield Server(name, port, process, time.perf_counter())
    finally:
        process.terminate()
        process.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family(int(child)))]


def _cpu(pid: int) -> float:
    # The number of Linux's clock for the CPU time of a process, user and system, in nanoseconds.
    return time.clock_gettime(~pid << 3 | 2)


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
