"""Waiting for the turns that a request has started, until they end or are handed off."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.engine.process.background import BackgroundTurns
from aion_core.engine.process.deadline import Deadline
from aion_core.web.request.call_context import BACKGROUND, DEADLINE
from aion_core.web.request.entrypoint import is_buffered

Leftover = Callable[[], Awaitable[None]]
"""Function that waits for the end of the turns that earlier requests have left unfinished."""

LEFTOVER_SECONDS = 1.0
"""Time that each request gives to the turns left by earlier requests. So they go on while a client polls their tasks."""


class AwaitBackgroundTurnsMiddleware:
    """ASGI middleware. The app call returns only after the request's background turns have ended.

    The client gets the response earlier, except in a buffered Lambda response. After the app call, aion's runtime loop
    requests the next event, and Lambda may freeze the environment. Other servers do not wait for the app call.
    """

    def __init__(self, app: ASGIApp, leftover: Leftover | None = None) -> None:
        """`leftover` waits for turns of earlier requests, if nothing in this process runs between its requests."""
        self._app, self._leftover = app, leftover

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then wait for its background turns."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        turns = BackgroundTurns()
        # Use the deadline in the scope if the server has set one. Such a server has a graceful shutdown.
        deadline = scope.get(DEADLINE) or Deadline(_deadline(scope))

        async def send_after_turns(message: Message) -> None:
            if not message.get("more_body") and message["type"] == "http.response.body":
                # Suspend the running turns, so that the queue hands them to a worker, because Lambda sends a buffered
                # response only at the end.
                deadline.now.set()
                await turns.wait()
            await send(message)

        try:
            await self._app(
                {**scope, BACKGROUND: turns, DEADLINE: deadline},
                receive,
                send_after_turns if is_buffered(scope) else send,
            )
            await turns.wait()
            if self._leftover is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LEFTOVER_SECONDS):
                        await self._leftover()
        except BaseException:
            # Cancel the turns, because the invocation ends: another worker resumes them, and they must not continue in
            # the next invocation.
            await turns.cancel()
            raise


def _deadline(scope: Scope) -> datetime | None:
    """Return the time at which the Lambda invocation ends; None outside of Lambda."""
    context = scope.get("aws.context")
    if context is None:
        return None
    return datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())
