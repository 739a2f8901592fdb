"""Served agents that call a hostile agent: the task ends with a reason, and the server needs little memory."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.e2e.impatient_app import IMPATIENT
from tests.support.hostile import HostileServer, hostile_server
from tests.support.measured import peak_megabytes
from tests.support.server import ROOT

AGENTS = ROOT / "tests" / "support" / "e2e" / "agents"
TIMEOUT = 300
"""Longest wait for an answer in seconds; it expires only on a failure."""
MOST_MEGABYTES = 200
MOST_FOR_LARGEST_ANSWER = 500
"""For an answer of 15 MB that is permitted: the server stores it, and passes it on to its own client."""
CASES = {
    "endless-card": "1 MB",
    "dripping-card": "longer than 2 s",
    "dripping-headers": "longer than 2 s",
    "endless-continue": "longer than 2 s",
    "many-skills": "1 MB",
    "deep-card": "levels",
    "many-values": "values",
    "packed-card": "compressed",
    "list-card": "",
    "wrong-types": "",
    "no-utf8-card": "",
    "moved-card": "",
    "circle-card": "",
    "ftp-card": "",
    "odd-url-card": "",
    "odd-port-card": "",
    "endless-line": "16 MB",
    "endless-event": "16 MB",
    "endless-comment": "16 MB",
    "dripping-line": "longer than 2 s",
    "deep-event": "levels",
    "deep-for-protobuf": "valid A2A",
    "many-values-event": "values",
    "full-event": "",
    "full-wide-event": "",
    "long-text": "4 MB",
    "endless-files": "32 MB",
    "endless-small-parts": "32 MB",
    "endless-chunks": "longer than 2 s",
    "endless-body": "16 MB",
    "endless-error": "16 MB",
    "packed-events": "compressed",
    "wrong-result": "valid A2A",
    "list-result": "valid A2A",
    "list-event": "",
    "error-of-text": "",
    "no-utf8": "valid A2A",
    "moved": "",
    "wait": "",
}
"""Reason with which the task of the caller fails."""
IN_TEST = {"endless-card", "endless-line"}
"""The cases of `make test`."""


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as server:
        yield server


@pytest.mark.parametrize("caller", ["calling", "calling_by_adk"])
@pytest.mark.parametrize("agent", [pytest.param(n, marks=() if n in IN_TEST else pytest.mark.deep) for n in CASES])
def test_served_agent_survives_hostile_agent(server: HostileServer, agent: str, caller: str, tmp_path: Path) -> None:
    remote = f"{server.url}/{agent}"
    environ = {**os.environ, "AION_CONFIG": str(AGENTS / f"{caller}.yaml"), "REMOTE": remote}
    if "dripping" in agent or agent in ("endless-continue", "endless-chunks"):
        environ[IMPATIENT] = "1"
    log = tmp_path / "log"
    command = [sys.executable, "-m", "uvicorn", "--factory", "tests.support.e2e.impatient_app:app", "--port", "0"]
    with log.open("w") as output, subprocess.Popen(command, cwd=ROOT, env=environ, stderr=output) as process:
        try:
            url = _url(process, log)
            begun = peak_megabytes(process.pid)
            task = _sent(url, remote)
            health = httpx.get(f"{url}/health", timeout=TIMEOUT)
            peak = peak_megabytes(process.pid)
        finally:
            process.kill()
    text = "".join(part.get("text", "") for part in task["status"].get("message", {}).get("parts", ()))
    print(
        f"{caller} {agent}: {begun:.0f} -> {peak:.0f} MB, {task['status']['state']}, {text[:200]}"
    )  # pytest -rP shows it
    assert health.status_code == 200
    assert task["status"]["state"] == ("TASK_STATE_COMPLETED" if agent.startswith("full-") else "TASK_STATE_FAILED")
    assert CASES[agent] in text
    assert peak <= (MOST_FOR_LARGEST_ANSWER if agent.startswith("full-") else MOST_MEGABYTES)


def _url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    while (found := re.search(r"running on (http://\S+)", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
    return found[1]


def _sent(url: str, text: str) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answer = httpx.post(url, json=request, headers={"A2A-Version": "1.0"}, timeout=TIMEOUT).json()
    return answer["result"]["task"]
