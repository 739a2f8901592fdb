"""Log line for each HTTP request with its A2A operation, status, duration and task."""

import json
import logging
import re
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core import log

logger = logging.getLogger(__name__)

MOST = 65_536
"""Maximum number of bytes of a request or response that are searched for the log line's values."""

_METHOD = re.compile(r"[A-Za-z]+(/[A-Za-z]+)*")

_CONSOLE = re.compile(r"GET (/agents/[^/]+)?/console/.*|POST /agents/[^/]+/console/markdown")
"""Pattern of the console's requests for its files, views and rendered texts."""

_READS = {"ListTasks", "GetTask", "GetExtendedAgentCard"}
"""Operations by which the console keeps its views up to date."""


class RequestLogMiddleware:
    """ASGI middleware that logs each HTTP request after its response has ended or was aborted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = _RequestRecord(scope)

        async def receive_and_see() -> Message:
            message = await receive()
            seen.received(message)
            return message

        async def send_and_see(message: Message) -> None:
            await send(message)
            seen.sent(message)

        try:
            await self._app(scope, receive_and_see, send_and_see)
        finally:
            seen.log(broken=True)


class _RequestRecord:
    """Data of one HTTP request and its response, collected for the log line."""

    def __init__(self, scope: Scope) -> None:
        self._began = time.monotonic()
        # Log the path without its query, because the query may contain the client's data. Escape control characters,
        # because the decoded path could forge a log line or control the terminal.
        self._request_line = log.one_line(f"{scope['method']} {scope['path']}")
        # Only a browser sends this header, and only the console's pages have the server's origin.
        self._is_of_console = (b"sec-fetch-site", b"same-origin") in scope["headers"]
        self._body, self._answer = bytearray(), bytearray()
        self._status = 0
        self._is_logged = False

    def received(self, message: Message) -> None:
        if message["type"] == "http.request" and len(self._body) < MOST:
            self._body += message.get("body", b"")

    def sent(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            if len(self._answer) < MOST:
                self._answer += message.get("body", b"")
            if not message.get("more_body"):
                self.log()

    def log(self, *, broken: bool = False) -> None:
        if self._is_logged:
            return
        self._is_logged = True
        request, answer = _json(bytes(self._body)), _json(_first(bytes(self._answer)))
        method = request.get("method")
        operation = method if isinstance(method, str) and _METHOD.fullmatch(method) else self._request_line
        error = answer.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        status = str(self._status or "no answer") + (f" error {code}" if isinstance(code, int) and code < 0 else "")
        if broken and self._status:
            status += " cut"
        is_failure = broken or self._status >= 400 or code is not None
        is_view = _CONSOLE.fullmatch(self._request_line) or (
            self._is_of_console and (operation in _READS or self._request_line.startswith("GET "))
        )
        with log.about(**_ids(answer) or _ids(request)):
            logger.log(
                # The console polls once a second.
                logging.DEBUG if is_view and not is_failure else logging.INFO,
                "request",
                extra={
                    "operation": operation,
                    "status": status,
                    "is_failure": is_failure,
                    "duration_ms": round((time.monotonic() - self._began) * 1000),
                },
            )


def _first(answer: bytes) -> bytes:
    """Return the data of the first event in a server-sent event stream. Return any other response body unchanged."""
    for line in answer.splitlines():
        if line.startswith(b"data:"):
            return line.removeprefix(b"data:")
    return answer


def _json(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _ids(document: dict[str, Any]) -> dict[str, str]:
    """Return the task id and context id in a JSON request or response of any A2A version, as labels for the log."""
    found: dict[str, str] = {}
    inner = document.get("result", document.get("params", document))
    if not isinstance(inner, dict):
        return found
    members = (inner.get(name) for name in ("task", "message", "statusUpdate", "artifactUpdate"))
    inner = next((each for each in members if isinstance(each, dict)), inner)
    task = inner.get("taskId") or (inner.get("id") if "status" in inner or "params" in document else None)
    if isinstance(task, str) and task:
        found["task_id"] = task
    if isinstance(inner.get("contextId"), str) and inner["contextId"]:
        found["context_id"] = inner["contextId"]
    return found
