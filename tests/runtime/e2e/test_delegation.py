"""An agent that calls another agent, both real processes with SQLite: lost, frozen and cut off in the middle of a call."""

import asyncio
import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.stack.stack import LocalStack
from tests.runtime.e2e.test_killed import at_rest, wait_until
from tests.runtime.unit.delegation.remote_servers import served_by_sdk
from tests.support.agents import delegating, remote
from tests.support.e2e.api_process import api_process
from tests.support.e2e.cut import Cut, cuttable
from tests.support.e2e.forked import started
from tests.support.e2e.function_process import task_process
from tests.support.e2e.runtime_process import running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.listening import free_port
from tests.support.recorded import function_url_event
from tests.support.server import ROOT, aion_dev, kill
from tests.support.service import send

AGENTS = ROOT / "tests" / "support" / "agents"
CALLERS = ["node", "tools", "nested", "functional", "executor"]
ANSWER = "Worked 8 steps."


class Server:
    """`aion dev` on one port with one SQLite folder, which can be lost and started again."""

    def __init__(self, config: str, folder: Path, **environ: str) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._command = aion_dev(str(AGENTS / config), "--no-reload", "--data-dir", str(folder))
        self._environ = {**os.environ, "PORT": str(self._port), "AION_LEASE_SECONDS": "2", **environ}
        self.port = self._port

    def start(self) -> None:
        self.process, output = started(self._command, self._environ)
        self._reading = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._reading.start()
        wait_until(self._answers, "the server never started")

    def kill(self) -> None:
        kill(self.process)

    def restart(self) -> None:
        """End the server as by Ctrl-C, and start it again."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(60)
        self.start()

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/.well-known/agent-card.json", timeout=60).status_code == 200
        return False

    def _read(self, output: io.BufferedIOBase) -> None:
        for _ in output:
            pass


class Pair:
    """A caller and the remote agent, with a proxy between them."""

    def __init__(self, caller: Server, far: Server, between: Cut, notes: Path) -> None:
        self.caller, self.far, self.between, self._notes = caller, far, between, notes

    def begin(self, agent: str, text: str) -> str:
        """Send a message to the caller's agent, wait until the remote agent works, and return the task's id."""
        body = send(text, message_id="m-1")
        body["params"]["configuration"] = {"returnImmediately": True}
        task: str = httpx.post(f"{self.url(agent)}", json=body, timeout=60).json()["result"]["task"]["id"]
        wait_until(lambda: bool(self.remote_tasks()), "the remote agent never began")
        time.sleep(0.7)
        return task

    def url(self, agent: str) -> str:
        return f"{self.caller.url}/agents/{agent}"

    def remote_tasks(self) -> list[str]:
        """Return the ids of the remote agent's tasks, once for each run."""
        return [line.split()[0] for line in self._notes.read_text().splitlines()] if self._notes.exists() else []


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        notes = tmp_path / "remote"
        far = Server("remote.yaml", tmp_path / "far", **{remote.NOTES: str(notes)})
        port, between = stack.enter_context(cuttable(far.port))
        url = f"http://127.0.0.1:{port}"
        environ = {"REMOTE_URL": url, delegating.NOTES: str(tmp_path / "caller")}
        caller = Server("delegating.yaml", tmp_path / "caller-data", **environ)
        for server in (far, caller):
            server.start()
            stack.callback(server.kill)
        yield Pair(caller, far, between, notes)


def lose_both(pair: Pair) -> None:
    pair.caller.kill()
    pair.far.kill()
    pair.far.start()
    pair.caller.start()


def lose_caller(pair: Pair) -> None:
    pair.caller.kill()
    pair.caller.start()


def lose_remote(pair: Pair) -> None:
    pair.far.kill()
    pair.far.start()


def lose_remote_for_a_minute(pair: Pair) -> None:
    pair.far.kill()
    time.sleep(60)
    pair.far.start()


def restart_remote(pair: Pair) -> None:
    pair.far.restart()


def freeze_caller(pair: Pair) -> None:
    pair.caller.signal(signal.SIGSTOP)
    time.sleep(20)
    pair.caller.signal(signal.SIGCONT)


def freeze_remote(pair: Pair) -> None:
    pair.far.signal(signal.SIGSTOP)
    time.sleep(20)
    pair.far.signal(signal.SIGCONT)


def cut_connection(pair: Pair) -> None:
    pair.between.cut()
    time.sleep(3)
    pair.between.mend()


FAULTS = [
    lose_both,
    lose_caller,
    lose_remote,
    lose_remote_for_a_minute,
    restart_remote,
    freeze_caller,
    freeze_remote,
    cut_connection,
]
QUICK = {("executor", lose_both), ("node", cut_connection)}


@pytest.mark.parametrize(
    ("agent", "fault"),
    [
        pytest.param(agent, fault, marks=() if (agent, fault) in QUICK else pytest.mark.deep)
        for agent in CALLERS
        for fault in FAULTS
    ],
)
def test_answer_survives_loss_of_either_side(pair: Pair, agent: str, fault: Callable[[Pair], None]) -> None:
    task_id = pair.begin(agent, "work 8")
    fault(pair)
    task = at_rest(pair.url(agent), task_id)
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_COMPLETED", ANSWER)
    assert len(set(pair.remote_tasks())) == 1


@pytest.mark.parametrize("agent", ["node", pytest.param("executor", marks=pytest.mark.deep)])
def test_question_survives_loss_of_both_sides(pair: Pair, agent: str) -> None:
    task_id = pair.begin(agent, "ask twice; say well")
    for answer in ("red", "blue"):
        task = at_rest(pair.url(agent), task_id)
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        lose_both(pair)
        body = send(answer, message_id=f"m-{answer}", taskId=task_id, contextId=task["contextId"])
        body["params"]["configuration"] = {"returnImmediately": True}
        httpx.post(pair.url(agent), json=body, timeout=60).raise_for_status()
    task = at_rest(pair.url(agent), task_id)
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_COMPLETED", "Heard red and blue. well!")
    assert len(set(pair.remote_tasks())) == 2


@pytest.mark.parametrize("agent", ["node", pytest.param("executor", marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lose_caller, id="caller lost"),
        pytest.param(restart_remote, id="remote restarted", marks=pytest.mark.deep),
        pytest.param(freeze_remote, id="remote frozen", marks=pytest.mark.deep),
        pytest.param(cut_connection, id="connection cut", marks=pytest.mark.deep),
    ],
)
def test_cancel_reaches_remote_task(pair: Pair, agent: str, fault: Callable[[Pair], None]) -> None:
    task_id = pair.begin(agent, "work 400")
    pair.between.cut()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task_id}}
    canceled = httpx.post(pair.url(agent), json=asked, timeout=60).json()["result"]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    fault(pair)
    pair.between.mend()
    task = at_rest(pair.far.url, pair.remote_tasks()[0])
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.deep
@pytest.mark.parametrize("agent", ["node", "executor"])
def test_remote_gone_for_good_fails_with_its_name(agent: str, pair: Pair) -> None:
    pair.far.kill()
    body = send("say hello", message_id="m-1")
    body["params"]["configuration"] = {"returnImmediately": True}
    task_id = httpx.post(pair.url(agent), json=body, timeout=60).json()["result"]["task"]["id"]
    task = at_rest(pair.url(agent), task_id)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert text_of(task).startswith("The agent remote could not be reached for 9")


def text_of(task: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in task["status"]["message"]["parts"])


@pytest.mark.deep
@pytest.mark.parametrize("agent", ["node", "executor"])
async def test_call_is_handed_on_at_time_limit(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a remote agent longer than the invocation of ApiFunction: TaskFunction follows the same remote task."""
    notes, config = tmp_path / "remote", AGENTS / "delegating.yaml"
    monkeypatch.setenv(remote.NOTES, str(notes))
    with LocalStack.start("template.yaml") as stack, served_by_sdk() as url:
        environ = {"REMOTE_URL": url}
        there = {**stack.environment("ApiFunction"), **environ, "AION_AUTH": "off", "AWS_SAM_LOCAL": "true"}
        there["AION_CONFIG"] = str(config)
        there.pop("AWS_LAMBDA_EXEC_WRAPPER", None)
        async with FakeRuntimeApi([]) as api, running("handlers.api:app", api=api.address, environ=there):
            body = json.dumps(send("work 60", method="SendStreamingMessage"))
            event = function_url_event(f"/agents/{agent}", method="POST", body=body)
            event["headers"] |= {"content-type": "application/json", "host": "127.0.0.1"}
            answer = await api.invoke(event, deadline_in=18).answered()
        whole = b"".join(answer.chunks).decode()
        assert "TASK_STATE_COMPLETED" not in whole
        task_id = json.loads(whole.partition("data: ")[2].partition("\n")[0])["result"]["task"]["id"]
        with (
            task_process(stack, config, sweeps=1.0, **environ),
            api_process(stack, config, **environ) as elsewhere,
        ):
            task = await asyncio.to_thread(at_rest, f"{elsewhere.url}/agents/{agent}", task_id)
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_COMPLETED", "Worked 60 steps.")
    assert len(notes.read_text().splitlines()) == 1
