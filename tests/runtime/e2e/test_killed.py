"""Processes killed during a turn: another process resumes the turn without a request of the client."""

import contextlib
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.stack.stack import LocalStack
from tests.support.e2e.agents.speaking import WORDS
from tests.support.e2e.agents.steps import texts_of_steps
from tests.support.e2e.api_process import api_process
from tests.support.e2e.forked import ForkedProcess
from tests.support.e2e.function_process import task_process
from tests.support.server import ROOT, TIMEOUT
from tests.support.service import send

AGENTS = ROOT / "tests" / "support" / "e2e" / "agents"
SHORT_LEASE: dict[str, Any] = {"AION_LEASE_SECONDS": "2"}


def wait_for_line(notes: Path, line: str, process: ForkedProcess) -> None:
    wait_until(lambda: notes.exists() and line in notes.read_text().split(), f"{line} never ran", process)


def wait_until(holds: Callable[[], bool], failure: str, process: ForkedProcess | None = None) -> None:
    """Wait until the condition holds. Raise AssertionError after the timeout, or if the process ends first."""
    end = time.monotonic() + TIMEOUT
    while not holds():
        assert process is None or process.poll() is None, "the process ended"
        assert time.monotonic() < end, failure
        time.sleep(0.02)


def at_rest(url: str, task_id: str) -> dict[str, Any]:
    """Wait until the task is in a terminal or interrupted state, and return it."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    end = time.monotonic() + TIMEOUT
    with httpx.Client(timeout=TIMEOUT) as client:
        while time.monotonic() < end:
            task: dict[str, Any] = client.post(url, json=asked).json()["result"]
            if task["status"]["state"] not in ("TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"):
                return task
            time.sleep(0.2)
    raise AssertionError("the task never came to rest")


class KilledSubscriber:
    """Thread that subscribes to a task and reads the stream to its end."""

    def __init__(self, url: str, task_id: str) -> None:
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self._url, self._task_id = url, task_id
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the stream never ended"

    def _read(self) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": self._task_id}}
        with httpx.stream("POST", self._url, json=body, timeout=TIMEOUT) as answer:
            frame_id = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    frame_id = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    self.frames.append((frame_id, json.loads(line.removeprefix("data: "))["result"]))


def streamed_texts(reading: KilledSubscriber) -> list[str]:
    """Return the streamed texts; a chunk with append=false starts a new text."""
    begun: list[str] = []
    for _, result in list(reading.frames):
        update = result.get("artifactUpdate")
        if update is not None and update["artifact"]["artifactId"] == "aion:stream-delta":
            if not update.get("append"):
                begun.append("")
            begun[-1] += "".join(part.get("text", "") for part in update["artifact"]["parts"])
    return begun


def check_steps(task: dict[str, Any], notes: Path, killed_in: str) -> None:
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "four is done"}]
    ran = Counter(notes.read_text().split())
    assert ran.pop(killed_in) == 2, "the step that was cut runs again"
    assert set(ran.values()) == {1}, "no other does"
    said = [entry["parts"][0]["text"] for entry in task["history"]]
    assert said == ["go", *texts_of_steps()]


@pytest.mark.parametrize("killed_in", [pytest.param("one", marks=pytest.mark.deep), "three"])
def test_task_of_killed_api_process_is_finished(own_stack: LocalStack, tmp_path: Path, killed_in: str) -> None:
    """Kill the API process in a step: only this step runs again, and each event is streamed once."""
    notes, config = tmp_path / "notes", AGENTS / "steps.yaml"
    environ: dict[str, Any] = {"NOTED_IN": str(notes), **SHORT_LEASE}
    body = send("go", message_id="m-1", contextId="killed", method="SendStreamingMessage")
    told = threading.Event()
    ids: list[str] = []

    def ask(url: str) -> None:
        with contextlib.suppress(httpx.TransportError), httpx.stream("POST", url, json=body, timeout=TIMEOUT) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: ") and not ids:
                    ids.append(json.loads(line.removeprefix("data: "))["result"]["task"]["id"])
                    told.set()

    with (
        api_process(own_stack, config, **environ) as third,
        task_process(own_stack, config, sweeps=1.0, **environ),
        api_process(own_stack, config, HELD_IN=killed_in, **environ) as one,
    ):
        asking = threading.Thread(target=ask, args=(one.url,))
        asking.start()
        assert told.wait(TIMEOUT)
        reading = KilledSubscriber(third.url, ids[0])
        wait_for_line(notes, killed_in, one.process)
        os.kill(one.process.pid, signal.SIGKILL)
        asking.join()
        task = at_rest(third.url, ids[0])
        reading.join()
    check_steps(task, notes, killed_in)
    heard = [int(frame_id) for frame_id, _ in reading.frames if frame_id.isdecimal()]
    assert heard == list(range(heard[0], heard[-1] + 1)), "every event once, in order"
    assert reading.frames[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_task_of_killed_worker_is_finished(own_stack: LocalStack, tmp_path: Path) -> None:
    """Kill the worker of a non-blocking message: a new worker completes the task."""
    notes, config = tmp_path / "notes", AGENTS / "steps.yaml"
    environ: dict[str, Any] = {"NOTED_IN": str(notes), **SHORT_LEASE}
    with api_process(own_stack, config, **environ) as api:
        with task_process(own_stack, config, HELD_IN="two", **environ) as first:
            body = send("go", message_id="m-1", contextId="killed")
            body["params"]["configuration"] = {"returnImmediately": True}
            task = httpx.post(api.url, json=body, timeout=TIMEOUT).json()["result"]["task"]
            assert task["status"]["state"] == "TASK_STATE_WORKING"
            wait_for_line(notes, "two", first)
            os.kill(first.pid, signal.SIGKILL)
        with task_process(own_stack, config, sweeps=1.0, **environ):
            task = at_rest(api.url, task["id"])
    check_steps(task, notes, "two")


def test_turn_retried_after_kill_never_doubles_text(own_stack: LocalStack) -> None:
    """Stream the whole text again, starting with append=false."""
    config = AGENTS / "speaking.yaml"
    with (
        api_process(own_stack, config, **SHORT_LEASE) as api,
        task_process(own_stack, config, **SHORT_LEASE, HELD_IN="speak") as first,
    ):
        body = send("go", message_id="m-1", contextId="killed")
        body["params"]["configuration"] = {"returnImmediately": True}
        task = httpx.post(api.url, json=body, timeout=TIMEOUT).json()["result"]["task"]
        reading = KilledSubscriber(api.url, task["id"])
        half = "".join(WORDS[: len(WORDS) // 2])
        wait_until(lambda: streamed_texts(reading) == [half], "the first half was never streamed", first)
        os.kill(first.pid, signal.SIGKILL)
        with task_process(own_stack, config, sweeps=1.0, **SHORT_LEASE):
            at_rest(api.url, task["id"])
            reading.join()
    assert streamed_texts(reading) == [half, "".join(WORDS)], "by the first process, and anew by the second"


@pytest.mark.deep
def test_killed_turn_resumes_within_a_minute(own_stack: LocalStack, tmp_path: Path) -> None:
    """Resume without a sweep: the heartbeat of the 30 s lease enqueued a wake-up message before the kill."""
    notes, config = tmp_path / "notes", AGENTS / "steps.yaml"
    environ: dict[str, Any] = {"NOTED_IN": str(notes), "STEP_SECONDS": "12"}
    with api_process(own_stack, config, **environ) as api:
        with task_process(own_stack, config, **environ) as first:
            body = send("go", message_id="m-1", contextId="killed")
            body["params"]["configuration"] = {"returnImmediately": True}
            task = httpx.post(api.url, json=body, timeout=TIMEOUT).json()["result"]["task"]
            wait_for_line(notes, "two", first)
            os.kill(first.pid, signal.SIGKILL)
            killed = time.monotonic()
        with task_process(own_stack, config, **environ) as second:
            while Counter(notes.read_text().split())["two"] < 2:
                assert time.monotonic() - killed < 60, "it was not taken over within a minute"
                assert second.poll() is None
                time.sleep(0.2)
            task = at_rest(api.url, task["id"])
    check_steps(task, notes, "two")
