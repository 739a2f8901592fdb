"""End of a response whose app blocks the event loop until the deadline: another thread sends it.

Without it Lambda would stop the process, and the client would get an error of the entry point. A thread can't help if
the app's code keeps the interpreter to itself, as some C extensions do.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from mangum.types import ASGI, Scope

from .application import call, receiver
from .invocation import Invocation
from .log import REQUEST_ID
from .response import OUT_OF_TIME, Stage, StreamedResponse
from .runtime_api import RuntimeApiCall

logger = logging.getLogger(__name__)

REPEATABLE = "aion.repeatable"
"""Key in the lifespan state: the app answers a repeated request like the first, and its clients resume ended streams."""


class Rescue:
    """Context manager for a call of the app. It watches the event loop until `end` is called.

    If the loop is blocked `margin` seconds before the deadline, a thread takes the response over. Of a repeatable app it
    sends the answer to the repeated request, from an event loop of its own, or it ends the stream. Of another app it sends
    the error response that `InvocationLoop` would send.
    """

    def __init__(
        self,
        app: ASGI,
        scope: Scope,
        body: bytes,
        response: StreamedResponse,
        begin: Callable[[], Awaitable[RuntimeApiCall]],
        invocation: Invocation,
        margin: float,
    ) -> None:
        # Copy the scope, because the app may change its own.
        self._app, self._scope, self._body = app, {**scope, "state": {**scope.get("state", {})}}, body
        self._response, self._begin, self._invocation = response, begin, invocation
        self._seconds = margin
        self._taken = threading.Lock()
        self._thread = threading.Timer(max(0.0, invocation.seconds_left() - margin), self._run)
        self._thread.daemon = True
        self._thread.start()

    async def end(self) -> None:
        """Stop watching, because the event loop runs. If the thread has taken the response over, wait until it is sent."""
        if self._taken.acquire(blocking=False):
            self._thread.cancel()
        else:
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        stage = self._response.take_over()
        repeatable = self._scope["state"].get(REPEATABLE, False)
        logger.error(
            "Invocation %s: the agent's code blocks the event loop, and the deadline is near. Its response ends without it. "
            "Use asynchronous calls in asynchronous functions, or make the function synchronous.",
            self._invocation.request_id,
            extra={REQUEST_ID: self._invocation.request_id},
        )
        with suppress(OSError):
            if stage in (Stage.NOT_STARTED, Stage.HEADERS_BUFFERED):
                asyncio.run(self._answer(repeatable))
            elif stage is Stage.STREAMING:
                self._response.end_in_thread(() if repeatable else OUT_OF_TIME.report.as_trailers())

    async def _answer(self, repeatable: bool) -> None:
        """Send the answer to the repeated request, or the error response."""
        response = StreamedResponse(self._begin)
        if repeatable:
            called = asyncio.create_task(
                call(self._app, self._scope, receiver(self._body, response.over), response.send)
            )
            over = asyncio.create_task(response.over.wait())
            await asyncio.wait({called, over}, timeout=self._seconds / 2, return_when=asyncio.FIRST_COMPLETED)
            called.cancel()
            over.cancel()
        async with asyncio.timeout(self._seconds / 2):
            await response.finish(OUT_OF_TIME)
            await response.acknowledged()
        response.close()
