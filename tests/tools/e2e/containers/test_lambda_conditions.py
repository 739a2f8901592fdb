"""Built ApiFunction in a container under Lambda's conditions, with real streams.

A request's way: the emulated REST API, the Runtime API on the engine's bridge, the image's entry point, the exec wrapper,
and the streaming runtime loop.
"""

import base64
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from botocore.credentials import Credentials

from aion_tools.cli.chat.credentials import ClientCredentials, Signer
from aion_tools.stack.stack import LocalStack
from tests.support.containers.engine import DockerEngine
from tests.support.containers.lambda_image import IMAGE
from tests.support.e2e.gates import Gates
from tests.support.e2e.rest_api import CALLER, REGION, RestApi, rest_api
from tests.support.server import ROOT
from tests.support.service import send
from tests.tools.e2e.packages import unpacked

pytestmark = [
    pytest.mark.deep,
    # Allow fifteen minutes, because the first test may build Lambda's image.
    pytest.mark.timeout(900),
]

SUPPORT = ROOT / "tests" / "support" / "e2e"
FILES = {
    "aion.yaml": "aion:\n  agents:\n    gated: {path: gated.py:graph}\n    echo: {path: echo.py:graph}\n",
    "gated.py": (SUPPORT / "agents" / "gated.py").read_text(),
    "echo.py": (ROOT / "examples" / "echo" / "agent.py").read_text(),
    "tests/support/e2e/gates.py": (SUPPORT / "gates.py").read_text(),
}
MEGABYTES = 1024
CONDITIONS = [
    *("--read-only", "--tmpfs", "/tmp:size=512m,mode=1777", "--user", "993:990", "--cap-drop", "ALL"),  # noqa: S108
    # Lambda has no shared memory, gives 1,769 MB of memory one processor, and limits files, processes and threads to 1,024.
    *("--ipc", "none", "--ulimit", "nofile=1024", "--pids-limit", "1024"),
    *("--memory", f"{MEGABYTES}m", "--memory-swap", f"{MEGABYTES}m", "--cpus", f"{MEGABYTES / 1769:.2f}"),
]
LAMBDA = {
    "AWS_LAMBDA_FUNCTION_NAME": "api",
    "AWS_LAMBDA_FUNCTION_VERSION": "1",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(MEGABYTES),
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_LAMBDA_LOG_GROUP_NAME": "group",
    "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
    "AWS_LAMBDA_LOG_FORMAT": "JSON",
    "AWS_LAMBDA_LOG_LEVEL": "INFO",
}
AUTH = ClientCredentials(signer=Signer(Credentials(*CALLER.values()), "execute-api", REGION))


@dataclass(frozen=True)
class Function:
    """Running function, and the REST API in front of it."""

    engine: DockerEngine
    container: str
    api: RestApi

    def peak(self) -> float:
        """Return the largest memory of the function's process so far, in MB of 1,048,576 bytes."""
        status = self.engine.docker("exec", self.container, "cat", "/proc/1/status")
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package") / "ApiFunction"
    unpacked("ApiFunction", folder, FILES)
    folder.chmod(0o755)  # as Lambda makes /var/task; the files keep their modes
    return folder


@pytest.fixture(scope="module")
def stack(engine: DockerEngine) -> Iterator[LocalStack]:
    """Start the emulated tables, queues and bucket where containers reach them."""
    with LocalStack.start(ROOT / "template.yaml", host=engine.gateway) as stack:
        yield stack


@contextmanager
def running(engine: DockerEngine, code: Path, stack: LocalStack, gates: str = "") -> Iterator[Function]:
    """Run the function until the block ends. Print its log, which pytest shows for a failed test."""
    with rest_api(engine.gateway) as api:
        given = {"AWS_LAMBDA_RUNTIME_API": api.runtime, "TEST_GATES": gates}
        environ = {**stack.environment("ApiFunction"), **LAMBDA, **given}
        variables = [part for name, value in environ.items() for part in ("--env", f"{name}={value}")]
        mounted = ["--volume", f"{code}:/var/task:ro"]
        with engine.container(*CONDITIONS, *mounted, *variables, IMAGE, "handlers.api.handler") as container:
            try:
                yield Function(engine, container, api)
            finally:
                print(engine.logs(container))


async def test_container_streams_text_before_turn_ends(engine: DockerEngine, code: Path, stack: LocalStack) -> None:
    """The agent waits at a barrier after its first text: the client already receives this text."""
    request = send(method="SendStreamingMessage")
    async with Gates(host=engine.gateway) as gates, httpx.AsyncClient(auth=AUTH, timeout=120) as http:
        with running(engine, code, stack, gates.address) as function:
            async with http.stream("POST", f"{function.api.url}/", json=request) as answer:
                lines = answer.aiter_lines()
                before = ""
                while '"before ' not in before:
                    before = await anext(lines)
                gates.open("between")
                rest = "".join([line async for line in lines])
    assert answer.status_code == 200
    assert '"after"' not in before
    assert '"after"' in rest
    assert "TASK_STATE_COMPLETED" in rest


def test_container_memory_peak_is_below_quarter_of_limit(
    engine: DockerEngine, code: Path, stack: LocalStack, record_property: Callable[[str, object], None]
) -> None:
    """Send texts and files of a megabyte, one after another, and report the times and the memory of the function."""
    times = [time.monotonic()]
    with running(engine, code, stack) as function, httpx.Client(auth=AUTH, timeout=120) as http:
        for number in range(10):
            parts = [{"text": "x" * 1_000_000}, {"raw": base64.b64encode(os.urandom(1_000_000)).decode()}]
            request = send(message_id=f"m-{number}", parts=parts)
            answer = http.post(f"{function.api.url}/agents/echo", json=request, headers={"A2A-Version": "1.0"})
            assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            times.append(time.monotonic())
        peak = function.peak()
        killed = engine.state(function.container)["OOMKilled"]
    first, others = times[1] - times[0], times[-1] - times[1]
    figures = f"first answer {first:.1f} s after the container's start, nine more in {others:.1f} s, peak {peak:.0f} MB"
    record_property("figures", f"ApiFunction in a container of {MEGABYTES} MB: {figures}")
    assert not killed
    assert peak < MEGABYTES / 4
