"""A caller with ADK's RemoteA2aAgent and its remote agent, each an `aion dev` of its own, and the loss of either."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.e2e.cut import cuttable
from tests.support.listening import free_port
from tests.support.server import ROOT, TIMEOUT, ServerProcess, aion_dev, kill, serving
from tests.support.service import send

AGENTS = ROOT / "tests" / "support" / "e2e" / "agents"
ANSWERS = {
    "root": "I worked.",
    "transfer": "I worked.",
    "sequence": "Summary: it worked.",
    "workflow": "I worked.",
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
SHORT_LEASE = {"AION_LEASE_SECONDS": "3", "AION_LOG_LEVEL": "WARNING"}


class Server:
    """`aion dev` with a store on disk, which starts again on the same port."""

    def __init__(self, config: str, folder: Path, **environ: str) -> None:
        self._config, self.port = config, free_port()
        self._environ = {**SHORT_LEASE, "AION_DATA_DIR": str(folder), "PORT": str(self.port), **environ}
        self._stack = ExitStack()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: ServerProcess | None = None

    def start(self) -> None:
        command = aion_dev("--no-reload", "--config", str(AGENTS / self._config))
        self._process = self._stack.enter_context(serving(command, **self._environ))

    def kill(self) -> None:
        assert self._process is not None
        kill(self._process.process)

    def stop(self) -> None:
        """Stop the server as Ctrl-C does: it suspends its turns."""
        assert self._process is not None
        self._process.stop()

    def freeze(self, seconds: float) -> None:
        assert self._process is not None
        os.killpg(self._process.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(self._process.process.pid, signal.SIGCONT)

    def close(self) -> None:
        self._stack.close()

    def tasks(self, agent: str) -> list[dict[str, Any]]:
        found = httpx.post(f"{self.url}/agents/{agent}/", json=LIST, timeout=TIMEOUT).json()
        tasks: list[dict[str, Any]] = found["result"]["tasks"]
        return tasks

    def begin(self, agent: str) -> str:
        """Send a message; return the id of its task."""
        body = send("go", message_id=f"m-{agent}")
        body["params"]["configuration"] = {"returnImmediately": True}
        answer = httpx.post(f"{self.url}/agents/{agent}/", json=body, timeout=TIMEOUT).json()
        return str(answer["result"]["task"]["id"])

    def ended(self, agent: str, task_id: str, *, within: float = 150) -> dict[str, Any]:
        """Return the task once it has ended."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
        until = time.monotonic() + within
        while True:
            task: dict[str, Any] = httpx.post(f"{self.url}/agents/{agent}/", json=body, timeout=TIMEOUT).json()[
                "result"
            ]
            if task["status"]["state"] not in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
                return task
            assert time.monotonic() < until, task
            time.sleep(0.2)


@contextmanager
def both(folder: Path, *, work: float) -> Iterator[tuple[Server, Server]]:
    """Start the remote agent and its caller."""
    with ExitStack() as servers:
        remote = Server("working.yaml", folder / "remote", WORK_SECONDS=str(work))
        servers.callback(remote.close)
        remote.start()
        # Choose the caller's port only now, because the start of the remote agent takes seconds.
        caller = Server("delegating.yaml", folder / "caller", REMOTE=remote.url)
        servers.callback(caller.close)
        caller.start()
        yield caller, remote


def wait_for_remote_task(remote: Server) -> None:
    until = time.monotonic() + 60
    while not remote.tasks("worker"):
        assert time.monotonic() < until, "the remote agent was not called"
        time.sleep(0.1)


def restart(*servers: Server, after: float = 0) -> None:
    for server in servers:
        server.kill()
    time.sleep(after)
    for server in servers:
        server.start()


def stop_and_start(server: Server) -> None:
    server.stop()
    server.start()


Fault = Callable[[Server, Server], None]
FAULTS: dict[str, Fault] = {
    "caller killed": lambda caller, remote: restart(caller),
    "caller stopped": lambda caller, remote: stop_and_start(caller),
    "remote stopped": lambda caller, remote: stop_and_start(remote),
    "remote killed": lambda caller, remote: restart(remote),
    "both killed": lambda caller, remote: restart(remote, caller),
    "caller frozen": lambda caller, remote: caller.freeze(20),
    "remote frozen": lambda caller, remote: remote.freeze(20),
    "remote gone for a minute": lambda caller, remote: restart(remote, after=60),
}


def check(caller: Server, remote: Server, agent: str, task_id: str) -> None:
    task = caller.ended(agent, task_id)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    assert [part["text"] for part in task["status"]["message"]["parts"]] == [ANSWERS[agent]]
    said = [part["text"] for message in task["history"] for part in message["parts"]]
    assert len(said) == len(set(said)), "nothing is said twice"
    (worked,) = remote.tasks("worker")
    assert worked["status"]["state"] == "TASK_STATE_COMPLETED"


def test_killed_caller_continues_with_remote_task(tmp_path: Path) -> None:
    with both(tmp_path, work=4) as (caller, remote):
        task_id = caller.begin("root")
        wait_for_remote_task(remote)
        restart(caller)
        check(caller, remote, "root", task_id)


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("agent", ANSWERS)
def test_answer_survives_loss(agent: str, fault: str, tmp_path: Path) -> None:
    with both(tmp_path, work=6) as (caller, remote):
        task_id = caller.begin(agent)
        wait_for_remote_task(remote)
        FAULTS[fault](caller, remote)
        check(caller, remote, agent, task_id)


@pytest.mark.deep
@pytest.mark.parametrize("agent", ANSWERS)
def test_answer_survives_cut_connection(agent: str, tmp_path: Path) -> None:
    """Abort the connection while the remote agent works, and refuse new ones for five seconds."""
    with ExitStack() as servers:
        remote = Server("working.yaml", tmp_path / "remote", WORK_SECONDS="8")
        port, proxy = servers.enter_context(cuttable(remote.port))
        caller = Server("delegating.yaml", tmp_path / "caller", REMOTE=f"http://127.0.0.1:{port}")
        for server in (remote, caller):
            servers.callback(server.close)
            server.start()
        task_id = caller.begin(agent)
        wait_for_remote_task(remote)
        proxy.cut()
        time.sleep(5)
        proxy.mend()
        check(caller, remote, agent, task_id)


@pytest.mark.deep
@pytest.mark.parametrize("agent", ANSWERS)
def test_remote_agent_that_is_gone_for_good_fails_task(agent: str, tmp_path: Path) -> None:
    with both(tmp_path, work=1) as (caller, remote):
        remote.kill()
        task = caller.ended(agent, caller.begin(agent))
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "could not be reached for 9" in task["status"]["message"]["parts"][0]["text"]


@pytest.mark.deep
@pytest.mark.parametrize("agent", ANSWERS)
def test_remote_agent_that_comes_later_answers(agent: str, tmp_path: Path) -> None:
    """The remote agent's server starts some time after the message: the caller has not even its card."""
    with both(tmp_path, work=1) as (caller, remote):
        remote.kill()
        task_id = caller.begin(agent)
        time.sleep(15)
        remote.start()
        check(caller, remote, agent, task_id)


@pytest.mark.deep
@pytest.mark.parametrize("killed", [False, True], ids=["caller runs", "caller killed before"])
@pytest.mark.parametrize("agent", ANSWERS)
def test_cancellation_reaches_remote_task(agent: str, killed: bool, tmp_path: Path) -> None:
    with both(tmp_path, work=120) as (caller, remote):
        task_id = caller.begin(agent)
        wait_for_remote_task(remote)
        if killed:
            restart(caller)
        cancel = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task_id}}
        httpx.post(f"{caller.url}/agents/{agent}/", json=cancel, timeout=TIMEOUT).raise_for_status()
        assert caller.ended(agent, task_id)["status"]["state"] == "TASK_STATE_CANCELED"
        until = time.monotonic() + 90
        while remote.tasks("worker")[0]["status"]["state"] != "TASK_STATE_CANCELED":
            assert time.monotonic() < until, remote.tasks("worker")
            time.sleep(0.5)
        assert len(remote.tasks("worker")) == 1
