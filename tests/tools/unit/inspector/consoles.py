"""The console's app for a server, on a real socket, and requests to it as its page makes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from a2a.types import AgentCard

from aion_core.agent_client.documents import http_client
from aion_core.agent_client.limits import OF_COMMANDS
from aion_tools.inspector.remote import RemoteAgent
from aion_tools.inspector.server import build_inspector
from tests.support.listening import free_port, listening


class Console:
    """Client of a console, in place of its page."""

    def __init__(self, url: str, http: httpx.Client) -> None:
        self.url, self.http = url, http
        self.features: dict[str, Any] = http.get(f"{url}/console/features.json").json()
        self.agent = f"{url}/agents/{self.features['agent']}"

    def card(self) -> httpx.Response:
        return self.http.get(f"{self.agent}/.well-known/agent-card.json")

    def call(self, method: str, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
        """Send a JSON-RPC request of the page."""
        body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
        return self.http.post(self.agent, json=body, headers={"A2A-Version": "1.0", **(headers or {})})

    def send(self, text: str, method: str = "SendMessage", **more: Any) -> Any:
        """Send a message, and return the result or the error of the answer."""
        message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
        answer: dict[str, Any] = self.call(method, message={**message, **more}).json()
        return answer.get("result", answer.get("error"))


@contextmanager
def console_on(url: str) -> Iterator[Console]:
    """Run the console for the server at the URL."""
    port = free_port()
    remote = RemoteAgent(url, http_client(url, None, httpx.Timeout(30), OF_COMMANDS), _ignored)
    with listening(build_inspector(remote, port), port=port) as here, httpx.Client(timeout=60) as http:
        yield Console(here, http)


def _ignored(card: AgentCard) -> None:
    pass
