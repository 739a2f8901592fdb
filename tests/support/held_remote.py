"""Remote agent on a real socket whose tasks end when a test says so."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.runtime.unit.delegation.remote_servers import sdk_app
from tests.support.agents.remote import NOTES
from tests.support.listening import free_port, listening
from tests.support.server import TIMEOUT

UNCOUNTED = "x-uncounted"
"""Header of the requests that the tests themselves make."""


class Remote:
    """Remote agent whose tasks end when the test says so."""

    def __init__(self, url: str, folder: Path, requests: Counter[str]) -> None:
        self.url, self._folder, self.requests = url, folder, requests

    def hold(self, name: str) -> str:
        """Return the message for a task that ends after `end` with this name."""
        return f"hold {self._folder / name}"

    def end(self, name: str) -> None:
        """Let the task end, or ask. If it has begun, wait until its server says so: its time is not the conversation's."""
        end = self._folder / name
        has_begun = any(text.split()[0] == name for text in self.heard())
        before, runs = self._at_rest(), has_begun and not end.exists()
        end.touch()
        while runs and self._at_rest() == before:
            time.sleep(0.01)

    @contextmanager
    def of_test(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Remote"]:
        """Yield the same server's agent for one test: its tasks are in the folder, and its requests are counted anew.

        After the test all of its tasks end.
        """
        monkeypatch.setenv(NOTES, str(folder / "notes"))
        self.requests.clear()
        made = Remote(self.url, folder, self.requests)
        yield made
        for text in made.heard():
            (folder / text.split()[0]).touch()

    def _at_rest(self) -> int:
        """Return the number of tasks of this folder that have ended or ask. The request is not counted."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
        answer = httpx.post(self.url, json=body, headers={"A2A-Version": "1.0", UNCOUNTED: "1"}, timeout=TIMEOUT)
        noted = {line.split()[0] for line in self._notes()}
        states = [task["status"]["state"] for task in answer.json()["result"].get("tasks", ()) if task["id"] in noted]
        return len(states) - states.count("TASK_STATE_WORKING") - states.count("TASK_STATE_SUBMITTED")

    def heard(self) -> list[str]:
        """Return the names of the tasks that have begun, in order."""
        return [line.rpartition("/")[2] for line in self._notes()]

    def _notes(self) -> list[str]:
        notes = self._folder / "notes"
        return notes.read_text().splitlines() if notes.exists() else []

    def canceled(self) -> set[str]:
        return {path.stem for path in self._folder.glob("*.canceled")}


class Counted:
    """ASGI app that counts the requests by method, and of JSON-RPC by its method."""

    def __init__(self, app: Any, requests: Counter[str]) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and UNCOUNTED.encode() not in dict(scope["headers"]):
            self._requests[scope["path"]] += 1
        await self._app(scope, receive, send)


@contextmanager
def held_remote(folder: Path, *, streaming: bool = True) -> Iterator[Remote]:
    """Serve the agent. Its process notes its tasks in the folder, if NOTES names `notes` there."""
    port, requests = free_port(), Counter[str]()
    url = f"http://127.0.0.1:{port}"
    with listening(Counted(sdk_app(url, streaming=streaming), requests), port=port):
        yield Remote(url, folder, requests)
