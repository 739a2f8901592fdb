"""ADK agent whose process is killed during a turn: another process resumes the turn from the stored events."""

import contextlib
import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.stack.stack import LocalStack
from tests.runtime.e2e.test_killed import AGENTS, SHORT_LEASE, KilledSubscriber, at_rest, streamed_texts, wait_until
from tests.support.e2e.agents.paying import AGAIN, WORDS
from tests.support.e2e.api_process import api_process
from tests.support.e2e.function_process import task_process
from tests.support.histories import json_before_status
from tests.support.server import TIMEOUT
from tests.support.service import send

CONFIG = AGENTS / "paying.yaml"
PAID, TOLD = ("".join(words) for words in WORDS.values())


class Streaming:
    """Client thread that reads a task's stream until the server process is killed."""

    def __init__(self, url: str) -> None:
        self._url, self._told, self._ids = url, threading.Event(), list[str]()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def task_id(self) -> str:
        assert self._told.wait(TIMEOUT), "no task was begun"
        return self._ids[0]

    def join(self) -> None:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the stream outlived its process"

    def _read(self) -> None:
        body = send("go", message_id="m-1", contextId="killed", method="SendStreamingMessage")
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.stream("POST", self._url, json=body, timeout=TIMEOUT) as answer,
        ):
            for line in answer.iter_lines():
                if line.startswith("data: ") and not self._ids:
                    self._ids.append(json.loads(line.removeprefix("data: "))["result"]["task"]["id"])
                    self._told.set()


def wait_for_text(reading: KilledSubscriber, text: str) -> None:
    wait_until(lambda: streamed_texts(reading)[-1:] == [text], f"{text!r} was never streamed")


def partial_text(agent: str) -> str:
    """Return the text that the agent has streamed when its process is killed."""
    return "".join(WORDS[agent][:2])


def check_turn(task: dict[str, Any], reading: KilledSubscriber) -> None:
    """Check that the stream has each event exactly once, and that the task has each text once."""
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": TOLD}]
    assert [message["parts"] for message in task["history"]] == [[{"text": "go"}], [{"text": PAID}], [{"text": TOLD}]]
    streamed = [int(frame_id) for frame_id, _ in reading.frames if frame_id.isdecimal()]
    assert streamed == list(range(streamed[0], streamed[-1] + 1)), "every event once, in order"
    assert reading.frames[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def check_next_turn(url: str) -> None:
    """Check that the ADK session has each agent's text and tool call exactly once."""
    body = send(AGAIN, message_id="m-2", contextId="killed")
    task = httpx.post(url, json=body, timeout=TIMEOUT).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    (shown,) = (part["text"] for part in json_before_status(task)[-1]["parts"])
    assert shown.splitlines().count("user: go") == 1
    assert [shown.count(once) for once in ("receipt-7", PAID, TOLD)] == [1, 1, 1]


# This test is for `make test-deep`, because `make test` covers its parts: it interrupts ADK turns after each event
# (tests/runtime/unit/agents/adk), resumes a session in another process (tests/runtime/contract/test_adk_turns.py), and kills processes of
# LangGraph turns (test_killed.py).
@pytest.mark.deep
def test_adk_turn_completes_after_two_killed_processes(own_stack: LocalStack, tmp_path: Path) -> None:
    """Kill the API process while the first agent streams its text, then the worker while the second agent does."""
    notes = tmp_path / "notes"
    environ = {"NOTED_IN": str(notes), **SHORT_LEASE}
    with api_process(own_stack, CONFIG, **environ) as third:
        with (
            api_process(own_stack, CONFIG, HELD_IN="payer", **environ) as one,
            task_process(own_stack, CONFIG, sweeps=1.0, HELD_IN="teller", **environ) as two,
        ):
            asking = Streaming(one.url)
            task_id = asking.task_id()
            reading = KilledSubscriber(third.url, task_id)
            wait_for_text(reading, partial_text("payer"))
            os.kill(one.process.pid, signal.SIGKILL)
            asking.join()
            wait_for_text(reading, partial_text("teller"))
            os.kill(two.pid, signal.SIGKILL)
        with task_process(own_stack, CONFIG, sweeps=1.0, **environ):
            task = at_rest(third.url, task_id)
            reading.join()
        ran = Counter(notes.read_text().split())
        check_next_turn(third.url)
    check_turn(task, reading)
    assert streamed_texts(reading) == [partial_text("payer"), PAID, partial_text("teller"), TOLD], (
        "what was cut is begun anew"
    )
    assert ran == {"pay": 1, "payer": 2, "teller": 2}, (
        "neither a stored tool result nor an agent that ended is repeated"
    )
