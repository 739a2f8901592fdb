"""Import, startup and shutdown of the ASGI app in the Lambda runtime."""

import asyncio
import importlib
import logging
from types import TracebackType
from typing import Any, Self, cast

from mangum.types import ASGI, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 1.0


class InitError(Exception):
    """Error if the app cannot be imported or started. `error_type` is the error type for the Runtime API."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


def load(name: str) -> ASGI:
    """Import the ASGI app with the name `module:attribute` and return it. Raises InitError."""
    module, _, attribute = name.partition(":")
    try:
        app = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise InitError("Runtime.ImportModuleError", f"Cannot import {name!r}: {_named(error)}") from error
    if not callable(app):
        raise InitError("Runtime.HandlerNotFound", f"{name!r} is not an ASGI app: it cannot be called")
    return cast("ASGI", app)


def _named(error: BaseException) -> str:
    """Return the class and the text of an error, as at the end of a traceback."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Lifespan:
    """Context manager for the ASGI lifespan of the app, from the start of the runtime loop to SIGTERM."""

    def __init__(self, app: ASGI) -> None:
        # State of the app. Each request gets a shallow copy of it (ASGI lifespan protocol).
        self.state: dict[str, Any] = {}
        self._app = app
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._listening = False
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        """Run the app's startup. Raises InitError if it fails."""
        # Run startup and shutdown in one asyncio task, because the task that enters a task group must also exit it.
        self._task = asyncio.create_task(self._run())
        self._inbox.put_nowait({"type": "lifespan.startup"})
        await self._started
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Run the app's shutdown within Lambda's time limit."""
        self._inbox.put_nowait({"type": "lifespan.shutdown"})
        await asyncio.wait({self._task}, timeout=_SHUTDOWN_SECONDS)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._receive, self._send)
        except (Exception, asyncio.CancelledError) as error:
            if self._started.done():
                logger.exception("The app's lifespan failed")
            elif self._listening:
                self._fail(_named(error), error)
            else:
                # Continue, because an app that raises before its first event does not support the lifespan protocol.
                logger.debug("The app has no lifespan: %r", error)
        if not self._started.done():
            self._started.set_result(None)

    async def _receive(self) -> Message:
        self._listening = True
        return await self._inbox.get()

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "lifespan.startup.complete" if not self._started.done():
                self._started.set_result(None)
            case "lifespan.startup.failed" if not self._started.done():
                self._fail(message.get("message", ""))
            case "lifespan.shutdown.failed":
                logger.error("The app's shutdown failed: %s", message.get("message", ""))

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        error = InitError("Runtime.LifespanFailed", f"The app's startup failed: {reason}")
        error.__cause__ = cause
        self._started.set_exception(error)


async def call(app: ASGI, scope: Scope, receive: Receive, send: Send) -> None:
    """Call the app. An asyncio task of this coroutine also gets the error of an app that raises it in the call itself."""
    await app(scope, receive, send)


def receiver(body: bytes, over: asyncio.Event) -> Receive:
    """Return ASGI's `receive` function: it returns the body, and `http.disconnect` when the response is `over`.

    Lambda does not report that a client has disconnected. If the response's connection is lost, the app does not get
    `http.disconnect` either: frameworks would stop the app, but a turn should continue without its client.
    """
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if unread:
            return unread.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    return receive
