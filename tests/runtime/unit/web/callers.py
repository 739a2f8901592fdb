"""A server whose agent calls a remote agent that reports the ends of its tasks, both on real sockets."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from aion_core.auth.schemes.api_key import make_key
from aion_core.bootstrap import build_app
from aion_core.bootstrap.turns import TurnServices
from aion_core.clock import SystemClock
from aion_core.settings import Settings
from aion_core.web.additions import AppAdditions
from aion_tools.testing import ENVIRONMENT
from tests.support.listening import free_port, listening
from tests.support.server import ROOT, TIMEOUT

AGENTS = ROOT / "tests" / "support" / "agents"
AGENT = f"{AGENTS / 'delegating.py'}:node"
MINE = "test"
"""User-Agent of the test's own requests to the path of the callbacks."""
SECURITY = "  security:\n    schemes: {key: {type: api-key}}\n    require: [{key: []}]\n"


@dataclass
class Caller:
    """The calling server."""

    url: str
    folder: Path
    turns: TurnServices
    posts: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    """Status and headers of the requests to the path of the callbacks, in order."""
    key: str = ""
    """API key of the client; "" if the server needs none."""

    def rpc(self, method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"A2A-Version": "1.0", **({"X-API-Key": self.key} if self.key else {})}
        answer = httpx.post(self.url, json=body, headers=headers, timeout=TIMEOUT).json()
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def send(self, text: str, message_id: str = "m") -> str:
        """Send a message without waiting for its answer. Return the task's id."""
        message = {"messageId": message_id, "contextId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
        sent = self.rpc("SendMessage", message=message, configuration={"returnImmediately": True})
        return str(sent["task"]["id"])

    def task(self, task_id: str) -> dict[str, Any]:
        return self.rpc("GetTask", id=task_id)

    def hold(self, name: str) -> str:
        """Return the text for a remote task that ends after `end` with this name."""
        return f"hold {self.folder / name}"

    def end(self, name: str) -> None:
        (self.folder / name).touch()

    def waits(self, task_id: str) -> dict[str, Any]:
        """Return the task when its turn is suspended."""
        return self._until(task_id, lambda task: said(task).startswith("Waiting for"))

    def ends(self, task_id: str) -> dict[str, Any]:
        """Return the task when it has ended."""
        return self._until(task_id, lambda task: task["status"]["state"] == "TASK_STATE_COMPLETED")

    def _until(self, task_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        wait_until(lambda: condition(self.task(task_id)))
        return self.task(task_id)

    def token_of_remote(self) -> str:
        """Return the token that the remote agent has last sent. It reports soon that its task works."""
        wait_until(lambda: any(head["user-agent"] != MINE for _, head in self.posts))
        return [head["x-a2a-notification-token"] for _, head in self.posts if head["user-agent"] != MINE][-1]

    def post(self, token: str | bytes, body: Any = None, **headers: str) -> httpx.Response:
        """Post a notification with this token."""
        raw = token if isinstance(token, bytes) else token.encode()
        own = {b"X-A2A-Notification-Token": raw, b"User-Agent": MINE.encode()}
        whole = [*own.items(), *((name.encode(), value.encode()) for name, value in headers.items())]
        return httpx.post(f"{self.url}/callbacks", json=body, headers=whole, timeout=TIMEOUT)

    def begins_to_post(self, token: str, length: int, body: bytes = b"") -> bytes:
        """Begin a post whose body never comes whole, and return the beginning of the answer."""
        place = urlsplit(self.url)
        head = f"POST /callbacks HTTP/1.1\r\nHost: {place.netloc}\r\nX-A2A-Notification-Token: {token}\r\n"
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=TIMEOUT) as connection:
            connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
            return connection.recv(1000)

    def next_look(self, task_id: str) -> int:
        """Return the time of the next look at the task's suspended turn, in milliseconds."""
        [look] = [item["until"] for item in self._items() if item.get("running", {}).get("task_id") == task_id]
        return int(look)

    def stored(self) -> str:
        """Return everything that the table holds."""
        return repr(self._items())

    def _items(self) -> list[Any]:
        table: Any = self.turns.stores.resources.table
        return list(table._items.values())


def now() -> int:
    """Return the time in milliseconds."""
    return int(time.time() * 1000)


def wait_until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def said(task: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in task["status"].get("message", {}).get("parts", ()))


@contextmanager
def caller(
    folder: Path, remote: str, callback: str = "on", *, agent: str = AGENT, with_keys: bool = False, **environ: str
) -> Iterator[Caller]:
    """Serve an agent that calls the remote agent at this URL. `with_keys` the server requires API keys."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    config = folder / "aion.yaml"
    config.write_text(
        f"aion:\n{SECURITY if with_keys else ''}  remotes:\n    remote: {{url: {remote}, callback: {callback}}}\n"
        f"  agents:\n    node: {{path: '{agent}'}}\n"
    )
    made: list[TurnServices] = []

    def additions(settings: Settings, turns: TurnServices) -> AppAdditions:
        made.append(turns)
        return AppAdditions()

    settings = Settings.from_environ(
        {**ENVIRONMENT, "AION_CONFIG": str(config), "AION_BASE_URL": url, "AION_AUTH": "on", **environ}
    )
    app = build_app(settings, additions)
    served = Caller(url, folder, made[0])
    if with_keys:
        key = make_key("ann@example.com", now=SystemClock().now())
        asyncio.run(served.turns.stores.api_keys().add(key.record))
        served.key = key.text

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
                served.posts.append((message["status"], headers))
            await send(message)

        is_callback = scope["type"] == "http" and scope["path"] == "/callbacks"
        await app(scope, receive, noted if is_callback else send)

    with ExitStack() as running:
        running.enter_context(listening(noting, port=port))
        yield served
