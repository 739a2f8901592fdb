"""API process: the app of ApiFunction under uvicorn, on a shared stack."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from aion_core.local.stack import LocalStack
from tests.e2e.forked import ForkedProcess


@dataclass(frozen=True)
class ApiProcess:
    """Running API process."""

    process: ForkedProcess
    url: str


@contextmanager
def api_process(stack: LocalStack, config: Path, **environ: str) -> Iterator[ApiProcess]:
    """Serve the config's agents on the stack; yield the process once it answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = ForkedProcess(
        *("uvicorn", "handlers.api:app", "--port", str(port), "--log-level", "warning"),
        env={
            **os.environ,
            **stack.environment("ApiFunction"),
            "AION_AUTH": "off",
            **environ,
            "AION_CONFIG": str(config),
            "AION_BASE_URL": url,
        },
    )
    try:
        # One client for all attempts: its construction reads the CA certificates, and takes longer than a request.
        with httpx.Client() as client:
            for _ in range(1500):
                assert process.poll() is None, "the process ended"
                try:
                    client.get(f"{url}/.well-known/agent-card.json")
                    break
                except httpx.TransportError:
                    time.sleep(0.02)
        yield ApiProcess(process, url)
    finally:
        process.terminate()
        process.wait(timeout=20)
