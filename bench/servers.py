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
"""ASGI app of each measured server."""

_TICKS = os.sysconf("SC_CLK_TCK")


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
def server(name: str, **environ: str) -> Iterator[Server]:
    """Run the server `aion`, `sdk` or `floor` under uvicorn, with the memory store."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", APPS[name], "--port", str(port), "--http", "h11"]
    settings = {
        "AION_CONFIG": str(ROOT / "bench/aion.yaml"),
        "AION_STORE": "memory",
        "AION_AUTH": "off",
        "AION_BASE_URL": f"http://127.0.0.1:{port}",
        "AION_LOG_LEVEL": "WARNING",
        **environ,
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
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
