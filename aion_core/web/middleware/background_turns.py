"""Waiting for the turns that a request has started, until they end or are handed off."""

from datetime import UTC, datetime, timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.engine.process.background import BackgroundTurns
from aion_core.engine.process.deadline import Deadline
from aion_core.web.request.call_context import BACKGROUND, DEADLINE

STREAMED = "aion.streamed"
"""Key in the ASGI scope. Aion's Lambda runtime sets it for a request with a streamed response."""


class AwaitBackgroundTurnsMiddleware:
    """ASGI middleware. The app call returns only after the request's background turns have ended.

    The client gets the response earlier, except in a buffered Lambda response. After the app call, aion's runtime loop
    requests the next event, and Lambda may freeze the environment. Other servers do not wait for the app call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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


def is_buffered(scope: Scope) -> bool:
    """Return True if Lambda buffers the response of this request. Only aion's own runtime loop streams responses."""
    return "aws.context" in scope and STREAMED not in scope
