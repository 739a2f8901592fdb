"""Process with the Lambda runtime loop."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.support.e2e.forked import ROOT, started

TIMEOUT = 60.0


class RuntimeProcess:
    """Running process of the Lambda runtime loop, with its log lines and exit code."""

    def __init__(self, command: Sequence[str], environ: dict[str, str]) -> None:
        self.lines: list[str] = []
        self._process, self._output = started(command, environ)
        self._reading = asyncio.create_task(asyncio.to_thread(self._read))

    @property
    def log(self) -> str:
        """Return the output of the process so far."""
        return "\n".join(self.lines)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    async def logged(self, text: str, *, after: int = 0) -> list[str]:
        """Wait for log lines that contain the text, and return them; skip the first `after` lines."""
        async with asyncio.timeout(TIMEOUT):
            while not (found := [line for line in self.lines[after:] if text in line]):
                await asyncio.sleep(0.01)
        return found

    def terminate(self) -> None:
        """Send SIGTERM, as Lambda does at the shutdown of the environment."""
        self._process.terminate()

    async def exit_code(self) -> int:
        """Wait for the end of the process; return the exit code."""
        async with asyncio.timeout(TIMEOUT):
            await self._reading
            return await asyncio.to_thread(self._process.wait)

    async def end(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()
        await self.exit_code()

    def _read(self) -> None:
        with self._output:
            for line in self._output:
                self.lines.append(line.decode().rstrip("\n"))


@asynccontextmanager
async def running(
    app: str,
    *,
    api: str | None,
    gates: str = "",
    environ: dict[str, str] | None = None,
    command: Sequence[str] = (sys.executable, "-m", "aion_core.lambda_runtime"),
) -> AsyncIterator[RuntimeProcess]:
    """Start the runtime loop with an ASGI app, as the exec wrapper does; kill the process after the block."""
    started_with = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "AION_ASGI_APP": app,
        "AWS_LAMBDA_FUNCTION_NAME": "agent-api",
        "AWS_LAMBDA_FUNCTION_VERSION": "7",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/agent-api",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2026/03/27/[7]0f1e2d3c4b5a",
        "TEST_GATES": gates,
        **({"AWS_LAMBDA_RUNTIME_API": api} if api else {}),
        **(environ or {}),
    }
    runtime = RuntimeProcess(command, started_with)
    try:
        yield runtime
    finally:
        await runtime.end()
