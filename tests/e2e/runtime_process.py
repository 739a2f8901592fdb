"""Process of the Lambda runtime loop."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 60.0


class RuntimeProcess:
    """Running loop, with its output and exit code."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.lines: list[str] = []
        self._process = process
        self._reading = asyncio.create_task(self._read())

    @property
    def log(self) -> str:
        """Return its output so far."""
        return "\n".join(self.lines)

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    def terminate(self) -> None:
        """Send SIGTERM, as Lambda does at the shutdown of the environment."""
        self._process.send_signal(signal.SIGTERM)

    async def exit_code(self) -> int:
        """Wait for its end; return the exit code."""
        async with asyncio.timeout(TIMEOUT):
            await self._reading
            return await self._process.wait()

    async def end(self) -> None:
        """End it, if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
        await self.exit_code()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
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
    """Start the loop on an app, as the exec wrapper would; end it with the test."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={
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
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    runtime = RuntimeProcess(process)
    try:
        yield runtime
    finally:
        await runtime.end()
