"""Commands against a hostile server: each ends by itself with a sentence, in little memory, and leaks no credentials."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile import HostileServer, hostile_server
from tests.support.server import ROOT

MOST_MEGABYTES = 200
TIMEOUT = 300
"""Longest run of a command in seconds; it expires only on a failure."""
SETTINGS = {"aion_tools.cli.chat.session.RECONNECT_SECONDS": 0, "aion_tools.cli.chat.session.RECONNECTS": 3}
SHORT = {
    "aion_core.agent_client.documents.DOCUMENT_SECONDS": 2.0,
    "aion_core.agent_client.bounded.PIECE_SECONDS": 2.0,
}
"""Limits of time for the cases that never end by another limit."""
UNSAFE = {"\x1b", "\x07", "\x9b", "\u202e", "\u2066"}


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as server:
        yield server


ANSWER = "The agent's answer can't be used."
SEND = {
    "endless-card": "It is larger than 1 MB.",
    "dripping-card": "It takes longer than 2 s.",
    "dripping-headers": "It takes longer than 2 s.",
    "endless-headers": "doesn't answer",
    "endless-continue": "It takes longer than 2 s.",
    "many-skills": "It is larger than 1 MB.",
    "full-card": "",
    "deep-card": "Its JSON has more than 64 levels.",
    "many-values": "Its JSON has more than 10000 values.",
    "packed-card": "It is compressed",
    "list-card": "There is no agent at",
    "number-card": "There is no agent at",
    "wrong-types": "There is no agent at",
    "no-utf8-card": "It is not UTF-8.",
    "surrogate-card": "There is no agent at",
    "moved-card": "answers with 302",
    "circle-card": "answers with 302",
    "ftp-card": "has no interface for JSON-RPC",
    "odd-url-card": "has no interface for JSON-RPC",
    "odd-port-card": "has no interface for JSON-RPC",
    "controls-card": "has no interface for JSON-RPC",
    "endless-line": f"{ANSWER} It is larger than 16 MB.",
    "endless-event": f"{ANSWER} It is larger than 16 MB.",
    "endless-comment": f"{ANSWER} It is larger than 16 MB.",
    "dripping-line": f"{ANSWER} An event of it takes longer than 2 s.",
    "deep-event": f"{ANSWER} Its JSON has more than 64 levels.",
    "deep-for-protobuf": f"{ANSWER} It is no valid A2A",
    "many-values-event": f"{ANSWER} Its JSON has more than 100000 values.",
    "full-file": "",
    "full-wide-text": "",
    "full-files": "",
    "full-parts": "",
    "full-data": "",
    "full-text": "",
    "full-event": "",
    "full-wide-event": "",
    "long-text": f"{ANSWER} Its JSON has more than 4 MB beside its files.",
    "endless-files": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-small-parts": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-text": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-messages": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-artifacts": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-tasks": f"{ANSWER} It is larger than 32 MB in all.",
    "task-of-another": f"{ANSWER} It is about another task.",
    "status-of-another": f"{ANSWER} It is about another task.",
    "task-without-id": f"{ANSWER} Its task has no id.",
    "endless-chunks-of-text": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-statuses": f"{ANSWER} It is larger than 32 MB in all.",
    "endless-nothing": f"{ANSWER} It has more than 10000 responses without content.",
    "endless-heartbeats": f"{ANSWER} It has more than 1 MB of heartbeats.",
    "endless-chunks": f"{ANSWER} It takes longer than 2 s.",
    "endless-body": f"{ANSWER} It is larger than 16 MB.",
    "endless-error": f"{ANSWER} It is larger than 16 MB.",
    "packed-events": f"{ANSWER} It is compressed",
    "wrong-result": f"{ANSWER} It is no valid A2A",
    "list-result": f"{ANSWER} It is no valid A2A",
    "list-event": f"{ANSWER} It has neither a task nor a message.",
    "error-of-text": "The message is refused",
    "no-json": "The message is refused",
    "no-utf8": f"{ANSWER} It is not UTF-8.",
    "moved": "307",
    "wait": "Try again later.",
    "controls-error": "The message is refused",
    "controls": "is input-required",
}
"""Sentence of `aion send` about each agent."""
IN_TEST = {"endless-line", "controls", "other-port"}
"""The cases of `make test`."""


def run(folder: Path, *arguments: str, text: str = "", **environ: str) -> tuple[int, str]:
    """Run `aion` in a process of its own. Return its exit code and output, after the checks for every case."""
    peak = folder / "peak"
    is_slow = any(each in " ".join(arguments) for each in ("/dripping-", "/endless-continue", "/endless-chunks"))
    settings = json.dumps(SETTINGS | (SHORT if is_slow else {}))
    command = [sys.executable, "-m", "tests.support.measured", str(peak), settings, "aion_tools.cli"]
    begun = time.monotonic()
    done = subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", **environ},
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    output = done.stdout + done.stderr
    figures = f"{time.monotonic() - begun:.1f} s, {float(peak.read_text()):.0f} MB"
    print(f"{arguments}: {figures}, {output[-500:]}")  # pytest -rP shows the figures
    assert "Traceback" not in output
    assert not UNSAFE & set(done.stderr)
    assert float(peak.read_text()) <= MOST_MEGABYTES
    return done.returncode, output


def cases(*names: str) -> list[object]:
    """Return the parameters: those outside of IN_TEST are deep."""
    return [pytest.param(each, marks=() if each in IN_TEST else pytest.mark.deep) for each in names]


@pytest.mark.parametrize("agent", cases(*SEND))
def test_send_survives_hostile_agent(server: HostileServer, agent: str, tmp_path: Path) -> None:
    code, output = run(tmp_path, "send", "hi", "--url", f"{server.url}/{agent}", "--save", str(tmp_path / "out"))
    assert SEND[agent] in output
    assert (code == 0) == agent.startswith("full-")


@pytest.mark.deep
@pytest.mark.parametrize("agent", ["endless-card", "deep-event", "endless-line", "endless-files", "controls", "wait"])
def test_chat_survives_hostile_agent(server: HostileServer, agent: str, tmp_path: Path) -> None:
    _, output = run(tmp_path, "chat", f"{server.url}/{agent}", text=f"hi\n/save {tmp_path / 'out'}\n/quit\n")
    assert SEND[agent] in output


@pytest.mark.deep
@pytest.mark.parametrize(
    "agent",
    [
        *("endless-card", "dripping-card", "dripping-headers", "endless-continue", "deep-card", "many-values"),
        *("packed-card", "list-card", "number-card", "wrong-types", "no-utf8-card", "surrogate-card", "circle-card"),
        *("controls-card", "endless-line", "endless-body", "list-result", "controls"),
    ],
)
@pytest.mark.parametrize("command", [("doctor", "URL"), ("card", "verify", "URL", "--jwks", "URL/x/jwks.json")])
def test_doctor_and_verify_survive_hostile_agent(
    server: HostileServer, command: tuple[str, ...], agent: str, tmp_path: Path
) -> None:
    arguments = [each.replace("URL", f"{server.url}/{agent}") for each in command]
    code, output = run(tmp_path, *arguments)
    assert code == 1
    assert server.url in output or "FAILED" in output


@pytest.mark.parametrize(
    "credentials",
    [
        {"API_KEY": "secret-1"},
        pytest.param({"TOKEN": "secret-1"}, marks=pytest.mark.deep),
        pytest.param({"BASIC": "me:secret-1"}, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("agent", cases("other-port", "moved", "moved-card"))
def test_credentials_never_reach_other_port(
    server: HostileServer, agent: str, credentials: dict[str, str], tmp_path: Path
) -> None:
    code, _ = run(tmp_path, "send", "hi", "--url", f"{server.url}/{agent}", **credentials)
    assert code == 1
    assert server.elsewhere == []


@pytest.mark.deep
def test_odd_header_of_card_fails_at_once(server: HostileServer, tmp_path: Path) -> None:
    code, output = run(tmp_path, "send", "hi", "--url", f"{server.url}/odd-header", API_KEY="secret-1")
    assert (code, "is not a header name" in output) == (2, True)
    assert not [mode for mode, _ in server.seen if mode == "odd-header"]
