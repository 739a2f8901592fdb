"""A process that is killed in the middle of a turn loses nothing: another goes on where it stopped."""

import contextlib
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.local_stack import LocalStack
from tests.support.agents.steps import STEPS
from tests.support.api_process import ApiProcess, api_process
from tests.support.service import send

CONFIG = Path(__file__).parents[1] / "support" / "agents" / "steps.yaml"


def wait_for_line(notes: Path, line: str, process: ApiProcess) -> None:
    for _ in range(600):
        if notes.exists() and line in notes.read_text().split():
            return
        assert process.process.poll() is None
        threading.Event().wait(0.02)
    raise AssertionError(f"{line} never ran")


@pytest.mark.parametrize("killed_in", STEPS[:3])
def test_another_process_goes_on_where_a_killed_one_stopped(stack: LocalStack, tmp_path: Path, killed_in: str) -> None:
    """No finished step runs again, nothing is said twice, and the history holds everything once."""
    notes = tmp_path / "notes"
    environ = {"NOTED_IN": str(notes), "AION_LEASE_SECONDS": "2"}
    body = send("go", message_id="m-1", contextId=f"killed-in-{killed_in}")

    def ask(url: str) -> None:
        with contextlib.suppress(httpx.TransportError):  # the process is killed under it
            httpx.post(url, json=body, timeout=60)

    with api_process(stack, CONFIG, **environ) as one:
        asking = threading.Thread(target=ask, args=(one.url,))
        asking.start()
        wait_for_line(notes, killed_in, one)
        os.kill(one.process.pid, signal.SIGKILL)
        asking.join()
        with api_process(stack, CONFIG, **environ) as two:
            task: dict[str, Any] = httpx.post(two.url, json=body, timeout=60).json()["result"]["task"]

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "four is done"}]
    ran = Counter(notes.read_text().split())
    assert ran.pop(killed_in) == 2, "the step that was cut runs again"
    assert set(ran.values()) == {1}, "no other does"
    said = [entry["parts"][0]["text"] for entry in task["history"]]
    assert said == ["go", *(f"did {step}" for step in STEPS)]
