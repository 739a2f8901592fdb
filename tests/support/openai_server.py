"""Server that imitates OpenAI's streaming API: a model calls one tool, then answers."""

import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self


class OpenAIServer(ThreadingHTTPServer):
    """The server, and the requests that it has got. The model calls the tool if no message has a tool's result."""

    def __init__(self, tool: str, arguments: Mapping[str, Any], words: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self._call = {"name": tool, "arguments": json.dumps(arguments)}
        self._words = words

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead OpenAI's client here."""
        url = f"http://127.0.0.1:{self.server_port}/v1"
        return {"MODEL": "openai:gpt-5-mini", "OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": url}

    def deltas(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pieces of the model's message."""
        if any(message["role"] == "tool" for message in request["messages"]):
            return [{"content": text} for text in self._words]
        return [{"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": self._call}]}]

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        deltas = self.server.deltas(request)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number, delta in enumerate([*deltas, {}]):
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if number == len(deltas) else None}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args: Any) -> None:
        pass
