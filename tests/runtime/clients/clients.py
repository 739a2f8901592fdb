"""Columns of the matrix: the clients, each in an environment of its own, and how they are run."""

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx

from tests.runtime.clients.cells import ENDED, Cell
from tests.support.environments import go_program, node_with, python_with
from tests.support.server import ROOT

FOLDER = Path(__file__).parent
DRIVERS = FOLDER / "drivers"
TIMEOUT = 600
"""Seconds for all cells of a client; they pass only on a failure."""

_ID = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Client:
    """Client of the matrix, and the command of its driver."""

    name: str
    command: Callable[[], list[str]]
    lacks: Collection[str] = ()
    """Calls of the cells that the client does not have."""
    deep: bool = True
    """True if only `make test-deep` runs it."""


def _python(driver: str, *arguments: str, requirements: Path) -> Callable[[], list[str]]:
    """Return the command of a driver in an environment with these requirements."""
    return lambda: [str(python_with(requirements)), str(DRIVERS / driver), *arguments]


def _here(driver: str) -> Callable[[], list[str]]:
    """Return the command of a driver in the environment in which the tests run."""
    return lambda: [sys.executable, str(DRIVERS / driver)]


def _node(folder: str, driver: str) -> Callable[[], list[str]]:
    """Return the command of a driver beside the packages of this folder of `tests/support`."""

    def command() -> list[str]:
        place = node_with(ROOT / "tests" / "support" / folder, DRIVERS / "play.mjs", DRIVERS / driver)
        return ["node", str(place / driver)]

    return command


def _go(*arguments: str) -> Callable[[], list[str]]:
    return lambda: [str(go_program(DRIVERS / "with_go_rules", PINS / "go.txt")), *arguments]


SDK_03, SDK_1, FRAMEWORK = "with_a2a_sdk_0_3.py", "with_a2a_sdk_1.py", "with_agent_framework.py"
PINS = FOLDER / "requirements"
NO_TASK = ("send_to", "stream_to")
"""Calls that a client lacks which cannot name the task of a message."""

CLIENTS = [
    Client("a2a-sdk 0.3.0", _python(SDK_03, requirements=PINS / "a2a-sdk-0.3.0.txt")),
    Client("a2a-sdk 0.3.10", _python(SDK_03, requirements=PINS / "a2a-sdk-0.3.10.txt")),
    Client("a2a-sdk 0.3.22", _python(SDK_03, requirements=PINS / "a2a-sdk-0.3.22.txt")),
    Client("a2a-sdk 0.3.26", _python(SDK_03, requirements=ROOT / "tests/support/a2a-sdk-0.3.txt"), deep=False),
    Client("a2a-sdk 1.0.0", _python(SDK_1, requirements=PINS / "a2a-sdk-1.0.0.txt")),
    Client("a2a-sdk 1.3", _here(SDK_1), deep=False),
    Client("@a2a-js/sdk 0.3.14", _node("js03", "with_js_sdk_0_3.mjs"), deep=False),
    Client("@a2a-js/sdk 1.3", _node("js", "with_js_sdk_1.mjs"), deep=False),
    Client("a2a-go's rules, JSON-RPC", _go("JSONRPC")),
    Client("a2a-go's rules, HTTP+JSON", _go("HTTP+JSON")),
    Client("a2a-dotnet's rules, JSON-RPC", _go("JSONRPC", "anonymous")),
    Client("agent-framework", _python(FRAMEWORK, requirements=PINS / "agent-framework.txt"), lacks=NO_TASK),
    Client(
        "agent-framework by URL", _python(FRAMEWORK, "url", requirements=PINS / "agent-framework.txt"), lacks=NO_TASK
    ),
    Client("crewai", _python("with_crewai.py", requirements=PINS / "crewai.txt"), lacks=("get",)),
    Client("agno", _python("with_agno.py", requirements=PINS / "agno.txt"), lacks=(*NO_TASK, "get")),
    Client("strands", _python("with_strands.py", requirements=PINS / "strands.txt"), lacks=(*NO_TASK, "get")),
    Client("google-adk", _here("with_adk.py"), lacks=(*NO_TASK, "get")),
    Client("fasta2a", _python("with_fasta2a.py", requirements=PINS / "fasta2a.txt")),
]


def texts_of(client: Client, url: str, cells: Sequence[Cell]) -> dict[str, str | None]:
    """Return what the client's user sees in each cell: None where the client has no such call."""
    ended = _ended_task(url)
    asked = [
        {
            "name": cell.name,
            "agent": cell.agent,
            "call": cell.call,
            "arguments": [[ended if word == ENDED else word for word in words] for words in cell.arguments],
            "slow": cell.slow,
        }
        for cell in cells
    ]
    with TemporaryDirectory() as folder:
        into = Path(folder) / "texts.json"
        given = json.dumps({"url": url, "cells": asked, "into": str(into)})
        ran = subprocess.run(client.command(), input=given, capture_output=True, text=True, timeout=TIMEOUT)
        assert ran.returncode == 0, f"{client.name}:\n{ran.stdout}\n{ran.stderr}"
        texts: Mapping[str, str | None] = json.loads(into.read_text(encoding="utf-8"))
    return {name: text if text is None else _plain(text, url) for name, text in texts.items()}


def _ended_task(url: str) -> str:
    """Return the id of a completed task of the agent `whole`."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    headers = {"A2A-Version": "1.0"}
    answered = httpx.post(f"{url}/agents/whole/message:send", json={"message": message}, headers=headers, timeout=60)
    return str(answered.json()["task"]["id"])


def _plain(text: str, url: str) -> str:
    """Return the text without what differs from run to run."""
    return _ID.sub("<id>", text).replace(urlsplit(url).netloc, "<host>").strip()
