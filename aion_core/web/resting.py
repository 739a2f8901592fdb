"""When a request's call returns: once the turns that it has set going rest, or its invocation's time is up."""

import asyncio
from datetime import UTC, datetime, timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.tasks.time_up import TimeUp
from aion_core.web.calls import TIME_UP, WORK

STREAMED = "aion.streamed"
"""What the scope of a request holds whose answer leaves as it is written, on Lambda."""

LAST_WORDS_SECONDS = 0.5
"""How long a request that is stopped waits for the turns that it stops."""


class RestsBeforeItReturns:
    """Lets a request's app call return only when the turns that it set going have come to rest.

    The answer is long gone by then. On Lambda the environment freezes when the next event is asked for, which our
    runtime loop does once the call has returned; elsewhere nobody waits for the call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        work: set[asyncio.Task[None]] = set()
        # A server that can be told to stop has put its own there.
        time_up = scope.get(TIME_UP) or TimeUp(_deadline(scope))

        async def send_and_rest(message: Message) -> None:
            if not message.get("more_body") and message["type"] == "http.response.body":
                # Behind this front the answer leaves only when the call returns: what still runs is handed on.
                time_up.now.set()
                await _rest(work)
            await send(message)

        try:
            await self._app(
                {**scope, WORK: work, TIME_UP: time_up}, receive, send_and_rest if _is_buffered(scope) else send
            )
            await _rest(work)
        except BaseException:
            # The invocation's time is up: nothing of it may go on in the next one. The lease finds the turn an heir.
            for task in work:
                task.cancel()
            if work:
                # They still count what there was of them.
                await asyncio.wait(set(work), timeout=LAST_WORDS_SECONDS)
            raise


async def _rest(work: set[asyncio.Task[None]]) -> None:
    while work:
        await asyncio.wait(set(work))


def _deadline(scope: Scope) -> datetime | None:
    """Return when Lambda ends the invocation; None where this is not Lambda."""
    context = scope.get("aws.context")
    if context is None:
        return None
    return datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())


def _is_buffered(scope: Scope) -> bool:
    """Tell whether the answer leaves as a whole: Lambda's, and not by our own loop."""
    return "aws.context" in scope and STREAMED not in scope
