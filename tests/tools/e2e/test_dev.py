"""Server of `make dev`, called by the official client and by curl."""

import json
import os
import re
import socket
import subprocess
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from a2a.client import Client
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    TaskState,
)

from tests.support.e2e import forked
from tests.support.e2e.clients import official_client
from tests.support.server import TIMEOUT, ServerProcess, aion_dev, make_dev, serving

VERSIONS = ["1.0", pytest.param("0.3", marks=pytest.mark.deep)]
"""`make test` covers v0.3 by the clients of v0.3 in test_old_client.py and test_js_client.py."""

LONG = "The quick brown fox jumps over the lazy dog. " * 600
ODD = "emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600, right to left \u202e\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627\u202c, lines \u2028\u2029\u0085 and NUL \0 end"


def message(*parts: Part, context_id: str = "", message_id: str = "") -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=message_id or str(uuid.uuid4()), role=Role.ROLE_USER, context_id=context_id, parts=parts
        )
    )


async def answers_of(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [response async for response in client.send_message(request)]


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Hello, who is there?", id="short", marks=pytest.mark.deep),
        pytest.param(LONG, id="27 KB", marks=pytest.mark.deep),
        pytest.param(ODD, id="odd characters"),
    ],
)
async def test_official_client_streams_answer(server: ServerProcess, version: str, text: str) -> None:
    """Stream the task, the status "working", artifact chunks, and the final status (A2A 3.1.2)."""
    async with official_client(server.url, version=version) as client:
        responses = await answers_of(client, message(Part(text=text)))

    kinds = [response.WhichOneof("payload") for response in responses]
    assert kinds[0] == "task"
    assert responses[0].task.status.state == TaskState.TASK_STATE_SUBMITTED
    assert text_of(responses[0].task.history[0]) == text
    assert kinds[1] == "status_update"
    assert responses[1].status_update.status.state == TaskState.TASK_STATE_WORKING
    assert set(kinds[2:-1]) == {"artifact_update"}
    assert kinds[-1] == "status_update"

    chunks = [response.artifact_update for response in responses[2:-1]]
    assert {(chunk.artifact.artifact_id, chunk.artifact.name) for chunk in chunks} == {
        ("aion:stream-delta", "Stream Delta")
    }
    assert [chunk.append for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.last_chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join(chunk.artifact.parts[0].text for chunk in chunks) == text
    assert len(chunks) > 3, "it streams word by word"

    last = responses[-1].status_update.status
    assert last.state == TaskState.TASK_STATE_COMPLETED
    assert text_of(last.message) == text
    assert last.message.role == Role.ROLE_AGENT


def test_make_dev_serves_trip_planner_first() -> None:
    part = {"text": "A weekend in Lisbon in May for two"}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    with serving(make_dev(), TRIP_SECONDS_PER_WORD="0") as server:
        task = httpx.post(server.url, json=body, timeout=TIMEOUT).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "### Lisbon" in task["status"]["message"]["parts"][0]["text"]


def test_printed_curl_command_gets_answer(server: ServerProcess) -> None:
    printed = "".join(server.printed)
    curl = printed[printed.index("  curl") : printed.index("Press Ctrl-C")]
    answered = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, check=True).stdout
    frames = [json.loads(line.removeprefix("data: ")) for line in answered.splitlines() if line.startswith("data: ")]
    parts = frames[-1]["result"]["statusUpdate"]["status"]["message"]["parts"]
    assert parts == [{"text": "Hello, who is there?"}]


@pytest.mark.deep
def test_ctrl_c_leaves_no_dev_server_process() -> None:
    with serving(aion_dev("--store", "dynamodb")) as server:
        address = urlsplit(server.url)
        endpoint = re.search(r"emulated AWS at (http://127\.0\.0\.1:\d+)", "".join(server.printed))
        assert endpoint is not None
        server.stop()
        assert has_ended(server.process.pid)
        for place in (address, urlsplit(endpoint[1])):
            with socket.socket() as attempt:
                assert attempt.connect_ex((str(place.hostname), int(place.port or 0))) != 0


def has_ended(group: int) -> bool:
    """Wait for the end of all processes of the group; return False if some still run after TIMEOUT seconds."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_dev_server_listens_on_loopback_only(server: ServerProcess) -> None:
    port = urlsplit(server.url).port
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    assert [entry for entry in listening if entry.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_dev_server_names_project_module_that_hides_installed_package(tmp_path: Path) -> None:
    """Start in a folder whose modules have names of the server's modules: the error is the agent's, not the server's."""
    files = {"a2a/__init__.py": "mine = 1", "queue.py": "mine = 1", "agent.py": "from a2a import mine"}
    for name, code in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    (tmp_path / "aion.yaml").write_text("aion: {agents: {a: {path: 'agent.py:graph'}}}")
    ran = forked.run("aion_tools.cli", "dev", "--port", "0", "--no-reload", env=os.environ, cwd=tmp_path)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "agent.py, line 1" in ran.stderr
    assert "Rename a2a: an installed package has a module 'a2a' of its own" in ran.stderr


def test_dev_server_reports_invalid_aion_yaml(tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text("aion: {agents: {a: {path: x.py, descripton: hi}}}")
    config = str(tmp_path / "aion.yaml")
    ran = forked.run("aion_tools.cli", "dev", "--port", "0", "--config", config, env=os.environ)
    assert ran.returncode == 1
    assert "Did you mean 'description'?" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_open_option_opens_browser_at_server_url(tmp_path: Path) -> None:
    """Run a browser of our own in place of the desktop's."""
    browser, opened = tmp_path / "xdg-open", tmp_path / "opened"
    browser.write_text(f"#!/bin/sh\necho $1 > {opened}.new && mv {opened}.new {opened}\n")
    browser.chmod(0o755)
    with serving(aion_dev("--store", "memory", "--open"), PATH=f"{tmp_path}:{os.environ['PATH']}") as server:
        end = time.monotonic() + TIMEOUT
        while not opened.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert opened.read_text() == f"{server.url}\n"


VARIABLES = """
import os
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

FOUND = " ".join(os.environ.get(name, "none") for name in ("BY_YAML", "BY_DOTENV", "BY_SHELL", "UNSET_KEY", "AWS_PROFILE"))
graph = StateGraph(MessagesState).add_node("a", lambda state: {"messages": [AIMessage(FOUND)]}).add_edge(START, "a")
"""


@pytest.mark.parametrize("store", ["sqlite", pytest.param("dynamodb", marks=pytest.mark.deep)])
def test_dev_server_sets_variables_and_reports_unset_secrets(tmp_path: Path, store: str) -> None:
    (tmp_path / "agent.py").write_text(VARIABLES)
    (tmp_path / "aion.yaml").write_text(
        "aion:\n"
        "  environment: {BY_YAML: yaml, BY_DOTENV: yaml, BY_SHELL: yaml}\n"
        "  secrets: {UNSET_KEY: openai-key}\n"
        "  agents: {a: {path: agent.py}}\n"
    )
    (tmp_path / ".env").write_text("BY_DOTENV=dotenv\nBY_SHELL=dotenv\n")
    command = aion_dev("--store", store, "--config", str(tmp_path / "aion.yaml"))
    with serving(command, BY_SHELL="shell", AWS_PROFILE="of-the-developer") as server:
        told = [
            line for line in server.printed if line.startswith("Warning: UNSET_KEY is not set: its secret (openai-key)")
        ]
        assert len(told) == 1, server.printed
        call = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": call}}
        answer = httpx.post(server.url + "/", json=body, timeout=TIMEOUT).json()
        parts = answer["result"]["task"]["status"]["message"]["parts"]
        # Expect the developer's own AWS profile, which models of Bedrock need, unless `aion dev` emulates AWS.
        profile = "of-the-developer" if store == "sqlite" else "none"
        assert parts[0]["text"] == f"yaml dotenv shell none {profile}"
