"""`aion dev` during development: edits, failures, restarts and shutdown."""

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.e2e import forked
from tests.support.server import ServerProcess, aion_dev, serving
from tests.support.service import send
from tests.tools.e2e.test_dev import has_ended

TIMEOUT = 60
"""Timeout in seconds; it expires only on a failure."""

STORES = pytest.mark.parametrize("store", ["sqlite", pytest.param("dynamodb", marks=pytest.mark.deep)])

AGENT = """
import asyncio, os
from pathlib import Path

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

VERSION = "first"
HERE = Path(__file__).parent / "seen"

def note(word):
    with HERE.joinpath("notes").open("a") as notes:
        notes.write(word + "\\n")

async def begin(state: MessagesState) -> dict:
    note("begin")
    return {}

async def wait(state: MessagesState) -> dict:
    note("wait")
    while "wait" in str(state["messages"][-1].content) and not HERE.joinpath("go").exists():
        await asyncio.sleep(0.02)
    return {}

async def answer(state: MessagesState) -> dict:
    if "fail" in str(state["messages"][-1].content):
        raise ValueError("the model is out")
    return {"messages": [AIMessage(f"{VERSION} from {os.getpid()}")]}

graph = StateGraph(MessagesState).add_node(begin).add_node(wait).add_node(answer)
graph = graph.add_edge(START, "begin").add_edge("begin", "wait").add_edge("wait", "answer").add_edge("answer", END)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "seen").mkdir(parents=True)
    (folder / "agent.py").write_text(AGENT)
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py, name: Mine}}}")
    return folder


@pytest.fixture
def server(project: Path) -> Iterator[ServerProcess]:
    with serving(dev(project), AION_DATA_DIR=str(project / ".aion")) as server:
        yield server


def dev(project: Path, *options: str) -> list[str]:
    return aion_dev(str(project), *options)


def refused(project: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run `aion dev` in a situation in which it refuses to start; return its exit code and output."""
    return forked.run("aion_tools.cli", "dev", str(project), "--port", "0", *options, env=os.environ, timeout=TIMEOUT)


def until(holds: Callable[[], Any], server: ServerProcess) -> Any:
    """Call the function until its result is true; return this result. Fail if the server ends before."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if found := holds():
            return found
        assert server.process.poll() is None, "".join(server.printed)
        time.sleep(0.01)
    raise AssertionError("it never held:\n" + "".join(server.printed))


def printed(server: ServerProcess, text: str) -> bool:
    return text in "".join(server.printed)


def prints(server: ServerProcess, lines: str) -> bool:
    """Return True if the server's output so far matches the pattern."""
    return re.search(lines, "".join(server.printed), re.MULTILINE) is not None


def reloads(server: ServerProcess) -> int:
    """Return how many reloads without errors the server has logged."""
    return "".join(server.printed).count("Reloaded after an edit of")


def ask(server: ServerProcess, text: str = "hello") -> dict[str, Any]:
    """Send the text in a blocking request; return the task."""
    return dict(httpx.post(server.url, json=send(text), timeout=TIMEOUT).json()["result"]["task"])


def text_of(task: dict[str, Any]) -> str:
    return str(task["status"]["message"]["parts"][0]["text"])


def get(server: ServerProcess, task_id: str) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    return dict(httpx.post(server.url, json=body, timeout=TIMEOUT).json())


class StreamingEdit:
    """Thread that reads a task's stream to its end."""

    def __init__(self, server: ServerProcess, text: str = "", *, task_id: str = "") -> None:
        """Send the text, or subscribe to the task."""
        self.frames: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self._url, self._body = server.url, send(text, method="SendStreamingMessage")
        if task_id:
            self._body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def task_id(self) -> str:
        return str(self.frames[0]["task"]["id"]) if self.frames else ""

    def join(self) -> None:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the stream never ended"

    def _read(self) -> None:
        try:
            with httpx.stream("POST", self._url, json=self._body, timeout=TIMEOUT) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        self.frames.append(json.loads(line.removeprefix("data: "))["result"])
        except httpx.TransportError as error:
            self.error = error


def notes(project: Path) -> list[str]:
    file = project / "seen" / "notes"
    return file.read_text().split() if file.exists() else []


def edit(project: Path, old: str, new: str, name: str = "agent.py") -> None:
    text = (project / name).read_text()
    assert old in text
    write(project, text.replace(old, new), name)


def write(project: Path, text: str, name: str = "agent.py") -> None:
    """Replace the file atomically: the server must not load a half-written file."""
    written = project.with_name(name)
    written.write_text(text)
    written.replace(project / name)


def load_error(server: ServerProcess) -> str:
    """Return the error with which the server answers in place of the card, the health check and an agent's answer."""
    card = httpx.get(f"{server.url}/.well-known/agent-card.json", timeout=TIMEOUT)
    health = httpx.get(f"{server.url}/health", timeout=TIMEOUT)
    refused = httpx.post(server.url, json=send("hello"), timeout=TIMEOUT).json()["error"]["message"]
    assert (card.status_code, health.status_code) == (503, 503)
    reason = str(card.json()["error"]["message"])
    assert health.json()["error"]["message"] == reason
    assert reason in refused
    return reason


def test_broken_edit_is_the_answer_until_next_edit(server: ServerProcess, project: Path) -> None:
    assert text_of(ask(server)).startswith("first ")
    edit(project, '"first"', '"second" +')
    until(lambda: printed(server, "Reloaded with errors after an edit of"), server)
    reason = load_error(server)
    assert "agent.py, line 8" in reason
    state = httpx.get(f"{server.url}/agents/mine/console/state", params={"contextId": "c-1"}, timeout=TIMEOUT)
    assert state.json() == {"error": reason}
    told = "".join(server.printed)
    assert "agent.py, line 8" in told
    assert "Traceback" not in told

    edit(project, '"second" +', '"second"')
    until(lambda: reloads(server), server)
    assert text_of(ask(server)).startswith("second ")
    edit(project, "name: Mine", "name: Yours, descripton: x", "aion.yaml")
    until(lambda: printed(server, "project/aion.yaml ("), server)
    assert "Did you mean 'description'?" in load_error(server)
    page = httpx.get(server.url, headers={"accept": "text/html"}, timeout=TIMEOUT)
    assert ("Did you mean 'description'?" in page.text, page.headers["refresh"]) == (True, "2")

    edit(project, ", descripton: x", "", "aion.yaml")
    until(lambda: reloads(server) >= 2, server)
    assert httpx.get(f"{server.url}/.well-known/agent-card.json", timeout=TIMEOUT).json()["name"] == "Yours"
    assert text_of(ask(server)).startswith("second ")


@pytest.mark.deep
def test_requests_during_reload_wait_for_new_code(server: ServerProcess, project: Path) -> None:
    """Send requests before, during and after a reload: each is answered, by the old or the new code."""
    worker, tasks = worker_of(server), list[dict[str, Any]]()
    edit(project, '"first"', '"second"')
    with ThreadPoolExecutor(4) as threads:
        while not reloads(server):
            tasks += threads.map(ask, [server] * 4)
        later = [text_of(task) for task in threads.map(ask, [server] * 8)]
    assert {text.split()[0] for text in later} == {"second"}
    assert worker_of(server) != worker
    for task in tasks:  # a turn of the old worker may have been handed off
        until(partial(has_completed, server, task["id"]), server)


@STORES
def test_edit_during_stream_hands_turn_off_to_new_worker(project: Path, store: str) -> None:
    with serving(dev(project, "--store", store), AION_DATA_DIR=str(project / ".aion")) as server:
        whole = ask(server)
        stream = StreamingEdit(server, "wait")
        until(lambda: notes(project).count("wait") >= 2, server)
        edit(project, '"first"', '"second"')
        until(lambda: notes(project).count("wait") >= 3, server)
        stream.join()
        assert stream.error is None, "the old worker ends its streams, and does not cut them"
        again = StreamingEdit(server, task_id=stream.task_id)
        until(lambda: again.frames, server)
        (project / "seen" / "go").touch()
        again.join()
        assert again.frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert text_of(get(server, stream.task_id)["result"]).startswith("second ")
        assert Counter(notes(project))["begin"] == 2, "the step that had ended does not run again"
        assert get(server, whole["id"])["result"] == whole


@pytest.mark.deep
def test_turn_waits_during_broken_edits(server: ServerProcess, project: Path) -> None:
    """Break the code more often than a turn may be tried: its turn waits, and its client's stream too."""
    stream = StreamingEdit(server, "wait")
    until(lambda: "wait" in notes(project), server)
    for number in range(4):
        write(project, f"{AGENT}\nbroken {number}")
        until(lambda: "".join(server.printed).count("Reloaded with errors") > number, server)  # noqa: B023
    stream.join()
    again = StreamingEdit(server, task_id=stream.task_id)
    until(lambda: again.frames, server)
    (project / "seen" / "go").touch()
    write(project, AGENT.replace("first", "second"))
    until(partial(is_completed, server, stream), server)
    again.join()
    assert (stream.error, again.error) == (None, None)
    assert text_of(get(server, stream.task_id)["result"]).startswith("second ")
    assert Counter(notes(project))["begin"] == 1, "the step that had ended does not run again"


@pytest.mark.deep
def test_blocking_send_is_answered_during_an_edit(server: ServerProcess, project: Path) -> None:
    tasks: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: tasks.append(ask(server, "wait")), daemon=True)
    asking.start()
    until(lambda: "wait" in notes(project), server)
    edit(project, '"first"', '"second"')
    until(lambda: notes(project).count("wait") >= 2, server)
    asking.join(TIMEOUT)
    assert tasks[0]["status"]["state"] == "TASK_STATE_WORKING", "it stays the client's to ask for"
    (project / "seen" / "go").touch()
    until(lambda: get(server, tasks[0]["id"])["result"]["status"]["state"] == "TASK_STATE_COMPLETED", server)


def test_second_server_is_refused_and_log_has_lines_of_turn(server: ServerProcess, project: Path) -> None:
    second = refused(project, "--data-dir", str(project / ".aion"))
    assert second.returncode == 1
    assert f"already running in this folder at {server.url} (process {server.process.pid})" in second.stderr
    assert "--data-dir" in second.stderr
    task = ask(server, "fail")
    ids = f"task {task['id'][-8:]} context {task['contextId'][-8:]}"
    for lines in (
        rf"^\d\d:\d\d:\d\d  SendMessage 200 \d+ ms  {ids}$",
        rf"^\d\d:\d\d:\d\d  turn failed \d+ ms  agent mine {ids}$",
        r"\n  ValueError: the model is out  \(in the node 'answer'\)\n",
        r"\n  … \d+ frames of .*langgraph.*\n  File \".*/agent.py\", line 27, in answer\n",
    ):
        until(partial(prints, server, lines), server)
    assert not printed(server, "\033["), "no colour where it is not a terminal"


def test_ctrl_c_during_a_stream_ends_it_cleanly(server: ServerProcess, project: Path) -> None:
    stream = StreamingEdit(server, "wait")
    until(lambda: "wait" in notes(project), server)
    assert (project / ".aion" / "dev.json").is_file()
    assert server.stop() == 0
    stream.join()
    assert stream.error is None
    assert has_ended(server.process.pid)
    assert not (project / ".aion" / "dev.json").exists()
    told = "".join(server.printed)
    assert "Traceback" not in told
    assert "ERROR" not in told


@pytest.mark.deep
def test_worker_processes_end_with_killed_supervisor(server: ServerProcess) -> None:
    worker = worker_of(server)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert has_ended(server.process.pid)
    assert ended(worker)


def test_stopped_turn_resumes_after_restart_until_reset(project: Path) -> None:
    """Stop the server during a turn: the next server has all tasks and resumes the turn; `--fresh` deletes them."""
    folder, command = {"AION_DATA_DIR": str(project / ".aion")}, dev(project)
    with serving(command, **folder) as server:
        whole = ask(server)
        cut = StreamingEdit(server, "wait")
        until(lambda: notes(project).count("wait") >= 2, server)
        server.stop()
        cut.join()
    assert (project / ".aion" / ".gitignore").read_text() == "*\n"
    (project / "seen" / "go").touch()
    with serving(command, **folder) as server:
        assert get(server, whole["id"])["result"] == whole
        until(partial(is_completed, server, cut), server)
        assert Counter(notes(project))["begin"] == 2, "no step that had ended runs again"
        server.stop()
    with serving([*command, "--fresh"], **folder) as server:
        assert "error" in get(server, whole["id"])


def is_completed(server: ServerProcess, stream: StreamingEdit) -> bool:
    return bool(get(server, stream.task_id)["result"]["status"]["state"] == "TASK_STATE_COMPLETED")


def test_dev_server_refuses_store_of_other_layout(project: Path) -> None:
    store = project / ".aion" / "store"
    for name in ("queues.db", "table.db"):
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir(parents=True)
        with contextlib.closing(sqlite3.connect(store / name)) as file:
            file.executescript("CREATE TABLE items (pk); PRAGMA user_version = 1")
        ran = refused(project, "--data-dir", str(store.parent))
        assert ran.returncode == 1
        assert f"The store {store} has layout 1, " in ran.stderr
        assert "delete this folder, or start with `aion dev --fresh`." in ran.stderr
        assert "Traceback" not in ran.stderr
    with serving([*dev(project), "--fresh"], AION_DATA_DIR=str(store.parent)) as server:
        assert text_of(ask(server))


def test_dev_server_error_names_broken_sqlite_file(project: Path) -> None:
    store = project / ".aion" / "store"
    for name in ("table.db", "queues.db"):
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir(parents=True)
        (store / name).write_bytes(b"not a database" * 100)
        ran = refused(project, "--data-dir", str(store.parent))
        assert ran.returncode == 1
        assert name in ran.stderr
        assert "--fresh" in ran.stderr
        assert "Traceback" not in ran.stderr


def is_watched(project: Path, stream: StreamingEdit) -> bool:
    """Return True if the queue has a wake-up message for the turn; the lease's first heartbeat enqueues it."""
    if not stream.frames:
        return False
    context = stream.frames[0]["task"]["contextId"]
    with contextlib.closing(sqlite3.connect(project / ".aion" / "store" / "queues.db", timeout=TIMEOUT)) as connection:
        return any(context in body for (body,) in connection.execute("SELECT body FROM messages").fetchall())


@pytest.mark.deep
def test_restarted_dev_server_resumes_turns_of_killed_one(project: Path) -> None:
    """Kill the server and its worker during four turns; the next server resumes the turns."""
    folder = {"AION_DATA_DIR": str(project / ".aion"), "AION_LEASE_SECONDS": "3"}
    with serving(dev(project), **folder) as server:
        whole = ask(server)
        streams = [StreamingEdit(server, "wait") for _ in range(4)]
        worker = worker_of(server)
        # Wait for six notes: two of the completed tasks, and four of the turns that now wait in their second step.
        until(lambda: notes(project).count("wait") >= 6, server)
        until(lambda: all(is_watched(project, stream) for stream in streams), server)
        os.kill(server.process.pid, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        server.process.wait()
        assert has_ended(server.process.pid)
    (project / "seen" / "go").touch()
    with serving(dev(project), **folder) as server:
        assert get(server, whole["id"])["result"] == whole
        until(lambda: all(is_completed(server, stream) for stream in streams), server)
        assert notes(project).count("begin") == 6, "no step that had ended runs again"


@pytest.mark.deep
def test_blocked_worker_is_killed_and_its_turn_runs_again(project: Path) -> None:
    block = '    if VERSION == "first":\n        import time\n        time.sleep(600)\n'
    edit(project, "    while", f"{block}    while")
    folder = {"AION_DATA_DIR": str(project / ".aion"), "AION_LEASE_SECONDS": "3"}
    with serving(dev(project), **folder) as server:
        stream = StreamingEdit(server, "hello")
        until(lambda: "wait" in notes(project), server)
        edit(project, '"first"\nHERE', '"second"\nHERE')
        until(lambda: reloads(server), server)
        assert printed(server, "Killed the agents' process: an agent blocks it.")
        stream.join()
        until(partial(is_completed, server, stream), server)
        assert Counter(notes(project))["wait"] == 2


@pytest.mark.deep
def test_code_that_ends_its_process_is_the_answer(server: ServerProcess, project: Path) -> None:
    write(project, "import os\nos._exit(3)\n")
    until(lambda: printed(server, "Reloaded with errors"), server)
    assert load_error(server) == "The agents' process has exited (exit code 3) while it loaded the agents."
    write(project, AGENT.replace("first", "second"))
    until(lambda: reloads(server), server)
    assert text_of(ask(server)).startswith("second ")


def test_dev_server_survives_deletion_of_project(project: Path) -> None:
    folder = project.parent / "state"
    with serving(dev(project), AION_DATA_DIR=str(folder)) as server:
        (project / "aion.yaml").unlink()
        (project / "agent.py").unlink()
        until(lambda: printed(server, "Reloaded with errors"), server)
        shutil.rmtree(project)
        assert "no agent" in load_error(server).lower()
        assert server.stop() == 0
        assert "Traceback" not in "".join(server.printed)


@pytest.mark.deep
def test_failed_agents_are_listed_first_and_heal(project: Path) -> None:
    (project / "broken.py").write_text("import no_such_module\n")
    (project / "aion.yaml").write_text("aion: {agents: {broken: {path: broken.py}, mine: {path: agent.py}}}")
    with serving(dev(project, "--store", "memory")) as server:
        told = "".join(server.printed)
        assert told.index("no_such_module") < told.index("mine is available at")
        assert "broken is not available: it could not be loaded (see above)." in told
        assert "aion.yaml: agents broken, mine." in told
        curl = f"curl -sN {server.url}/agents/mine/"
        assert curl in told, "the example asks an agent that answers"
        assert "no_such_module" in load_error(server), "the first agent is at the root"
        mine = dataclasses.replace(server, url=f"{server.url}/agents/mine")
        assert text_of(ask(mine)).startswith("first ")
        write(project, AGENT.replace("first", "healed"), "broken.py")
        until(lambda: reloads(server), server)
        assert text_of(ask(server)).startswith("healed ")


def has_completed(server: ServerProcess, task_id: str) -> bool:
    return bool(get(server, task_id)["result"]["status"]["state"] == "TASK_STATE_COMPLETED")


@pytest.mark.deep
def test_sixteen_queued_turns_run_concurrently(server: ServerProcess, project: Path) -> None:
    body = send("wait")
    body["params"]["configuration"] = {"returnImmediately": True}
    tasks = []
    for number in range(16):
        body["params"]["message"]["messageId"] = f"m-{number}"
        tasks.append(httpx.post(server.url, json=body, timeout=TIMEOUT).json()["result"]["task"]["id"])
    until(lambda: notes(project).count("wait") >= 16, server)
    (project / "seen" / "go").touch()
    for task in tasks:
        until(partial(has_completed, server, task), server)


@STORES
def test_operator_commands_find_development_server(project: Path, store: str) -> None:
    inner = project / "seen"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AION_", "AWS_"))}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return forked.run("aion_tools.cli", *command, cwd=inner, env=environ)

    with serving(dev(project, "--store", store), AION_DATA_DIR=str(project / ".aion")) as server:
        task = ask(server)
        listed = run("tasks", "list", "--scan")
        assert f"\n{task['id']}  completed  " in listed.stdout, listed
        assert listed.stderr == f"Using the development server at {server.url}\n"
        assert run("push", "list").returncode == 0
        assert "No dead letters." in run("dlq", "list").stderr
        waiting = StreamingEdit(server, "wait")
        until(lambda: waiting.task_id, server)
        assert run("tasks", "cancel", waiting.task_id, "--yes").returncode == 0
        waiting.join()
        assert waiting.frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        server.stop()
    stopped = run("tasks", "list")
    if store == "dynamodb":
        assert "Which deployment?" in run("tasks", "list", "--scan").stderr
        return
    assert task["id"] in stopped.stdout
    assert f"Using {project / '.aion' / 'store'}, the store of `aion dev` (not running)\n" == stopped.stderr
    assert run("tasks", "show", task["id"]).returncode == 0
    made = run("key", "create", "alice")
    assert made.returncode == 0
    assert "alice" in run("key", "list").stdout


@pytest.mark.deep
def test_agent_file_is_served_beside_its_data_folder(project: Path) -> None:
    """Write the data into the project: what the server writes there causes no reload."""
    (project / "aion.yaml").unlink()
    with serving(aion_dev(f"{project / 'agent.py'}:graph"), AION_DATA_DIR=str(project / "data")) as server:
        assert printed(server, "agent.py:graph")
        assert text_of(ask(server)).startswith("first ")
        edit(project, '"first"', '"second"')
        until(lambda: printed(server, "agent.py ("), server)
        assert text_of(ask(server)).startswith("second ")
        assert server.stop() == 0
        assert not printed(server, "dev.json")


@pytest.mark.deep
@STORES
async def test_many_concurrent_sends_are_all_answered(store: str) -> None:
    with serving(aion_dev("--store", store)) as server:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=230, limits=limits) as http:
            answers = await asyncio.gather(
                *(http.post(server.url, json=send("hi", message_id=f"m-{n}")) for n in range(100))
            )
        states = Counter(answer.json()["result"]["task"]["status"]["state"] for answer in answers)
        assert states == {"TASK_STATE_COMPLETED": 100}
        told = "".join(server.printed)
        assert "ERROR" not in told
        assert "lease could not be" not in told


def worker_of(server: ServerProcess) -> int:
    return int(text_of(ask(server)).split()[-1])


def listens(server: ServerProcess) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", urlsplit(server.url).port)) == 0


def ended(process: int) -> bool:
    """Wait for the end of the process; return False if it still runs after TIMEOUT seconds."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.deep
def test_streams_complete_despite_several_edits(server: ServerProcess, project: Path) -> None:
    """Edit the agent three times during 20 streams: each worker hands its turns off to the next one."""
    streams = [StreamingEdit(server, "wait") for _ in range(20)]
    until(lambda: all(stream.task_id for stream in streams), server)
    for _ in range(3):
        before = reloads(server)
        edit(project, 'VERSION = "', 'VERSION = "x')
        until(lambda: reloads(server) > before, server)  # noqa: B023  # called in this round only
    (project / "seen" / "go").touch()
    for stream in streams:
        stream.join()
    assert [stream.error for stream in streams if stream.error] == [], "streams end, and are not cut"

    def state(stream: StreamingEdit) -> Any:
        return get(server, stream.task_id)["result"]["status"]["state"]

    until(lambda: {state(stream) for stream in streams} == {"TASK_STATE_COMPLETED"}, server)
    assert " cut" not in "".join(server.printed)


@pytest.mark.deep
def test_forked_children_end_with_their_worker(server: ServerProcess, project: Path) -> None:
    pool = (
        "import multiprocessing, time\nfrom pathlib import Path\n"
        "def idle(place):\n    Path(place).write_text(str(os.getpid()))\n    time.sleep(600)\n"
        "child = multiprocessing.get_context('fork').Process(target=idle, args=[str(HERE / 'child')])\nchild.start()\n"
    )
    child = project / "seen" / "child"
    edit(project, AGENT, AGENT + pool)
    until(lambda: child.exists() and child.read_text(), server)
    first = int(child.read_text())
    until(lambda: reloads(server), server)
    child.unlink()
    edit(project, '"first"', '"second"')
    until(lambda: child.exists() and child.read_text(), server)
    assert ended(first)
    until(lambda: reloads(server) >= 2, server)
    descriptors = {os.readlink(each) for each in Path(f"/proc/{child.read_text()}/fd").iterdir() if each.is_symlink()}
    listener = f"socket:[{inode_of(urlsplit(server.url).port or 0)}]"
    assert listener not in descriptors, "a child must not hold the port"
    assert server.stop() == 0
    assert ended(int(child.read_text()))
    assert not listens(server)


def inode_of(port: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
            return fields[9]
    raise AssertionError(f"nothing listens on {port}")


@pytest.mark.deep
def test_removed_data_folder_is_created_again(server: ServerProcess, project: Path) -> None:
    """The agent of the edit handles SIGINT itself: the server ends quietly all the same."""
    # Rename instead of deleting: the server may write into the folder during a deletion.
    (project / ".aion").rename(project.parent / "removed")
    handler = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    edit(project, 'VERSION = "first"', f'{handler}\nVERSION = "second"')
    until(lambda: reloads(server), server)
    assert text_of(ask(server)).startswith("second ")
    assert (project / ".aion" / "dev.json").is_file()
    assert server.stop() == 0
    told = "".join(server.printed)
    assert "Traceback" not in told
    assert "CRITICAL" not in told


@pytest.mark.deep
def test_dev_server_under_nohup_ignores_sighup(project: Path, tmp_path: Path) -> None:
    command = ["nohup", *dev(project)]
    with serving(command, AION_DATA_DIR=str(tmp_path / "state")) as server:
        os.kill(server.process.pid, signal.SIGHUP)
        assert text_of(ask(server)).startswith("first ")
        edit(project, '"first"', '"second"')
        until(lambda: reloads(server) >= 1, server)
        assert text_of(ask(server)).startswith("second ")
        assert server.stop() == 0
