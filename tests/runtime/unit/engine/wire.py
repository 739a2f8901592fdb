"""A2A over HTTP for a client of either dialect: requests, and results of responses."""

import json
from typing import Any

import httpx

from tests.support.service import send

DIALECTS = ("1.0", "0.3")
METHODS = {
    "1.0": ("SendMessage", "SendStreamingMessage", "GetTask"),
    "0.3": ("message/send", "message/stream", "tasks/get"),
}


class WireClient:
    """Client of one dialect."""

    def __init__(self, client: httpx.AsyncClient, dialect: str) -> None:
        self._client, self.dialect = client, dialect
        self._send, self._stream, self._get = METHODS[dialect]

    async def send(self, text: str, *, message_id: str = "m-1", **message: Any) -> tuple[str, dict[str, Any]]:
        """Send a message; return the kind of the answer (`task` or `message`), and the answer."""
        result = await self._result(send(text, message_id=message_id, method=self._send, **message))
        return unwrapped(result, self.dialect)

    async def at_once(self, text: str, **message: Any) -> tuple[str, dict[str, Any]]:
        """Send a non-blocking message; return the kind of the answer, and the answer."""
        body = send(text, method=self._send, **message)
        body["params"]["configuration"] = (
            {"returnImmediately": True} if self.dialect == "1.0" else {"blocking": False, "acceptedOutputModes": []}
        )
        return unwrapped(await self._result(body), self.dialect)

    async def stream(
        self, text: str, *, message_id: str = "m-1", **message: Any
    ) -> list[tuple[str, str, dict[str, Any]]]:
        """Return each data frame: its SSE id, its kind, and its content."""
        body = send(text, message_id=message_id, method=self._stream, **message)
        answer = await self._client.post("/", json=body)
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
        return said(answer.text, self.dialect)

    async def get(self, task_id: str) -> dict[str, Any]:
        """Return the task."""
        body = {"jsonrpc": "2.0", "id": 7, "method": self._get, "params": {"id": task_id}}
        task: dict[str, Any] = await self._result(body)
        return task

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; return the whole JSON-RPC response."""
        answer = await self._client.post("/", json={"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        return body

    async def _result(self, body: dict[str, Any]) -> Any:
        answer = (await self._client.post("/", json=body)).json()
        assert "result" in answer, answer
        return answer["result"]


def unwrapped(result: dict[str, Any], dialect: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and content of a result: v1 wraps it, v0.3 has a kind field."""
    if dialect == "0.3":
        return str(result["kind"]), result
    ((kind, held),) = result.items()
    return kind, held


def said(body: str, dialect: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the data frames of a stream's response."""
    frames = []
    for frame in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            frames.append((fields.get("id", ""), *unwrapped(json.loads(fields["data"])["result"], dialect)))
    return frames


def texts(parts: list[dict[str, Any]]) -> list[str]:
    """Return the texts of the parts, of either dialect."""
    return [part["text"] for part in parts if "text" in part]
