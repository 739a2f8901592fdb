"""Buffered responses, for a runtime that cannot stream: Lambda's own, which `sam local` uses."""

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from mangum.exceptions import UnexpectedMessage
from mangum.types import ASGI, Message

from .application import call, receiver
from .http_event import EventReader, MalformedRequest
from .refusal import Refusal
from .response import APP_FAILED, OF_JSON, metadata

logger = logging.getLogger(__name__)

MAX_RESPONSE = 6 * 1024 * 1024
"""Maximum bytes of a function's whole response in JSON (Lambda's quota for synchronous invocations)."""

TOO_LARGE = (
    "The response is larger than 6 MB, and Lambda returns more only as a stream, which this runtime cannot send. Ask for a "
    "part of it, such as a task with historyLength 1 or, in version 1.0, 0: the history repeats the answer."
)
"""Message of the response in place of a larger one."""


class BufferedHandler:
    """Lambda handler that serves HTTP events with an ASGI app, and returns each response as a whole.

    All invocations of an environment share one event loop, because the app binds objects to it. The loop stands still
    between the invocations.
    """

    def __init__(self, app: ASGI) -> None:
        self._app, self._events = app, EventReader(app)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        """Answer an event. Raises NotAnHttpEvent, which the runtime reports as an error of the invocation."""
        return self._loop.run_until_complete(self.answer(event, context))

    async def answer(self, event: Any, context: Any) -> dict[str, Any]:
        """Return the response to an event in the form of its HTTP entry point. Raises NotAnHttpEvent."""
        app, response = self._app, BufferedResponse()
        try:
            scope, body = self._events.read_event(event, context)
        except MalformedRequest as error:
            logger.warning("A request cannot be read: %s", error)
            app, scope, body = Refusal(error), {"type": "http"}, b""
        # Call the app in an asyncio task of its own, because an app may cancel the task that calls it.
        running = asyncio.create_task(call(app, scope, receiver(body, response.over), response.send))
        await asyncio.wait({running})
        if not running.cancelled() and (failure := running.exception()) is not None:
            logger.error("The app failed.", exc_info=failure)
        if not response.over.is_set():
            response.fail(APP_FAILED.status.phrase)
        returned = response.returned(event)
        # Measure large bodies only: a byte takes at most six characters in JSON.
        if response.size > MAX_RESPONSE // 12 and len(json.dumps(returned)) > MAX_RESPONSE:
            logger.error("%s %s: %s", scope.get("method"), scope.get("path"), TOO_LARGE)
            response.fail(TOO_LARGE)
            returned = response.returned(event)
        return returned


class BufferedResponse:
    """Whole response of an invocation, from the ASGI messages of the app."""

    def __init__(self) -> None:
        # This event is set at the end of the body.
        self.over = asyncio.Event()
        self._status: int | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    @property
    def size(self) -> int:
        """Number of bytes of the body."""
        return len(self._body)

    async def send(self, message: Message) -> None:
        """Keep an ASGI message of the app. Raises UnexpectedMessage for a message out of order."""
        match message["type"]:
            case "http.response.start" if self._status is None:
                self._status, self._headers = message["status"], list(message.get("headers", ()))
            case "http.response.body" if self._status is not None and not self.over.is_set():
                self._body += message.get("body", b"")
                if not message.get("more_body", False):
                    self.over.set()
            case kind:
                raise UnexpectedMessage(f"{kind} is out of order")

    def fail(self, message: str) -> None:
        """Replace the response by one with status 500 and a message in JSON."""
        self._status, self._headers = APP_FAILED.status, list(OF_JSON)
        self._body[:] = json.dumps({"message": message}).encode()

    def returned(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response as Lambda's HTTP entry points read it: a body of text, or of base64.

        `sam local` decodes base64 only for media types that its template lists as binary, so every text stays a text.
        """
        told = metadata(self._status or APP_FAILED.status, self._headers)
        body, is_base64 = self._encoded(told["headers"].get("content-encoding", "identity"))
        returned = {**told, "body": body, "isBase64Encoded": is_base64}
        if event.get("version") != "2.0":
            # A REST API's response has no field for cookies.
            returned["multiValueHeaders"] = {"set-cookie": cookies} if (cookies := returned.pop("cookies")) else {}
        return returned

    def _encoded(self, encoding: str) -> tuple[str, bool]:
        if encoding.strip().lower() in ("", "identity"):
            try:
                return self._body.decode(), False
            except UnicodeDecodeError:
                pass
        return base64.b64encode(self._body).decode(), True
