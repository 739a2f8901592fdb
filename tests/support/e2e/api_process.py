"""API process: the app of ApiFunction under uvicorn, on a shared stack."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from aion_tools.stack.stack import LocalStack
from tests.support.e2e.forked import ForkedProcess
from tests.support.server import TIMEOUT


@dataclass(frozen=True)
class ApiProcess:
    """API process, and its URL."""

    process: ForkedProcess
    url: str


@contextmanager
def api_process(stack: LocalStack, config: Path, **environ: str) -> Iterator[ApiProcess]:
    """Serve the agents of `config` with the resources of `stack`; yield the process after its first response."""
    # Bind the port in the test's process and pass it on, so that no other process can take it. The first request waits
    # in the backlog until the server has started.
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = ForkedProcess(
            *("uvicorn", "handlers.api:app", "--fd", "0", "--log-level", "warning"),
            env={
                **os.environ,
                **stack.environment("ApiFunction"),
                "AION_AUTH": "off",
                **environ,
                "AION_CONFIG": str(config),
                "AION_BASE_URL": url,
            },
            stdin=listener.fileno(),
        )
    try:
        httpx.get(f"{url}/.well-known/agent-card.json", timeout=TIMEOUT)
        yield ApiProcess(process, url)
    finally:
        process.terminate()
        process.wait(TIMEOUT)
