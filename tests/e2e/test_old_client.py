"""The official client of v0.3's own time (a2a-sdk 0.3) against `make dev`: nothing was changed for it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import python_with
from tests.support.server import ROOT, Server

REQUIREMENTS = ROOT / "tests" / "support" / "a2a-sdk-0.3.txt"
PROGRAM = ROOT / "tests" / "support" / "v03_client.py"


@pytest.fixture(scope="session")
def old_python() -> Path:
    """The interpreter of an environment with a2a-sdk 0.3."""
    return python_with(REQUIREMENTS)


def heard(python: Path, server: Server, how: str, text: str) -> list[dict[str, Any]]:
    ran = subprocess.run([python, PROGRAM, server.url, how, text], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_it_sees_the_answer_stream(old_python: Path, server: Server) -> None:
    """R11, R18, R22, R29-R35, R107."""
    *events, task = heard(old_python, server, "stream", "one two \U0001f600 four")
    assert [event["kind"] for event in events[:2]] == ["task", "status-update"]
    chunks = [event for event in events if event["kind"] == "artifact-update"]
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks) == "one two \U0001f600 four"
    assert [chunk["append"] for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert events[-1]["final"] is True
    assert events[-1]["status"]["state"] == task["status"]["state"] == "completed"
    assert events[-1]["status"]["message"]["parts"][0]["text"] == "one two \U0001f600 four"
    assert "artifacts" not in task


def test_it_gets_the_whole_task(old_python: Path, server: Server) -> None:
    """R10, R12, R20, R40."""
    answer, task = heard(old_python, server, "send", "hello")
    assert answer == task
    assert [part["kind"] for part in task["history"][0]["parts"]] == ["text", "file"]
    assert task["history"][0]["parts"][1]["file"] == {
        "bytes": "AAEC", "mimeType": "application/octet-stream", "name": "three.bin",
    }  # fmt: skip
