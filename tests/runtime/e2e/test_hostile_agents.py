"""Served agents that call a hostile agent: the task ends with a reason, and the server needs little memory."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
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
COMPLETED = None
CASES: dict[str, str | None] = {
    "endless-card": "1 MB",
    "dripping-card": "longer than 2 s",
    "dripping-headers": "longer than 2 s",
    "endless-headers": "",
    "endless-continue": "longer than 2 s",
    "many-skills": "1 MB",
    "full-card": COMPLETED,
    "deep-card": "levels",
    "many-values": "values",
    "packed-card": "compressed",
    "list-card": "",
    "number-card": "",
    "wrong-types": "",
    "no-utf8-card": "",
    "surrogate-card": "",
    "moved-card": "",
    "circle-card": "",
    "ftp-card": "",
    "odd-url-card": "",
    "odd-port-card": "",
    "controls-card": "",
    "endless-line": "6 MB",
    "endless-event": "6 MB",
    "endless-comment": "6 MB",
    "dripping-line": "longer than 2 s",
    "deep-event": "levels",
    "deep-for-protobuf": "valid A2A",
    "many-values-event": "values",
    "full-file": COMPLETED,
    "full-wide-text": COMPLETED,
    "full-files": COMPLETED,
    "full-parts": COMPLETED,
    "full-data": COMPLETED,
    "full-text": COMPLETED,
    "full-event": "larger than 6 MB.",
    "full-wide-event": "larger than 6 MB.",
    "long-text": "1.5 MB beside its files",
    "endless-files": "6 MB in all",
    "endless-small-parts": "6 MB in all",
    "endless-text": "6 MB in all",
    "endless-messages": "6 MB in all",
    "endless-artifacts": "6 MB in all",
    "endless-tasks": "6 MB in all",
    "task-of-another": "about another task",
    "status-of-another": "about another task",
    "task-without-id": "no id",
    "endless-chunks-of-text": "6 MB in all",
    "endless-statuses": "6 MB in all",
    "endless-nothing": "10000 responses without content",
    "endless-heartbeats": "1 MB of heartbeats",
    "endless-chunks": "longer than 2 s",
    "endless-body": "6 MB",
    "endless-error": "6 MB",
    "packed-events": "compressed",
    "wrong-result": "valid A2A",
    "list-result": "valid A2A",
    "list-event": "",
    "error-of-text": "",
    "no-json": "",
    "controls-error": "",
    "no-utf8": "not UTF-8",
    "moved": "",
    "wait": "",
}
"""Reason with which the caller's task fails, if it fails."""
IN_TEST = {("endless-line", "calling")}
"""The case of `make test`."""


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as server:
        yield server


@pytest.mark.parametrize(
    ("agent", "caller"),
    [
        pytest.param(*case, marks=() if case in IN_TEST else pytest.mark.deep)
        for case in product(CASES, ["calling", "calling_by_adk"])
    ],
)
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
            sent_at = time.monotonic()
            task = _sent(url, remote)
            seconds = time.monotonic() - sent_at
            health = httpx.get(f"{url}/health", timeout=TIMEOUT)
            peak = peak_megabytes(process.pid)
        finally:
            process.kill()
    text = "".join(part.get("text", "") for part in task["status"].get("message", {}).get("parts", ()))
    state = task["status"]["state"]
    print(f"{caller} {agent}: {seconds:.1f} s, {begun:.0f} -> {peak:.0f} MB, {state}, {text[:200]}")  # see pytest -rP
    assert health.status_code == 200
    reason = CASES[agent]
    assert state == ("TASK_STATE_COMPLETED" if reason is COMPLETED else "TASK_STATE_FAILED")
    assert (reason or "") in text
    assert peak <= MOST_MEGABYTES


def _url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    while (found := re.search(r"running on (http://\S+)", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    return found[1]


def _sent(url: str, text: str) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answer = httpx.post(url, json=request, headers={"A2A-Version": "1.0"}, timeout=TIMEOUT).json()
    return answer["result"]["task"]
