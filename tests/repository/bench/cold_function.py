"""CPU time of ApiFunction until its first streamed word: the init phase, then the first invocation.

`python -m tests.repository.bench.cold_function` runs the built package with Lambda's Python and our runtime loop, against an
emulated DynamoDB. It has no limit, because the times depend on the machine.
"""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import click

from aion_tools.stack.stack import LocalStack
from tests.support.e2e.fleet import emulator_process
from tests.support.e2e.runtime_emulator import alone, lambda_python
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event
from tests.support.server import ROOT
from tests.tools.e2e.packages import package_here

ECHO = Path("examples/echo/aion.yaml")
"""Path in the repository and in the package. The agent says one word at once, so the time is the function's own."""
_TICKS = os.sysconf("SC_CLK_TCK")


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Number of cold starts.")
def main(rounds: int) -> None:
    """Start ApiFunction several times, and print the median CPU times."""
    code = package_here("ApiFunction", [ROOT / ECHO]).code
    print(f"{code}, {lambda_python()[1]}")
    with emulator_process() as place, tempfile.TemporaryDirectory() as scratch:
        environ = LocalStack.at(ROOT / "template.yaml", place).environment("ApiFunction")
        figures = [asyncio.run(_start(code, environ, Path(scratch))) for _ in range(rounds)]
    for name, values in zip(("init", "first word", "whole"), zip(*figures, strict=True), strict=True):
        print(f"{name:<12} {statistics.median(values):.2f} CPU-s")


async def _start(code: Path, environ: dict[str, str], scratch: Path) -> tuple[float, float, float]:
    """Return the CPU seconds of the init phase, of the first invocation, and the sum."""
    async with FakeRuntimeApi() as api:
        process = subprocess.Popen(
            [alone(lambda_python()[0], scratch), "-m", "aion_core.lambda_runtime"],
            cwd=code,
            stdout=subprocess.DEVNULL,
            env={
                **{name: value.replace("/var/task", str(code)) for name, value in environ.items()},
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(code),
                "PYTHONDONTWRITEBYTECODE": "1",
                "AWS_LAMBDA_RUNTIME_API": api.address,
                "AWS_LAMBDA_FUNCTION_NAME": "api",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
                # Accept a caller without a signature, as `sam local` does.
                "AION_AUTH": "off",
                "AWS_SAM_LOCAL": "true",
                "AION_CONFIG": str(ECHO),
            },
        )
        try:
            await api.requested(1)
            init = _cpu(process.pid)
            message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
            request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
            event = function_url_event("/", method="POST", body=json.dumps(request))
            event["headers"] |= {"content-type": "application/json", "host": "127.0.0.1"}
            answer = await api.invoke(event, deadline_in=60.0).answered()
            whole = _cpu(process.pid)
        finally:
            process.kill()
            process.wait()
    if b"artifactUpdate" not in answer.body:
        raise SystemExit(answer.body.decode())
    return init, whole - init, whole


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main()
